"""Specs and LangChain tools as runtime tools, and specs as LangChain tools."""

import asyncio
import functools
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, ToolException, tool
from langchain_core.tools import Tool as SimpleTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import BaseModel

from symfonic.agent.cutover.binding import (
    bind_contributed_tool,
    bind_contributed_tools,
    check_parameters,
    is_langchain_tool,
    tool_from_spec,
)
from symfonic.agent.cutover.langchain_tools import structured_tool, tool_from_langchain
from symfonic.agent.cutover.tools import as_tool
from symfonic.capabilities.delegation.contracts import DelegationToolSpec, RosterEntry
from symfonic.capabilities.delegation.depth import DepthPolicy
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.capabilities.delegation.tools import DelegationTools
from symfonic.errors import ConfigurationError, SymfonicError
from symfonic.kernel.contracts.tool import Tool

MODULES = ("arguments", "binding", "docstrings", "extension_tools", "function_tools", "langchain_tools", "signatures")


@dataclass
class Answer:
    final_response: str


class Echo:
    def __init__(self) -> None:
        self.tasks: list[str] = []

    async def run(self, query: str) -> Answer:
        self.tasks.append(query)
        return Answer(f"did {query}" if query.strip() else "did nothing")


def delegation() -> tuple[DelegationTools, Echo]:
    child = Echo()
    entries = [RosterEntry("écrivain", "Writes {text} %s.", child), RosterEntry("coder", "Codes.", Echo())]
    return DelegationTools(roster=DelegationRoster(entries), depth=DepthPolicy(2)), child


def spec(coroutine: Callable[..., Any], *parameters: str, name: str = "work") -> DelegationToolSpec:
    return DelegationToolSpec(name, "Works.", coroutine, parameters)


def call(tool_name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": tool_name, "args": arguments, "id": "call_1", "type": "tool_call"}


async def work(name: str, task: Any, note: str = "none") -> Any:
    return [name, task, note]


# ------------------------------------------------------------------------------------------------ binding to LangChain


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


# ---------------------------------------------------------------------------------------------- LangChain tools as ours


@tool
async def search(query: str, limit: int = 3) -> str:
    """Search things."""
    return f"{query}/{limit}"


@tool
def search_sync(query: str, limit: int = 3) -> str:
    """Search things."""
    return f"{query}/{limit}"


class SearchTool(BaseTool):
    name: str = "searching"
    description: str = "Search things."

    def _run(self, query: str, limit: int = 3) -> str:
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


# --------------------------------------------------------------------------------------------------- anything as a tool


def native(name: Any = "native", parameters: Any = None) -> Tool:
    async def invoke(arguments: Any) -> Any:
        return dict(arguments)

    return Tool(name, "d", {"type": "object", "properties": {}} if parameters is None else parameters, invoke)


class Contribution:
    name = "contributed"
    description = "Offered."

    def __init__(self) -> None:
        self.parameters = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}

    async def invoke(self, arguments: Any) -> Any:
        return arguments["q"]


def plain(q: str) -> str:
    return q


async def spoken(q: str) -> str:
    return q


OFFERS: dict[str, Any] = {
    "function": plain,
    "coroutine function": spoken,
    "partial": functools.partial(plain),
    "spec": spec(spoken, "q"),
    "spec without parameters": spec(spoken),
    "contribution": Contribution(),
    "structured tool": tool(spoken, description="d"),
    "synchronous structured tool": tool(plain, description="d"),
    "bound spec": structured_tool("bound", "d", spoken, ("q",)),
    "tool": tool_from_spec(spec(spoken)),
}


@pytest.mark.parametrize("offered", OFFERS.values(), ids=OFFERS)
async def test_every_kind_of_tool_runs_with_exactly_its_required_arguments(offered: Any) -> None:
    ours = as_tool(offered)
    assert isinstance(ours, Tool)
    assert list(ours.parameters["properties"]) == ["q"]
    assert list(ours.parameters["required"]) == ["q"]
    json.dumps(ours.parameters)
    assert await ours.invoke({"q": "x"}) == "x"
    if is_langchain_tool(offered):
        return
    bound = bind_contributed_tool(offered)
    if is_langchain_tool(bound):
        assert list(bound.args) == ["q"]
        assert await bound.ainvoke({"q": "x"}) == "x"


def test_a_runtime_tool_is_itself() -> None:
    tool_ = native()
    assert as_tool(tool_) is tool_


class Team:
    async def run(self, prompt: str) -> str:
        return prompt


@pytest.mark.parametrize(
    ("offered", "told"),
    [
        ("text", "'text' of type str"),
        (None, "None of type NoneType"),
        ({"name": "x"}, "of type dict"),
        (Contribution, "the class Contribution"),
        (Tool, "the class Tool"),
        (SearchTool, "the class SearchTool"),
        (int, "the class int"),
        (Team(), "an agent goes into sub_agents"),
    ],
)
def test_what_is_no_tool_is_refused_by_name(offered: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match="accepts functions") as caught:
        as_tool(offered)
    assert told in str(caught.value)


@pytest.mark.parametrize("name", ["", "  ", None, 7])
def test_a_tool_has_a_name(name: Any) -> None:
    nameless = Contribution()
    nameless.name = name
    for offered in (native(name), nameless, spec(spoken, name=name)):
        with pytest.raises(ConfigurationError, match="non-empty string"):
            as_tool(offered)


def test_a_langchain_tool_with_a_blank_name_is_refused() -> None:
    blank = StructuredTool(name=" ", description="d", func=plain, args_schema={"type": "object", "properties": {}})
    with pytest.raises(ConfigurationError, match="non-empty string"):
        as_tool(blank)


@pytest.mark.parametrize("parameters", [{"type": "string"}, {"properties": []}, {"required": ["x"]}])
def test_a_runtime_tool_with_a_broken_schema_is_refused(parameters: Any) -> None:
    with pytest.raises(ConfigurationError, match="'native'"):
        as_tool(native(parameters=parameters))


def test_what_only_looks_like_a_langchain_tool_by_name_is_none() -> None:
    class BaseTool: ...

    assert not is_langchain_tool(BaseTool())
    assert not is_langchain_tool(SearchTool)
    assert is_langchain_tool(SearchTool())


@pytest.mark.parametrize("module", [*MODULES, "tools"])
def test_importing_a_tool_module_and_using_specs_loads_no_third_party_package(module: str) -> None:
    code = f"""
import asyncio, sys
import symfonic.agent.cutover.{module}
from symfonic.agent.cutover.binding import tool_from_spec
from symfonic.agent.cutover.tools import as_tool
from symfonic.capabilities.delegation.contracts import DelegationToolSpec
async def work(q): return q
for make in (tool_from_spec, as_tool):
    assert asyncio.run(make(DelegationToolSpec("t", "d", work, ("q",))).invoke({{"q": 1}})) == 1
loaded = {{"pydantic", "langchain_core", "langchain", "griffe", "openai", "rich"}} & set(sys.modules)
assert not loaded, loaded
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_function_tool_loads_no_langchain() -> None:
    code = """
import sys
from symfonic.agent.cutover.tools import as_tool
def work(q: str) -> str:
    "Work."
    return q
as_tool(work)
assert "pydantic" in sys.modules and "langchain_core" not in sys.modules
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
