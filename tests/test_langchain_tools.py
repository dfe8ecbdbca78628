"""Tools of LangChain as runtime tools."""

import threading
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException, tool
from langchain_core.tools import Tool as SimpleTool
from pydantic import BaseModel

from symfonic.agent.cutover.langchain_tools import tool_from_langchain
from symfonic.errors import ConfigurationError
from tool_kit import SearchTool


@tool
async def search(query: str, limit: int = 3) -> str:
    """Search things."""
    return f"{query}/{limit}"


@tool
def search_sync(query: str, limit: int = 3) -> str:
    """Search things."""
    return f"{query}/{limit}"


class AsyncSearchTool(SearchTool):
    async def _arun(self, query: str, limit: int = 3) -> str:
        return f"{query}/{limit}"


SEARCHES = [search, search_sync, SearchTool(), AsyncSearchTool()]


@pytest.mark.parametrize("langchain_tool", SEARCHES, ids=lambda each: each.name)
async def test_a_langchain_tool_becomes_a_runtime_tool(langchain_tool: BaseTool) -> None:
    ours = tool_from_langchain(langchain_tool)
    assert ours.name == langchain_tool.name
    assert ours.description == "Search things."
    assert ours.parameters["type"] == "object"
    assert set(ours.parameters["properties"]) == {"query", "limit"}
    assert list(ours.parameters["required"]) == ["query"]
    assert await ours.invoke({"query": "x"}) == "x/3"
    assert await ours.invoke({"query": "x", "limit": 5}) == "x/5"


@pytest.mark.parametrize("langchain_tool", SEARCHES[:2], ids=lambda each: each.name)
async def test_arguments_that_a_langchain_tool_refuses_are_told_in_one_line(langchain_tool: BaseTool) -> None:
    with pytest.raises(ValueError, match="was not run") as caught:
        await tool_from_langchain(langchain_tool).invoke({"limit": "many"})
    assert "missing argument 'query'; argument 'limit': Input should be a valid integer" in str(caught.value)
    assert str(caught.value).endswith("It takes query, limit (optional).")
    assert "\n" not in str(caught.value)


async def test_exceptions_of_a_langchain_tool_stay_exceptions() -> None:
    class Inner(BaseModel):
        x: int

    @tool
    async def failing(kind: str) -> str:
        """Fail."""
        if kind == "tool":
            raise ToolException("told")
        if kind == "validation":
            Inner.model_validate({})
        raise KeyError(kind)

    ours = tool_from_langchain(failing)
    with pytest.raises(ToolException, match="told"):
        await ours.invoke({"kind": "tool"})
    with pytest.raises(KeyError, match="other"):
        await ours.invoke({"kind": "other"})
    with pytest.raises(ValueError, match="for Inner"):
        await ours.invoke({"kind": "validation"})


async def test_an_error_that_a_langchain_tool_handles_itself_is_its_answer() -> None:
    @tool
    async def failing() -> str:
        """Fail."""
        raise ToolException("handled")

    failing.handle_tool_error = True
    assert await tool_from_langchain(failing).invoke({}) == "handled"


@dataclass
class Found:
    text: str


RESULTS = [
    ("plain ☃", "plain ☃"),
    ({"a": "ü"}, '{"a": "ü"}'),
    (["a", "b"], '["a", "b"]'),
    ([], "[]"),
    (7, "7"),
    (None, "null"),
    (Found("x"), '{"text": "x"}'),
    ([{"type": "text", "text": "a"}, "b", {"type": "text", "text": "c"}], "abc"),
    ([{"type": "image", "url": "u"}], '[{"type": "image", "url": "u"}]'),
    (ToolMessage("said", tool_call_id="1"), "said"),
    (ToolMessage([{"type": "text", "text": "said"}], tool_call_id="1"), "said"),
]


@pytest.mark.parametrize(("result", "text"), RESULTS, ids=[repr(text) for _, text in RESULTS])
async def test_what_a_langchain_tool_returns_becomes_text(result: Any, text: str) -> None:
    @tool
    async def giving() -> Any:
        """Give."""
        return result

    assert await tool_from_langchain(giving).invoke({}) == text


