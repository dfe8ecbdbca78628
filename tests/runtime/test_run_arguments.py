"""What models send as tasks and arguments: every oddity has one stated outcome, and the run goes on."""

import json
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from runtime_fakes import NATIVE, Kind, calls, child, delegates, results

import symfonic
from symfonic.agent.cutover.delegation import bind_contributed_tool, delegation_for_children
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.testing import ScriptedChild, tool_call

TASKS = [
    ("do it", "do it"),
    ({"description": "do it", "type": "str"}, '{"description": "do it", "type": "str"}'),
    (["do it"], '["do it"]'),
    (None, ""),
    (7, "7"),
    (1.5, "1.5"),
    (True, "true"),
    ("", ""),
    ("   ", "   "),
    ('{"looks": "like JSON"}', '{"looks": "like JSON"}'),
    ({"stadt": "Zürich", "für": ["ё"]}, '{"stadt": "Zürich", "für": ["ё"]}'),
    ("braces {x} {{y}} %s $z \\n", "braces {x} {{y}} %s $z \\n"),
    ("line\r\nbreaks\ttabs\u2028", "line\r\nbreaks\ttabs\u2028"),
]


@pytest.mark.parametrize(("task", "text"), TASKS)
async def test_a_task_reaches_the_child_as_this_text_through_a_models_call(task: Any, text: str, kind: Kind) -> None:
    worker = ScriptedChild("done")
    result = await kind.agent(delegates("child", task), sub_agents=[child(worker)]).run("go")
    assert [call.query for call in worker.calls] == [text]
    assert result.delegations[0].trace.task == text
    assert result.text == "done"


@pytest.mark.parametrize(("task", "text"), TASKS)
async def test_a_task_is_the_same_text_through_the_raw_spec_and_the_bound_tool(task: Any, text: str) -> None:
    worker = ScriptedChild("done")
    delegation = delegation_for_children([child(worker)], max_depth=2)
    spec = delegation.tool_specs()[0]
    bound = bind_contributed_tool(spec)
    assert await spec.coroutine(name="child", task=task) == "done"
    assert await bound.ainvoke({"name": "child", "task": task}) == "done"
    assert [call.query for call in worker.calls] == [text, text]


async def test_a_task_that_is_missing_is_a_value_and_the_child_does_not_run(kind: Kind) -> None:
    worker = ScriptedChild()
    agent = kind.agent(calls(tool_call("run_agent", name="child")), sub_agents=[child(worker)])
    result = await agent.run("go")
    assert "'task'" in result.text
    assert worker.calls == []


class Counted:
    """A tool that counts its calls."""

    def __init__(self) -> None:
        self.got: list[Any] = []

    def offered(self, kind: Kind) -> Any:
        async def measure(city: str, days: int = 3) -> str:
            self.got.append((city, days))
            return f"{city}: {days}"

        return kind.tool(measure)


SURPLUS = [{"query": "x"}, {"parameters": {}}, {"task": "t", "name": "n"}, {"self": 1}]


@pytest.mark.parametrize("extra", SURPLUS, ids=str)
async def test_an_argument_too_many_is_a_value_that_says_what_the_tool_takes(extra: Any, kind: Kind) -> None:
    tool = Counted()
    agent = kind.agent(calls(tool_call("measure", city="Oslo", **extra)), tools=[tool.offered(kind)])
    text = (await agent.run("go")).text
    assert all(repr(name) in text for name in extra)
    assert "city" in text
    assert "days" in text
    assert tool.got == []


async def test_an_argument_too_many_for_a_delegation_is_a_value(kind: Kind) -> None:
    worker = ScriptedChild()
    call = tool_call("run_agent", name="child", task="t", context="all of it")
    result = await kind.agent(calls(call), sub_agents=[child(worker)]).run("go")
    assert "'context'" in result.text
    assert worker.calls == []
    assert result.delegations == ()


async def test_a_missing_argument_is_a_value_that_names_it_and_what_the_tool_takes(kind: Kind) -> None:
    tool = Counted()
    result = await kind.agent(calls(tool_call("measure", days=1)), tools=[tool.offered(kind)]).run("go")
    assert "'city'" in result.text
    assert "days" in result.text
    assert tool.got == []


async def test_exactly_the_required_arguments_are_enough(kind: Kind) -> None:
    tool = Counted()
    result = await kind.agent(calls(tool_call("measure", city="Oslo")), tools=[tool.offered(kind)]).run("go")
    assert result.text == "Oslo: 3"
    assert tool.got == [("Oslo", 3)]


