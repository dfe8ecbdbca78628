"""Agents of smolagents as children: which can be one, what they answer, how they fail, and what they remember."""

from typing import Any

import pytest
from adapter_kit import lead, the_record

pytest.importorskip("smolagents")

from PIL import Image
from smolagents import ToolCallingAgent, tool
from smolagents_kit import Says, answer, code, coder, note, theirs

from symfonic import DelegationOutcome, Options
from symfonic.adapters.smolagents import SmolagentsChild, adopt
from symfonic.testing import check_child_runner


async def test_the_contract_of_a_child():
    await check_child_runner(lambda: theirs(answer("Hallo")), make_failing=lambda: theirs(ValueError("no")))


async def test_both_kinds_are_known_where_they_are_declared():
    for agent in (theirs(answer("Hallo")), coder(code("final_answer('Hallo')"))):
        record = await the_record(agent)
        assert record.delivered, record
        assert record.message == "Hallo"
        assert record.trace.result.result.output == "Hallo"
        assert record.trace.result.result.state == "success"
        assert isinstance(adopt("x", agent), SmolagentsChild)
    assert adopt("x", Says()) is None
    assert adopt("x", ToolCallingAgent) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [({"name": "Zürich", "big": True}, '{"name":"Zürich","big":true}'), ([1, 2], "[1,2]"), (0, "0"), (False, "false")],
)
async def test_a_structured_answer_is_json_and_the_object_is_kept(value: Any, text: str):
    for agent in (theirs(answer(value)), coder(code(f"final_answer({value!r})"))):
        record = await the_record(agent)
        assert record.delivered, record
        assert record.message.replace(" ", "") == text
        assert record.trace.result.result.output == value


async def test_a_picture_is_the_path_of_its_file():
    @tool  # type: ignore[untyped-decorator]
    def draw() -> "Image.Image":
        """Draw."""
        return Image.new("RGB", (1, 1))

    draw.output_type = "image"
    record = await the_record(coder(code("final_answer(draw())"), tools=[draw]))
    assert record.message.endswith(".png")


@pytest.mark.parametrize("value", ["", " \n", None])
async def test_an_empty_answer_is_a_failure(value: Any):
    record = await the_record(theirs(answer(value)))
    assert record.message == "Sub-agent 'child' failed: it returned no final response"


async def test_what_it_says_after_its_last_step_is_its_answer_and_if_it_cannot_it_failed():
    record = await the_record(theirs([("note", {"text": "a"})], "as far as I came", tools=[note], max_steps=1))
    assert (record.message, record.trace.usage.model_calls) == ("as far as I came", 2)
    assert record.trace.result.result.state == "max_steps_error"
    record = await the_record(theirs([("note", {"text": "a"})], ValueError("down"), tools=[note], max_steps=1))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "max_steps" in record.message
    assert "down" in record.message


async def test_an_exception_is_its_failure_with_its_words_and_the_original():
    error = ValueError("no such town")
    record = await the_record(theirs(error))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message.startswith("Sub-agent 'child' failed: ")
    assert "no such town" in record.message
    assert record.trace.error.__cause__ is error
    blank = await the_record(theirs(TimeoutError()))
    assert "TimeoutError" in blank.message
    assert blank.trace.error.__cause__.__cause__ is not None


async def test_a_tool_that_failed_is_for_its_model_and_no_failure():
    @tool  # type: ignore[untyped-decorator]
    def fail() -> str:
        """Fail."""
        raise ValueError("wet paper")

    record = await the_record(theirs([("fail", {})], answer("done anyway"), tools=[fail]))
    assert record.message == "done anyway"


class PauseError(Exception):
    pass


async def test_a_signal_passes_through_with_its_identity():
    signal = PauseError("may I?")

    @tool  # type: ignore[untyped-decorator]
    def ask() -> str:
        """Ask."""
        raise signal

    managed = theirs([("ask", {})], answer("no"), tools=[ask], name="helper", description="Helps.")
    manager = theirs([("helper", {"task": "help"})], answer("no"), managed_agents=[managed])
    for agent in (
        theirs([("ask", {})], answer("no"), tools=[ask]),
        coder(code("ask()"), code("final_answer(1)"), tools=[ask]),
        manager,
        theirs(signal),
    ):
        with pytest.raises(PauseError) as raised:
            await lead(agent, options=Options(pass_through=(PauseError,))).run("go")
        assert raised.value is signal
    assert (await the_record(theirs([("ask", {})], answer("went on"), tools=[ask]))).message == "went on"


async def test_its_memory_begins_anew_and_its_state_stays():
    child = coder(code("count = count + 1"), code("final_answer(count)"))
    child.state["count"] = 0
    child.python_executor.state["kept"] = "yes"
    for _ in range(2):
        assert (await the_record(child)).message == "1"
    assert [len(messages) for messages in child.model.seen] == [2, 5, 2, 5]
    assert child.python_executor.state["kept"] == "yes"
