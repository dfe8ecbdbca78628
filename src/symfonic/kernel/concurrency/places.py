"""A fixed number of places, waited for from any loop and any thread."""

import asyncio
import threading
from collections import deque


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
        try:
            await waiter.turn
        except BaseException:
            with self._lock:
                if waiter.granted:
                    self._give_back()
                elif waiter in self._queue:  # it is not where its loop was found closed
                    self._queue.remove(waiter)
            raise

    def release(self) -> None:
        """Give a place back."""
        with self._lock:
            self._give_back()

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
