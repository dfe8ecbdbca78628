"""Crews and agents of CrewAI in a tree: what they spend, where they run, and what ends them from outside."""

import asyncio
import threading
from typing import Any

import pytest
from adapter_kit import Waits, ask, lead, the_record
from crewai import Crew, Process, Task
from crewai.tools import tool
from crewai_kit import (
    ONE_CALL,
    Says,
    alone_and_in_a_crew,
    crew,
    note,
    of,
    small_crew,
    that_calls_alone_and_in_a_crew,
    uses,
    worker,
)

from symfonic import ChildPolicy, DelegationOutcome, Limits, SubAgent, delegation
from symfonic.adapters.crewai import adopt
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.kernel.concurrency.threads import run_blocking
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import ScriptedChild

# Usage and limits


@alone_and_in_a_crew
async def test_its_usage_is_its_own_count_of_this_run_and_failures_are_in_it(make: Any):
    child = make("before", [uses("note", "a"), uses("note", "b")], "done", tools=[note])
    model = getattr(child, "agents", [child])[0].llm
    await ask(of(child))
    before = model.get_token_usage_summary()
    record = await the_record(child)
    spent = model.get_token_usage_summary().delta_since(before)
    assert record.trace.usage == Usage(spent.prompt_tokens, spent.completion_tokens, spent.successful_requests, 2)
    assert record.trace.usage == Usage(14, 6, 2, 2)
    failing = make([uses("note")], ValueError("down"), tools=[note], max_retry_limit=0)
    assert (await the_record(failing)).trace.usage == Usage(7, 3, 2, 1)


async def test_what_others_spend_meanwhile_with_the_same_model_is_theirs():
    meeting = threading.Barrier(2)

    def meet() -> str:
        meeting.wait(timeout=20)
        return "met"

    model = Says(meet, again=True)
    children = [SubAgent(name, worker(llm=model), "Works.") for name in ("ann", "bob")]
    capability = delegation(children)
    async with capability.run_scope() as run:
        await asyncio.gather(ask(capability, "ann"), ask(capability, "bob"))
    assert [each.trace.usage for each in run.records] == [ONE_CALL, ONE_CALL]


async def test_in_text_and_by_native_calls_tools_are_counted_alike():
    text = "Thought: I look\nAction: note\nAction Input: {}", "Thought: I know\nFinal Answer: done"
    record = await the_record(worker(*text, tools=[note], native=False))
    assert record.message == "done"
    assert record.trace.usage == Usage(14, 6, 2, 1)


async def test_the_manager_of_a_hierarchical_crew_is_counted_too():
    delegate = uses("delegate_work_to_coworker", coworker="clerk", task="count", context="none")
    manager = worker([delegate], "managed", role="manager", allow_delegation=True)
    team = crew(worker("counted"), process=Process.hierarchical, manager_agent=manager)
    record = await the_record(team)
    assert record.message == "managed"
    assert record.trace.usage == Usage(21, 9, 3, 1)


@alone_and_in_a_crew
async def test_limits_of_the_tree_hold_inside_it_and_it_does_not_try_again(make: Any):
    for limits, words in ((Limits(max_model_calls=2), "max_model_calls=2"), (Limits(max_tokens=15), "max_tokens=15")):
        capability = of(make([uses("note")], again=True, tools=[note]), limits=limits)
        async with capability.run_scope() as run:
            assert words in await ask(capability)
        assert run.usage.model_calls == 2
        assert words.partition("=")[0] in str(run.records[0].trace.error)


# Where it runs


@that_calls_alone_and_in_a_crew
async def test_depth_lineage_and_scope_are_visible_inside_in_whatever_thread(calling: Any):
    seen: list[Any] = []

    def look() -> str:
        """Look."""
        seen.append(active_run())
        return "ok"

    result = await lead(calling(look)).run("go", scope="acme")
    [record] = result.delegations
    assert record.delivered, record
    [run] = seen
    assert (run.depth, run.scope, run.identity) == (1, "acme", record.trace.child)
    assert run.identity.parent_run_id == result.run_id


