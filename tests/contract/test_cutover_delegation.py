"""Delegation at the composition root: the reporting context, the built capability, its scope, and its one path."""

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from langchain_core.tools import StructuredTool

from symfonic.agent.cutover.delegation import (
    RecordingDelegationContext,
    bind_contributed_tool,
    bind_contributed_tools,
    delegation_for_children,
    delegation_scope,
)
from symfonic.agent.engine import SymfonicAgent
from symfonic.capabilities.delegation.capability import DelegationCapability
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.capabilities.delegation.contracts import DelegationOutcome
from symfonic.capabilities.delegation.declarations import AgentRef, SubAgent
from symfonic.capabilities.delegation.tools import DelegationTools
from symfonic.errors import ChildDeclarationError, ConfigurationError
from symfonic.kernel.contracts.run_identity import RunIdentity, run_identity_scope
from symfonic.testing import ScriptedChild, ScriptedModel, tool_call


def child(agent: Any = None, name: str = "child") -> SubAgent:
    return SubAgent(name, agent or ScriptedChild("answered"), f"Does {name}.", "when asked", examples=("do it",))


def capability(*children: Any, **more: Any) -> DelegationCapability:
    made = delegation_for_children(children or (child(),), **{"max_depth": 2, **more})
    assert made is not None
    return made


# --- the reporting context


def test_each_delivery_is_counted_and_reported_once() -> None:
    reported: list[str] = []
    context = RecordingDelegationContext(report=reported.append)
    with context.run_scope(depth=0) as run:
        for name in ("a", "b", "a"):
            context.record_delegation(name)
    assert run.delegated == ("a", "b", "a")
    assert reported == ["a", "b", "a"]


def test_without_a_report_it_counts_like_any_context() -> None:
    context = RecordingDelegationContext()
    with context.run_scope(depth=0) as run:
        context.record_delegation("a")
    assert run.delegated == ("a",)
    assert isinstance(context, DelegationContext)


def test_outside_any_run_a_delivery_is_still_reported() -> None:
    reported: list[str] = []
    RecordingDelegationContext(report=reported.append).record_delegation("a")
    assert reported == ["a"]


def test_it_reads_snapshots_and_scopes_like_any_context() -> None:
    snapshots = SimpleNamespace(latest=lambda: {"agent_depth": "3"})
    context = RecordingDelegationContext(snapshots=snapshots, resolve_scope=lambda: "resolved")
    assert (context.current_depth(), context.current_scope()) == (3, "resolved")


async def test_only_deliveries_are_reported() -> None:
    reported: list[str] = []
    children = [child(name="good"), child(ScriptedChild(ValueError("no")), "bad"), child(ScriptedChild(""), "silent")]
    delegation = capability(*children, report_delegation=reported.append)
    async with delegation.run_scope(depth=0) as run:
        for name in ("good", "bad", "silent", "nobody", "good"):
            await delegation.tools.delegate(name, "t")
    async with delegation.run_scope(depth=2):
        await delegation.tools.delegate("good", "t")
    assert reported == list(run.delegated) == ["good", "good"]


async def test_a_report_that_raises_changes_no_delivery_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def report(name: str) -> None:
        raise RuntimeError("cannot count")

    delegation = capability(report_delegation=report)
    identity = RunIdentity.root()
    with caplog.at_level(logging.ERROR, "symfonic"), run_identity_scope(identity):
        async with delegation.run_scope(depth=0) as run:
            record = await delegation.tools.delegate("child", "t")
    assert (record.outcome, run.delegated) == (DelegationOutcome.DELIVERED, ("child",))
    assert "cannot count" in caplog.text
    assert identity.run_id in caplog.text


async def test_parallel_deliveries_are_all_reported() -> None:
    reported: list[str] = []
    delegation = capability(report_delegation=reported.append)
    async with delegation.run_scope(depth=0) as run, asyncio.TaskGroup() as group:
        for _ in range(50):
            group.create_task(delegation.tools.delegate("child", "t"))
    assert reported == list(run.delegated) == ["child"] * 50


# --- the capability over built children


def test_no_children_is_no_capability() -> None:
    assert delegation_for_children([], max_depth=2) is None
    assert delegation_for_children(iter(()), max_depth=2) is None


async def test_built_children_are_kept_as_they_are_and_not_owned() -> None:
    class Closable(ScriptedChild):
        closed = 0

        async def aclose(self) -> None:
            self.closed += 1

    worker = Closable("answered")
    delegation = capability(child(worker))
    [entry] = delegation.roster
    assert (entry.runner, entry.owned) == (worker, False)
    assert (entry.name, entry.description, entry.when_to_use, entry.examples) == (
        "child",
        "Does child.",
        "when asked",
        ("do it",),
    )
    await delegation.aclose()
    assert worker.closed == 0


def test_children_need_no_guidance() -> None:
    delegation = capability(SimpleNamespace(name="bare", description="Bare.", agent=ScriptedChild()))
    assert delegation.roster.describe() == "  - bare: Bare."


@pytest.mark.parametrize(
    ("bad", "names"),
    [
        (SimpleNamespace(name="odd", description="Odd.", agent=object()), "'odd'"),
        (SimpleNamespace(name="no agent", description="Odd."), "without agent"),
        (ScriptedChild(), "without name, agent, description"),
        ("text", "'text'"),
    ],
)
def test_what_cannot_be_adopted_is_refused_naming_it(bad: Any, names: str) -> None:
    with pytest.raises(ChildDeclarationError, match=names):
        delegation_for_children([bad], max_depth=2)


