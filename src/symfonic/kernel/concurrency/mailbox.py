"""What is put in from any thread and taken out on one event loop, in order."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Mailbox(Generic[T]):
    """A queue of the loop that it is made on."""

    __slots__ = ("_loop", "_queue", "get")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T] = asyncio.Queue()
        self.get: Callable[[], Coroutine[Any, Any, T]] = self._queue.get

    def put(self, item: T) -> None:
        """Put something in, without waiting. Raises RuntimeError from another thread once the loop has closed."""
        try:
            here = asyncio.get_running_loop() is self._loop
        except RuntimeError:
            here = False
        if here:
            self._queue.put_nowait(item)
        else:
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
