"""Synchronous code inside a run, and runs inside synchronous code.

A thread is started for each call. A pool would have to be as deep as the deepest nesting of synchronous tools, or
hang; and a pool's threads keep a process from ending while one of them is stuck.
"""

import asyncio
import concurrent.futures
import contextvars
import inspect
import re
import threading
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, TypeVar

from symfonic.errors import SymfonicError
from symfonic.kernel.concurrency.tasks import put_down

T = TypeVar("T")

_NO_LOOP = re.compile(r"no running event loop|There is no current event loop in thread '.*'\.")
"""What asyncio says, word for word; a call's own words are not replaced."""

_way_back: ContextVar["_WayBack | None"] = ContextVar("symfonic_way_back", default=None)


async def run_in_thread(call: Callable[[], T], name: str) -> T:
    """Run a synchronous call in a thread of its own, with this context.

    Raises what it raises; for a call that needs a running loop a RuntimeError that says, by ``name``, to make it async.
    A thread cannot be stopped: if this is cancelled, the thread's late result and error are ignored, a coroutine that
    it returns is closed, and the runs that it started through `run_blocking` are cancelled and waited for.
    """
    loop = asyncio.get_running_loop()
    result: asyncio.Future[T] = loop.create_future()
    way_back = _WayBack(loop)
    context = contextvars.copy_context()
    context.run(_way_back.set, way_back)

    def work() -> None:
        try:
            value = context.run(call)
        except BaseException as error:
            _settle(loop, result, error)
        else:
            if way_back.closed:  # nobody waits any more, perhaps not even a loop
                _abandon(value)
            _settle(loop, result, None, value)

    threading.Thread(target=work, name=f"symfonic-{name}", daemon=True).start()
    try:
        return await result
    except asyncio.CancelledError:
        way_back.cancelled = True
        if result.done() and not result.cancelled() and result.exception() is None:
            _abandon(result.result())  # it came just now, and goes unheard
        raise
    except RuntimeError as error:
        if not _NO_LOOP.fullmatch(str(error)):
            raise
        _abandon_stranded(error)
        told = f"{name!r} needs a running event loop, so it must be async: define it with 'async def'"
        raise RuntimeError(told) from error
    finally:
        await way_back.close()


def run_blocking(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end from synchronous code and return its result.

    In a thread that `run_in_thread` started it runs on the loop that waits for the thread, so that a cancellation
    there reaches it; elsewhere on a loop of its own. Raises SymfonicError in a thread whose loop is running:
    blocking it would stop the very loop that has to do the work.
    """
    if not _loop_is_running():
        way_back = _way_back.get()
        return asyncio.run(make()) if way_back is None else way_back.run(make)
    raise SymfonicError(
        "an event loop is running in this thread, so blocking it would never end: await the asynchronous call"
        " instead (await agent.run(...), await tool.ainvoke(...)), or call this from another thread"
    )


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


class _WayBack:
    """From a thread to the loop that waits for it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[Any]] = set()
        self.closed = self.cancelled = False

    def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self.cancelled:
            raise asyncio.CancelledError
        if self.closed:  # a thread that outlives the call it was started for
            return asyncio.run(make())
        try:
            return asyncio.run_coroutine_threadsafe(self._tracked(make), self._loop).result()
        except concurrent.futures.CancelledError as cancelled:
            raise asyncio.CancelledError from cancelled

    async def close(self) -> None:
        self.closed = True
        await put_down(self._tasks)

    async def _tracked(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        if self.closed:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine is always run by a task
        self._tasks.add(task)
        try:
            return await make()
        finally:
            self._tasks.discard(task)


def _settle(
    loop: asyncio.AbstractEventLoop, result: "asyncio.Future[Any]", error: BaseException | None, value: Any = None
) -> None:
    def settle() -> None:
        if result.done():  # the caller has gone
            _abandon(value)
        elif isinstance(error, StopIteration):  # a future cannot hold one
            result.set_exception(RuntimeError(f"StopIteration: {error}"))
        elif error is not None:
            result.set_exception(error)
        else:
            result.set_result(value)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:  # the loop has closed: nobody waits
        _abandon(value)


def _abandon(*values: Any) -> None:
    """Close the coroutines among these: nobody will await them."""
    for value in values:
        if inspect.iscoroutine(value) and inspect.getcoroutinestate(value) == inspect.CORO_CREATED:
            value.close()


def _abandon_stranded(error: BaseException) -> None:
    """The same for what a call without a loop had made for it."""
    trace = error.__traceback__
    while trace is not None:
        for value in trace.tb_frame.f_locals.values():
            _abandon(*(value if isinstance(value, list | tuple | set) else (value,)))
        trace = trace.tb_next
