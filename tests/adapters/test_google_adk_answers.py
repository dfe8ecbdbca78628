"""What is the answer of an agent of Google's ADK, of all that was said in its run."""

import json
from typing import Any

import pytest

pytest.importorskip("google.adk")

from adapter_kit import the_record
from google.adk.agents import LoopAgent, ParallelAgent, SequentialAgent
from google.adk.models import LlmResponse
from google.adk.tools import ToolContext, exit_loop
from google.adk.workflow import START, JoinNode, Workflow
from google.genai import types
from google_adk_kit import note, says, the_old_workflows, theirs, thinks, uses
from pydantic import BaseModel

from symfonic import DelegationOutcome


class City(BaseModel):
    name: str
    inhabitants: int


async def test_a_structured_answer_is_json_and_the_object_is_kept():
    text = '{"name": "Zürich", "inhabitants": 400000}'
    record = await the_record(theirs(text, output_schema=City))
    assert record.message == text
    flow = Workflow(name="flow", edges=[(START, theirs(text, output_schema=City))])
    record = await the_record(flow)
    assert record.message == text
    assert record.trace.result.result[-1].output == {"name": "Zürich", "inhabitants": 400000}


async def test_the_result_that_a_task_agent_hands_in_is_its_answer():
    child = theirs([says("I finish."), uses("finish_task", result="42 of them")], mode="task")
    assert (await the_record(child)).message == '{"result": "42 of them"}'


@pytest.mark.parametrize("parts", [[says("")], [says(" \n")], [thinks("I wonder")], []])
@pytest.mark.parametrize("stopped", [None, types.FinishReason.STOP])
async def test_an_empty_answer_and_one_that_is_only_thought_are_failures(parts: Any, stopped: Any):
    reply = LlmResponse(content=types.Content(role="model", parts=parts), finish_reason=stopped)
    record = await the_record(theirs(reply))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "wonder" not in record.message
    assert ("no final response" if stopped is None else "MODEL_RETURNED_NO_CONTENT") in record.message


async def test_the_text_of_several_parts_is_the_answer_without_the_thoughts():
    record = await the_record(theirs([thinks("I wonder"), says("one"), says(""), says(" two")]))
    assert record.message == "one two"


@pytest.mark.parametrize("stopped", [None, types.FinishReason.STOP])
async def test_what_was_said_beside_a_call_is_the_answer_where_nothing_is_said_after_it(stopped: Any):
    empty = LlmResponse(content=types.Content(role="model", parts=[]), finish_reason=stopped)
    record = await the_record(theirs([says("It is 4."), uses("note")], empty, tools=[note]))
    assert record.message == "It is 4."


async def test_a_run_that_ends_in_a_tools_response_has_no_answer_unless_that_is_meant_to_be_shown():
    def stop(tool_context: ToolContext) -> str:
        """Stop."""
        tool_context._invocation_context.end_invocation = True
        return "stopped"

    def show(tool_context: ToolContext) -> str:
        """Show."""
        tool_context.actions.skip_summarization = True
        return "shown"

    record = await the_record(theirs([says("I stop."), uses("stop")], tools=[stop]))
    assert record.outcome is DelegationOutcome.CHILD_FAILED, record
    assert record.message == "Sub-agent 'child' failed: it returned no final response"
    assert (await the_record(theirs([says("I show."), uses("show")], tools=[show]))).message == "shown"


async def test_a_model_that_reports_an_error_is_a_failure_with_its_words_unless_something_is_said_after_it():
    blocked = LlmResponse(error_code="SAFETY", error_message="not this")
    record = await the_record(theirs(blocked))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child' failed: its model gave no answer (SAFETY): not this"
    flow = Workflow(name="flow", edges=[(START, theirs(blocked), theirs("Hallo", name="second"))])
    assert (await the_record(flow)).message == "Hallo"


@the_old_workflows
async def test_of_agents_in_sequence_the_last_answers_and_of_agents_in_parallel_all_do():
    def two(**settings: Any) -> Any:
        return [theirs("from b", name="b", **settings), theirs("from a", name="a", **settings)]

    assert (await the_record(SequentialAgent(name="both", sub_agents=two()))).message == "from a"
    assert (await the_record(ParallelAgent(name="both", sub_agents=two()))).message == "from a\n\nfrom b"
    merged = SequentialAgent(
        name="all", sub_agents=[ParallelAgent(name="both", sub_agents=two()), theirs("merged", name="merger")]
    )
    assert (await the_record(merged)).message == "merged"
    join = JoinNode(name="join")
    ann, bob = two()
    flow = Workflow(name="flow", edges=[(START, ann, join), (START, bob, join)])
    assert json.loads((await the_record(flow)).message) == {"a": "from a", "b": "from b"}


@the_old_workflows
async def test_what_helps_an_agent_in_parallel_is_no_answer():
    helper = theirs("help", name="helper", mode="single_turn", description="Helps.")
    ann = theirs([uses("helper", request="go")], "from ann", name="ann", sub_agents=[helper])
    both = ParallelAgent(name="both", sub_agents=[ann, theirs("from bob", name="bob")])
    record = await the_record(Workflow(name="flow", edges=[(START, both)]))
    assert "help" in [each.content.parts[0].text for each in record.trace.result.result]
    assert record.message == "from ann\n\nfrom bob"


@the_old_workflows
async def test_a_loop_that_a_tool_ends_answers_with_what_was_said_last():
    checks = theirs([says("This will do."), uses("exit_loop")], name="checker", tools=[exit_loop])
    loop = LoopAgent(name="loop", sub_agents=[theirs("a draft", name="writer"), checks])
    assert (await the_record(loop)).message == "a draft"


async def test_an_agent_that_is_transferred_to_answers():
    child = theirs([uses("transfer_to_agent", agent_name="b")], sub_agents=[theirs("from b", name="b")])
    assert (await the_record(child)).message == "from b"