@pytest.mark.parametrize("synchronous", [False, True])
@that_calls_alone_and_in_a_crew
async def test_a_tool_of_theirs_that_runs_an_agent_of_ours_stays_under_the_ceiling_and_counts_once(
    calling: Any, synchronous: bool
):
    inner = lead(ScriptedChild("too deep"))
    results: list[Any] = []

    def in_a_thread() -> str:
        """Ask."""
        results.append(inner.run_sync("go"))
        return "asked"

    async def on_a_loop() -> str:
        """Ask."""
        results.append(await inner.run("go"))
        return "asked"

    record = await the_record(calling(in_a_thread if synchronous else on_a_loop), max_depth=2)
    assert record.delivered, record
    [result] = results
    assert [(each.outcome, each.depth) for each in result.delegations] == [(DelegationOutcome.REFUSED_DEPTH, 3)]
    assert result.parent_run_id == record.trace.child.run_id
    assert record.trace.usage == Usage(14, 6, 2, 1) + result.usage


@that_calls_alone_and_in_a_crew
async def test_a_crew_below_a_crew_keeps_to_its_own_count(calling: Any):
    below = of(small_crew("from below"))

    async def delegate() -> str:
        """Delegate."""
        return await ask(below)

    capability = of(calling(delegate))
    async with capability.run_scope() as run:
        assert await ask(capability) == "done"
    [record] = run.records
    assert [each.message for each in record.children] == ["from below"]
    assert record.children[0].trace.usage == ONE_CALL
    assert run.usage == record.trace.usage == Usage(21, 9, 3, 1)


# How it is ended


@pytest.mark.parametrize("seconds", [None, 0.5])
@that_calls_alone_and_in_a_crew
async def test_a_cancellation_and_a_timeout_end_it_and_it_can_be_called_again(calling: Any, seconds: float | None):
    waits, before = Waits(), asyncio.all_tasks()
    below = of(waits)

    def delegate() -> str:
        """Delegate."""
        return run_blocking(lambda: ask(below))

    child = calling(delegate)
    capability = of(child)
    if seconds is None:
        async with capability.run_scope() as run:
            running = asyncio.ensure_future(ask(capability))
            await waits.began.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        assert [each.outcome for each in run.records] == [DelegationOutcome.CHILD_CANCELLED]
        assert run.usage == ONE_CALL + Usage(tool_calls=1)
    else:
        record = await the_record(child, policy=ChildPolicy(timeout=seconds))
        assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
        assert record.trace.usage == ONE_CALL + Usage(tool_calls=1)
    assert waits.ended.is_set()
    assert asyncio.all_tasks() == before
    assert await ask(of(child)) == "done"  # the reply that the ended run did not ask for any more


@alone_and_in_a_crew
async def test_what_a_call_in_a_thread_brings_too_late_is_ignored_and_the_next_one_waits_for_it(make: Any):
    began, leave, called = asyncio.Event(), threading.Event(), list[str]()
    loop = asyncio.get_running_loop()

    def slow() -> Any:
        loop.call_soon_threadsafe(began.set)
        leave.wait(timeout=20)
        return [uses("pay")]

    def pay() -> str:
        """Pay."""
        called.append("pay")
        return "paid"

    child = adopt("child", make(slow, "in time", tools=[tool(pay)]))
    running = asyncio.ensure_future(child.run("one"))
    await began.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    following = asyncio.ensure_future(child.run("two"))
    await asyncio.sleep(0)
    assert not following.done()
    leave.set()
    assert (await following).final_response == "in time"
    assert called == []


async def test_what_a_failed_crew_began_in_threads_of_its_own_ends_at_its_next_call():
    began, leave, called = threading.Event(), threading.Event(), list[str]()

    def slow() -> Any:
        began.set()
        leave.wait(timeout=20)
        return [uses("pay")]

    def fail() -> Any:
        began.wait(timeout=20)
        return ValueError("down")

    def pay() -> str:
        """Pay."""
        called.append("pay")
        return "paid"

    agents = [worker(fail, max_retry_limit=0), slow_one := worker(slow, tools=[tool(pay)]), worker("never")]
    tasks = [
        Task(
            description="Work on {task}",
            expected_output="An answer.",
            agent=each,
            async_execution=each is not agents[2],
        )
        for each in agents
    ]
    before = set(threading.enumerate())
    record = await the_record(Crew(agents=agents, tasks=tasks))
    assert record.message == "Sub-agent 'child' failed: down"
    left = [each for each in threading.enumerate() if each not in before and "(run)" in each.name]
    assert left
    leave.set()
    for each in left:
        each.join(20)
    assert called == []
    assert len(slow_one.llm.sent) == 1
