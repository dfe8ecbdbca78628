"""A fixed number of places, waited for from any loop and any thread."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class Places:
    """Like a semaphore, but not bound to one event loop. First come, first served."""

    def __init__(self, most: int) -> None:
        self._free = most
        self._lock = threading.RLock()  # the garbage collector may close a waiting coroutine in the middle of a step
        self._queue: deque[Waiter] = deque()

    async def acquire(self) -> None:
        """Wait for a place."""
        with self._lock:
            if self._free and not self._queue:
                self._free -= 1
                return
            waiter = Waiter()
            self._queue.append(waiter)
        await waiter.wait(self._lock, self._give_back, lambda: self._forget(waiter))

    def release(self) -> None:
        """Give a place back."""
        with self._lock:
            self._give_back()

    def _forget(self, waiter: "Waiter") -> None:
        if waiter in self._queue:  # it is not where its loop was found closed
            self._queue.remove(waiter)

    def _give_back(self) -> None:
        self._free += 1
        while self._free and self._queue:
            if self._queue.popleft().grant():
                self._free -= 1


class Waiter:
    """Someone, on some loop, who waits for a turn."""

    __slots__ = ("_loop", "granted", "turn")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.turn: asyncio.Future[None] = self._loop.create_future()
        self.granted: bool = False

    async def wait(
        self, lock: AbstractContextManager[Any], give_back: Callable[[], object], forget: Callable[[], object]
    ) -> None:
        """Wait for the turn. Where that ends otherwise, what was granted is given back, or the waiter forgotten."""
        try:
            await self.turn
        except BaseException:
            with lock:
                give_back() if self.granted else forget()
            raise

    def grant(self) -> bool:
        """Give the turn; whether that could be told: the loop may have closed."""
        try:
            self._loop.call_soon_threadsafe(self._wake)
        except RuntimeError:
            return False
        self.granted = True
        return True

    def _wake(self) -> None:
        if not self.turn.done():
            self.turn.set_result(None)
