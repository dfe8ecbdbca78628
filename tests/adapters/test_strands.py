"""Agents of Strands as children, with a model for tests."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("strands")

import turns_kit
from adapter_kit import (
    a_cancellation_reaches_it,
    a_limit_ends_it,
    a_timeout_reaches_it,
    an_agent_of_ours_in_its_tool_stays_under_the_ceiling,
    ask,
    lead,
    that_waits,
    the_record,
    where_it_runs_is_visible_in_its_tools,
)
from pydantic import BaseModel
from strands import tool
from strands.hooks import BeforeToolCallEvent
from strands.interrupt import InterruptException
from strands.session import FileSessionManager
from strands_kit import TOKENS, Says, answers, theirs, uses

from symfonic import DelegationOutcome, Limits, Options, SubAgent, delegation
from symfonic.adapters.strands import adopt
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import check_child_runner


def calling(function: Any, *more: Any, **settings: Any) -> Any:
    """An agent of theirs that calls a tool of its own, and then says "done"; four times."""
    return theirs(*[[uses(function.__name__)], "done"] * 4, tools=[tool(function), *more], **settings)


async def test_the_contract_of_a_child():
    await check_child_runner(answers, make_failing=lambda: theirs(ValueError("no"), again=True))


async def test_it_is_known_where_it_is_declared():
    record = await the_record(answers())
    assert record.delivered, record
    assert record.message == "Hallo"
    assert record.trace.result.result.message["content"] == [{"text": "Hallo"}]
    assert adopt("x", Says("a")) is None
    assert adopt("x", type(answers())) is None


class City(BaseModel):
    name: str
    inhabitants: int


async def test_a_structured_answer_is_json_and_the_object_is_kept():
    child = theirs([uses("City", name="Zürich", inhabitants=400_000)], structured_output_model=City)
    record = await the_record(child)
    assert record.delivered, record
    assert record.message.replace(" ", "") == '{"name":"Zürich","inhabitants":400000}'
    assert record.trace.result.result.structured_output == City(name="Zürich", inhabitants=400_000)


@pytest.mark.parametrize("blocks", [[{"text": ""}], [{"text": " \n"}], [{"thought": "I wonder"}], []])
async def test_an_empty_answer_and_one_that_is_only_thought_are_failures(blocks: Any):
    record = await the_record(theirs(blocks))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "wonder" not in record.message


async def test_the_text_of_several_blocks_is_the_answer_without_the_thoughts():
    record = await the_record(theirs([{"thought": "I wonder"}, {"text": "one"}, {"text": ""}, {"text": "two"}]))
    assert record.message == "one\ntwo"


async def test_an_exception_is_its_failure_with_its_words_and_the_original():
    error = ValueError("no such town")
    for replies in ([error], [[uses("note")], error]):  # the second comes wrapped
        record = await the_record(theirs(*replies))
        assert record.outcome is DelegationOutcome.CHILD_FAILED
        assert record.message == "Sub-agent 'child' failed: no such town"
        assert record.trace.error is error


async def test_that_it_stops_without_an_answer_is_its_failure():
    def stop(agent: Any) -> str:
        """Stop."""
        agent.cancel(message="enough")
        return "stopped"

    record = await the_record(calling(stop))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "it stopped without an answer (cancelled)" in record.message


async def test_a_timeout_and_a_cancellation_reach_it_and_it_can_be_called_again():
    child, waits = that_waits(calling)
    record = await a_timeout_reaches_it(child, waits)
    assert record.trace.usage == Usage(7, 3, 1, 1)
    assert child.messages == []
    assert (await the_record(child)).message == "done"

    child, waits = that_waits(calling)
    await a_cancellation_reaches_it(child, waits)
    assert child.messages == []


async def test_its_usage_is_its_own_count_of_this_invocation_and_failures_are_in_it():
    def note() -> str:
        """Note."""
        return "noted"

    child = theirs("before", [uses("note", "a"), uses("note", "b")], "done", tools=[tool(note)])
    await child.invoke_async("this is not counted")
    record = await the_record(child)
    metrics = record.trace.result.result.metrics
    own = metrics.agent_invocations[-1].usage
    assert metrics.accumulated_usage["inputTokens"] == own["inputTokens"] + TOKENS["inputTokens"]
    assert record.trace.usage == Usage(own["inputTokens"], own["outputTokens"], 2, 2)
    assert metrics.tool_metrics["note"].call_count == 2
    failing = await the_record(theirs([uses("note")], ValueError("down"), tools=[tool(note)]))
    assert failing.trace.usage == Usage(7, 3, 2, 1)


async def test_limits_of_the_tree_hold_inside_it():
    def note() -> str:
        """Note."""
        return "noted"

    for limit in ({"max_model_calls": 2}, {"max_tokens": 15}):
        await a_limit_ends_it(theirs([uses("note")], [uses("note")], "never", tools=[tool(note)]), **limit)


async def test_depth_lineage_and_scope_are_visible_inside_also_in_the_threads_of_its_tools():
    def calling_all(*functions: Any) -> Any:
        calls = [uses(each.__name__, each.__name__) for each in functions]
        return theirs(calls, "seen", tools=[tool(each) for each in functions])

    await where_it_runs_is_visible_in_its_tools(calling_all)


@pytest.mark.parametrize("synchronous", [False, True])
async def test_a_tool_of_theirs_that_runs_an_agent_of_ours_stays_under_the_ceiling(synchronous: bool):
    await an_agent_of_ours_in_its_tool_stays_under_the_ceiling(calling, synchronous=synchronous)


# Its conversation


async def test_every_delegation_begins_with_its_conversation_and_leaves_it_as_it_was():
    child = theirs("first", "second", ValueError("down"), messages=[{"role": "user", "content": [{"text": "Mind me"}]}])
    before = list(child.messages)
    capability = delegation([SubAgent("child", child, "Works.")])
    assert [await ask(capability, task="one"), await ask(capability, task="two")] == ["first", "second"]
    assert "down" in await ask(capability, task="three")
    assert child.model.sent == [["Mind me", "one"], ["Mind me", "two"], ["Mind me", "three"]]
    assert [each["content"] for each in child.messages] == [each["content"] for each in before]


async def test_with_a_session_manager_the_conversation_goes_on(tmp_path: Any):
    child = theirs("first", "second", session_manager=FileSessionManager("one", storage_dir=str(tmp_path)))
    capability = delegation([SubAgent("child", child, "Works.")])
    await ask(capability, task="one")
    await ask(capability, task="two")
    assert child.model.sent == [["one"], ["one", "first", "two"]]


@pytest.mark.parametrize("limits", [None, Limits(max_concurrency=1)])
async def test_called_twice_at_once_it_takes_one_after_the_other_wherever_it_is_declared(limits: Any):
    work = turns_kit.Work()
    child = calling(work.tool)
    run = await turns_kit.called_twice_at_once_it_takes_one_after_the_other({"ann": child, "bob": child}, work, limits)
    assert run.usage == Usage(56, 24, 8, 4)
    assert all(len(sent) == 1 for sent in child.model.sent), child.model.sent


async def test_with_few_places_in_the_tree_those_who_wait_for_a_turn_hold_none():
    await turns_kit.those_who_wait_for_a_turn_hold_no_place(calling)


async def test_called_from_below_itself_it_is_refused_and_not_waited_for():
    text = await turns_kit.called_from_below_itself_it_is_refused(calling)
    assert "'child' cannot be called from below itself" in text


async def test_two_that_call_each_other_do_not_wait_for_each_other_for_ever():
    await turns_kit.two_that_call_each_other_do_not_wait_for_ever(calling)


async def test_what_is_going_on_with_it_elsewhere_is_left_alone():
    child, waits = that_waits(calling)
    own = asyncio.create_task(child.invoke_async("mine"))
    await waits.began.wait()
    before = child.messages, len(child.messages)
    record = await the_record(child)
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "already processing a request" in record.message
    assert record.trace.usage == Usage()
    assert (child.messages, len(child.messages)) == before
    assert child.messages is before[0]
    own.cancel()
    with pytest.raises(asyncio.CancelledError):
        await own


# What pauses


async def test_a_pause_inside_it_is_a_signal_where_it_is_named_and_else_its_failure():
    def pay() -> str:
        """Pay."""
        return "paid"

    def approve(event: BeforeToolCallEvent) -> None:
        event.interrupt("approval", reason={"amount": 7})

    def that_pauses() -> Any:
        child = calling(pay)
        child.add_hook(approve)
        return child

    with pytest.raises(InterruptException) as caught:
        await lead(that_pauses(), options=Options(pass_through=(InterruptException,))).run("go")
    assert (caught.value.interrupt.name, caught.value.interrupt.reason) == ("approval", {"amount": 7})
    child = that_pauses()
    record = await the_record(child)
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert 'it waits for an answer to approval ({"amount": 7}), which nobody here can give' in record.message
    assert child.messages == []
    assert (await the_record(child)).message == "done"  # the pause was forgotten with the conversation
