"""Cancellation: it reaches every leaf, waits for it, and is told apart from a call that cancels itself."""

import asyncio
import gc
from contextlib import suppress
from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, Kind, answer, calls, cancelled, child, delegates, results

import symfonic
from symfonic import DelegationOutcome
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.kernel.contracts.events import DelegationFinished
from symfonic.kernel.contracts.run_identity import current_run_identity
from symfonic.testing import ScriptedChild, tool_call

pytestmark = pytest.mark.usefixtures("no_task_left")


class Leaf:
    """A tool, or a child, that waits until it is cancelled, and swallows that a number of times."""

    def __init__(self, swallows: int = 0) -> None:
        self.started, self.swallows = asyncio.Event(), swallows
        self.seen = self.cleaned = 0

    async def wait(self) -> str:
        try:
            while True:
                try:
                    self.started.set()
                    await asyncio.get_running_loop().create_future()
                except asyncio.CancelledError:
                    self.seen += 1
                    if self.seen > self.swallows:
                        raise
        finally:
            self.cleaned += 1

    async def act(self, query: str) -> str:
        return await self.wait()


def levels(kind: Kind, bottom: symfonic.Agent, count: int) -> symfonic.Agent:
    for _ in range(count):
        bottom = kind.agent(delegates(), sub_agents=[child(bottom)], max_depth=9)
    return bottom


@pytest.mark.parametrize("swallows", [0, 1])
async def test_a_cancellation_three_levels_up_reaches_the_leaf_and_waits_for_it(swallows: int, kind: Kind) -> None:
    leaf = Leaf(swallows)
    bottom = kind.agent(calls(tool_call("wait")), tools=[kind.tool(leaf.wait)])
    async with asyncio.timeout(5):
        task = asyncio.create_task(levels(kind, bottom, 3).run("go"))
        await leaf.started.wait()
        assert await cancelled(task)
    assert (leaf.seen, leaf.cleaned) == (swallows + 1, 1)


@pytest.mark.parametrize("swallows", [0, 1])
async def test_a_cancellation_reaches_every_foreign_child_in_parallel(swallows: int, kind: Kind) -> None:
    leaves = [Leaf(swallows) for _ in range(3)]
    children = [child(Child(leaf.act), f"c{number}") for number, leaf in enumerate(leaves)]
    all_of_them = calls(*(tool_call("run_agent", name=each.name, task="wait") for each in children))
    async with asyncio.timeout(5):
        task = asyncio.create_task(kind.agent(all_of_them, sub_agents=children).run("go"))
        for leaf in leaves:
            await leaf.started.wait()
        assert await cancelled(task)
    assert [leaf.cleaned for leaf in leaves] == [1, 1, 1]


async def test_a_child_that_swallows_a_cancellation_and_answers_does_not_save_the_cancelled_run(kind: Kind) -> None:
    started, asked = asyncio.Event(), []

    async def stubborn(query: str) -> str:
        with suppress(asyncio.CancelledError):
            started.set()
            await asyncio.get_running_loop().create_future()
        return "answered all the same"

    def fn(messages: Any, tools: Any) -> Any:
        asked.append(messages[-1].role)
        return delegates()(messages, tools)

    async with asyncio.timeout(5):
        task = asyncio.create_task(kind.agent(fn, sub_agents=[child(Child(stubborn))]).run("go"))
        await started.wait()
        assert await cancelled(task)
    assert asked == ["user"]


async def test_a_cancelled_run_leaves_no_identity_and_no_active_run_behind(kind: Kind) -> None:
    leaf = Leaf()

    async def turn() -> tuple[Any, Any]:
        with suppress(asyncio.CancelledError):
            await kind.agent(calls(tool_call("wait")), tools=[kind.tool(leaf.wait)]).run("go")
        return current_run_identity(), DelegationContext().active_run()

    async with asyncio.timeout(5):
        task = asyncio.create_task(turn())
        await leaf.started.wait()
        task.cancel()
        assert await task == (None, None)


async def test_a_cancelled_model_call_passes_through_every_level(kind: Kind) -> None:
    leaf = Leaf()

    async def fn(messages: Any, tools: Any) -> str:
        return await leaf.wait()

    async with asyncio.timeout(5):
        task = asyncio.create_task(levels(kind, kind.agent(fn), 2).run("go"))
        await leaf.started.wait()
        assert await cancelled(task)
    assert leaf.cleaned == 1


async def raises_cancelled() -> str:
    raise asyncio.CancelledError


async def cancels_its_task() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(0)
    return "never"


async def cancels_its_task_and_returns() -> str:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    return "never"


SELF_CANCELLING = [raises_cancelled, cancels_its_task, cancels_its_task_and_returns]


@pytest.mark.parametrize("act", SELF_CANCELLING, ids=lambda act: act.__name__)
async def test_a_tool_that_cancels_itself_is_a_tool_error_and_its_sibling_is_left_alone(act: Any, kind: Kind) -> None:
    async def fine() -> str:
        await asyncio.sleep(0)
        return "fine"

    tools = [kind.tool(act, name="odd"), kind.tool(fine)]
    result = await kind.agent(calls(tool_call("odd"), tool_call("fine")), tools=tools).run("go")
    odd, good = results(result)
    assert odd.startswith("Tool 'odd' failed: ")
    assert good == "fine"


