"""Answers and texts: verbatim where they can be, always encodable, and never judged by what they say."""

import json
from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, Kind, answer, calls, child, delegates, raising, results

import symfonic
from symfonic import DelegationOutcome
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import ScriptedChild, tool_call

PATTERNS = "{x} {{y}} {0} %s %(z)d $x ${y} \\d #{q} <b>&amp;</b>"


async def test_braces_and_percent_signs_arrive_verbatim_in_task_answer_and_description(kind: Kind) -> None:
    worker = ScriptedChild(f"answer {PATTERNS}")
    described: list[str] = []

    def fn(messages: Any, tools: Any) -> Any:
        described.append(tools[0].description)
        return delegates("child", f"task {PATTERNS}")(messages, tools)

    sub_agent = symfonic.SubAgent("child", worker, f"Does {PATTERNS}.", f"when {PATTERNS}")
    result = await kind.agent(fn, sub_agents=[sub_agent]).run("go")
    assert worker.calls[0].query == f"task {PATTERNS}"
    assert result.text == f"answer {PATTERNS}"
    assert described[0].endswith(f"  - child: Does {PATTERNS}. (when {PATTERNS})")


async def test_braces_and_percent_signs_arrive_verbatim_in_errors(kind: Kind) -> None:
    result = await kind.agent(delegates(), sub_agents=[child(raising(ValueError(PATTERNS)))]).run("go")
    assert result.text == f"Sub-agent 'child' failed: {PATTERNS}"


async def test_braces_and_percent_signs_arrive_verbatim_in_a_tools_result_and_error(kind: Kind) -> None:
    async def good() -> str:
        return PATTERNS

    async def bad() -> str:
        raise ValueError(PATTERNS)

    tools = [kind.tool(good), kind.tool(bad)]
    result = await kind.agent(calls(tool_call("good"), tool_call("bad")), tools=tools).run("go")
    assert results(result) == [PATTERNS, f"Tool 'bad' failed: {PATTERNS}"]


@pytest.mark.parametrize("text", ['{"error": "all is lost"}', "Sub-agent 'child' failed: not really", "Error: no"])
async def test_the_outcome_never_comes_from_reading_the_answer(text: str, kind: Kind) -> None:
    result = await kind.agent(delegates(), sub_agents=[child(ScriptedChild(text))]).run("go")
    assert result.delegations[0].outcome is DelegationOutcome.DELIVERED
    assert result.text == text
    assert result.delegated_to == ("child",)


async def test_an_answer_that_holds_an_error_in_a_mapping_is_delivered(kind: Kind) -> None:
    result = await kind.agent(delegates(), sub_agents=[child(ScriptedChild({"error": "…"}))]).run("go")
    assert result.delegations[0].delivered
    assert json.loads(result.text) == {"error": "…"}


async def test_a_child_that_recovered_from_an_inner_failure_delivered(kind: Kind) -> None:
    def recovering(messages: Any, tools: Any) -> Any:
        return "recovered" if messages[-1].role == "tool" else tool_call("run_agent", name="inner", task="x")

    middle = kind.agent(recovering, sub_agents=[child(raising(OSError("gone")), "inner")])
    result = await kind.agent(delegates(), sub_agents=[child(middle)]).run("go")
    [record] = result.delegations
    assert (record.outcome, record.message) == (DelegationOutcome.DELIVERED, "recovered")
    assert [each.outcome for each in record.children] == [DelegationOutcome.CHILD_FAILED]


@pytest.mark.parametrize("nothing", [None, "", "   \n", 0, False, [], {}])
async def test_no_answer_is_a_value(nothing: Any, kind: Kind) -> None:
    result = await kind.agent(delegates(), sub_agents=[child(ScriptedChild(nothing))]).run("go")
    assert result.text == "Sub-agent 'child' failed: it returned no final response"
    assert result.delegations[0].outcome is DelegationOutcome.CHILD_FAILED
    assert result.delegated_to == ()


async def test_an_agent_whose_model_says_nothing_gave_no_answer(kind: Kind) -> None:
    result = await kind.agent(delegates(), sub_agents=[child(kind.agent(answer("  ")))]).run("go")
    [record] = result.delegations
    assert record.message == "Sub-agent 'child' failed: it returned no final response"
    assert record.run_id == record.trace.child.run_id


async def test_an_answer_is_stripped_for_the_parent(kind: Kind) -> None:
    result = await kind.agent(delegates(), sub_agents=[child(kind.agent(answer("\n it is so \n")))]).run("go")
    assert results(result) == ["it is so"]


LONE = "high \ud83d low \udc00 fine \U0001f600"
MENDED = "high \ufffd low \ufffd fine \U0001f600"


