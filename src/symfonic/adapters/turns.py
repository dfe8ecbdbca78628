"""Turns with foreign agents that can do one thing at a time: delegations to such an agent wait for each other.

So it is wherever the agent is declared, and whichever framework it is of. What would wait for ever is refused.
"""

import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakValueDictionary

from symfonic.capabilities.delegation.active_run import active_run
from symfonic.errors import SymfonicError
from symfonic.kernel.concurrency.places import Places
from symfonic.kernel.concurrency.threads import run_in_thread
from symfonic.kernel.contracts.ambient import Ambient

_lock = threading.RLock()  # the garbage collector may close a waiting coroutine in the middle of a step
_lines: "WeakValueDictionary[int, _Line]" = WeakValueDictionary()
_around: Ambient[tuple["Turn", ...]] = Ambient("symfonic_turns")


@asynccontextmanager
async def turn(name: str, agents: Iterable[Any], why: str = "does one at a time") -> AsyncIterator["Turn"]:
    """Wait for the turn with these agents, and have it inside. They are told apart by identity.

    While it waits, the run's own place among those that run at once is free for others. Raises SymfonicError if the
    turn would never come, from below itself or in a circle: ``name`` is in the middle of that task, and ``why``.
    """
    mine = Turn(name)
    above = _around.get() or ()
    try:
        async with _place_lent():
            await mine.take(_lines_of(agents), above, why)
        with _around.open((*above, mine)):
            yield mine
    finally:
        mine.give_up()


class Turn:
    """The time in which some agents are one delegation's, and whom it or what is below it waits for."""

    __slots__ = ("_claimed", "_held", "_name", "waits_for")

    def __init__(self, name: str) -> None:
        self._name = name
        self._claimed = threading.Lock()
        self._held: list[_Line] = []
        self.waits_for: list[_Line] = []

    async def in_thread(self, work: Callable[[], Any]) -> Any:
        """The result of synchronous work, done in a thread. The turn ends with that, not with who waits for it."""
        return await run_in_thread(lambda: self._spend(work), self._name)

    def _spend(self, work: Callable[[], Any]) -> Any:
        if not self._claimed.acquire(blocking=False):  # given up before the thread began
            return None
        try:
            return work()
        finally:
            self._end()

    def give_up(self) -> None:
        """End the turn, unless a thread has it."""
        if self._claimed.acquire(blocking=False):
            self._end()

    def _end(self) -> None:
        for line in self._held:
            line.holder = None
            line.places.release()
        self._held.clear()

    async def take(self, lines: "Sequence[_Line]", above: "tuple[Turn, ...]", why: str) -> None:
        """Wait for them, one after the other. Raises SymfonicError if one would never come."""
        waiting = (*above, self)
        for number, line in enumerate(lines):
            with _lock:
                if _wait_for_one_of(lines[number:], waiting):
                    raise SymfonicError(f"{self._name!r} is in the middle of a task that waits for this one, and {why}")
                for each in waiting:
                    each.waits_for.append(line)
            try:
                await line.places.acquire()
                line.holder = self
                self._held.append(line)
            finally:
                with _lock:
                    for each in waiting:
                        each.waits_for.remove(line)


class _Line:
    """Those who wait for one agent, and who has it."""

    __slots__ = ("__weakref__", "_agent", "holder", "places")

    def __init__(self, agent: Any) -> None:
        self._agent = agent  # as long as it lives nothing else has its id
        self.places = Places(1)
        self.holder: Turn | None = None


def _lines_of(agents: Iterable[Any]) -> list[_Line]:
    """In one order for all, or two could wait for each other."""
    members = {id(each): each for each in agents}
    with _lock:
        return [_lines.setdefault(key, _Line(members[key])) for key in sorted(members)]


def _wait_for_one_of(lines: Iterable[_Line], turns: tuple[Turn, ...]) -> bool:
    """Whether who has one of the lines can only go on when one of the turns has ended."""
    found, seen = list(lines), set[Turn]()
    while found:
        holder = found.pop().holder
        if holder in turns:
            return True
        if holder is not None and holder not in seen:
            seen.add(holder)
            found.extend(holder.waits_for)
    return False


@asynccontextmanager
async def _place_lent() -> AsyncIterator[None]:
    run = active_run()
    slot = run.slot if run is not None else None
    if slot is None:
        yield
        return
    slot.lend()
    try:
        yield
    except BaseException:
        slot.returned()
        raise
    if slot.returned():
        await slot.enter()
