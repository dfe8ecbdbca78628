"""Asynchronous observers, told by synchronous code: in order, and without holding it up."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from inspect import iscoroutinefunction
from typing import Any

from symfonic.kernel.concurrency.tasks import put_down

DRAIN_SECONDS = 5.0
"""How long an asynchronous observer has, after the run, to take what is left."""

_log = logging.getLogger("symfonic.runtime")


@asynccontextmanager
async def _relays(observers: tuple[Callable[[Any], Any], ...]) -> AsyncIterator[tuple[Callable[[Any], Any], ...]]:
    relays = {each: Relay(each) for each in observers if is_async(each)}
    try:
        yield tuple(relays.get(each, each) for each in observers)
    finally:
        for relay in relays.values():
            await relay.close()


class _Unchanged:
    """What `relayed` is where no observer is asynchronous."""

    __slots__ = ("_observers",)

    def __init__(self, observers: tuple[Callable[[Any], Any], ...]) -> None:
        self._observers = observers

    async def __aenter__(self) -> tuple[Callable[[Any], Any], ...]:
        return self._observers

    async def __aexit__(self, *ended: object) -> None: ...


def relayed(observers: tuple[Callable[[Any], Any], ...]) -> Any:
    """An async context manager over the observers, the asynchronous ones behind relays of their own."""
    return _relays(observers) if any(map(is_async, observers)) else _Unchanged(observers)


def is_async(observer: Callable[[Any], Any]) -> bool:
    """Whether calling it gives a coroutine."""
    return iscoroutinefunction(observer) or iscoroutinefunction(getattr(observer, "__call__", None))  # noqa: B004


class Relay:
    """Takes events from any thread and hands them to an asynchronous observer, one after another."""

    def __init__(self, observer: Callable[[Any], Awaitable[object]]) -> None:
        self._observer = observer
        self._loop = asyncio.get_running_loop()
        self._events: asyncio.Queue[Any] = asyncio.Queue()
        self._task = self._loop.create_task(self._pump())

    def __call__(self, event: Any) -> None:
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._events.put_nowait(event)
        else:
            self._loop.call_soon_threadsafe(self._events.put_nowait, event)

    async def close(self) -> None:
        """Let the observer take what is left, for a while."""
        self._events.put_nowait(_LAST)
        try:
            await asyncio.wait({self._task}, timeout=DRAIN_SECONDS)
        finally:
            if not self._task.done():
                _log.error("observer %r did not take every event within %g s", self._observer, DRAIN_SECONDS)
            await put_down([self._task])

    async def _pump(self) -> None:
        while (event := await self._events.get()) is not _LAST:
            try:
                await self._observer(event)
            except Exception:
                _log.exception("an observer raised on %s of run %s", type(event).__name__, event.where.run_id)


_LAST = object()