async def test_an_argument_of_the_wrong_type_is_a_value_and_the_tool_does_not_run(kind: Kind) -> None:
    tool = Counted()
    agent = kind.agent(calls(tool_call("measure", city="Oslo", days="many")), tools=[tool.offered(kind)])
    result = await agent.run("go")
    assert "days" in result.text
    assert tool.got == []


NOISE = [
    "{",
    "[1]",
    "null",
    "7",
    '"text"',
    "{'city': 'Oslo'}",
    "x" * 2_000_000,
    "[" * 100_000,
    '{"city": ' + "9" * 5000,
]


@pytest.mark.parametrize("raw", NOISE, ids=lambda raw: raw[:12])
@pytest.mark.parametrize("tool_name", ["measure", "run_agent"])
async def test_arguments_that_are_no_json_object_are_a_value_with_a_short_preview(
    raw: str, tool_name: str, kind: Kind
) -> None:
    tool, worker = Counted(), ScriptedChild()
    agent = kind.agent(calls(ToolCall("c1", tool_name, raw)), tools=[tool.offered(kind)], sub_agents=[child(worker)])
    result = await agent.run("go")
    assert "JSON" in result.text
    assert raw[:10] in result.text
    assert len(result.text) < 400
    assert (tool.got, worker.calls) == ([], [])


async def test_arguments_nested_beyond_reading_are_a_value() -> None:
    deep: Any = {}
    for _ in range(5000):
        deep = {"x": deep}
    tool = Counted()
    agent = NATIVE.agent(calls(tool_call("measure", city=deep)), tools=[tool.offered(NATIVE)])
    assert "nested too deeply" in (await agent.run("go")).text
    assert tool.got == []


@pytest.mark.parametrize("raw", ["", "  ", "{}"])
async def test_blank_arguments_are_no_arguments(raw: str) -> None:
    async def now() -> str:
        return "noon"

    result = await NATIVE.agent(calls(ToolCall("c1", "now", raw)), tools=[now]).run("go")
    assert result.text == "noon"


async def test_arguments_as_json_text_are_parsed(kind: Kind) -> None:
    tool = Counted()
    raw = json.dumps({"city": "Århus", "days": 2})
    result = await kind.agent(calls(ToolCall("c1", "measure", raw)), tools=[tool.offered(kind)]).run("go")
    assert result.text == "Århus: 2"


async def test_a_tool_that_does_not_exist_is_a_value_that_lists_what_does(kind: Kind) -> None:
    tool = Counted()
    agent = kind.agent(
        calls(tool_call("weather", city="Oslo")), tools=[tool.offered(kind)], sub_agents=[child(ScriptedChild())]
    )
    text = (await agent.run("go")).text
    assert "'weather'" in text
    assert "measure, run_agent, list_agents" in text


async def test_a_tool_that_does_not_exist_where_there_are_none_is_a_value(kind: Kind) -> None:
    assert "(none)" in (await kind.agent(calls(tool_call("weather"))).run("go")).text


async def test_the_run_goes_on_after_every_bad_call(kind: Kind) -> None:
    tool = Counted()
    script = [
        tool_call("weather"),
        ToolCall("c1", "measure", "{"),
        tool_call("measure"),
        tool_call("measure", city="Oslo", query="x"),
        tool_call("measure", city="Oslo"),
        "sunny",
    ]
    result = await symfonic.Agent(kind.script(*script), tools=[tool.offered(kind)]).run("go")
    assert result.text == "sunny"
    assert tool.got == [("Oslo", 3)]
    assert [message.role for message in result.messages] == ["user", *["assistant", "tool"] * 5, "assistant"]


async def test_a_tools_result_is_text_as_it_is_and_json_otherwise(kind: Kind) -> None:
    async def made() -> dict[str, Any]:
        return {"straße": [1, None, True], "nested": {"a": 1.5}}

    async def said() -> str:
        return "{'not': 'json'} %s {x}"

    agent = kind.agent(calls(tool_call("made"), tool_call("said")), tools=[kind.tool(made), kind.tool(said)])
    assert results(await agent.run("go")) == [
        '{"straße": [1, null, true], "nested": {"a": 1.5}}',
        "{'not': 'json'} %s {x}",
    ]


async def test_a_native_and_a_langchain_tool_serve_one_agent_side_by_side(kind: Kind) -> None:
    async def theirs(n: int) -> str:
        return f"theirs {n}"

    async def ours(n: int) -> str:
        return f"ours {n}"

    tools = [StructuredTool.from_function(coroutine=theirs, description="Theirs."), ours]
    result = await kind.agent(calls(tool_call("ours", n=1), tool_call("theirs", n=2)), tools=tools).run("go")
    assert result.text == "ours 1\ntheirs 2"
