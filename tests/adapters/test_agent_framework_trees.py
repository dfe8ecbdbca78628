"""Agents of agent-framework in a tree: what ends them, what they spend, where they run, and each conversation apart."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("agent_framework")

from adapter_kit import (
    a_cancellation_reaches_it,
    a_limit_ends_it,
    a_timeout_reaches_it,
    an_agent_of_ours_in_its_tool_stays_under_the_ceiling,
    ask,
    that_waits,
    the_record,
    where_it_runs_is_visible_in_its_tools,
)
from agent_framework import (
    ChatContext,
    ChatResponse,
    ContextProvider,
    FunctionInvocationContext,
    Message,
    chat_middleware,
    function_middleware,
)
from agent_framework_kit import Remote, calling, note, theirs, uses

from symfonic import Limits, SubAgent, delegation
from symfonic.kernel.contracts.messages import Usage

# What ends it


async def test_a_timeout_and_a_cancellation_reach_it_and_it_can_be_called_again():
    child, waits = that_waits(calling)
    record = await a_timeout_reaches_it(child, waits)
    assert record.trace.usage == Usage(7, 3, 1, 1)
    assert (await the_record(child)).message == "done"
    await a_cancellation_reaches_it(*that_waits(calling))


# Usage and limits


async def test_its_usage_is_its_own_count_and_failures_are_in_it():
    child = theirs([uses("note", "a"), uses("note", "b")], "done", tools=[note])
    record = await the_record(child)
    own = record.trace.result.result.usage_details
    assert (own["input_token_count"], own["output_token_count"]) == (14, 6)
    assert record.trace.usage == Usage(14, 6, 2, 2)


async def test_what_another_middleware_answers_is_no_model_call_and_counts_as_what_it_tells():
    @chat_middleware
    async def remember(context: ChatContext, call_next: Any) -> None:
        context.result = ChatResponse(messages=[Message("assistant", ["remembered"])])

    record = await the_record(theirs("never", middleware=[remember]))
    assert (record.message, record.trace.usage) == ("remembered", Usage())


async def test_limits_of_the_tree_hold_inside_it():
    for limit in ({"max_model_calls": 2}, {"max_tokens": 15}):
        await a_limit_ends_it(theirs([uses("note")], [uses("note")], "never", tools=[note]), **limit)


async def test_an_agent_that_cannot_be_looked_into_is_one_model_call():
    capability = delegation([SubAgent("child", Remote(), "Works.")], limits=Limits(max_model_calls=1))
    async with capability.run_scope() as run:
        assert await ask(capability) == "Hallo"
        assert "max_model_calls=1" in await ask(capability)
    assert run.usage == Usage(7, 3, 1)


# What is visible inside it


async def test_depth_lineage_and_scope_are_visible_inside_also_in_the_threads_of_its_tools():
    def calling_all(*functions: Any) -> Any:
        return theirs([uses(each.__name__, each.__name__) for each in functions], "seen", tools=functions)

    await where_it_runs_is_visible_in_its_tools(calling_all)


@pytest.mark.parametrize("synchronous", [False, True])
async def test_a_tool_of_theirs_that_runs_an_agent_of_ours_stays_under_the_ceiling(synchronous: bool):
    await an_agent_of_ours_in_its_tool_stays_under_the_ceiling(calling, synchronous=synchronous)


# Its conversation


async def test_every_delegation_begins_with_nothing_said():
    child = theirs("first", ValueError("down"), "third")
    capability = delegation([SubAgent("child", child, "Works.")])
    assert await ask(capability, task="one") == "first"
    assert "down" in await ask(capability, task="two")
    assert await ask(capability, task="three") == "third"
    assert child.client.sent == [["one"], ["two"], ["three"]]


async def test_every_delegation_has_a_session_of_its_own():
    seen: list[Any] = []

    class Remembers(ContextProvider):
        async def before_run(self, *, session: Any, state: Any, **_: Any) -> None:
            seen.append((session.session_id, dict(state)))
            state["seen"] = True

    @function_middleware
    async def look(context: FunctionInvocationContext, call_next: Any) -> None:
        seen.append(context.session.session_id)  # type: ignore[union-attr]
        await call_next()

    for providers in ([Remembers("memory")], []):
        child = theirs(*[[uses("note")], "done"] * 2, tools=[note], context_providers=providers, middleware=[look])
        capability = delegation([SubAgent("child", child, "Works.")])
        assert [await ask(capability), await ask(capability)] == ["done", "done"]
    assert [each[1] for each in seen if isinstance(each, tuple)] == [{}, {}]
    assert len({each for each in seen if isinstance(each, str)}) == 4


async def test_called_several_times_at_once_each_has_its_own_conversation_and_count():
    all_of_them = asyncio.Barrier(3)

    async def meet() -> str:
        """Meet."""
        await all_of_them.wait()
        return "met"

    child = theirs(*[[uses("meet")]] * 3, "done", "done", "done", tools=[meet])
    capability = delegation([SubAgent("child", child, "Works.")])
    async with capability.run_scope() as run:
        texts = await asyncio.gather(*[ask(capability, task=task) for task in ("a", "b", "c")])
    assert texts == ["done"] * 3
    assert sorted(child.client.sent) == [["a"], ["a"], ["b"], ["b"], ["c"], ["c"]]
    assert [record.trace.usage for record in run.records] == [Usage(14, 6, 2, 1)] * 3
