"""Specs as runtime tools, and as tools of LangChain."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.tools import StructuredTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from symfonic.agent.cutover.binding import (
    bind_contributed_tool,
    bind_contributed_tools,
    check_parameters,
    tool_from_spec,
)
from symfonic.agent.cutover.langchain_tools import structured_tool, tool_from_langchain
from symfonic.errors import ConfigurationError, SymfonicError
from tool_kit import call, delegation, spec, work


def test_a_langchain_tool_comes_back_untouched_though_it_has_a_coroutine() -> None:
    class Own(BaseModel):
        task: int

    bound = StructuredTool(name="t", description="d", coroutine=work, args_schema=Own)
    assert bind_contributed_tool(bound) is bound
    assert bound.args_schema is Own


def test_what_is_bound_already_is_not_bound_again() -> None:
    bound = bind_contributed_tool(spec(work, "name", "task", "note"))
    assert bind_contributed_tool(bound) is bound


@pytest.mark.parametrize("offered", [object(), None, "text", work])
def test_what_has_no_coroutine_comes_back_untouched(offered: Any) -> None:
    assert bind_contributed_tool(offered) is offered


def test_a_runtime_tool_comes_back_untouched() -> None:
    native = tool_from_spec(spec(work))
    assert bind_contributed_tool(native) is native


def test_a_coroutine_that_cannot_be_called_is_none() -> None:
    @dataclass
    class Odd:
        coroutine: Any = "text"

    odd = Odd()
    assert bind_contributed_tool(odd) is odd


@pytest.mark.parametrize("bind", [bind_contributed_tool, tool_from_spec])
@pytest.mark.parametrize("declared", [("name", "query"), ("name",), ("name", "task", "note", "more"), ("a",)])
def test_declared_parameters_that_are_not_the_coroutines_name_both(bind: Any, declared: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        bind(spec(work, *declared))
    assert "'work'" in str(caught.value)
    assert f"({', '.join(declared)})" in str(caught.value)
    assert "(name, task, note)" in str(caught.value)


def test_a_catch_all_takes_every_declared_name() -> None:
    async def anything(**arguments: Any) -> Any:
        return arguments

    check_parameters("t", ("name", "task"), anything)
    bound = bind_contributed_tool(spec(anything, "name", "task"))
    assert asyncio.run(bound.ainvoke({"name": "a", "task": 1})) == {"name": "a", "task": 1}


def test_an_empty_declaration_checks_nothing_and_takes_the_signature() -> None:
    bound = bind_contributed_tool(spec(work))
    assert set(bound.args) == {"name", "task", "note"}
    assert asyncio.run(bound.ainvoke({"name": "a", "task": 1})) == ["a", 1, "none"]


def test_a_signature_that_cannot_be_read_is_refused_by_name() -> None:
    class Odd:
        __signature__ = "none"

        async def __call__(self, a: int) -> None: ...

    for parameters in ((), ("a",)):
        for bind in (bind_contributed_tool, tool_from_spec):
            with pytest.raises(ConfigurationError, match=r"'work'.*cannot be read"):
                bind(spec(Odd(), *parameters))


def test_binding_pairs_keeps_pairing_and_order() -> None:
    ready = bind_contributed_tool(spec(work, name="ready"))
    pairs = bind_contributed_tools([("one", spec(work, name="a")), ("two", ready), ("one", None)])
    assert [(capability, getattr(bound, "name", None)) for capability, bound in pairs] == [
        ("one", "a"),
        ("two", "ready"),
        ("one", None),
    ]
    assert pairs[1][1] is ready


def test_the_bound_tool_is_a_structured_tool_with_a_model_for_its_schema() -> None:
    bound = bind_contributed_tool(spec(work, "name", "task", "note"))
    assert isinstance(bound, StructuredTool)
    assert (bound.name, bound.description, bound.coroutine) == ("work", "Works.", work)
    assert issubclass(bound.args_schema, BaseModel)
    assert list(bound.args_schema.model_fields) == ["name", "task", "note"]
    offered = convert_to_openai_tool(bound)["function"]
    assert offered["description"] == "Works."
    assert {key: each["type"] for key, each in offered["parameters"]["properties"].items()} == dict.fromkeys(
        ("name", "task", "note"), "string"
    )
    assert offered["parameters"]["required"] == ["name", "task"]


TASKS = [{"description": "do it", "type": "str"}, ["do it"], None, 7, True, "", "   ", "do it", "ünï ☃"]


@pytest.mark.parametrize("task", TASKS, ids=repr)
async def test_a_task_has_the_same_outcome_by_spec_native_tool_and_bound_tool(task: Any) -> None:
    tools, child = delegation()
    run_agent = tools.specs()[0]
    answers = [
        await run_agent.coroutine(name="écrivain", task=task),
        await tool_from_spec(run_agent).invoke({"name": "écrivain", "task": task}),
        (await bind_contributed_tool(run_agent).ainvoke(call("run_agent", name="écrivain", task=task))).content,
        await tool_from_langchain(bind_contributed_tool(run_agent)).invoke({"name": "écrivain", "task": task}),
    ]
    assert len(set(answers)) == 1
    assert len(set(child.tasks)) == 1
    assert len(child.tasks) == 4


@pytest.mark.parametrize("task", TASKS, ids=repr)
async def test_arguments_are_delivered_as_they_come(task: Any) -> None:
    bound = bind_contributed_tool(spec(work, "name", "task", "note"))
    assert await bound.ainvoke({"name": "a", "task": task}) == ["a", task, "none"]
    assert await tool_from_spec(spec(work)).invoke({"name": "a", "task": task}) == ["a", task, "none"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"name": "coder"}, "missing argument 'task'"),
        ({"task": "x"}, "missing argument 'name'"),
        ({}, "missing arguments 'name', 'task'"),
        ({"name": "coder", "task": "x", "query": "y"}, "unexpected argument 'query'"),
        ({"name": "coder", "task": "x", "parameters": {}}, "unexpected argument 'parameters'"),
        ({"nam": "coder", "task": "x"}, "missing argument 'name'; unexpected argument 'nam'"),
    ],
)
async def test_missing_and_surplus_arguments_are_answered_with_what_is_taken_and_the_children(
    arguments: dict[str, Any], told: str
) -> None:
    tools, child = delegation()
    run_agent = tools.specs()[0]
    message = await bind_contributed_tool(run_agent).ainvoke(call("run_agent", **arguments))
    assert isinstance(message, ToolMessage)
    assert message.status == "error"
    assert message.content.startswith(f"Tool 'run_agent' was not run: {told}. It takes name, task.\n")
    assert "  - écrivain: Writes {text} %s.\n  - coder: Codes." in message.content
    with pytest.raises(ValueError, match="was not run") as caught:
        await tool_from_spec(run_agent).invoke(arguments)
    assert str(caught.value) == message.content
    assert child.tasks == []


@pytest.mark.parametrize("name", [None, "", "   ", 0, "undefined"])
async def test_a_name_that_is_none_is_answered_with_the_children_by_every_way(name: Any) -> None:
    run_agent = delegation()[0].specs()[0]
    native = await tool_from_spec(run_agent).invoke({"name": name, "task": "x"})
    bound = await bind_contributed_tool(run_agent).ainvoke({"name": name, "task": "x"})
    assert native == bound
    assert "coder" in native


async def test_a_tool_without_arguments_takes_none() -> None:
    list_agents = delegation()[0].specs()[1]
    bound = bind_contributed_tool(list_agents)
    assert bound.args == {}
    assert await bound.ainvoke({}) == await tool_from_spec(list_agents).invoke({})
    message = await bound.ainvoke(call("list_agents", query="x"))
    assert message.status == "error"
    assert message.content.startswith(
        "Tool 'list_agents' was not run: unexpected argument 'query'. It takes no arguments."
    )


async def test_a_single_text_is_taken_for_the_first_argument() -> None:
    async def shout(text: str) -> str:
        return text.upper()

    assert await bind_contributed_tool(spec(shout, "text")).ainvoke("hey") == "HEY"
    refused = await bind_contributed_tool(spec(work)).ainvoke("hey")
    assert "missing argument 'task'" in refused


async def test_noise_is_answered_with_a_short_preview() -> None:
    bound = bind_contributed_tool(spec(work))
    message = await bound.ainvoke(call("work", name="a", task="b", **{"x" * 2_000_000: 1}))
    assert message.status == "error"
    assert len(message.content) < 500


@given(arguments=st.dictionaries(st.text(max_size=300).filter(lambda key: key not in ("name", "task")), st.none()))
def test_any_misfit_is_an_encodable_line_and_the_description(arguments: dict[str, Any]) -> None:
    native, bound = tool_from_spec(spec(work, "name", "task", "note")), structured_tool("work", "Works.", work, ())
    arguments.pop("note", None)
    with pytest.raises(ValueError, match="missing arguments 'name', 'task'") as caught:
        asyncio.run(native.invoke(arguments))  # type: ignore[arg-type]
    line, description = str(caught.value).split("\n")
    assert description == "Works."
    assert len(line.encode()) < 20_000
    assert asyncio.run(bound.ainvoke(call("work", **arguments))).content == str(caught.value)


AWKWARD = [
    "config",
    "callbacks",
    "run_manager",
    "args",
    "kwargs",
    "self",
    "schema",
    "copy",
    "model_x",
    "_x",
    "tool_input",
]


@pytest.mark.parametrize("name", AWKWARD)
async def test_awkward_argument_names_are_delivered_by_native_and_bound_tools(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"async def f({name}, other=2): return [{name}, other]", namespace)
    offered = spec(namespace["f"], name, "other")
    native, bound = tool_from_spec(offered), bind_contributed_tool(offered)
    for properties, needed in (
        (native.parameters["properties"], native.parameters["required"]),
        (bound.args, bound.tool_call_schema.model_json_schema()["required"]),
    ):
        assert list(properties) == [name, "other"]
        assert list(needed) == [name]
    assert await native.invoke({name: {"a": 1}}) == [{"a": 1}, 2]
    assert await bound.ainvoke({name: {"a": 1}}) == [{"a": 1}, 2]
    assert await tool_from_langchain(bound).invoke({name: "x", "other": "y"}) == '["x", "y"]'
    assert "missing argument" in await bound.ainvoke({})


async def test_positional_only_parameters_of_a_coroutine_are_delivered() -> None:
    async def f(a: int, b: int = 2, /, *, c: int = 3) -> Any:
        return [a, b, c]

    for arguments, got in (({"a": 1}, [1, 2, 3]), ({"a": 1, "b": 5, "c": 6}, [1, 5, 6])):
        assert await tool_from_spec(spec(f, "a", "b", "c")).invoke(arguments) == got
        assert await bind_contributed_tool(spec(f, "a", "b", "c")).ainvoke(arguments) == got


def test_invoke_outside_a_loop_gives_what_ainvoke_gives_inside_one() -> None:
    bound = bind_contributed_tool(spec(work, "name", "task", "note"))
    arguments = {"name": "a", "task": ["b"]}
    assert bound.invoke(arguments) == asyncio.run(bound.ainvoke(arguments)) == ["a", ["b"], "none"]
    assert bound.invoke(call("work", **arguments)) == asyncio.run(bound.ainvoke(call("work", **arguments)))
    assert bound.invoke(call("work")).status == "error"


async def test_invoke_inside_a_running_loop_says_what_to_await_and_starts_nothing() -> None:
    started: list[str] = []

    async def f() -> None:
        started.append("f")

    with pytest.raises(SymfonicError, match=r"await tool\.ainvoke"):
        bind_contributed_tool(spec(f)).invoke({})
    assert started == []


async def test_invoke_in_a_thread_works_beside_a_running_loop() -> None:
    bound = bind_contributed_tool(spec(work))
    assert await asyncio.to_thread(bound.invoke, {"name": "a", "task": "b"}) == ["a", "b", "none"]


async def test_what_the_coroutine_raises_passes_through_the_bound_tool() -> None:
    class Inner(BaseModel):
        x: int

    async def f(what: str) -> None:
        if what == "validation":
            Inner.model_validate({})
        raise KeyError(what)

    bound = bind_contributed_tool(spec(f, "what"))
    with pytest.raises(KeyError, match="x"):
        await bound.ainvoke({"what": "x"})
    with pytest.raises(ValueError, match="Inner"):
        await bound.ainvoke({"what": "validation"})


async def test_a_plain_function_serves_as_a_coroutine() -> None:
    offered = spec(lambda a: f"got {a}", "a")
    assert await tool_from_spec(offered).invoke({"a": 1}) == "got 1"
    assert await bind_contributed_tool(offered).ainvoke({"a": 1}) == "got 1"


async def test_a_langchain_agents_tool_node_runs_the_bound_tool() -> None:
    from langchain.agents import create_agent
    from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            return self

    asked = AIMessage("", tool_calls=[call("run_agent", name="coder", task={"a": 1}), call("run_agent", name="coder")])
    agent = create_agent(
        Model(messages=iter([asked, AIMessage("done")])), [bind_contributed_tool(delegation()[0].specs()[0])]
    )
    state = await agent.ainvoke({"messages": [("user", "go")]})
    answers = [each for each in state["messages"] if isinstance(each, ToolMessage)]
    assert answers[0].content == 'did {"a": 1}'
    assert "missing argument 'task'" in answers[1].text
