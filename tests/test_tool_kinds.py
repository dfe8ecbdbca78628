"""Anything that can be a tool as one, whatever kind it is of; what is none, and what is loaded for it."""

import functools
import json
import subprocess
import sys
from typing import Any

import pytest
from langchain_core.tools import StructuredTool, tool

from symfonic.agent.cutover.binding import bind_contributed_tool, is_langchain_tool, tool_from_spec
from symfonic.agent.cutover.langchain_tools import structured_tool
from symfonic.agent.cutover.tools import as_tool
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.tool import Tool
from tool_kit import SearchTool, spec

MODULES = ("arguments", "binding", "docstrings", "extension_tools", "function_tools", "langchain_tools", "signatures")


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
