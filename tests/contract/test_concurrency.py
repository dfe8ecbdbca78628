"""Tasks and threads that are waited for, whatever happens."""

import asyncio
import logging
from typing import Any

import pytest
from contract_fakes import collect, others_pending, swallows_once

from symfonic.kernel.concurrency.tasks import finish_within, put_down, run_together


async def value(result: Any) -> Any:
    return result


async def raises(error: BaseException) -> Any:
    raise error


async def forever() -> Any:
    await asyncio.Event().wait()


@pytest.fixture
def complaints() -> Any:
    """What the loop's exception handler was told, beyond what callers were."""
    told: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: told.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("asyncio").addHandler(handler)
    yield told
    collect()
    logging.getLogger("asyncio").removeHandler(handler)
    assert told == []


# run_together


async def test_results_come_in_the_order_of_the_calls() -> None:
    first_may_end = asyncio.Event()

    async def first() -> str:
        await first_may_end.wait()
        return "first"

    async def second() -> str:
        first_may_end.set()
        return "second"

    assert await run_together([first(), second()]) == ["first", "second"]


async def test_nothing_to_run_gives_nothing() -> None:
    assert await run_together([]) == []


async def test_a_call_that_cancels_itself_has_the_cancellation_for_its_result() -> None:
    async def cancels_its_task() -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.Event().wait()
        return "never"

    results = await run_together([cancels_its_task(), raises(asyncio.CancelledError()), value("fine")])

    assert [type(each) for each in results] == [asyncio.CancelledError, asyncio.CancelledError, str]


async def test_the_first_exception_is_raised_once_all_have_ended(complaints: list[str]) -> None:
    failed, ended = asyncio.Event(), []

    async def fails() -> None:
        failed.set()
        raise ValueError("first")

    async def goes_on() -> None:
        await failed.wait()
        await asyncio.sleep(0)
        ended.append("sibling")

    with pytest.raises(ValueError, match="first"):
        await run_together([goes_on(), fails(), raises(KeyError("second")), goes_on()])
    assert ended == ["sibling", "sibling"]


async def test_cancelling_reaches_every_call_and_waits_for_it(complaints: list[str]) -> None:
    met, ended = asyncio.Barrier(4), []

    async def waits(number: int) -> None:
        try:
            await met.wait()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append(number)
            if number == 2:
                raise ValueError("while cleaning up")

    calls = [waits(number) for number in range(3)] + [raises(KeyError("before"))]
    task = asyncio.create_task(run_together(calls))
    await met.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(ended) == [0, 1, 2]
    assert await others_pending() == []


async def test_a_call_that_swallows_the_cancellation_once_is_cancelled_again() -> None:
    started, swallowed = asyncio.Event(), []
    task = asyncio.create_task(run_together([swallows_once(started, swallowed), value("fine")]))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 2)
    assert swallowed == ["once", "ended"]
    assert await others_pending() == []


async def test_being_cancelled_twice_still_waits_for_every_call() -> None:
    cleaning, may_end, ended = asyncio.Event(), asyncio.Event(), []

    async def cleans_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                await may_end.wait()
            ended.append("cleaned")

    task = asyncio.create_task(run_together([cleans_up()]))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    await cleaning.wait()
    task.cancel()
    await asyncio.sleep(0)
    may_end.set()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 2)
    assert ended == ["cleaned"]


async def test_calls_that_nobody_holds_survive_a_collection() -> None:
    go = asyncio.get_running_loop().create_future()
    results: list[Any] = []

    async def work() -> None:
        await go
        results.append("finished")

    async def both() -> None:
        await run_together([work(), work()])
        results.append("both")

    asyncio.create_task(both()).add_done_callback(lambda _: None)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    collect()
    go.set_result(None)
    for _ in range(5):
        await asyncio.sleep(0)

    assert results == ["finished", "finished", "both"]


# put_down


async def test_putting_down_waits_for_what_it_cancels() -> None:
    ended = []

    async def cleans_up() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned")

    tasks = [asyncio.create_task(cleans_up()) for _ in range(3)]
    await asyncio.sleep(0)
    await put_down(tasks)

    assert ended == ["cleaned"] * 3
    assert all(task.done() for task in tasks)


async def test_putting_down_cancels_again_what_swallowed_a_cancellation() -> None:
    started, swallowed = asyncio.Event(), []
    task = asyncio.create_task(swallows_once(started, swallowed))
    await started.wait()
    await asyncio.wait_for(put_down([task]), 2)

    assert task.cancelled()
    assert swallowed == ["once", "ended"]


async def test_putting_down_what_has_ended_does_nothing() -> None:
    task = asyncio.create_task(value("done"))
    await task
    await put_down([task])
    await put_down([])

    assert task.result() == "done"


async def test_a_task_that_ignores_every_cancellation_is_left_and_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("symfonic.kernel.concurrency.tasks.FIRST_PAUSE", 0.001)
    monkeypatch.setattr("symfonic.kernel.concurrency.tasks.LONGEST_PAUSE", 0.001)
    end = asyncio.Event()

    async def ignores() -> None:
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                continue

    task = asyncio.create_task(ignores(), name="stubborn")
    await asyncio.sleep(0)
    await asyncio.wait_for(put_down([task]), 2)

    assert not task.done()
    assert "stubborn" in caplog.text
    end.set()
    await task


async def test_putting_down_goes_on_when_it_is_cancelled_and_is_cancelled_at_the_end() -> None:
    cleaning, may_end, ended = asyncio.Event(), asyncio.Event(), []

    async def cleans_up() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cleaning.set()
            try:
                await may_end.wait()
            except asyncio.CancelledError:
                ended.append("hurried")

    below = asyncio.create_task(cleans_up())
    await asyncio.sleep(0)
    task = asyncio.create_task(put_down([below]))
    await cleaning.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 2)
    assert ended == ["hurried"]


# finish_within


async def test_work_that_ends_in_time_has_ended() -> None:
    assert await finish_within(value("done"), 5) is True
    future = asyncio.get_running_loop().create_future()
    future.set_result(None)
    assert await finish_within(future, 5) is True


async def test_work_that_overruns_is_cancelled(complaints: list[str]) -> None:
    ended = []

    async def slow() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    assert await finish_within(slow(), 0.01) is False
    assert ended == ["cancelled"]
    assert await others_pending() == []


async def test_work_that_raises_raises_here() -> None:
    with pytest.raises(ValueError, match="no"):
        await finish_within(raises(ValueError("no")), 5)


async def test_work_that_cancels_itself_is_an_error_and_not_a_cancellation() -> None:
    with pytest.raises(RuntimeError, match="cancelled itself"):
        await finish_within(raises(asyncio.CancelledError()), 5)


async def test_cancelling_reaches_the_work_also_when_it_swallows_it_once() -> None:
    started, swallowed = asyncio.Event(), []
    task = asyncio.create_task(finish_within(swallows_once(started, swallowed), 60))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 2)
    assert swallowed == ["once", "ended"]
