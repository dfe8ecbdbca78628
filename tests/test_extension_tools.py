"""Tools that extensions contribute, as LangChain tools and as runtime tools."""

import asyncio
import copy
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, ToolException
from langchain_core.utils.function_calling import convert_to_openai_tool

from symfonic.agent.cutover.binding import bind_contributed_tool
from symfonic.agent.cutover.extension_tools import ToolContribution, bind_extension_tool
from symfonic.agent.cutover.langchain_tools import tool_from_langchain
from symfonic.agent.cutover.tools import as_tool
from symfonic.errors import ConfigurationError, SymfonicError
from symfonic.kernel.contracts.tool import Tool

SCHEMA = {
    "type": "object",
    "properties": {
        "query": {"type": "string", "description": "What to look {for} %s.", "minLength": 2},
        "filter": {"$ref": "#/$defs/Filter"},
        "limit": {"type": "integer", "default": 3},
    },
    "required": ["query"],
    "additionalProperties": False,
    "$defs": {"Filter": {"type": "object", "properties": {"year": {"type": "integer"}}}},
}


class Search:
    """A contribution that is no Tool, only like one."""

    name = "search"
    description = "Search {x} %s."

    def __init__(self, parameters: Any = None) -> None:
        self.parameters: Any = copy.deepcopy(SCHEMA) if parameters is None else parameters
        self.got: list[Mapping[str, Any]] = []

    async def invoke(self, arguments: Mapping[str, Any]) -> Any:
        self.got.append(arguments)
        return dict(arguments)


def call(**arguments: Any) -> dict[str, Any]:
    return {"name": "search", "args": arguments, "id": "call_1", "type": "tool_call"}


def test_a_contribution_is_a_runtime_tool_or_anything_like_one() -> None:
    assert ToolContribution is Tool
    like = Search()
    for contribution in (like, ToolContribution("search", "Search {x} %s.", SCHEMA, like.invoke)):
        bound = bind_extension_tool(contribution)
        assert isinstance(bound, BaseTool)
        assert (bound.name, bound.description) == ("search", "Search {x} %s.")


def test_the_bound_tool_advertises_exactly_the_declared_schema() -> None:
    bound = bind_extension_tool(Search())
    assert bound.args_schema == SCHEMA
    assert bound.tool_call_schema == {**SCHEMA, "description": "Search {x} %s."}
    assert bound.args == SCHEMA["properties"]
    offered = convert_to_openai_tool(bound)["function"]
    assert set(offered["parameters"]["properties"]) == {"query", "filter", "limit"}
    assert offered["parameters"]["required"] == ["query"]
    assert offered["parameters"]["properties"]["query"] == SCHEMA["properties"]["query"]  # type: ignore[index]


async def test_arguments_arrive_at_top_level_and_unchanged() -> None:
    search = Search()
    bound = bind_extension_tool(search)
    arguments = {"query": "x", "filter": {"year": 1999, "more": [None]}}
    assert await bound.ainvoke(arguments) == arguments
    message = await bound.ainvoke(call(**arguments))
    assert isinstance(message, ToolMessage)
    assert search.got == [arguments, arguments]


AWKWARD = ["config", "callbacks", "run_manager", "args", "kwargs", "self", "tool_input", "schema", "copy", "name"]
AWKWARD += ["input", "model_x", "_x", "tool_call_id", "type", "description", "arguments", "with-dash", "ünï", "class"]


@pytest.mark.parametrize("name", AWKWARD)
async def test_any_argument_name_is_delivered_unchanged(name: str) -> None:
    schema = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    bound = bind_extension_tool(Search(schema))
    for arguments in ({name: "x"}, {name: {"deep": 1}}):
        assert await bound.ainvoke(arguments) == arguments
        assert (await bound.ainvoke(call(**arguments))).status == "success"
        assert await asyncio.to_thread(bound.invoke, arguments) == arguments


@given(names=st.lists(st.text(min_size=1, max_size=10), max_size=4, unique=True))
def test_whatever_the_names_exactly_the_required_set_works(names: list[str]) -> None:
    schema = {"type": "object", "properties": {name: {} for name in names}, "required": names}
    arguments = dict.fromkeys(names, 1)
    bound = bind_extension_tool(Search(schema))
    assert bound.invoke(call(**arguments)).status == "success"
    if names:
        assert bound.invoke(call()).status == "error"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "missing argument 'query'"),
        ({"query": "x", "parameters": {}}, "unexpected argument 'parameters'"),
        ({"limit": 1, "q": 1}, "missing argument 'query'; unexpected argument 'q'"),
    ],
)
async def test_missing_and_surplus_arguments_are_answered_and_the_tool_does_not_run(
    arguments: dict[str, Any], told: str
) -> None:
    search = Search()
    message = await bind_extension_tool(search).ainvoke(call(**arguments))
    assert message.status == "error"
    assert message.content == (
        f"Tool 'search' was not run: {told}. It takes query, filter (optional), limit (optional).\nSearch {{x}} %s."
    )
    assert search.got == []


