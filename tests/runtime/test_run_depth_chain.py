"""How deep a run is: every link of the chain, and every way in which a run starts inside another."""

import asyncio
import contextvars
import threading
from collections.abc import Callable
from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, Kind, Spot, answer, calls, child, delegates, spot, spots_of

import symfonic
from symfonic.agent.cutover.delegate import KernelDelegate
from symfonic.agent.cutover.delegation import delegation_for_children, delegation_scope
from symfonic.agent.engine import SymfonicAgent
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.capabilities.delegation.contracts import DelegationOutcome
from symfonic.capabilities.delegation.depth import DepthPolicy
from symfonic.kernel.contracts.run_identity import current_run_identity
from symfonic.testing import FunctionModel, ScriptedChild, tool_call

DEPTHS = [0, 1, 2, 5]


def capability(inner: Any, max_depth: int = 2) -> Any:
    return delegation_for_children([child(inner)], max_depth=max_depth)


async def through_agent(depth: int, inner: Any) -> Any:
    agent = symfonic.Agent(FunctionModel(delegates()), sub_agents=[child(inner)], max_depth=2)
    return (await agent.run("go", agent_depth=depth)).delegations[0]


async def through_engine(depth: int, inner: Any) -> Any:
    engine = SymfonicAgent(FunctionModel(delegates()), sub_agents=[child(inner)], max_depth=2)
    return (await engine.run("go", agent_depth=depth)).delegations[0]


async def through_kernel(depth: int, inner: Any) -> Any:
    kernel = KernelDelegate(model=FunctionModel(delegates()), delegation=capability(inner), bounds=Bounds(2))
    return (await kernel.run("go", agent_depth=depth)).delegations[0]


async def through_delegation_scope(depth: int, inner: Any) -> Any:
    delegation = capability(inner)
    async with delegation_scope(delegation, depth):
        return await delegation.tools.delegate("child", "go")


async def through_capability(depth: int, inner: Any) -> Any:
    delegation = capability(inner)
    async with delegation.run_scope(depth=depth):
        return await delegation.tools.delegate("child", "go")


async def through_context(depth: int, inner: Any) -> Any:
    delegation = capability(inner)
    with DelegationContext().run_scope(depth=depth):
        return await delegation.tools.delegate("child", "go")


LINKS = [
    through_agent,
    through_engine,
    through_kernel,
    through_delegation_scope,
    through_capability,
    through_context,
]


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("link", LINKS, ids=lambda link: link.__name__)
async def test_the_depth_given_at_every_link_decides_whether_a_child_runs_and_how_deep(
    link: Callable[[int, Any], Any], depth: int
) -> None:
    inner = ScriptedChild("fine")
    record = await link(depth, inner)
    policy = DepthPolicy(2)
    assert record.depth == policy.child_depth(depth) == depth + 1
    assert record.delivered == policy.admits(depth)
    assert [call.agent_depth for call in inner.calls] == ([depth + 1] if record.delivered else [])
    if not record.delivered:
        assert record.outcome is DelegationOutcome.REFUSED_DEPTH
        assert record.message == policy.refusal()


async def test_the_runs_own_code_reads_the_depth_that_was_given() -> None:
    seen: list[Spot] = []
    agent = NATIVE.agent(spots_of(answer(), seen))
    for depth in (None, 0, 1, "3", 2.9, -4, "no number", True):
        await agent.run("go", agent_depth=depth)
    assert [each.depth for each in seen] == [0, 0, 1, 3, 2, 0, 0, 1]


async def test_a_run_outside_every_run_is_its_own_root_and_leaves_nothing_behind() -> None:
    seen: list[Spot] = []
    result = await NATIVE.agent(spots_of(answer(), seen)).run("go", scope="tenant")
    assert seen == [Spot(0, result.run_id, result.run_id, None, "tenant", 2)]
    assert (result.root_run_id, result.parent_run_id) == (result.run_id, None)
    assert current_run_identity() is None
    assert DelegationContext().active_run() is None


async def test_a_run_placed_by_its_caller_takes_the_lineage_it_is_told() -> None:
    result = await NATIVE.agent(answer()).run("go", root_run_id="the root", parent_run_id="the parent")
    assert (result.root_run_id, result.parent_run_id) == ("the root", "the parent")
    assert result.run_id not in ("the root", "the parent")


class Facade:
    """A child that calls an agent of ours with all it was given."""

    def __init__(self, agent: SymfonicAgent, times: int = 1) -> None:
        self.agent = agent
        self.times = times

    async def run(self, query: str, **context: Any) -> Any:
        return [await self.agent.run(query, **context) for _ in range(self.times)][-1]


@pytest.mark.parametrize("wrap", [lambda agent: agent, Facade], ids=["itself", "behind a wrapper"])
async def test_an_agent_called_as_a_child_is_the_very_run_that_the_roster_opened(wrap: Any, kind: Kind) -> None:
    seen: list[Spot] = []
    inner = SymfonicAgent(FunctionModel(spots_of(answer(), seen)))
    result = await kind.agent(delegates(), sub_agents=[child(wrap(inner))]).run("go", scope="tenant")
    [record] = result.delegations
    assert record.trace.child.run_id == record.run_id
    assert seen == [Spot(1, record.run_id, result.run_id, result.run_id, "tenant", 2)]
    assert (record.root_run_id, record.parent_run_id) == (result.run_id, result.run_id)


