"""Waiting for runs to end: one look at the database for all that are waited for, and not one for each."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from symfonic.durable.settings import POLL


class _Waiter:
    """Somebody who waits for a run, and what came of it. What was seen before he came is not told him: a run that had
    ended may have been resumed since."""

    __slots__ = ("ended", "row", "run_id")

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.ended = False
        self.row: Any = None


class Watch:
    """Those who wait in one event loop. ``look`` finds which of some runs have ended, and what came of them.

    Whoever finds that nobody has looked lately looks for all of them.
    """

    def __init__(self, look: Callable[[list[str]], Awaitable[Mapping[str, Any]]]) -> None:
        self._look = look
        self._waiting: set[_Waiter] = set()
        self._seen: set[_Waiter] = set()
        self._looked = 0.0
        self._going: asyncio.Future[None] | None = None

    async def ended(self, run_id: str, *, at_once: bool) -> Any:
        """What came of a run, when it has ended, however it did. Raises what ``look`` raises.

        ``at_once``: it may have ended already, and so the first look is not put off.
        """
        waiter = _Waiter(run_id)
        self._waiting.add(waiter)
        try:
            if at_once:
                await self._round(waiter)
            while not waiter.ended:
                await asyncio.sleep(POLL)
                await self._round(waiter)
            return waiter.row
        finally:
            self._waiting.discard(waiter)
            self._seen.discard(waiter)

    async def _round(self, waiter: _Waiter) -> None:
        if self._going is not None:
            await asyncio.wait({self._going})
        lately = time.monotonic() - self._looked < 0.8 * POLL
        if waiter.ended or self._going is not None or (lately and waiter in self._seen):
            return
        going = self._going = asyncio.get_running_loop().create_future()
        try:
            asked = set(self._waiting)
            found = await self._look(sorted({each.run_id for each in asked}))
            for each in asked:
                if each.run_id in found:
                    each.ended, each.row = True, found[each.run_id]
            self._seen, self._looked = asked & self._waiting, time.monotonic()
        finally:
            self._going = None
            going.set_result(None)
