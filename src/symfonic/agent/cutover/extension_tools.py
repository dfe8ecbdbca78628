"""Tools that extensions offer: a declared JSON Schema and one call, offered to LangChain exactly as declared."""

import functools
import inspect
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from symfonic.agent.cutover.arguments import Takes, refusal
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.tool import Tool

ToolContribution = Tool
"""A tool offered by an extension; anything else with its four members serves as well."""


def is_contribution(offered: Any) -> bool:
    """Whether this has what a contribution has: ``name``, ``description``, ``parameters`` and a callable ``invoke``."""
    return (
        not isinstance(offered, type)
        and isinstance(getattr(offered, "parameters", None), Mapping)
        and callable(getattr(offered, "invoke", None))
        and hasattr(offered, "name")
        and hasattr(offered, "description")
    )


def check_tool_name(name: Any, of: Any = None) -> None:
    """Raises ConfigurationError if no model could call a tool by this name."""
    if not isinstance(name, str) or not name or any(map(str.isspace, name)):
        whose = "" if of is None else f" for {of!r}"
        raise ConfigurationError(f"the name of a tool must be a non-empty string without blanks, got {name!r}{whose}")


def check_contribution(offered: Any) -> None:
    """Raises ConfigurationError, naming the tool, if a member of a contribution is not what it has to be."""
    if not is_contribution(offered):
        raise ConfigurationError(
            "a tool contribution has name, description, parameters (a JSON Schema object) and async"
            f" invoke(arguments), got {offered!r}"
        )
    check_tool_name(offered.name)
    if not isinstance(offered.description, str):
        raise ConfigurationError(
            f"tool {offered.name!r}: its description must be a string, got {offered.description!r}"
        )
    kind = offered.parameters.get("type", "object")
    properties = offered.parameters.get("properties", {})
    if kind != "object" or not isinstance(properties, Mapping):
        raise ConfigurationError(
            f"tool {offered.name!r}: its parameters must be a JSON Schema of type 'object', got type {kind!r}"
            f" with properties {properties!r}"
        )
    undescribed = [name for name in offered.parameters.get("required", ()) if name not in properties]
    if undescribed:
        raise ConfigurationError(
            f"tool {offered.name!r} requires {undescribed!r}, which its properties do not describe"
        )


def tool_from_contribution(offered: Any) -> Tool:
    """A contribution as a runtime tool, its schema copied: what changes later changes nothing."""
    check_contribution(offered)
    return Tool(offered.name, offered.description, deepcopy(dict(offered.parameters)), offered.invoke)


def bind_extension_tool(contribution: Any) -> Any:
    """A contribution as a LangChain tool that advertises exactly the declared schema.

    ``invoke`` gets the arguments as one mapping, whatever their names. Missing arguments, and surplus ones unless
    the schema admits them, are answered with a message. A synchronous ``invoke`` works outside an event loop and
    raises SymfonicError inside a running one. Raises ConfigurationError if the contribution is incomplete.
    """
    tool = tool_from_contribution(contribution)
    make, handler = _extension_tool_class()
    bound = make(
        name=tool.name,
        description=tool.description,
        args_schema=deepcopy(dict(tool.parameters)),
        handle_tool_error=handler,
    )
    bound._tool = tool
    return bound


def _accepted(schema: Mapping[str, Any], given: Mapping[str, Any]) -> Takes:
    declared = tuple(schema.get("properties", ()))
    if schema.get("additionalProperties") or "patternProperties" in schema:
        declared += tuple(name for name in given if name not in declared)
    return Takes(declared, frozenset(schema.get("required", ())))


@functools.cache
def _extension_tool_class() -> tuple[Any, Any]:
    """The class of the tools and its error handler, made once, when LangChain is first needed."""
    from symfonic.agent.cutover.langchain_tools import need_langchain

    need_langchain()
    from langchain_core.tools import BaseTool, ToolException
    from pydantic import PrivateAttr

    class Refused(ToolException):
        pass

    def explain(error: ToolException) -> str:
        if isinstance(error, Refused):
            return str(error)
        raise error  # the extension's own

    class ExtensionTool(BaseTool):
        _tool: Any = PrivateAttr()

        @property
        def args(self) -> dict[str, Any]:
            return dict(self._tool.parameters.get("properties", {}))

        def _run(self, /, **arguments: Any) -> Any:
            from symfonic.kernel.concurrency.threads import run_blocking

            return run_blocking(lambda: self._arun(**arguments))

        async def _arun(self, /, **arguments: Any) -> Any:
            accepted = _accepted(self._tool.parameters, arguments)
            refused = refusal(self.name, self.description, arguments, accepted)
            if refused is not None:
                raise Refused(refused)
            result = self._tool.invoke(arguments)
            return await result if inspect.isawaitable(result) else result

    return ExtensionTool, explain
