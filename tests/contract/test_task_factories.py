"""Whatever makes the loop's tasks: tool calls and delegations run, fail and end under it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from symfonic import Agent, DelegationOutcome, SubAgent
from symfonic.kernel.concurrency.tasks import run_together
from symfonic.testing import ScriptedModel, tool_call


def wrapping(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """As tracers do."""

    async def traced() -> Any:
        return await coro

    return asyncio.Task(traced(), loop=loop, **options)


def lingering(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """A task that goes on after its coroutine has ended."""

    async def traced() -> Any:
        try:
            return await coro
        finally:
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    return asyncio.Task(traced(), loop=loop, **options)


def particular(loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
    """One that takes only coroutines that have not begun."""
    assert coro.cr_frame.f_lasti in (-1, 0) or not coro.cr_running
    return wrapping(loop, coro, **options)


Factory = Callable[..., asyncio.Task[Any]]
FACTORIES: list[Factory] = [wrapping, lingering, particular]


@pytest.fixture(params=FACTORIES, ids=lambda each: each.__name__)
async def under_a_factory(request: pytest.FixtureRequest) -> Any:
    loop = asyncio.get_running_loop()
    loop.set_task_factory(request.param)
    yield
    loop.set_task_factory(None)


@pytest.mark.usefixtures("under_a_factory")
async def test_tools_and_children_run() -> None:
    async def ok() -> str:
        return "hi"

    worker = SubAgent("worker", Agent(ScriptedModel("found")), "Works.")
    calls = [tool_call("ok"), tool_call("run_agent", name="worker", task="go")]
    lead = Agent(ScriptedModel(calls, "done"), tools=[ok], sub_agents=[worker])
    result = await asyncio.wait_for(lead.run("go"), 5)
    assert [message.text for message in result.messages if message.role == "tool"] == ["hi", "found"]
    assert result.delegations[0].outcome is DelegationOutcome.DELIVERED


@pytest.mark.usefixtures("under_a_factory")
async def test_results_errors_and_cancellations_come_through() -> None:
    async def value(result: Any) -> Any:
        await asyncio.sleep(0)
        return result

    async def raises(error: BaseException) -> Any:
        raise error

    one, cancelled, two = await asyncio.wait_for(
        run_together([value(1), raises(asyncio.CancelledError()), value(2)]), 5
    )
    assert (one, two) == (1, 2)
    assert isinstance(cancelled, asyncio.CancelledError)
    with pytest.raises(ValueError, match="no"):
        await asyncio.wait_for(run_together([value(1), raises(ValueError("no"))]), 5)


async def test_a_task_that_ends_without_its_call_counts_all_the_same() -> None:
    async def never() -> None: ...

    def dropping(loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        async def dropped() -> None:
            coro.close()
            raise OSError("no more tasks")

        return asyncio.Task(dropped(), loop=loop, **options)

    loop = asyncio.get_running_loop()
    loop.set_task_factory(dropping)
    try:
        with pytest.raises(OSError, match="no more tasks"):
            await run_together([never(), never()])
    finally:
        loop.set_task_factory(None)


@pytest.mark.usefixtures("under_a_factory")
async def test_a_cancelled_run_ends_with_everything_in_it() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def hangs() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    running = asyncio.ensure_future(run_together([hangs()]))
    await asyncio.wait_for(started.wait(), 5)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 5)
    assert ended.is_set()
