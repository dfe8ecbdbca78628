"""What a tree of runs may still spend. Decided in one synchronous step, whatever thread asks.

A run that states limits opens a budget inside its enclosing run's. What runs below draws on both, so that a child has
what is left, and its own limits only tighten. A reservation is made on every level, or on none.
"""

import itertools
import threading
import time
from asyncio import CancelledError
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import fields
from typing import Any, TypeVar

from symfonic.errors import LimitReachedError
from symfonic.kernel.concurrency.places import Waiter
from symfonic.kernel.concurrency.tasks import run_together
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.messages import Usage

T = TypeVar("T")

_COUNTED = tuple(each.name for each in fields(Limits) if each.name != "timeout")


class Budget:
    """The counters behind one run's limits, inside those of the runs around it."""

    __slots__ = (
        "_delegations",
        "_lock",
        "_model_calls",
        "_outer",
        "_queue",
        "_running",
        "_tokens",
        "deadline",
        "limits",
    )

    def __init__(self, limits: Limits, outer: "Budget | None" = None) -> None:
        self.limits: Limits = limits
        self.deadline: float | None = None if limits.timeout is None else time.monotonic() + limits.timeout
        self._outer = outer
        # re-entrant: the garbage collector may close a waiting coroutine in the middle of a step
        self._lock: threading.RLock = outer._lock if outer else threading.RLock()
        self._queue: deque[tuple[Budget, Waiter]] = outer._queue if outer else deque()
        self._delegations = self._model_calls = self._tokens = self._running = 0

    def reserve_child(self, asked: "Asked", name: str, task: str) -> LimitReachedError | None:
        """Count a child of a run, unless a limit of the tree or of the run is reached; then that limit."""
        with self._lock:
            reached = self._spent() or self._reached("max_delegations", lambda level: level._delegations)
            reached = reached or self._reached("max_fan_out", lambda _: asked.total)
            reached = reached or self._reached("max_repeats", lambda _: asked.times(name, task))
            if reached is None:
                asked.add(name, task)
                for level in self._levels():
                    level._delegations += 1
            return reached

    def peek(self, asked: "Asked") -> LimitReachedError | None:
        """The limit that would refuse any child of a run now, or None."""
        with self._lock:
            reached = self._spent() or self._reached("max_delegations", lambda level: level._delegations)
            return reached or self._reached("max_fan_out", lambda _: asked.total)

    def spent(self) -> LimitReachedError | None:
        """The limit of the tree that leaves it no time, tokens or model calls, or None."""
        with self._lock:
            return self._spent()

    def overdue(self) -> LimitReachedError | None:
        """The deadline that is over, or None."""
        now = time.monotonic()
        for level in self._levels():
            if level.deadline is not None and now >= level.deadline:
                return level._late()
        return None

    def reserve_model_call(self) -> None:
        """Count a model call. Raises LimitReachedError if the tree has none left, or no tokens or time."""
        with self._lock:
            reached = self._spent()
            if reached is not None:
                raise reached
            for level in self._levels():
                level._model_calls += 1

    def spend_tokens(self, tokens: int) -> None:
        """Count tokens, afterwards: what a call in flight spends is known when it has ended."""
        if tokens:
            with self._lock:
                for level in self._levels():
                    level._tokens += tokens

    def charge(self, usage: Usage, delegations: int) -> None:
        """Count what was spent elsewhere, afterwards, whether or not it was left."""
        with self._lock:
            for level in self._levels():
                level._delegations += delegations
                level._model_calls += usage.model_calls
                level._tokens += usage.input_tokens + usage.output_tokens

    def left(self) -> Limits:
        """What may still be spent, as limits. Raises LimitReachedError where no time, token or model call is left."""
        levels = list(self._levels())
        with self._lock:
            reached = self._spent()
            if reached is not None:
                raise reached
            spent = {
                "max_delegations": [each._delegations for each in levels],
                "max_model_calls": [each._model_calls for each in levels],
                "max_tokens": [each._tokens for each in levels],
            }
        left: dict[str, int] = {}
        for limit in _COUNTED:
            used = spent.get(limit, [0] * len(levels))
            stated = [(getattr(each.limits, limit), count) for each, count in zip(levels, used, strict=True)]
            rest = [max(0, most - count) for most, count in stated if most is not None]
            if rest:
                left[limit] = min(rest)
        time_left = self.time_left()
        return Limits(**left, timeout=None if time_left is None else max(time_left[0], 0.001))

    def counts_running(self) -> bool:
        """Whether any level limits how many children run at once."""
        return any(level.limits.max_concurrency is not None for level in self._levels())

    def time_left(self) -> tuple[float, LimitReachedError] | None:
        """The seconds until the first deadline of the levels, and what is to be said then; None where there is none."""
        timed = [(level.deadline, level) for level in self._levels() if level.deadline is not None]
        if not timed:
            return None
        deadline, level = min(timed, key=lambda each: each[0])
        return max(0.0, deadline - time.monotonic()), level._late()

    def answer_cap(self) -> int | None:
        """The lowest ``max_answer_chars`` of the levels, or None."""
        caps = [level.limits.max_answer_chars for level in self._levels()]
        return min((cap for cap in caps if cap is not None), default=None)

    async def acquire(self) -> None:
        """Wait until one more child may run at once."""
        with self._lock:
            if not self._queue and self._take():
                return
            waiter = Waiter()
            self._queue.append((self, waiter))
            self._grant()  # those before it may be waiting for another level's sake
        await waiter.wait(self._lock, self._give_back, lambda: self._forget(waiter))

    def release(self) -> None:
        """One child less is running."""
        with self._lock:
            self._give_back()

    def _levels(self) -> "Iterator[Budget]":
        level: Budget | None = self
        while level is not None:
            yield level
            level = level._outer

    def _late(self) -> LimitReachedError:
        return LimitReachedError("timeout", self.limits.timeout or 0)

    def _spent(self) -> LimitReachedError | None:
        reached = self.overdue() or self._reached("max_model_calls", lambda level: level._model_calls)
        return reached or self._reached("max_tokens", lambda level: level._tokens)

    def _reached(self, limit: str, count: "Callable[[Budget], int]") -> LimitReachedError | None:
        for level in self._levels():
            most = getattr(level.limits, limit)
            if most is not None and count(level) >= most:
                return LimitReachedError(limit, most)
        return None

    def _take(self) -> bool:
        full = any(
            level.limits.max_concurrency is not None and level._running >= level.limits.max_concurrency
            for level in self._levels()
        )
        if not full:
            for level in self._levels():
                level._running += 1
        return not full

    def _forget(self, waiter: Waiter) -> None:
        if (self, waiter) in self._queue:  # it is not where its loop was found closed
            self._queue.remove((self, waiter))
            self._grant()

    def _give_back(self) -> None:
        for level in self._levels():
            level._running -= 1
        self._grant()

    def _grant(self) -> None:
        for place in tuple(self._queue):
            budget, waiter = place
            if place in self._queue and budget._take():
                self._queue.remove(place)
                if not waiter.grant():
                    budget._give_back()


