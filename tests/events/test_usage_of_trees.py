"""Costs and counts of a tree are those of its runs, each once, however its parts end."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
import stamina
from events_kit import Watcher, asks, boss, child, leaf
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symfonic import Agent, ChildPolicy, DelegationOutcome, SubAgent
from symfonic.capabilities.delegation.contracts import walk
from symfonic.kernel.contracts.events import (
    DelegationFinished,
    DelegationRefused,
    ModelAnswered,
    RunFinished,
    RunStarted,
)
from symfonic.kernel.contracts.messages import NO_USAGE, Usage
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import FunctionModel, ScriptedChild

ENDINGS = ("answers", "raises", "hangs", "cancels itself", "says nothing", "fails once", "is foreign", "is unknown")


@dataclass(frozen=True)
class Plan:
    """A tree to be built: what a run costs a model call, how it ends, and whom it asks before."""

    ending: str
    tokens: int
    below: "tuple[Plan, ...]" = field(default=())


plans = st.recursive(
    st.builds(Plan, st.sampled_from(ENDINGS), st.integers(0, 9)),
    lambda below: st.builds(
        Plan, st.sampled_from(ENDINGS[:6]), st.integers(0, 9), st.lists(below, max_size=3).map(tuple)
    ),
    max_leaves=10,
)


def agent_of(plan: Plan) -> Any:
    """The tree, as agents."""
    if plan.ending == "is foreign":
        return ScriptedChild(f"costs {plan.tokens} of something else")
    children = [declared(f"c{number}", each) for number, each in enumerate(plan.below)]
    made = [asks("nobody" if each.ending == "is unknown" else f"c{n}") for n, each in enumerate(plan.below)]
    attempts: list[int] = []

    async def play(messages: Any, tools: Any) -> ModelReply:
        if messages[-1].role == "user" and made:
            return ModelReply("", tuple(made), plan.tokens, 1)
        return await ended(plan, attempts)

    return Agent(FunctionModel(play), sub_agents=children, max_depth=9)


async def ended(plan: Plan, attempts: list[int]) -> ModelReply:
    match plan.ending:
        case "raises":
            raise ValueError("no")
        case "hangs":
            await asyncio.Event().wait()
        case "cancels itself":
            raise asyncio.CancelledError
        case "fails once":
            attempts.append(1)
            if len(attempts) == 1:
                raise ValueError("not yet")
    return ModelReply("" if plan.ending == "says nothing" else "done", (), plan.tokens, 1)


def declared(name: str, plan: Plan) -> SubAgent:
    policy = ChildPolicy(timeout=0.05) if plan.ending == "hangs" else None
    policy = ChildPolicy(retries=1) if plan.ending == "fails once" else policy
    return child(name, agent_of(plan), policy=policy)


@pytest.fixture(autouse=True)
def no_pauses() -> Any:
    with stamina.set_testing(True, attempts=2, cap=True):
        yield


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(plans, max_size=3))
def test_usage_and_tally_are_the_sum_over_the_runs_each_once(below: list[Plan]) -> None:
    seen = Watcher()
    root = agent_of(Plan("answers", 5, tuple(below)))
    result = asyncio.run(root.run("go", observers=(seen,)))
    told = result.to_dict()
    records = list(walk(result.delegations))

    assert result.tally.total == len(records) == sum(told["tally"]["by_child"].values())
    for outcome, count in result.tally.by_outcome.items():
        assert count == sum(each.outcome is outcome for each in records)
    assert result.usage == sum((each.trace.usage for each in result.delegations if each.trace), own_usage(result))
    assert result.usage == sum((event.usage for event in seen.of(ModelAnswered)), NO_USAGE)
    assert len(seen.of(RunStarted)) == len(seen.of(RunFinished))
    ended_events = seen.of(DelegationFinished) + seen.of(DelegationRefused)
    assert sorted(event.outcome for event in ended_events) == sorted(each.outcome.value for each in records)
    for each in records:
        assert each.outcome.refused == (each.trace is not None and each.trace.child is None)
        if each.outcome.refused:
            assert each.trace.usage == NO_USAGE  # type: ignore[union-attr]
    lineage(records, result.run_id)


def own_usage(result: Any) -> Usage:
    """What the root itself spent: two calls of five and one token where it asks somebody, else one."""
    calls = 2 if result.delegations else 1
    return Usage(5 * calls, calls, calls, len(result.delegations))


def lineage(records: list[Any], root: str) -> None:
    """Every child's run is under the run that called it, and all under one root."""
    for each in records:
        if each.trace.child is None:
            continue
        assert each.trace.child.root_run_id == each.trace.caller.root_run_id == root
        assert each.trace.child.parent_run_id == each.trace.caller.run_id


async def test_every_attempt_of_a_child_that_was_retried_is_paid_for() -> None:
    agent = boss(declared("flaky", Plan("fails once", 7)))
    result = await agent.run("go")
    [record] = result.delegations
    assert record.outcome is DelegationOutcome.DELIVERED
    assert record.trace.usage == Usage(7, 1, 2, 0), "a call that failed is a call"  # type: ignore[union-attr]
    assert result.usage.model_calls == 4


async def test_a_child_that_was_cut_off_is_paid_for_as_far_as_it_came() -> None:
    below = Plan("answers", 4)
    for ending, outcome in (("hangs", "child_timed_out"), ("cancels itself", "child_cancelled")):
        result = await boss(declared("worker", Plan(ending, 3, (below,)))).run("go")
        [record] = result.delegations
        assert record.outcome == outcome
        assert record.trace.usage == Usage(7, 2, 3, 1)  # type: ignore[union-attr]
        assert [each.outcome for each in record.children] == ["delivered"]
        assert result.usage == record.trace.usage + Usage(0, 0, 2, 1)  # type: ignore[union-attr]


async def test_two_roots_at_once_are_counted_apart() -> None:
    agent = boss(child("leaf", leaf()), child("other", leaf()))
    results = await asyncio.gather(*(agent.run(str(number)) for number in range(10)))
    assert {result.usage.model_calls for result in results} == {4}
    assert {result.tally.total for result in results} == {2}
    assert len({record.run_id for result in results for record in result.delegations}) == 20
