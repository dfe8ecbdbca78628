"""Agents of smolagents in a tree: what they spend, where they run, what ends them, and one task at a time."""

import asyncio
import threading
from typing import Any

import pytest
import turns_kit
from adapter_kit import (
    an_agent_of_ours_in_its_tool_stays_under_the_ceiling,
    ask,
    lead,
    the_record,
)

pytest.importorskip("smolagents")

from smolagents import LogLevel, MessageRole, TokenUsage, ToolCallingAgent, tool
from smolagents.models import ChatMessage
from smolagents_kit import Says, answer, calling, code, coder, note, theirs

from symfonic import DelegationOutcome, Limits, SubAgent, delegation
from symfonic.capabilities.delegation import ChildPolicy
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.kernel.contracts.messages import Usage


class Gate:
    """A tool that says when it began and waits to be let through, and what was seen inside it."""

    def __init__(self) -> None:
        self.began, self.open = threading.Event(), threading.Event()

        @tool  # type: ignore[untyped-decorator]
        def wait() -> str:
            """Wait."""
            self.began.set()
            assert self.open.wait(30)
            return "through"

        self.tool = wait

    async def entered(self) -> None:
        assert await asyncio.to_thread(self.began.wait, 30)


@pytest.mark.parametrize("timed", [False, True])
async def test_a_timeout_and_a_cancellation_interrupt_it(timed: bool):
    gate = Gate()
    child = theirs([("wait", {})], answer("never"), answer("never"), tools=[gate.tool])
    agent = lead(child, policy=ChildPolicy(timeout=0.5) if timed else None)
    run = asyncio.create_task(agent.run("go"))
    await gate.entered()
    if timed:
        [record] = (await run).delegations
        assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
        assert "may still be running" in record.message
    else:
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
    assert child.interrupt_switch
    later = asyncio.create_task(the_record(child))
    gate.open.set()
    record = await later  # it could begin only when the interrupted run had ended
    assert record.message == "never"
    assert [len(messages) for messages in child.model.seen] == [2, 2, 4]


async def test_a_cancellation_reaches_our_agent_in_its_tool():
    began, ended = asyncio.Event(), asyncio.Event()

    class Waits:
        async def run(self, query: str) -> Any:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    inner = lead(Waits())

    @tool  # type: ignore[untyped-decorator]
    def ask() -> str:
        """Ask."""
        return str(inner.run_sync("go").text)

    for agent in (theirs([("ask", {})], tools=[ask]), coder(code("ask()"), tools=[ask])):
        began.clear(), ended.clear()
        run = asyncio.create_task(lead(agent, max_depth=9).run("go"))
        await began.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        assert ended.is_set()


async def test_an_interruption_that_comes_before_its_run_begins_is_not_lost():
    gate = Gate()

    class Late(ToolCallingAgent):  # type: ignore[misc]
        def run(self, *args: Any, **settings: Any) -> Any:
            gate.tool()
            return super().run(*args, **settings)

    child = Late([note], Says(*[[("note", {"text": "a"})]] * 20), verbosity_level=LogLevel.OFF)
    run = asyncio.create_task(lead(child).run("go"))
    await gate.entered()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    later = asyncio.create_task(the_record(child))
    gate.open.set()
    assert (await later).outcome is DelegationOutcome.CHILD_FAILED  # it has no more than 20 replies
    assert len(child.model.seen) == 1 + 21


async def test_its_usage_is_its_own_count_and_failures_are_in_it():
    child = theirs([("note", {"text": "a"}), ("note", {"text": "b"})], answer("done"), tools=[note])
    record = await the_record(child)
    own = record.trace.result.result.token_usage
    assert (own.input_tokens, own.output_tokens) == (20, 6)
    assert own == child.monitor.get_total_token_counts()
    assert record.trace.usage == Usage(own.input_tokens, own.output_tokens, model_calls=2, tool_calls=2)
    failing = theirs([("note", {"text": "a"})], ValueError("down"), tools=[note])
    assert (await the_record(failing)).trace.usage == Usage(10, 3, model_calls=2, tool_calls=1)
    record = await the_record(coder(code("x = 1"), code("final_answer(x)")))
    assert record.trace.usage == Usage(20, 6, model_calls=2, tool_calls=2)


async def test_plans_and_managed_agents_are_counted():
    planner = theirs(answer("done"), planning_interval=1)
    planner.model.generate = lambda *args, **kwargs: (  # its plan is a reply of text
        ChatMessage(MessageRole.ASSISTANT, "a plan", token_usage=TokenUsage(10, 3))
        if "tools_to_call_from" not in kwargs else Says.generate(planner.model, *args, **kwargs)
    )  # fmt: skip
    record = await the_record(planner)
    own = record.trace.result.result.token_usage
    assert record.trace.usage == Usage(own.input_tokens, own.output_tokens, 2, 0) == Usage(20, 6, 2, 0)
    helper = theirs([("note", {"text": "a"})], answer("helped"), tools=[note], name="helper", description="Helps.")
    manager = theirs(*[[("helper", {"task": "help"})]] * 2, answer("done"), managed_agents=[helper])
    for _ in range(2):
        record = await the_record(manager)
        assert record.trace.usage == Usage(70, 21, model_calls=7, tool_calls=4)


