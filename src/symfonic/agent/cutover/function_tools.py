"""Python callables as tools: the schema from signature and docstring, the call in the loop or in a thread."""

import functools
import inspect
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from symfonic.agent.cutover.docstrings import known_parameters, read_docstring
from symfonic.agent.cutover.extension_tools import check_tool_name
from symfonic.agent.cutover.signatures import read_signature
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.tool import Tool

_NO_LOOP = ("no running event loop", "no current event loop")


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
        result = call() if in_loop else await _threaded(title, call)
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


async def _threaded(name: str, call: Callable[[], Any]) -> Any:
    """The call's result, from a thread. A coroutine that nobody waits for any more is closed."""
    from symfonic.kernel.concurrency.threads import run_in_thread

    abandoned = threading.Event()
    results: list[Any] = []

    def work() -> Any:
        results.append(call())
        if abandoned.is_set():
            _close_coroutines(results)
        return results[0]

    try:
        return await run_in_thread(work, name)
    except RuntimeError as error:
        if not any(text in str(error) for text in _NO_LOOP):
            raise
        _close_stranded(error)
        raise RuntimeError(
            f"Tool {name!r} needs a running event loop, so it must be async: define it with 'async def'"
        ) from error
    except BaseException:
        abandoned.set()
        _close_coroutines(results)
        raise


def _close_stranded(error: BaseException) -> None:
    """Close what a call without a loop had made for it: such a coroutine will never be awaited."""
    trace = error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            _close_coroutines(value if isinstance(value, list | tuple | set) else (value,))
        trace = trace.tb_next


def _close_coroutines(values: Iterable[Any]) -> None:
    for value in values:
        if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
            value.close()