def test_a_ceiling_that_is_none_is_refused_and_none_states_none() -> None:
    with pytest.raises(ConfigurationError, match="max_depth"):
        delegation_for_children([child()], max_depth=-1)
    assert capability(max_depth=None).depth is None


async def test_the_scope_is_resolved_for_children_where_nothing_else_gives_one() -> None:
    worker = ScriptedChild("answered")
    delegation = capability(child(worker), resolve_scope=lambda: "resolved")
    await delegation.tools.delegate("child", "t")
    async with delegation.run_scope(depth=0, scope="given"):
        await delegation.tools.delegate("child", "t")
    assert [call.scope for call in worker.calls] == ["resolved", "given"]


# --- its scope around a run


async def test_without_delegation_nothing_is_opened() -> None:
    async with delegation_scope(None, 3) as run:
        assert run is None
        assert DelegationContext().active_run() is None


@pytest.mark.parametrize(("told", "depth"), [(0, 0), (3, 3), ("2", 2), (None, 0)])
async def test_the_scope_of_a_run_is_opened_at_its_depth_and_closed(told: Any, depth: int) -> None:
    async with delegation_scope(capability(), told, "tenant") as run:
        assert run is DelegationContext().active_run()
        assert run is not None
        assert (run.depth, run.scope) == (depth, "tenant")
    assert DelegationContext().active_run() is None


async def test_the_scope_is_closed_on_every_exit() -> None:
    with pytest.raises(asyncio.CancelledError):
        async with delegation_scope(capability(), 1):
            raise asyncio.CancelledError
    assert DelegationContext().active_run() is None


# --- binding, as far as delegation goes


def test_a_bound_tool_comes_back_untouched_and_pairs_keep_their_order() -> None:
    async def search(query: str) -> str:
        return query

    theirs = StructuredTool.from_function(coroutine=search, description="Searches.")
    specs = capability().tool_specs()
    pairs = [("delegation", specs[0]), ("theirs", theirs), ("delegation", specs[1])]
    bound = bind_contributed_tools(pairs)
    assert [(name, tool.name) for name, tool in bound] == [
        ("delegation", "run_agent"),
        ("theirs", "search"),
        ("delegation", "list_agents"),
    ]
    assert bound[1][1] is theirs


def test_the_bound_tool_gives_the_same_outside_a_loop_and_inside_one() -> None:
    bound = bind_contributed_tool(capability().tool_specs()[0])
    arguments = {"name": "child", "task": "t"}
    assert bound.invoke(arguments) == asyncio.run(bound.ainvoke(arguments)) == "answered"


async def test_the_bound_tool_invoked_inside_a_running_loop_says_what_to_do() -> None:
    bound = bind_contributed_tool(capability().tool_specs()[0])
    with pytest.raises(Exception, match="await"):
        bound.invoke({"name": "child", "task": "t"})


# --- one path


async def by_the_model(agent: SymfonicAgent) -> Any:
    return (await agent.run("go")).messages[2].text


async def by_the_spec(agent: SymfonicAgent) -> Any:
    assert agent.delegation is not None
    return await agent.delegation.tool_specs()[0].coroutine("child", "t")


async def by_the_tool_method(agent: SymfonicAgent) -> Any:
    assert agent.delegation is not None
    return await agent.delegation.tools.run_agent("child", "t")


async def by_the_bound_tool(agent: SymfonicAgent) -> Any:
    assert agent.delegation is not None
    bound = bind_contributed_tool(agent.delegation.tool_specs()[0])
    return await bound.ainvoke({"name": "child", "task": "t"})


async def in_a_tools_body(agent: SymfonicAgent) -> Any:
    async def work() -> Any:
        return await by_the_model(agent)

    outer = SymfonicAgent(ScriptedModel(tool_call("work"), "over"), tools=[work])
    return (await outer.run("go")).messages[2].text


async def by_a_child_of_a_program(agent: SymfonicAgent) -> Any:
    assert agent.delegation is not None
    async with agent.delegation.run_scope(depth=0):
        return (await agent.delegation.tools.delegate("child", "t")).message


PATHS = [by_the_model, by_the_spec, by_the_tool_method, by_the_bound_tool, in_a_tools_body, by_a_child_of_a_program]


@pytest.mark.parametrize("blocked", [False, True], ids=["open", "blocked"])
@pytest.mark.parametrize("wrap", [lambda worker: worker, lambda worker: AgentRef(lambda: worker)], ids=["child", "ref"])
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.__name__)
async def test_with_delegate_made_to_raise_no_delegation_succeeds_by_any_path(
    path: Any, wrap: Any, blocked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def no_way(self: Any, name: str, task: Any) -> Any:
        raise RuntimeError("no way through")

    worker = ScriptedChild("answered")
    script = ScriptedModel(tool_call("run_agent", name="child", task="t"), "over")
    agent = SymfonicAgent(script, sub_agents=[child(wrap(worker))])
    if blocked:
        monkeypatch.setattr(DelegationTools, "delegate", no_way)
    try:
        told = await path(agent)
    except RuntimeError as error:
        told = str(error)
    assert len(worker.calls) == (0 if blocked else 1)
    assert told.removeprefix("Tool 'run_agent' failed: ") == ("no way through" if blocked else "answered")
