"""Contributed tools, bound: as LangChain's where the model or the tools are LangChain's, else as the runtime's own."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any

from symfonic.agent.cutover.arguments import Takes, refusal, takes
from symfonic.errors import ConfigurationError
from symfonic.kernel.concurrency.awaitables import is_awaitable
from symfonic.kernel.contracts.signatures import REMEMBERED, method_of, signature_of
from symfonic.kernel.contracts.tool import Tool
from symfonic.kernel.runtime.plan import BadCallError, frozen


def is_langchain_tool(offered: Any) -> bool:
    """Whether this is an instance of LangChain's ``BaseTool``, told without importing it."""
    return any(
        each.__name__ == "BaseTool" and each.__module__.startswith("langchain_core.") for each in type(offered).__mro__
    )


def bind_contributed_tool(offered: Any) -> Any:
    """What a capability offers, as a tool that LangChain executes.

    A LangChain tool comes back untouched, and so does what has no callable ``coroutine``. Raises
    ConfigurationError if the declared parameters are not those of the coroutine.
    """
    if is_langchain_tool(offered):  # first: a StructuredTool has a coroutine too, and a schema to lose
        return offered
    coroutine = getattr(offered, "coroutine", None)
    if not callable(coroutine):
        return offered
    parameters = tuple(getattr(offered, "parameters", ()))
    check_parameters(offered.name, parameters, coroutine)
    from symfonic.agent.cutover.langchain_tools import structured_tool

    return structured_tool(offered.name, offered.description, coroutine, parameters)


def bind_contributed_tools(pairs: Iterable[tuple[Any, Any]]) -> tuple[tuple[Any, Any], ...]:
    """Each pair's tool bound; the capabilities keep their tools and their order."""
    return tuple((capability, bind_contributed_tool(tool)) for capability, tool in pairs)


def check_parameters(name: str, parameters: tuple[str, ...], coroutine: Callable[..., Any]) -> None:
    """Hold the declared parameter names against the coroutine's signature; an empty declaration checks nothing.

    A ``**kwargs`` takes any declared name, and needs none. Raises ConfigurationError, naming the tool and both sets
    of names, if one is missing on either side.
    """
    if not parameters:
        return
    try:
        actual = signature_of(coroutine).parameters
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"tool {name!r}: the signature of {coroutine!r} cannot be read: {error}") from error
    kinds = {each.kind for each in actual.values()}
    catch_alls = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    named = [each for each, parameter in actual.items() if parameter.kind not in catch_alls]
    undeclared = set(named) - set(parameters)
    unknown = set(parameters) - set(named)
    if undeclared or (unknown and inspect.Parameter.VAR_KEYWORD not in kinds):
        raise ConfigurationError(
            f"tool {name!r} declares the parameters ({', '.join(parameters)}),"
            f" but its coroutine takes ({', '.join(named)})"
        )


def _takes(name: str, coroutine: Callable[..., Any], parameters: tuple[str, ...]) -> tuple[Takes, Any]:
    """What the coroutine takes, held against what is declared, and as a schema."""
    check_parameters(name, parameters, coroutine)
    try:
        accepted = takes(coroutine, parameters)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"tool {name!r}: the signature of {coroutine!r} cannot be read: {error}") from error
    schema = {
        "type": "object",
        "properties": {each: {"type": "string"} for each in accepted.accepted},
        "required": [each for each in accepted.accepted if each in accepted.required],
        "additionalProperties": False,
    }
    return accepted, frozen(schema)


@lru_cache(maxsize=REMEMBERED)
def _taken_by_method(name: str, method: FunctionType, parameters: tuple[str, ...]) -> tuple[Takes, Any, bool]:
    """The same, remembered: every agent offers the same two tools."""
    bound = MethodType(method, method)
    return (*_takes(name, bound, parameters), inspect.iscoroutinefunction(bound))


def tool_from_spec(spec: Any) -> Tool:
    """A spec (``name``, ``description``, ``coroutine``, ``parameters``) as a runtime tool.

    Arguments are offered as strings and delivered as they come. Raises ConfigurationError if the declared
    parameters are not those of the coroutine. Its ``invoke`` raises BadCallError, saying what the tool takes, if an
    argument is missing or too many.
    """
    name, description, coroutine = spec.name, spec.description, spec.coroutine
    parameters = tuple(getattr(spec, "parameters", ()))
    method = method_of(coroutine)
    if method is not None:
        accepted, schema, asynchronous = _taken_by_method(name, method, parameters)
    else:
        asynchronous = inspect.iscoroutinefunction(coroutine)
        accepted, schema = _takes(name, coroutine, parameters)
    known, required = frozenset(accepted.accepted), accepted.required

    def call(arguments: Mapping[str, Any]) -> Any:
        if not required <= arguments.keys() <= known:
            raise BadCallError(refusal(name, description, arguments, accepted))
        return accepted.call(coroutine, arguments) if accepted.positional else coroutine(**arguments)

    async def invoke(arguments: Mapping[str, Any]) -> Any:
        result = call(arguments)
        return await result if is_awaitable(result) else result

    return Tool(name, description, schema, call if asynchronous else invoke)