def encoded(result: Any) -> bytes:
    """The whole conversation as bytes; fails where a lone surrogate is left."""
    told = [(m.role, m.text, m.name, m.tool_call_id, [repr_of(c) for c in m.tool_calls]) for m in result.messages]
    return json.dumps(told, ensure_ascii=False).encode()


def repr_of(call: ToolCall) -> Any:
    return [call.id, call.name, call.arguments if isinstance(call.arguments, str) else dict(call.arguments)]


async def test_lone_surrogates_in_a_models_answer_are_replaced(kind: Kind) -> None:
    assert (await kind.agent(answer(LONE)).run("go")).text == MENDED


async def test_lone_surrogates_in_a_childs_answer_are_replaced(kind: Kind) -> None:
    result = await kind.agent(delegates(), sub_agents=[child(ScriptedChild(LONE))]).run("go")
    assert result.text == result.delegations[0].message == MENDED


async def test_lone_surrogates_in_errors_are_replaced(kind: Kind) -> None:
    result = await kind.agent(delegates(), sub_agents=[child(raising(ValueError(LONE)))]).run("go")
    assert result.text == f"Sub-agent 'child' failed: {MENDED}"


async def test_lone_surrogates_in_a_tools_result_and_error_are_replaced(kind: Kind) -> None:
    async def good() -> dict[str, str]:
        return {LONE: LONE}

    async def bad() -> str:
        raise ValueError(LONE)

    tools = [kind.tool(good), kind.tool(bad)]
    result = await kind.agent(calls(tool_call("good"), tool_call("bad")), tools=tools).run("go")
    assert results(result) == [json.dumps({MENDED: MENDED}, ensure_ascii=False), f"Tool 'bad' failed: {MENDED}"]


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("c1", "run_agent", {"name": "child", "task": LONE}),
        ToolCall("c1", "run_agent", '{"name": "child", "task": "high \\ud83d low \\udc00 fine \\ud83d\\ude00"}'),
        ToolCall("c1", "run_agent", json.dumps({"name": "child", "task": LONE}, ensure_ascii=False)),
    ],
    ids=["an object", "escaped in JSON", "raw in JSON"],
)
async def test_lone_surrogates_in_a_models_task_are_replaced_before_the_child_reads_it(call: ToolCall) -> None:
    worker = ScriptedChild("done")
    result = await NATIVE.agent(calls(call), sub_agents=[child(worker)]).run("go")
    assert [each.query for each in worker.calls] == [MENDED]
    assert encoded(result)


@pytest.mark.parametrize(
    "call",
    [
        ToolCall(LONE, LONE, {LONE: [LONE, {LONE: LONE}]}),
        ToolCall(LONE, "work", {LONE: LONE}),
        ToolCall(LONE, "work", f"{{{LONE}"),
        ToolCall(LONE, "run_agent", {"name": LONE, "task": LONE}),
    ],
    ids=["unknown tool", "surplus argument", "not JSON", "unknown child"],
)
async def test_whatever_a_model_calls_with_lone_surrogates_the_conversation_can_be_encoded(call: ToolCall) -> None:
    async def work() -> str:
        return "worked"

    agent = NATIVE.agent(calls(call), tools=[work], sub_agents=[child(ScriptedChild())])
    result = await agent.run("go")
    assert encoded(result)
    for record in result.delegations:
        f"{record.name}{record.message}{record.trace.task}".encode()


async def test_a_reply_with_text_and_calls_keeps_both(kind: Kind) -> None:
    def fn(messages: Any, tools: Any) -> Any:
        if messages[-1].role == "tool":
            return "over"
        return ModelReply("let me see", (tool_call("run_agent", name="child", task="t"),))

    result = await kind.agent(fn, sub_agents=[child(ScriptedChild("seen"))]).run("go")
    user, said, heard, last = result.messages
    assert (said.text, len(said.tool_calls), heard.text, last.text) == ("let me see", 1, "seen", "over")
    assert heard.tool_call_id == said.tool_calls[0].id
    assert (user.role, user.text) == ("user", "go")


async def test_a_value_as_the_prompt_is_json_text(kind: Kind) -> None:
    def fn(messages: Any, tools: Any) -> str:
        return messages[-1].text

    agent = kind.agent(fn)
    assert (await agent.run({"straße": [True, None]})).text == '{"straße": [true, null]}'
    assert (await agent.run("7")).text == "7"


async def test_the_childs_whole_result_stays_on_the_record() -> None:
    async def act(query: str) -> Any:
        return {"kept": query}

    result = await NATIVE.agent(delegates(), sub_agents=[child(Child(act))]).run("go")
    assert result.delegations[0].trace.result.final_response == {"kept": "the task"}
