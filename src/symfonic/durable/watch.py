"""Waiting for runs to end: one look at the database for all that are waited for, and not one for each."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable

from symfonic.durable.settings import POLL


class Watch:
    """Those who wait in one event loop. ``look`` says which of some runs have ended.

    Whoever finds that nobody has looked lately looks for all of them.
    """

    def __init__(self, look: Callable[[list[str]], Awaitable[Iterable[str]]]) -> None:
        self._look = look
        self._waiting: Counter[str] = Counter()
        self._ended: set[str] = set()
        self._seen: set[str] = set()
        self._looked = 0.0
        self._going: asyncio.Future[None] | None = None

    async def ended(self, run_id: str) -> None:
        """Wait until a run has ended, however it did. Raises what ``look`` raises."""
        self._waiting[run_id] += 1
        try:
            await self._round(run_id)
            while run_id not in self._ended:
                await asyncio.sleep(POLL)
                await self._round(run_id)
        finally:
            self._waiting[run_id] -= 1
            if not self._waiting[run_id]:
                del self._waiting[run_id]
                self._ended.discard(run_id)

    async def _round(self, run_id: str) -> None:
        if self._going is not None:
            await asyncio.wait({self._going})
        lately = time.monotonic() - self._looked < 0.8 * POLL
        if self._going is not None or (lately and run_id in self._seen):
            return
        going = self._going = asyncio.get_running_loop().create_future()
        try:
            asked = set(self._waiting)
            self._ended.update(await self._look(sorted(asked)))
            self._seen, self._looked = asked, time.monotonic()
        finally:
            self._going = None
            going.set_result(None)