async def test_limits_of_the_tree_hold_inside_it():
    helper = theirs([("note", {"text": "a"})], answer("helped"), tools=[note], name="helper", description="Helps.")
    manager = theirs(*[[("helper", {"task": "help"})]] * 2, answer("done"), managed_agents=[helper])
    for agent, most, spent in (
        (theirs(*[[("note", {"text": "a"})]] * 3, answer("never"), tools=[note]), 2, 2),
        (coder(*[code("x = 1")] * 3), 2, 2),
        (manager, 3, 3),
    ):
        capability = delegation([SubAgent("child", agent, "Works.")], limits=Limits(max_model_calls=most))
        async with capability.run_scope() as run:
            assert f"max_model_calls={most}" in await ask(capability)
        assert run.usage.model_calls == spent


@pytest.mark.parametrize("kind", ["calls", "parallel calls", "code", "managed"])
async def test_depth_lineage_and_scope_are_visible_inside(kind: str):
    seen: list[Any] = []

    @tool  # type: ignore[untyped-decorator]
    def look() -> str:
        """Look."""
        run = active_run()
        seen.append((run.depth, run.scope, run.identity) if run else None)
        return "ok"

    agent: Any
    if kind == "code":
        agent = coder(code("look()"), code("final_answer(look())"), tools=[look])
    elif kind == "managed":
        managed = coder(code("final_answer(look())"), tools=[look], name="helper", description="Helps.")
        agent = coder(code("final_answer(helper('help'))"), managed_agents=[managed])
    else:
        agent = theirs([("look", {})] * (1 + (kind == "parallel calls")), answer("seen"), tools=[look])
    result = await lead(agent).run("go", scope="acme")
    [record] = result.delegations
    assert record.delivered, record
    assert record.trace.child.parent_run_id == result.run_id
    assert set(seen) == {(1, "acme", record.trace.child)}
    assert "send_tools" not in vars(getattr(agent, "python_executor", agent))
    seen.clear()
    await asyncio.to_thread(agent.run, "outside")  # nothing of ours is left on it
    assert set(seen) == {None}


@pytest.mark.parametrize("kind", ["calls", "code"])
async def test_a_tool_of_theirs_that_runs_an_agent_of_ours_stays_under_the_ceiling(kind: str):
    def coding(function: Any) -> Any:
        return coder(code(f"final_answer({function.__name__}())"), tools=[tool(function)])

    which = coding if kind == "code" else calling
    await an_agent_of_ours_in_its_tool_stays_under_the_ceiling(which, synchronous=True)


async def test_one_delegation_at_a_time_also_under_two_names_and_for_managed_agents():
    at_work, most = [], []

    @tool  # type: ignore[untyped-decorator]
    def work() -> str:
        """Work."""
        at_work.append(1)
        most.append(len(at_work))
        at_work.pop()
        return "worked"

    helper = theirs([("work", {})], answer("helped"), tools=[work], name="helper", description="Helps.")
    managers = [theirs([("helper", {"task": "help"})], answer("done"), managed_agents=[helper]) for _ in range(2)]
    agents = {"one": helper, "two": helper, "first": managers[0], "second": managers[1]}
    capability = delegation([SubAgent(name, agent, "Works.") for name, agent in agents.items()])
    async with capability.run_scope() as run, asyncio.TaskGroup() as group:
        for name in [*agents] * 3:
            group.create_task(capability.call("run_agent", {"name": name, "task": "go"}))
    assert [record.outcome for record in run.records] == [DelegationOutcome.DELIVERED] * 12
    assert most == [1] * 12
    assert all(record.trace.usage.model_calls in (2, 4) for record in run.records)


async def test_further_calls_wait_and_can_be_ended_while_they_do():
    gate = Gate()
    child = theirs([("wait", {})], answer("through"), tools=[gate.tool])
    first = asyncio.create_task(the_record(child))
    await gate.entered()
    second = await the_record(child, policy=ChildPolicy(timeout=0.05))
    assert second.outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert len(child.model.seen) == 1
    third = asyncio.create_task(the_record(child))
    gate.open.set()
    assert [(await each).message for each in (first, third)] == ["through", "through"]
    assert not child.interrupt_switch


async def test_with_few_places_in_the_tree_those_who_wait_for_a_turn_hold_none():
    await turns_kit.those_who_wait_for_a_turn_hold_no_place(calling)


async def test_two_that_call_each_other_do_not_wait_for_each_other_for_ever():
    await turns_kit.two_that_call_each_other_do_not_wait_for_ever(calling)


async def test_asked_by_way_of_itself_it_refuses_and_does_not_wait_for_ever():
    records: list[Any] = []

    @tool  # type: ignore[untyped-decorator]
    def ask() -> str:
        """Ask."""
        result = lead(child).run_sync("go")
        records.extend(result.delegations)
        return "asked"

    child = theirs([("ask", {})], answer("done"), tools=[ask])
    assert (await the_record(child, max_depth=9)).message == "done"
    assert [record.outcome for record in records] == [DelegationOutcome.CHILD_FAILED]
    assert "one at a time" in records[0].message
