"""Agents of agent-framework as children: which can be one, what they answer, how they fail, and what pauses."""

from typing import Any

import pytest

pytest.importorskip("agent_framework")

from adapter_kit import lead, the_record
from agent_framework import (
    Agent,
    AgentResponse,
    Content,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    MiddlewareTermination,
    RawAgent,
    function_middleware,
)
from agent_framework.exceptions import ChatClientException, UserInputRequiredException
from agent_framework_kit import Remote, Replies, Says, answers, calling, note, that_pays, theirs, uses
from pydantic import BaseModel

from symfonic import DelegationOutcome, Options
from symfonic.adapters.agent_framework import InputNeededError, adopt
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import check_child_runner

# What can be a child, and its answer


async def test_the_contract_of_a_child():
    await check_child_runner(answers, make_failing=lambda: theirs(ValueError("no"), again=True))


async def test_it_is_known_where_it_is_declared():
    record = await the_record(answers())
    assert record.delivered, record
    assert record.message == "Hallo"
    assert record.trace.result.result.messages[0].text == "Hallo"

    class Fixed(Remote):
        id = name = description = "fixed"

    for other in (Says(replies=["a"]), Agent, Fixed, note):
        assert adopt("x", other) is None


async def test_an_agent_without_middleware_is_seen_by_its_client():
    record = await the_record(RawAgent(Says(replies=[[uses("note")], "Hallo"]), tools=[note]))
    assert (record.message, record.trace.usage) == ("Hallo", Usage(14, 6, 2, 1))


async def test_agents_that_cannot_be_looked_into_are_children_too():
    for child in (Agent(Unlayered(replies=["Hallo"])), Remote()):
        record = await the_record(child)
        assert record.delivered, record
        assert (record.message, record.trace.usage) == ("Hallo", Usage(7, 3, 1))


class Unlayered(FunctionInvocationLayer, Replies):
    """A client that runs tools and no middleware."""


class City(BaseModel):
    name: str
    inhabitants: int


async def test_a_structured_answer_is_json_and_the_object_is_kept():
    child = theirs('{"name": "Zürich", "inhabitants": 400000}', default_options={"response_format": City})
    record = await the_record(child)
    assert record.message.replace(" ", "") == '{"name":"Zürich","inhabitants":400000}'
    assert record.trace.result.result.value == City(name="Zürich", inhabitants=400_000)


async def test_a_structured_answer_that_does_not_fit_is_a_failure():
    record = await the_record(theirs("Zürich", default_options={"response_format": City}))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.trace.usage == Usage(7, 3, 1)


@pytest.mark.parametrize("contents", [[], [""], [" \n"], [Content.from_text_reasoning(text="I wonder")]])
async def test_an_empty_answer_and_one_that_is_only_thought_are_failures(contents: Any):
    for messages in ([], [Message("assistant", contents)]):
        record = await the_record(Remote(AgentResponse(messages=messages)))
        assert record.outcome is DelegationOutcome.CHILD_FAILED
        assert "wonder" not in record.message


async def test_the_last_message_that_says_something_is_the_answer():
    said = [Message("assistant", ["first"]), Message("assistant", ["second"]), Message("assistant", [" "])]
    assert (await the_record(Remote(AgentResponse(messages=said)))).message == "second"
    child = theirs([Content.from_text("Let me look."), uses("note")], "42", tools=[note])
    assert (await the_record(child)).message == "42"


async def test_what_was_said_before_a_tool_is_no_answer_where_the_run_ends_in_its_result():
    @function_middleware
    async def end(context: FunctionInvocationContext, call_next: Any) -> None:
        context.result = "noted"
        raise MiddlewareTermination

    child = theirs([Content.from_text("Let me look."), uses("note")], "never", tools=[note], middleware=[end])
    record = await the_record(child)
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "look" not in record.message


async def test_an_answer_that_is_still_being_made_is_a_failure():
    response = AgentResponse(messages=[Message("assistant", ["so far"])], continuation_token={"token": "t"})  # type: ignore[typeddict-unknown-key]
    record = await the_record(Remote(response))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "it goes on in the background" in record.message


# How it fails


async def test_an_exception_is_its_failure_with_its_words_and_the_original():
    error = ValueError("no such town")
    record = await the_record(theirs([uses("note")], error, tools=[note]))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child' failed: no such town"
    assert record.trace.error is error
    assert record.trace.usage == Usage(7, 3, 2, 1)


async def test_an_error_of_theirs_that_stands_for_another_has_its_own_words_alone():
    inner = OSError("refused")
    error = ChatClientException("the service cannot be reached", inner)
    record = await the_record(theirs(error))
    assert record.message == "Sub-agent 'child' failed: the service cannot be reached"
    assert record.trace.error is error
    assert error.__cause__ is inner


# What pauses


async def test_a_needed_approval_is_its_failure_with_words():
    record = await the_record(that_pays())
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert 'it waits for an approval of pay({"amount": 7}), which nobody here can give' in record.message
    assert record.trace.usage == Usage(7, 3, 1)


async def test_a_needed_approval_is_a_signal_where_it_is_named_and_the_run_can_go_on():
    signals = (InputNeededError, UserInputRequiredException)  # an approval is never the second one
    with pytest.raises(InputNeededError) as caught:
        await lead(that_pays(), options=Options(pass_through=signals)).run("go")
    needed = caught.value
    [request] = needed.response.user_input_requests
    answer = Message("user", [request.to_function_approval_response(approved=True)])
    assert (await needed.agent.run(answer, session=needed.session)).text == "done"
    assert needed.agent.client.sent == [["go"], ["go"]]  # type: ignore[attr-defined]


elsewhere = FunctionTool(name="elsewhere", description="Done by somebody else.", input_model={"type": "object"})


async def test_a_call_that_others_are_to_carry_out_is_told_the_same_way():
    for options in (None, Options(pass_through=(UserInputRequiredException,))):
        record = await the_record(theirs([uses("elsewhere", what="it")], tools=[elsewhere]), options=options)
        assert 'it waits for a result from outside of elsewhere({"what": "it"})' in record.message
        assert isinstance(record.trace.error, InputNeededError)


async def test_any_other_needed_input_is_a_signal_of_theirs_where_that_is_named_and_else_its_failure():
    def sign_in() -> str:
        """Sign in."""
        raise UserInputRequiredException([Content.from_oauth_consent_request("https://sign.in")])

    with pytest.raises(UserInputRequiredException) as caught:
        await lead(calling(sign_in), options=Options(pass_through=(UserInputRequiredException,))).run("go")
    [request] = caught.value.contents
    assert request.consent_link == "https://sign.in"
    record = await the_record(calling(sign_in))
    assert "it waits for an answer to oauth_consent_request, which nobody here can give" in record.message


async def test_a_signal_that_a_tool_of_theirs_raises_passes_through_and_another_error_is_the_tools_result():
    class StopError(Exception):
        pass

    def stop() -> str:
        """StopError."""
        raise StopError("here")

    def fail() -> str:
        """Fail."""
        raise ValueError("down")

    with pytest.raises(StopError, match="here"):
        await lead(calling(stop), options=Options(pass_through=(StopError,))).run("go")
    assert (await the_record(calling(fail), options=Options(pass_through=(StopError,)))).message == "done"
    assert (await the_record(calling(stop))).message == "done"