async def test_an_agent_shaped_child_is_the_very_run_that_the_roster_opened(kind: Kind) -> None:
    seen: list[Spot] = []
    inner = kind.agent(spots_of(answer(), seen))
    result = await kind.agent(delegates(), sub_agents=[child(inner)]).run("go")
    [record] = result.delegations
    assert seen == [Spot(1, record.run_id, result.run_id, result.run_id, None, 2)]
    assert record.trace.result.run_id == record.run_id


async def test_only_the_first_run_of_a_wrapper_that_runs_an_agent_twice_is_the_rosters() -> None:
    seen: list[Spot] = []
    inner = SymfonicAgent(FunctionModel(spots_of(answer(), seen)))
    result = await NATIVE.agent(delegates(), sub_agents=[child(Facade(inner, times=2))]).run("go")
    child_id = result.delegations[0].trace.child.run_id
    first, second = seen
    assert (first.depth, first.run_id) == (1, child_id)
    assert (second.depth, second.parent_run_id, second.root_run_id) == (2, child_id, result.run_id)


async def started_in_the_body(agent: symfonic.Agent) -> None:
    await agent.run("inner")


async def started_in_a_task(agent: symfonic.Agent) -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(agent.run("inner"))


async def started_in_a_thread(agent: symfonic.Agent) -> None:
    await asyncio.to_thread(lambda: asyncio.run(agent.run("inner")))


async def started_in_a_thread_of_its_own(agent: symfonic.Agent) -> None:
    context, ended = contextvars.copy_context(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> None:
        context.run(agent.run_sync, "inner")
        loop.call_soon_threadsafe(ended.set)

    threading.Thread(target=work).start()
    await ended.wait()


STARTS = [started_in_the_body, started_in_a_task, started_in_a_thread, started_in_a_thread_of_its_own]


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.__name__)
async def test_a_run_started_in_a_tools_body_is_one_level_deeper_with_the_same_root(start: Any, kind: Kind) -> None:
    seen: list[Spot] = []
    inner = kind.agent(spots_of(answer(), seen))

    async def work() -> str:
        await start(inner)
        return "worked"

    result = await kind.agent(calls(tool_call("work")), tools=[kind.tool(work)]).run("go", scope="tenant")
    assert result.text == "worked"
    [inside] = seen
    assert inside == Spot(1, inside.run_id, result.run_id, result.run_id, "tenant", 2)
    assert result.delegations == ()


@pytest.mark.parametrize("start", STARTS, ids=lambda start: start.__name__)
async def test_a_run_started_by_a_foreign_child_is_one_level_below_that_child(start: Any) -> None:
    seen: list[Spot] = []
    inner = NATIVE.agent(spots_of(answer(), seen))
    around: list[Spot] = []

    async def act(query: str) -> str:
        around.append(spot())
        await start(inner)
        return "acted"

    result = await NATIVE.agent(delegates(), sub_agents=[child(Child(act))]).run("go")
    [outer], [inside] = around, seen
    assert outer.run_id == result.delegations[0].trace.child.run_id
    assert (outer.depth, inside.depth) == (1, 2)
    assert (inside.parent_run_id, inside.root_run_id) == (outer.run_id, result.run_id)


@pytest.mark.parametrize(("told", "depth"), [(None, 1), (0, 1), (1, 1), (-3, 1), ("4", 4), (9, 9)])
async def test_inside_a_run_an_explicit_depth_can_only_make_a_run_deeper(told: Any, depth: int) -> None:
    seen: list[Spot] = []
    inner = NATIVE.agent(spots_of(answer(), seen))

    async def work() -> str:
        await inner.run("inner", agent_depth=told, root_run_id="elsewhere", parent_run_id="elsewhere")
        return "worked"

    result = await NATIVE.agent(calls(tool_call("work")), tools=[work]).run("go")
    assert [(each.depth, each.parent_run_id, each.root_run_id) for each in seen] == [
        (depth, result.run_id, result.run_id)
    ]


async def test_a_run_at_or_below_the_ceiling_is_not_refused_but_its_delegations_are() -> None:
    leaf = ScriptedChild("never")
    inner = NATIVE.agent(delegates(), sub_agents=[child(leaf)], max_depth=9)
    texts = []

    async def work() -> str:
        texts.append((await inner.run("inner")).text)
        return "worked"

    result = await NATIVE.agent(calls(tool_call("work")), tools=[work], max_depth=0).run("go")
    assert result.text == "worked"
    assert texts == [DepthPolicy(0).refusal()]
    assert leaf.calls == []


async def test_a_task_that_outlives_its_run_still_starts_runs_below_it_and_writes_into_no_tally() -> None:
    seen: list[Spot] = []
    inner = NATIVE.agent(delegates(), sub_agents=[child(NATIVE.agent(spots_of(answer(), seen)))], max_depth=3)
    may_go, late = asyncio.Event(), []

    async def linger() -> None:
        await may_go.wait()
        await inner.run("inner")

    async def work() -> str:
        late.append(asyncio.ensure_future(linger()))
        return "worked"

    result = await NATIVE.agent(calls(tool_call("work")), tools=[work], max_depth=3).run("go")
    spent = result.usage
    may_go.set()
    await late[0]
    assert [(each.depth, each.root_run_id) for each in seen] == [(2, result.run_id)]
    assert (result.usage, result.delegated_to, result.delegations) == (spent, (), ())
