"""What the tests of every adapter share: our side of a delegation, what holds for children, and what in every host.

``calling(function)`` makes a child: an agent of the framework that calls a tool of its own that is this function.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

import pytest

from symfonic import Agent, ChildPolicy, DelegationOutcome, Limits, SubAgent, delegation
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.testing import ScriptedChild, ScriptedModel, tool_call

Calling: TypeAlias = Callable[..., Any]
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


async def ask(capability: Any, name: str = "child", task: str = "go") -> str:
    return str(await capability.call("run_agent", {"name": name, "task": task}))


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


# What holds for a child


def that_waits(calling: Calling) -> tuple[Any, Waits]:
    waits = Waits()

    async def wait() -> str:
        """Wait."""
        return str(await waits.run())

    return calling(wait), waits


async def a_timeout_reaches_it(child: Any, waits: Waits, seconds: float = 0.5) -> Any:
    """The record of that delegation."""
    before = asyncio.all_tasks()
    waits.ended.clear()
    record = await the_record(child, policy=ChildPolicy(timeout=seconds))
    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert waits.ended.is_set()
    assert asyncio.all_tasks() == before
    return record


async def a_cancellation_reaches_it(child: Any, waits: Waits) -> None:
    before = asyncio.all_tasks()
    waits.began.clear(), waits.ended.clear()
    run = asyncio.create_task(lead(child).run("go"))
    await waits.began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert waits.ended.is_set()
    assert asyncio.all_tasks() == before


async def a_limit_ends_it(child: Any, **limit: int) -> str:
    """What is said when a limit of the tree is reached by two of its model calls, of ten tokens each."""
    [(name, most)] = limit.items()
    capability = delegation([SubAgent("child", child, "Works.")], limits=Limits(**limit))
    async with capability.run_scope() as run:
        text = await ask(capability)
    assert f"{name}={most}" in text
    assert run.usage.model_calls == 2
    return text


async def where_it_runs_is_visible_in_its_tools(calling: Calling) -> None:
    """``calling`` is given two functions, and both are called."""
    seen: list[Any] = []

    async def look() -> str:
        """Look."""
        seen.append(active_run())
        return "ok"

    def look_from_a_thread() -> str:
        """Look."""
        seen.append(active_run())
        return "ok"

    result = await lead(calling(look, look_from_a_thread)).run("go", scope="acme")
    [record] = result.delegations
    assert record.delivered, record
    assert len(seen) == 2
    for run in seen:
        assert (run.depth, run.scope, run.identity) == (1, "acme", record.trace.child)
        assert run.identity.parent_run_id == result.run_id


async def an_agent_of_ours_in_its_tool_stays_under_the_ceiling(calling: Calling, *, synchronous: bool) -> None:
    inner = lead(ScriptedChild("too deep"))
    records: list[Any] = []

    def in_a_thread() -> str:
        """Ask."""
        result = inner.run_sync("go")
        records.extend(result.delegations)
        return str(result.text)

    async def on_the_loop() -> str:
        """Ask."""
        result = await inner.run("go")
        records.extend(result.delegations)
        return str(result.text)

    record = await the_record(calling(in_a_thread if synchronous else on_the_loop), max_depth=2)
    assert record.delivered, record
    assert [each.outcome for each in records] == [DelegationOutcome.REFUSED_DEPTH]
    assert records[0].depth == 3


# What holds in every host


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
