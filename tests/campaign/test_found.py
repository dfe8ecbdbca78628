"""What campaigns have found, each as small as it gets."""

import asyncio
import gc
from typing import Any

from symfonic import Agent, ChildPolicy, DelegationOutcome, Limits, Options, SubAgent
from symfonic.capabilities.delegation.capability import DelegationCapability
from symfonic.capabilities.delegation.contracts import PrebuiltChild
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, tool_call


class Worker:
    """Counts itself while it works."""

    working = 0
    worked = 0

    async def run(self, query: str) -> str:
        self.working += 1
        for _ in range(20):
            await asyncio.sleep(0)
        self.working -= 1
        self.worked += 1
        return "done"


class Quitter:
    """Ends itself, when others have come to wait for its place."""

    def __init__(self, how: Any) -> None:
        self.started = asyncio.Event()
        self.how = how

    async def run(self, query: str) -> str:
        self.started.set()
        for _ in range(20):
            await asyncio.sleep(0)
        await self.how()
        return "never"


async def _raise() -> None:
    raise asyncio.CancelledError


async def _cancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def _resumed_beside(how: Any) -> tuple[int, int]:
    """How many workers worked when a parent went on after its child ended so, and how many in all."""
    worker, quitter, beside = Worker(), Quitter(how), []

    async def think(messages: Any, tools: Any) -> Any:
        if len(messages) == 1:
            return tool_call("run_agent", name="quitter", task="go")
        for _ in range(5):
            beside.append(worker.working)
            await asyncio.sleep(0)
        return "resumed"

    async def once_it_has_started(request: Any) -> None:
        if request.name == "worker":
            await quitter.started.wait()

    boss = Agent(FunctionModel(think), sub_agents=[SubAgent("quitter", quitter, "Quits.")])
    root = Agent(
        ScriptedModel([tool_call("run_agent", name=name, task="go") for name in ("boss", "worker")], "end"),
        sub_agents=[SubAgent("boss", boss, "Delegates."), SubAgent("worker", worker, "Works.")],
        options=Options(on_delegate=once_it_has_started),
    )
    await root.run("go", limits=Limits(max_concurrency=1))
    return max(beside), worker.worked


async def test_a_parent_whose_child_raised_a_cancellation_waits_for_its_place_before_it_goes_on() -> None:
    assert await _resumed_beside(_raise) == (0, 1)


async def test_a_parent_whose_child_cancelled_its_own_task_waits_for_its_place_before_it_goes_on() -> None:
    assert await _resumed_beside(_cancel) == (0, 1)


async def test_a_delegation_that_ends_before_its_child_begins_leaves_nothing_unawaited() -> None:
    """As when a loop ends under it: everything is cancelled at once, also a task that has not had its first step."""
    children = [PrebuiltChild("child", ScriptedChild("never"), "A child.", policy=ChildPolicy(timeout=60))]
    tools = DelegationCapability.declare(children, max_depth=1).tools
    delegation = asyncio.ensure_future(tools.delegate("child", "go"))
    await asyncio.sleep(0)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()
    await asyncio.wait({delegation})
    assert delegation.cancelled()
    gc.collect()  # a coroutine that was never awaited would say so now, and warnings are errors


class Stubborn:
    """Takes no notice of its cancellation, and fails for another reason."""

    def __init__(self) -> None:
        self.starts = 0
        self.started = asyncio.Event()

    async def run(self, query: str) -> str:
        self.starts += 1
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("something else") from None
        return "never"


async def test_a_cancelled_delegation_is_not_retried_where_its_child_swallowed_that_and_failed() -> None:
    child = Stubborn()
    policy = ChildPolicy(retries=2)
    tools = DelegationCapability.declare([PrebuiltChild("child", child, "A child.", policy=policy)], max_depth=1).tools
    delegation = asyncio.ensure_future(tools.delegate("child", "go"))
    await child.started.wait()
    delegation.cancel()
    record = await delegation
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert child.starts == 1