@pytest.mark.parametrize("act", [raises_cancelled, cancels_its_task], ids=lambda act: act.__name__)
async def test_a_foreign_child_that_cancels_itself_is_a_value_and_cancelled_on_the_record(act: Any, kind: Kind) -> None:
    async def child_act(query: str) -> str:
        return str(await act())

    fine = child(ScriptedChild("fine"), "fine")
    both = calls(*(tool_call("run_agent", name=name, task="t") for name in ("child", "fine")))
    result = await kind.agent(both, sub_agents=[child(Child(child_act)), fine]).run("go")
    odd, good = results(result)
    assert "failed" in odd
    assert good == "fine"
    assert [record.outcome for record in result.delegations] == [
        DelegationOutcome.CHILD_CANCELLED,
        DelegationOutcome.DELIVERED,
    ]
    assert result.delegated_to == ("fine",)


async def test_a_child_that_raises_its_own_frameworks_cancellation_is_a_value(kind: Kind) -> None:
    class RunCancelledError(Exception):
        pass

    identities = []

    async def act(query: str) -> str:
        raise RunCancelledError("their run was cancelled")

    async def look() -> str:
        identities.append(current_run_identity())
        return "looked"

    script = [tool_call("run_agent", name="child", task="t"), tool_call("look"), "over"]
    agent = symfonic.Agent(kind.script(*script), tools=[kind.tool(look)], sub_agents=[child(Child(act))])
    result = await agent.run("go")
    assert result.text == "over"
    assert [each.run_id for each in identities] == [result.run_id]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_in_a_leaf_passes_through_everything(error: type[BaseException], kind: Kind) -> None:
    async def stop() -> str:
        raise error

    bottom = kind.agent(calls(tool_call("stop")), tools=[kind.tool(stop)])
    loop = asyncio.new_event_loop()
    loop.set_exception_handler(lambda loop, context: None)
    try:
        with pytest.raises(error):
            loop.run_until_complete(levels(kind, bottom, 2).run("go"))
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
    finally:
        loop.close()


async def test_a_run_cancelled_before_its_first_step_starts_nothing(kind: Kind) -> None:
    asked = []
    task = asyncio.create_task(kind.agent(lambda messages, tools: asked.append(1) or "x").run("go"))
    assert await cancelled(task)
    assert asked == []


async def test_a_run_cancelled_as_its_calls_are_about_to_start_cleans_up(kind: Kind) -> None:
    held: list[Any] = []
    leaf = Leaf()

    def fn(messages: Any, tools: Any) -> Any:
        held[0].cancel()
        return [tool_call("wait"), tool_call("run_agent", name="child", task="t")]

    agent = kind.agent(fn, tools=[kind.tool(leaf.wait)], sub_agents=[child(Child(leaf.act))])
    async with asyncio.timeout(5):
        held.append(asyncio.create_task(agent.run("go")))
        assert await cancelled(held[0])
    assert leaf.seen == leaf.cleaned


async def test_child_work_whose_references_are_dropped_finishes_all_the_same(kind: Kind) -> None:
    go, finished = asyncio.Event(), asyncio.Event()
    started = asyncio.Event()

    async def act(query: str) -> str:
        started.set()
        await go.wait()
        return "finished"

    def fn(messages: Any, tools: Any) -> Any:
        if messages[-1].role == "tool":
            finished.set()
        return delegates()(messages, tools)

    async with asyncio.timeout(5):
        ended = asyncio.Event()
        running = asyncio.ensure_future(kind.agent(fn, sub_agents=[child(Child(act))]).run("go"))
        running.add_done_callback(lambda _: ended.set())
        del running
        await started.wait()
        gc.collect()
        go.set()
        await finished.wait()
        await ended.wait()


async def test_a_delivery_before_the_cancellation_stays_counted_and_the_rest_is_on_the_record() -> None:
    leaf, events = Leaf(), []
    children = [child(ScriptedChild("quick"), "quick"), child(Child(leaf.act), "slow")]
    both = calls(*(tool_call("run_agent", name=each.name, task="t") for each in children))
    agent = NATIVE.agent(both, sub_agents=children, options=symfonic.Options(observers=(events.append,)))
    async with asyncio.timeout(5):
        task = asyncio.create_task(agent.run("go"))
        await leaf.started.wait()
        assert await cancelled(task)
    ended = {event.name: event.outcome for event in events if isinstance(event, DelegationFinished)}
    assert ended == {"quick": "delivered", "slow": "child_cancelled"}


async def test_an_agent_runs_again_after_a_cancelled_run() -> None:
    leaf = Leaf()
    agent = NATIVE.agent(
        lambda messages, tools: tool_call("wait") if messages[0].text == "wait" else "ran", tools=[leaf.wait]
    )
    task = asyncio.create_task(agent.run("wait"))
    await leaf.started.wait()
    assert await cancelled(task)
    assert (await agent.run("again")).text == "ran"
    assert (await NATIVE.agent(answer()).run("go")).text == "done"