@pytest.mark.parametrize("more", [{"additionalProperties": True}, {"patternProperties": {"^x": {}}}])
async def test_a_schema_may_admit_more_than_it_names(more: dict[str, Any]) -> None:
    bound = bind_extension_tool(Search({"type": "object", "properties": {"a": {}}, "required": ["a"], **more}))
    assert await bound.ainvoke({"a": 1, "x1": 2}) == {"a": 1, "x1": 2}
    assert "missing argument 'a'" in await bound.ainvoke({"x1": 2})


async def test_a_schema_without_properties_takes_no_arguments() -> None:
    bound = bind_extension_tool(Search({"type": "object"}))
    assert bound.args == {}
    assert await bound.ainvoke({}) == {}
    assert "It takes no arguments" in await bound.ainvoke({"x": 1})


async def test_changing_the_declaration_afterwards_changes_nothing() -> None:
    search = Search()
    bound, ours = bind_extension_tool(search), as_tool(search)
    search.parameters["properties"]["late"] = {}
    search.parameters["required"].append("late")
    search.description = "Late."
    assert bound.args_schema == SCHEMA
    assert ours.parameters == SCHEMA
    assert (bound.description, ours.description) == ("Search {x} %s.", "Search {x} %s.")
    assert await bound.ainvoke({"query": "x"}) == {"query": "x"}
    assert (await bound.ainvoke(call(query="x", late=1))).status == "error"


def test_the_bound_tool_survives_the_binding_of_contributed_tools() -> None:
    bound = bind_extension_tool(Search())
    assert bind_contributed_tool(bound) is bound
    contribution = ToolContribution("search", "d", SCHEMA, Search().invoke)
    assert bind_contributed_tool(contribution) is contribution


def test_invoke_outside_a_loop_gives_what_ainvoke_gives_inside_one() -> None:
    bound = bind_extension_tool(Search())
    assert bound.invoke({"query": "x"}) == asyncio.run(bound.ainvoke({"query": "x"})) == {"query": "x"}
    assert bound.invoke(call(query="x")) == asyncio.run(bound.ainvoke(call(query="x")))


async def test_invoke_inside_a_running_loop_says_what_to_await_and_starts_nothing() -> None:
    search = Search()
    with pytest.raises(SymfonicError, match=r"await tool\.ainvoke"):
        bind_extension_tool(search).invoke({"query": "x"})
    assert search.got == []


async def test_what_the_extension_raises_passes_through() -> None:
    class Failing(Search):
        async def invoke(self, arguments: Mapping[str, Any]) -> Any:
            raise ToolException("own") if arguments["query"] == "tool" else KeyError("own")

    bound = bind_extension_tool(Failing())
    with pytest.raises(ToolException, match="own"):
        await bound.ainvoke({"query": "tool"})
    with pytest.raises(KeyError, match="own"):
        await bound.ainvoke({"query": "x"})


async def test_an_invoke_that_returns_no_awaitable_serves_too() -> None:
    class Plain(Search):
        def invoke(self, arguments: Mapping[str, Any]) -> Any:  # type: ignore[override]
            return arguments["query"]

    assert await bind_extension_tool(Plain()).ainvoke({"query": "x"}) == "x"


async def test_the_bound_tool_is_a_runtime_tool_again() -> None:
    ours = tool_from_langchain(bind_extension_tool(Search()))
    assert ours.parameters == SCHEMA
    assert await ours.invoke({"query": "ü"}) == '{"query": "ü"}'


def broken(**members: Any) -> Search:
    search = Search()
    for name, value in members.items():
        setattr(search, name, value)
    return search


@pytest.mark.parametrize(
    ("contribution", "told"),
    [
        (object(), "a tool contribution has name, description, parameters"),
        (Search, "a tool contribution has name, description, parameters"),
        (broken(parameters=None), "a tool contribution has"),
        (broken(invoke="text"), "a tool contribution has"),
        (broken(name=" "), "non-empty string without blanks, got ' '"),
        (broken(description=None), "tool 'search': its description must be a string"),
        (broken(parameters={"type": "array"}), "tool 'search': its parameters must be a JSON Schema of type 'object'"),
        (broken(parameters={"properties": ["query"]}), "tool 'search': its parameters must be"),
        (broken(parameters={"required": ["x"]}), r"tool 'search' requires \['x'\]"),
    ],
)
def test_a_broken_contribution_is_refused_where_it_is_declared(contribution: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        bind_extension_tool(contribution)