async def test_a_result_with_an_artifact_is_its_content() -> None:
    @tool(response_format="content_and_artifact")
    async def giving() -> tuple[str, object]:
        """Give."""
        return "content", object()

    assert await tool_from_langchain(giving).invoke({}) == "content"


async def test_a_command_is_refused_because_only_langgraph_carries_it_out() -> None:
    from langgraph.types import Command

    @tool
    async def routing() -> Any:
        """Route."""
        return Command(goto="x")

    with pytest.raises(TypeError, match=r"'routing' returned a Command"):
        await tool_from_langchain(routing).invoke({})


async def test_the_id_of_the_call_is_given_to_a_tool_that_wants_it() -> None:
    @tool
    async def wants(task: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> str:
        """Want."""
        return f"{task} {tool_call_id[:5]}"

    ours = tool_from_langchain(wants)
    assert set(ours.parameters["properties"]) == {"task"}
    assert await ours.invoke({"task": "t"}) == "t call_"


def test_a_tool_that_needs_what_langgraph_injects_is_refused_by_name() -> None:
    from langchain.tools import ToolRuntime

    @tool
    async def needs(task: str, state: Annotated[dict[str, Any], InjectedToolArg]) -> str:
        """Need."""
        return task

    @tool
    async def needs_runtime(task: str, runtime: ToolRuntime) -> str:
        """Need."""
        return task

    class Own(BaseModel):
        task: str

    async def outside_of_its_schema(task: str, runtime: ToolRuntime) -> str:
        return task

    own = StructuredTool(name="own", description="d", coroutine=outside_of_its_schema, args_schema=Own)
    with pytest.raises(ConfigurationError, match="'own' needs runtime"):
        tool_from_langchain(own)
    with pytest.raises(ConfigurationError, match="'needs' needs state, which only LangGraph injects"):
        tool_from_langchain(needs)
    with pytest.raises(ConfigurationError, match="'needs_runtime' needs runtime"):
        tool_from_langchain(needs_runtime)


async def test_an_injected_argument_with_a_default_is_left_out() -> None:
    @tool
    async def may(task: str, user: Annotated[str, InjectedToolArg] = "nobody") -> str:
        """May."""
        return f"{task} {user}"

    ours = tool_from_langchain(may)
    assert set(ours.parameters["properties"]) == {"task"}
    assert await ours.invoke({"task": "t"}) == "t nobody"


def test_a_tool_whose_arguments_have_no_schema_is_refused_by_name() -> None:
    class Opaque: ...

    class Own(BaseModel, arbitrary_types_allowed=True):
        x: Opaque

    odd = StructuredTool(name="odd", description="d", func=lambda x: x, args_schema=Own)
    with pytest.raises(ConfigurationError, match="'odd' of LangChain has no JSON Schema"):
        tool_from_langchain(odd)


async def test_a_simple_langchain_tool_takes_its_one_input() -> None:
    ours = tool_from_langchain(SimpleTool(name="up", description="d", func=str.upper))
    assert ours.parameters["required"] == ["tool_input"]
    assert await ours.invoke({"tool_input": "x"}) == "X"


async def test_an_argument_called_type_is_not_taken_for_a_tool_call() -> None:
    @tool
    async def typed(type: str, id: str) -> str:  # noqa: A002
        """Typed."""
        return f"{type} {id}"

    assert await tool_from_langchain(typed).invoke({"type": "tool_call", "id": "x"}) == "tool_call x"


async def test_a_schema_given_as_json_is_copied() -> None:
    schema = {"title": "T", "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    given_as_json = StructuredTool(name="t", description="d", func=lambda a: a, args_schema=schema)
    ours = tool_from_langchain(given_as_json)
    schema["properties"]["b"] = {}  # type: ignore[index]
    assert ours.parameters == {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}


async def test_synchronous_langchain_tools_nest_deeper_than_any_pool() -> None:
    from symfonic.kernel.concurrency.threads import run_blocking

    @tool
    def nested(depth: int) -> str:
        """Nest."""
        if depth == 0:
            return threading.current_thread().name
        return run_blocking(lambda: ours.invoke({"depth": depth - 1}))  # type: ignore[arg-type, return-value]

    ours = tool_from_langchain(nested)
    assert await ours.invoke({"depth": 45}) == "symfonic-nested"
