"""Bugs, planted one at a time: each breaks one promise, and a campaign that does not find it is worth nothing."""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from symfonic.capabilities.delegation import policies, tools
from symfonic.capabilities.delegation.active_run import ActiveRun, RunScope, active_run
from symfonic.capabilities.delegation.budget import Asked, Budget, Slot
from symfonic.capabilities.delegation.call import Call
from symfonic.capabilities.delegation.tools import DelegationTools
from symfonic.kernel.concurrency import tasks
from symfonic.kernel.contracts.ambient import Block

Patch = Iterator[None]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Patch:
    """Another attribute, for a while."""
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def lost_restore() -> Patch:
    """What is ambient is not restored where a block ends with an error."""
    leave = Block.__exit__

    def exit_(self: Any, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            leave(self, kind, error, trace)

    with replaced(Block, "__exit__", exit_):
        yield


@contextmanager
def raced_tally() -> Patch:
    """A delivery is counted by reading the tally, adding to it, and writing it back."""

    def count_delivery(self: ActiveRun, name: str) -> None:
        before = list(self._delegated)
        time.sleep(0.0005)  # where another thread may come in between
        if self._open:
            self._delegated = [*before, name]

    with replaced(ActiveRun, "count_delivery", count_delivery):
        yield


@contextmanager
def leaked_slot() -> Patch:
    """A child that goes away with an error keeps its place."""
    leave = Slot.leave

    def kept(self: Slot) -> None:
        if sys.exc_info()[0] is None:
            leave(self)

    with replaced(Slot, "leave", kept):
        yield


@contextmanager
def ignored_deadline() -> Patch:
    """Time is kept for what the root starts, and for nothing below."""
    within = tasks.run_within

    async def run_within(seconds: float, work: Any, *late: Any) -> Any:
        run = active_run()
        if run is None or run.depth == 0:
            return await within(seconds, work, *late)
        return await work

    with replaced(tools, "run_within", run_within), replaced(policies, "run_within", run_within):
        yield


@contextmanager
def lost_record() -> Patch:
    """A cancelled delegation is not closed."""
    failed = Call.failed

    def unless_cancelled(self: Call, error: BaseException) -> Any:
        return None if isinstance(error, asyncio.CancelledError) else failed(self, error)

    with replaced(Call, "failed", unless_cancelled):
        yield


@contextmanager
def late_reservation() -> Patch:
    """The budget is asked, and counted after others had their turn."""
    run = DelegationTools._run

    def ask(self: Budget, asked: Asked, name: str, task: str) -> Any:
        return self.peek(asked)

    async def count(self: DelegationTools, call: Call, scope: Any) -> Any:
        await asyncio.sleep(0)
        if call.caller is not None and call.caller.budget is not None:
            call.caller.asked.add(call.name, call.task)
            for level in call.caller.budget._levels():
                level._delegations += 1
        return await run(self, call, scope)

    with replaced(Budget, "reserve_child", ask), replaced(DelegationTools, "_run", count):
        yield


@contextmanager
def forgotten_ceiling() -> Patch:
    """A child knows nothing of the ceiling of the runs around it."""
    make = ActiveRun.__init__

    def init(self: ActiveRun, *arguments: Any, **named: Any) -> None:
        make(self, *arguments, **named)
        self._max_depth = None

    def opened(self: Call, run: ActiveRun) -> None:
        self.ceiling = 1000
        told(self, run)

    told = Call.opened
    with replaced(ActiveRun, "__init__", init), replaced(Call, "opened", opened):
        yield


@contextmanager
def dropped_usage() -> Patch:
    """What a failed child has spent is counted nowhere above it."""
    leave = RunScope.__exit__

    def exit_(self: RunScope, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None:
            self.value._outer = None
        leave(self, kind, error, trace)

    with replaced(RunScope, "__exit__", exit_):
        yield


PLANTED: dict[str, Callable[[], Any]] = {
    each.__name__: each
    for each in (
        lost_restore,
        raced_tally,
        leaked_slot,
        ignored_deadline,
        lost_record,
        late_reservation,
        forgotten_ceiling,
        dropped_usage,
    )
}
