"""Delegating: the order of checks, the texts, the tally, the records."""

import asyncio
import inspect
from contextvars import copy_context
from typing import Any

import pytest
from contract_fakes import Child, entry, in_threads, tools_of

from symfonic.capabilities.delegation import (
    Bounds,
    DelegationContext,
    DelegationOutcome,
    DelegationRecord,
    DelegationRoster,
    DelegationTools,
    DepthPolicy,
)
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope

REFUSED_DEPTH = DelegationOutcome.REFUSED_DEPTH


class UntouchableRoster(DelegationRoster):
    """Fails the test when it is asked for anything but its description."""

    def _touched(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the roster was touched")

    names = __len__ = __contains__ = __iter__ = resolve = run = _touched


class Resolver:
    """Counts how often a scope is resolved."""

    def __init__(self, scope: Any = "tenant") -> None:
        self.scope, self.calls = scope, 0

    def __call__(self) -> Any:
        self.calls += 1
        if isinstance(self.scope, Exception):
            raise self.scope
        return self.scope


# specs


def test_the_specs_are_the_same_tuple_each_time() -> None:
    tools = tools_of(a=Child())

    assert isinstance(tools.specs(), tuple)
    assert tools.specs() is tools.specs()


def test_there_is_a_tool_to_delegate_and_one_to_list() -> None:
    run_agent, list_agents = tools_of(a=Child()).specs()

    assert (run_agent.name, run_agent.parameters) == ("run_agent", ("name", "task"))
    assert (list_agents.name, list_agents.parameters) == ("list_agents", ())
    assert tuple(inspect.signature(run_agent.coroutine).parameters) == run_agent.parameters
    assert not inspect.signature(list_agents.coroutine).parameters
    assert list_agents.description.strip()


def test_the_description_of_run_agent_tells_the_model_what_it_needs_to_know() -> None:
    tools = tools_of(a=Child(), b=Child())
    text = tools.specs()[0].description

    assert "elegate" in text
    assert "does not see this conversation" in text
    assert "refusal is final" in text
    assert "answer yourself" in text
    assert text.endswith(tools.roster.describe())


def test_the_description_of_run_agent_keeps_user_text_verbatim() -> None:
    roster = DelegationRoster([entry("a", description="{roster} {0} %s 100% $x 東京", when_to_use="\\1 {name}")])
    tools = DelegationTools(roster=roster, depth=DepthPolicy(1))

    assert tools.specs()[0].description.endswith("  - a: {roster} {0} %s 100% $x 東京 (\\1 {name})")


async def test_list_agents_lists_the_roster() -> None:
    assert await tools_of(a=Child(), b=Child()).list_agents() == (
        "Available sub-agents:\n  - a: Does a.\n  - b: Does b."
    )
    assert await tools_of().list_agents() == "Available sub-agents:\n  (none)"


def test_delegation_tools_are_made_by_keyword() -> None:
    parameters = inspect.signature(DelegationTools).parameters

    assert list(parameters)[:4] == ["roster", "depth", "context", "record"]
    assert parameters["context"].default is None
    assert parameters["record"].default is True
    assert all(each.kind is each.KEYWORD_ONLY for each in parameters.values())


# 1. depth


@pytest.mark.parametrize("ceiling", [0, 1, 2, 3])
@pytest.mark.parametrize("name", ["a", "unknown", "", None])
async def test_at_the_ceiling_a_delegation_is_refused_before_the_roster_is_touched(ceiling: int, name: Any) -> None:
    child, resolver = Child(), Resolver()
    context = DelegationContext(resolve_scope=resolver)
    tools = DelegationTools(roster=UntouchableRoster([entry("a", child)]), depth=DepthPolicy(ceiling), context=context)

    with context.run_scope(depth=ceiling) as run:
        record = await tools.delegate(name, "task")

    assert record.outcome is REFUSED_DEPTH
    assert record.message == DepthPolicy(ceiling).refusal()
    assert record.depth == ceiling + 1
    assert child.queries == []
    assert resolver.calls == 0
    assert run.delegated == ()


async def test_a_refusal_is_repeated_as_often_as_the_call_and_each_is_on_record() -> None:
    child = Child()
    tools = tools_of(0, a=child)

    with tools.context.run_scope(depth=0) as run:
        messages = [await tools.run_agent("a", "task") for _ in range(5)]

    assert messages == [DepthPolicy(0).refusal()] * 5
    assert [record.outcome for record in run.records] == [REFUSED_DEPTH] * 5
    assert child.queries == []


@pytest.mark.parametrize("ceiling", [0, 1, 2, 3])
async def test_a_child_that_always_delegates_again_runs_as_deep_as_the_ceiling(ceiling: int) -> None:
    depths: list[int] = []
    refusals: list[DelegationRecord] = []

    async def again(query: str) -> str:
        depths.append(tools.context.current_depth())
        record = await tools.delegate("again", query)
        if not record.delivered:
            refusals.append(record)
        return "done"

    tools = tools_of(ceiling, again=Child(again))
    await again("task")

    assert depths == list(range(ceiling + 1))
    ((refusal,)) = refusals
    assert refusal.message == DepthPolicy(ceiling).refusal()


async def test_depth_is_a_path_and_not_a_counter() -> None:
    def maybe(query: str) -> str:
        depths.append(tools.context.current_depth())
        if query == "odd":
            raise ValueError(query)
        return query

    depths: list[int] = []
    tools = tools_of(1, a=Child(maybe))
    for number in range(100):
        await tools.delegate("a", "odd" if number % 2 else "even")

    assert depths == [1] * 100


async def test_fifty_siblings_at_once_all_run_below_the_ceiling() -> None:
    async def leaf(query: str) -> str:
        return str(tools.context.current_depth())

    async def branch(query: str) -> str:
        records = await asyncio.gather(*(tools.delegate("leaf", str(number)) for number in range(50)))
        return ",".join({record.message for record in records})

    tools = tools_of(2, leaf=Child(leaf), branch=Child(branch))

    assert (await tools.delegate("branch", "task")).message == "2"


async def test_the_enclosing_ceiling_binds_a_child_with_a_larger_one_of_its_own() -> None:
    leaf = Child()
    generous = tools_of(50, leaf=leaf)

    async def middle(query: str) -> str:
        return (await generous.delegate("leaf", query)).message

    record = await tools_of(1, middle=Child(middle)).delegate("middle", "task")

    assert record.message == DepthPolicy(1).refusal()
    assert leaf.queries == []


async def test_the_ceiling_of_a_run_binds_delegations_inside_it() -> None:
    tools = tools_of(50, a=Child())

    with tools.context.run_scope(depth=0, bounds=Bounds(max_depth=0)):
        assert (await tools.delegate("a", "task")).message == DepthPolicy(0).refusal()


async def test_a_grandchild_reads_the_roots_ceiling() -> None:
    ceilings: list[int | None] = []

    def look(query: str) -> str:
        ceilings.append(DelegationContext().active_run().max_depth)  # type: ignore[union-attr]
        return "seen"

    grandchild = tools_of(9, look=Child(look))

    async def middle(query: str) -> str:
        return (await grandchild.delegate("look", query)).message

    await tools_of(7, middle=Child(middle)).delegate("middle", "task")

    assert ceilings == [7]


async def test_the_ceiling_holds_from_a_task_and_from_a_thread() -> None:
    child = Child()
    tools = tools_of(1, a=child)

    with tools.context.run_scope(depth=1):
        from_task = await asyncio.create_task(tools.delegate("a", "task"))
        carried, from_thread = copy_context(), []
        in_threads(1, lambda _: from_thread.append(carried.run(asyncio.run, tools.delegate("a", "task"))))

    assert [record.outcome for record in (from_task, *from_thread)] == [REFUSED_DEPTH] * 2
    assert child.queries == []


async def test_the_snapshots_depth_counts_where_no_run_is_open() -> None:
    class State:
        def latest(self) -> Any:
            return {"agent_depth": "2"}

    tools = tools_of(2, DelegationContext(snapshots=State()), a=Child())

    assert (await tools.delegate("a", "task")).outcome is REFUSED_DEPTH


# 2. the child's run


async def test_the_child_runs_one_level_down_in_the_parents_scope_and_lineage() -> None:
    child = Child()
    tools = tools_of(9, a=child)

    with run_identity_scope(RunIdentity.root().child()) as caller, tools.context.run_scope(depth=3, scope="tenant"):
        record = await tools.delegate("a", "task")

    assert record.depth == 4
    assert child.keywords == [
        {
            "scope": "tenant",
            "agent_depth": 4,
            "root_run_id": caller.root_run_id,
            "parent_run_id": caller.run_id,
        }
    ]


async def test_a_chain_has_one_root_and_each_runs_parent_is_the_one_above() -> None:
    seen: list[RunIdentity] = []

    async def next_down(query: str) -> str:
        seen.append(current_run_identity())  # type: ignore[arg-type]
        return (await tools.delegate("b", query)).message if query == "first" and len(seen) == 1 else "done"

    tools = tools_of(5, a=Child(next_down), b=Child(next_down))
    with run_identity_scope(RunIdentity.root()) as root:
        await tools.delegate("a", "first")

    first, second = seen
    assert len({root.run_id, first.run_id, second.run_id}) == 3
    assert {each.root_run_id for each in (root, first, second)} == {root.run_id}
    assert (first.parent_run_id, second.parent_run_id) == (root.run_id, first.run_id)


async def test_two_delegations_outside_any_run_are_two_trees() -> None:
    tools = tools_of(a=Child())
    children = [(await tools.delegate("a", "task")).trace.child for _ in range(2)]  # type: ignore[union-attr]

    assert all(child.parent_run_id is None and child.root_run_id == child.run_id for child in children)  # type: ignore[union-attr]
    assert children[0] != children[1]


async def test_a_child_inherits_its_scope_from_the_resolver_where_no_run_has_one() -> None:
    child, resolver = Child(), Resolver("resolved")
    await tools_of(2, DelegationContext(resolve_scope=resolver), a=child).delegate("a", "task")

    assert child.keywords[0]["scope"] == "resolved"