class Asked:
    """What one run has asked of its children so far."""

    __slots__ = ("_numbers", "_times", "total")

    def __init__(self) -> None:
        self.total: int = 0
        self._numbers: dict[str, Iterator[int]] = {}
        self._times: dict[tuple[str, str], int] = {}

    def times(self, name: str, task: str) -> int:
        """How often the same child was given the same task."""
        return self._times.get((name, task), 0)

    def number(self, derived: str) -> int:
        """The how manyth child this is whose id is derived so; each has its own, whatever thread asks."""
        return next(self._numbers.setdefault(derived, itertools.count(1)))

    def add(self, name: str, task: str) -> None:
        """Count one more."""
        self.total += 1
        self._times[name, task] = self.times(name, task) + 1


class Slot:
    """A child's place among those that run at once; it has none while it waits for children of its own.

    So a tree that is deeper than it may run at once never waits for itself.
    """

    __slots__ = ("_budget", "_held", "_left", "_lock", "_waiting_for")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._held = self._left = False
        self._waiting_for = 0

    async def enter(self) -> None:
        """Wait for the place, unless it is not wanted any more by the time it is there.

        That is so where children are being waited for again, and where the child has ended before a task of its own.
        """
        if self._left:
            return
        await self._budget.acquire()
        with self._lock:
            surplus = self._held or self._left or self._waiting_for > 0
            self._held = True if not surplus else self._held
        if surplus:
            self._budget.release()

    def lend(self) -> None:
        """A child of this one is about to run."""
        with self._lock:
            self._waiting_for += 1
            lent, self._held = self._held, False
        if lent:
            self._budget.release()

    def returned(self) -> bool:
        """A child of this one has ended; whether it was the last, so that the place is wanted again."""
        with self._lock:
            self._waiting_for -= 1
            return self._waiting_for == 0

    def leave(self) -> None:
        """Give the place up for good."""
        with self._lock:
            held, self._held, self._left = self._held, False, True
        if held:
            self._budget.release()


async def lent(slot: Slot, work: Coroutine[Any, Any, T]) -> T:
    """What the work of a child returns, or raises; meanwhile its parent's place is free for others.

    The parent has it back before it goes on, unless it is going away. The work is done in a task of its own, for else a
    child that cancels itself could not be told from a parent that is cancelled.
    """
    slot.lend()
    wanted = True
    try:
        [answer] = await run_together([work])
    except (CancelledError, GeneratorExit):
        wanted = False
        raise
    finally:
        if slot.returned() and wanted:
            await slot.enter()
    if isinstance(answer, CancelledError):
        raise answer
    return answer


@asynccontextmanager
async def place_of_child(budget: Budget) -> AsyncIterator[Slot]:
    """A place for a child among those that run at once.

    Raises LimitReachedError if there is nothing left to spend by the time it has one.
    """
    slot = Slot(budget)
    try:
        await slot.enter()
        reached = budget.spent()
        if reached is not None:
            raise reached
        yield slot
    finally:
        slot.leave()
