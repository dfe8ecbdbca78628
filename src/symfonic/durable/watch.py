"""Waiting for runs to end: one look at the database for all that are waited for, and not one for each."""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from symfonic.durable.settings import POLL


class Watch:
    """Those who wait in one event loop. ``look`` finds which of some runs have ended, and what came of them.

    Whoever finds that nobody has looked lately looks for all of them.
    """

    def __init__(self, look: Callable[[list[str]], Awaitable[Mapping[str, Any]]]) -> None:
        self._look = look
        self._waiting: Counter[str] = Counter()
        self._ended: dict[str, Any] = {}
        self._seen: set[str] = set()
        self._looked = 0.0
        self._going: asyncio.Future[None] | None = None

    async def ended(self, run_id: str, *, at_once: bool) -> Any:
        """What came of a run, when it has ended, however it did. Raises what ``look`` raises.

        ``at_once``: it may have ended already, and so the first look is not put off.
        """
        self._waiting[run_id] += 1
        try:
            if at_once:
                await self._round(run_id)
            while run_id not in self._ended:
                await asyncio.sleep(POLL)
                await self._round(run_id)
            return self._ended[run_id]
        finally:
            self._waiting[run_id] -= 1
            if not self._waiting[run_id]:
                del self._waiting[run_id]
                self._ended.pop(run_id, None)

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
