"""Synchronous code inside a run, and runs inside synchronous code."""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import pytest
from contract_fakes import others_pending, swallows_once

from symfonic.errors import SymfonicError
from symfonic.kernel.concurrency.tasks import run_together
from symfonic.kernel.concurrency.threads import run_blocking, run_in_thread

mark: ContextVar[str] = ContextVar("mark", default="unset")


async def value(result: Any) -> Any:
    return result


async def raises(error: BaseException) -> Any:
    raise error


async def test_a_synchronous_call_runs_in_a_thread_with_this_context() -> None:
    mark.set("mine")
    seen = await run_in_thread(lambda: (threading.current_thread(), mark.get()), "look")

    assert seen[0] is not threading.current_thread()
    assert "look" in seen[0].name
    assert seen[0].daemon
    assert seen[1] == "mine"


@pytest.mark.parametrize("error", [ValueError("no"), asyncio.CancelledError(), StopIteration("stop")])
async def test_what_a_thread_raises_is_raised_here(error: BaseException) -> None:
    def fails() -> None:
        raise error

    expected = RuntimeError if isinstance(error, StopIteration) else type(error)
    with pytest.raises(expected):
        await run_in_thread(fails, "fails")


async def test_threads_nest_forty_deep() -> None:
    def down(levels: int) -> int:
        return 0 if not levels else 1 + run_blocking(lambda: run_in_thread(lambda: down(levels - 1), "down"))

    assert await asyncio.wait_for(run_in_thread(lambda: down(40), "down"), 20) == 40


async def test_a_cancelled_call_does_not_wait_for_its_thread_and_ignores_what_it_ends_with() -> None:
    started, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    def blocks() -> None:
        started.set()
        may_end.wait()
        ended.set()
        raise ValueError("late")

    task = asyncio.create_task(run_in_thread(blocks, "blocks"))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 2)
    assert not ended.is_set()
    may_end.set()
    ended.wait()
    await asyncio.sleep(0)


def test_blocking_code_outside_any_loop_runs_a_coroutine_to_its_end() -> None:
    assert run_blocking(lambda: value("done")) == "done"
    with pytest.raises(ValueError, match="no"):
        run_blocking(lambda: raises(ValueError("no")))


async def test_blocking_the_thread_of_a_running_loop_is_refused_saying_what_to_do() -> None:
    made: list[Any] = []

    def make() -> Any:
        made.append(1)
        return value("never")

    with pytest.raises(SymfonicError, match="await"):
        run_blocking(make)
    assert made == []


async def test_a_run_started_from_a_thread_runs_on_the_loop_that_waits_for_it() -> None:
    async def loop() -> Any:
        return asyncio.get_running_loop(), threading.current_thread()

    seen = await run_in_thread(lambda: run_blocking(loop), "asks")

    assert seen == (asyncio.get_running_loop(), threading.current_thread())


async def test_a_run_started_from_a_thread_sees_the_threads_context() -> None:
    mark.set("outer")

    def work() -> str:
        mark.set("thread")
        return run_blocking(look)

    async def look() -> str:
        return mark.get()

    assert await run_in_thread(work, "work") == "thread"
    assert mark.get() == "outer"


async def test_cancelling_the_outer_call_reaches_the_run_inside_the_thread() -> None:
    started, swallowed, thread_saw = asyncio.Event(), [], threading.Event()

    def work() -> None:
        try:
            run_blocking(lambda: swallows_once(started, swallowed))
        except asyncio.CancelledError:
            thread_saw.set()
            raise

    task = asyncio.create_task(run_in_thread(work, "work"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 2)
    assert swallowed == ["once", "ended"]
    assert await asyncio.to_thread(thread_saw.wait, 2)
    assert await others_pending() == []


async def test_a_thread_whose_caller_was_cancelled_starts_no_further_run() -> None:
    outcome: list[str] = []
    started, go, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        go.wait()
        try:
            run_blocking(lambda: value(outcome.append("ran")))
        except asyncio.CancelledError:
            outcome.append("refused")
        ended.set()

    task = asyncio.create_task(run_in_thread(work, "work"))
    await asyncio.to_thread(started.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    go.set()
    await asyncio.to_thread(ended.wait)

    assert outcome == ["refused"]


async def test_an_error_inside_a_run_comes_back_through_the_thread() -> None:
    with pytest.raises(ValueError, match="inner"):
        await run_in_thread(lambda: run_blocking(lambda: raises(ValueError("inner"))), "work")


def test_a_hundred_calls_at_once_from_two_loops_do_not_mix() -> None:
    def loop(name: str) -> Callable[[], Awaitable[None]]:
        async def main() -> None:
            answers = await run_together(
                run_in_thread(lambda n=n: run_blocking(lambda: value((name, n))), "w") for n in range(50)
            )
            results[name] = answers

        return main

    results: dict[str, Any] = {}
    threads = [threading.Thread(target=lambda name=name: asyncio.run(loop(name)())) for name in "ab"]  # type: ignore[misc, arg-type]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {name: [(name, n) for n in range(50)] for name in "ab"}
