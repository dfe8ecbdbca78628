"""What the tests of every adapter share: our side of a delegation, and what holds in every host."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import pytest

from symfonic import Agent, ChildPolicy, DelegationOutcome, Limits, SubAgent, delegation
from symfonic.testing import ScriptedChild, ScriptedModel, tool_call

Play: TypeAlias = Callable[[Any, Sequence[tuple[str, str]]], Awaitable[list[str]]]
"""``play(capability, calls)``: a host of the framework makes these calls, (name, task), in one reply, and is done; the
texts that its model reads, in any order."""


def lead(child: Any, *, policy: ChildPolicy | None = None, **settings: Any) -> Agent:
    script = ScriptedModel(tool_call("run_agent", name="child", task="go"), "went on")
    return Agent(script, sub_agents=[SubAgent("child", child, "Works.", policy=policy)], **settings)


async def the_record(child: Any, **settings: Any) -> Any:
    result = await lead(child, **settings).run("go")
    assert result.text == "went on"
    [record] = result.delegations
    return record


class Waits:
    """A child that says when it began, and how it ended."""

    def __init__(self) -> None:
        self.began, self.ended = asyncio.Event(), asyncio.Event()

    async def run(self, query: str = "") -> Any:
        self.began.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ended.set()


async def parallel_calls_run_at_once_and_a_failing_one_leaves_the_others_alone(play: Play) -> None:
    both = asyncio.Barrier(2)

    class Meets:
        async def run(self, query: str) -> Any:
            await both.wait()
            if query == "fail":
                raise ValueError("down")
            return type("Response", (), {"final_response": query})

    capability = delegation([SubAgent("child", Meets(), "Works.")])
    async with capability.run_scope() as run:
        texts = await play(capability, [("child", "fine"), ("child", "fail")])
    assert texts == ["fine", "Sub-agent 'child' failed: down"]
    assert run.tally.by_outcome == {DelegationOutcome.DELIVERED: 1, DelegationOutcome.CHILD_FAILED: 1}


async def the_ceiling_and_the_budget_hold(play: Play) -> None:
    deep = delegation([SubAgent("child", lead(ScriptedChild("never")), "Works.")], max_depth=1)
    async with deep.run_scope() as run:
        await play(deep, [("child", "go")])
    [record] = run.records
    assert record.delivered, record
    assert [each.outcome for each in record.children] == [DelegationOutcome.REFUSED_DEPTH]

    switched_off = delegation([SubAgent("child", ScriptedChild("never"), "Works.")], max_depth=0)
    texts = await play(switched_off, [("child", "go")])  # each call a root of its own
    assert texts == ["Delegation refused: maximum sub-agent depth (0) reached; cannot delegate further."]

    few = delegation([SubAgent("child", ScriptedChild("yes"), "Works.")], limits=Limits(max_delegations=2))
    async with few.run_scope() as run:
        texts = sorted(await play(few, [("child", str(number)) for number in range(3)]))
    assert texts[1:] == ["yes", "yes"]
    assert "max_delegations=2" in texts[0]
    assert run.tally.by_outcome[DelegationOutcome.REFUSED_BUDGET] == 1


async def cancelling_the_host_reaches_the_child(play: Play) -> None:
    before, waits = asyncio.all_tasks(), Waits()
    capability = delegation([SubAgent("child", waits, "Waits.")])
    async with capability.run_scope() as run:
        task = asyncio.ensure_future(play(capability, [("child", "go")]))
        await waits.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert waits.ended.is_set()
    assert [record.outcome for record in run.records] == [DelegationOutcome.CHILD_CANCELLED]
    assert asyncio.all_tasks() == before


HOLDS_IN_EVERY_HOST = (
    parallel_calls_run_at_once_and_a_failing_one_leaves_the_others_alone,
    the_ceiling_and_the_budget_hold,
    cancelling_the_host_reaches_the_child,
)
