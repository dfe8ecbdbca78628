"""Asynchronous observers, told by synchronous code: in order, and without holding it up."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from inspect import iscoroutinefunction
from typing import Any

from symfonic.kernel.concurrency.mailbox import Mailbox
from symfonic.kernel.concurrency.tasks import put_down

DRAIN_SECONDS = 5.0
"""How long an asynchronous observer has, after the run, to take what is left."""

_log = logging.getLogger("symfonic.runtime")


class Relayed:
    """An async context manager over observers, the asynchronous ones behind relays of their own."""

    __slots__ = ("_observers", "_relays")

    def __init__(self, observers: tuple[Callable[[Any], Any], ...]) -> None:
        self._observers = observers

    async def __aenter__(self) -> tuple[Callable[[Any], Any], ...]:
        told = tuple(Relay(each) if is_async(each) else each for each in self._observers)
        self._relays = [each for each in told if isinstance(each, Relay)]
        return told

    async def __aexit__(self, kind: type[BaseException] | None, *ended: object) -> None:
        tasks = {relay.last(): relay for relay in self._relays}
        if kind is GeneratorExit:  # the run was closed from outside its loop, and cannot wait
            with suppress(RuntimeError):  # the loop has gone, and its tasks with it
                for task in tasks:
                    task.cancel()
            return
        try:
            await asyncio.wait(tasks, timeout=DRAIN_SECONDS)
        finally:
            for task, relay in tasks.items():
                if not task.done() or task.cancelled():
                    _log.error("observer %r did not take every event in %g s", relay.observer, DRAIN_SECONDS)
            await put_down(tasks)


def is_async(observer: Callable[[Any], Any]) -> bool:
    """Whether calling it gives a coroutine."""
    return iscoroutinefunction(observer) or iscoroutinefunction(getattr(observer, "__call__", None))  # noqa: B004


class Relay:
    """Takes events from any thread and hands them to an asynchronous observer, one after another.

    Two relays to one observer are equal, as the observer is to itself: a run inside a run tells it once.
    """

    def __init__(self, observer: Callable[[Any], Awaitable[object]]) -> None:
        self.observer = observer
        self._events: Mailbox[Any] = Mailbox()
        self._task = asyncio.get_running_loop().create_task(self._pump())

    def __call__(self, event: Any) -> None:
        self._events.put(event)

    def __eq__(self, other: object) -> bool:  # and no hash: an observer need not have one either
        return isinstance(other, Relay) and other.observer == self.observer

    def last(self) -> "asyncio.Task[None]":
        """No event comes after those that are here; the task that ends when the observer has taken them."""
        self._events.put(_LAST)
        return self._task

    async def _pump(self) -> None:
        while (event := await self._events.get()) is not _LAST:
            try:
                await self.observer(event)
            except (Exception, asyncio.CancelledError) as error:
                task = asyncio.current_task()
                if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                    raise
                _log.exception("an observer raised on %s of run %s", type(event).__name__, event.where.run_id)


_LAST = object()
