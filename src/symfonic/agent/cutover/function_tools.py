"""Python callables as tools: the schema from signature and docstring, the call in the loop or in a thread."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from symfonic.agent.cutover.docstrings import known_parameters, read_docstring
from symfonic.agent.cutover.extension_tools import check_tool_name
from symfonic.agent.cutover.signatures import read_signature
from symfonic.errors import ConfigurationError
from symfonic.kernel.concurrency.threads import run_in_thread
from symfonic.kernel.contracts.tool import Tool


def function_tool(fn: Callable[..., Any], *, name: str | None = None, description: str | None = None) -> Tool:
    """A tool that calls ``fn``; name and description default to its own.

    Its parameters are validated by their types, so that a parameter typed as a model or dataclass gets an
    instance. A coroutine function runs in the event loop, any other in a thread with this context carried over,
    and what either returns is awaited where it can be. Raises ConfigurationError, naming tool and parameter, if
    no name is to be had or the signature cannot be advertised.
    """
    if not callable(fn) or isinstance(fn, type):
        raise ConfigurationError(f"a function tool is made of a function or a callable object, got {fn!r}")
    title = _name(fn, name)
    _refuse_generator(title, fn)
    documentation = read_docstring(_docstring(fn))
    signature = read_signature(title, fn, functools.partial(known_parameters, documentation))
    in_loop = _is_async(fn)

    async def invoke(arguments: Mapping[str, Any]) -> Any:
        positional, keyword = signature.bind(arguments)
        call = functools.partial(fn, *positional, **keyword)
        result = call() if in_loop else await run_in_thread(call, title)
        while inspect.isawaitable(result):
            result = await result
        return result

    return Tool(title, documentation.text if description is None else description, signature.schema, invoke)


def _name(fn: Any, name: str | None) -> str:
    if name is None:
        named = fn
        while isinstance(named, functools.partial) and not hasattr(named, "__name__"):
            named = named.func
        name = getattr(named, "__name__", None)
        if name is None or name == "<lambda>":
            raise ConfigurationError(f"{fn!r} has no name to offer it by; give it one: symfonic.tool(fn, name=...)")
    check_tool_name(name, fn)
    return name


def _docstring(fn: Any) -> str | None:
    """The callable's own docstring; for an object that is called, its ``__call__``'s, else its class's."""
    fn, call = _callables(fn)
    if inspect.isroutine(fn):
        return inspect.getdoc(fn)
    return getattr(call, "__doc__", None) or type(fn).__doc__


def _callables(fn: Any) -> tuple[Any, Any]:
    while isinstance(fn, functools.partial):
        fn = fn.func
    return fn, getattr(type(fn), "__call__", None)  # noqa: B004 - the function is wanted, not whether there is one


def _is_async(fn: Any) -> bool:
    return any(inspect.iscoroutinefunction(each) for each in _callables(fn))


def _refuse_generator(name: str, fn: Any) -> None:
    if any(inspect.isgeneratorfunction(each) or inspect.isasyncgenfunction(each) for each in _callables(fn)):
        raise ConfigurationError(f"tool {name!r} is a generator; a tool returns its result as one value")
