"""Any function as a child."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from typing import Any

from symfonic.capabilities.delegation.runner_adapter import ChildResponse, drained
from symfonic.errors import ChildDeclarationError
from symfonic.kernel.concurrency.awaitables import is_awaitable
from symfonic.kernel.contracts.text import to_text

_NO_MORE: Any = object()


def from_callable(fn: Callable[..., Any]) -> "CallableChild":
    """A child that calls ``fn(task)``, for a `SubAgent`.

    ``fn`` is a function, sync or async, a partial of one, a lambda, or an object that is called. What it returns is
    the answer: text as it is, anything else as JSON, an object with a ``final_response`` as that says. A generator's
    pieces of text are joined; of others the last is the answer. Synchronous code runs in a thread of its own. Raises
    ChildDeclarationError for what cannot be called with one task.
    """
    if not callable(fn) or isinstance(fn, type):
        raise ChildDeclarationError(f"from_callable takes a function or an object that can be called, got {fn!r}")
    try:
        inspect.signature(fn).bind("task")
    except TypeError as error:
        raise ChildDeclarationError(f"{fn!r} is called with one argument, the task, and cannot be: {error}") from error
    except ValueError:  # built into Python, without a signature to read
        pass
    return CallableChild(fn)


class CallableChild:
    """A function behind the runner contract."""

    __slots__ = ("_in_loop", "_name", "fn")

    def __init__(self, fn: Callable[..., Any]) -> None:
        self.fn: Callable[..., Any] = fn
        inner = fn
        while isinstance(inner, partial):
            inner = inner.func
        code = inner if inspect.isroutine(inner) else getattr(type(inner), "__call__", inner)  # noqa: B004
        self._in_loop = inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code)
        self._name: str = str(getattr(inner, "__name__", type(inner).__name__))

    async def run(self, query: str) -> Any:
        """Call the function."""
        answer = self.fn(query) if self._in_loop else await self._aside(lambda: self.fn(query))
        while is_awaitable(answer):
            answer = await answer
        if inspect.isgenerator(answer):
            answer = self._one_by_one(answer)
        if inspect.isasyncgen(answer):
            return await drained(answer, self)
        if hasattr(answer, "final_response"):
            return answer
        return ChildResponse("" if answer is None else to_text(answer), answer)

    async def _aside(self, call: Callable[[], Any]) -> Any:
        from symfonic.kernel.concurrency.threads import run_in_thread

        return await run_in_thread(call, self._name)

    async def _one_by_one(self, pieces: Iterator[Any]) -> AsyncIterator[Any]:
        try:
            while (piece := await self._aside(lambda: next(pieces, _NO_MORE))) is not _NO_MORE:
                yield piece
        finally:
            if inspect.getgeneratorstate(pieces) == inspect.GEN_SUSPENDED:  # type: ignore[arg-type]
                pieces.close()  # type: ignore[attr-defined]
