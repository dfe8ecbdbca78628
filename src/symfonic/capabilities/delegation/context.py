"""The run that code is executing in: its depth, scope and ceiling, and what it has done so far.

The active run is ambient: every context object sees the same one, in tasks and threads that carry the context.
"""

import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

from symfonic.capabilities.delegation.contracts import DelegationRecord
from symfonic.capabilities.delegation.depth import coerce_depth
from symfonic.kernel.contracts.ambient import Ambient
from symfonic.kernel.contracts.events import Event, Observer
from symfonic.kernel.contracts.messages import NO_USAGE, Usage

if TYPE_CHECKING:
    from symfonic.kernel.contracts.run_identity import RunIdentity

_active: Ambient["ActiveRun"] = Ambient("symfonic_active_run")
_log = logging.getLogger("symfonic.delegation")


def active_run() -> "ActiveRun | None":
    """The run that this code is executing in, or None outside any."""
    return _active.get()


class Snapshots(Protocol):
    """Where the state of a host's run can be read."""

    def latest(self) -> Mapping[str, Any] | None:
        """The newest state, or None."""
        ...


class ActiveRun:
    """A run in progress. What it did is counted until it ends, and never afterwards.

    ``max_depth`` is the ceiling in force, the lowest on the path, or None where none is stated.
    Appending to a list is atomic, so deliveries from tasks and threads are all counted without a lock.
    """

    __slots__ = (
        "_adoptable",
        "_delegated",
        "_open",
        "_outer",
        "_records",
        "_spent",
        "depth",
        "identity",
        "max_depth",
        "observers",
        "scope",
    )

    def __init__(
        self,
        depth: int,
        scope: Any = None,
        identity: "RunIdentity | None" = None,
        max_depth: int | None = None,
        observers: tuple[Observer, ...] = (),
        outer: "ActiveRun | None" = None,
    ) -> None:
        self.depth = depth
        self.scope = scope
        self.identity = identity
        self.max_depth = max_depth
        self.observers = observers
        self._outer = outer
        self._open = True
        self._adoptable = False
        self._delegated: list[str] = []
        self._records: list[list[DelegationRecord]] = []
        self._spent: list[Usage] = []

    @property
    def delegated(self) -> tuple[str, ...]:
        """The names of the children that delivered, in that order, one entry a delivery."""
        return tuple(self._delegated)

    @property
    def records(self) -> tuple[DelegationRecord, ...]:
        """The delegations of this run that have ended, in the order they began."""
        return tuple(record for place in tuple(self._records) for record in place)

    @property
    def usage(self) -> Usage:
        """What this run and everything below it has spent."""
        return sum(tuple(self._spent), NO_USAGE)

    def count_delivery(self, name: str) -> None:
        """Add a delivery to the tally."""
        if self._open:
            self._delegated.append(name)

    def spend(self, usage: Usage) -> None:
        """Add what was spent, here or in a run below that has ended."""
        if self._open:
            self._spent.append(usage)

    def reserve(self) -> Callable[[DelegationRecord], None]:
        """Keep the next place among the records; the function returned fills it."""
        place: list[DelegationRecord] = []
        if self._open:
            self._records.append(place)

        def fill(record: DelegationRecord) -> None:
            if self._open:
                place.append(record)

        return fill

    def tighten(self, max_depth: int | None, observers: tuple[Observer, ...] = ()) -> None:
        """Lower the ceiling, and add observers."""
        self.max_depth = _tighter(self.max_depth, max_depth)
        self.observers += observers

    def offer(self) -> None:
        """Let the run of ours that is called next be this very run."""
        self._adoptable = True

    def adopt(self, depth: int, parent_run_id: str | None) -> bool:
        """Whether a run called with these is this very run; yes at most once."""
        parent = self.identity.parent_run_id if self.identity else None
        if not (self._adoptable and self._open and depth == self.depth and parent_run_id == parent):
            return False
        self._adoptable = False
        return True

    def emit(self, event: Event) -> None:
        """Tell the observers; one that raises is logged and never changes the run."""
        for observer in self.observers:
            try:
                observer(event)
            except Exception:  # the result of a run must not depend on who watches it
                _log.exception("an observer raised on %s", type(event).__name__)

    def finish(self) -> None:
        """End the run: what it spent is its outer run's too."""
        usage = self.usage
        self._open = False
        if self._outer is not None and usage != NO_USAGE:
            self._outer.spend(usage)


class RunScope:
    """Opens an `ActiveRun` for the code inside and ends it on every exit.

    What is not given is the enclosing run's: its scope, its ceiling, its observers. Depth is never less than given.
    """

    __slots__ = ("_block", "_run")

    def __init__(
        self,
        *,
        depth: Any,
        scope: Any = None,
        max_depth: int | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> None:
        from symfonic.kernel.contracts.run_identity import current_run_identity

        outer = _active.get()
        if outer is not None:
            scope = outer.scope if scope is None else scope
            max_depth = _tighter(outer.max_depth, max_depth)
            observers = outer.observers + observers
        self._run = ActiveRun(coerce_depth(depth), scope, current_run_identity(), max_depth, observers, outer)
        self._block = _active.open(self._run)

    def __enter__(self) -> ActiveRun:
        return self._block.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._block.__exit__(kind, error, trace)
        self._run.finish()


class DelegationContext:
    """Reads the active run, and what stands in for it outside any.

    ``snapshots`` is where a host keeps its state; ``resolve_scope`` supplies a scope where nothing else does.
    """

    def __init__(self, *, snapshots: Snapshots | None = None, resolve_scope: Callable[[], Any] | None = None) -> None:
        self._snapshots = snapshots
        self._resolve_scope = resolve_scope

    def run_scope(
        self,
        *,
        depth: Any,
        scope: Any = None,
        max_depth: int | None = None,
        observers: tuple[Observer, ...] = (),
    ) -> AbstractContextManager[ActiveRun]:
        """Open an `ActiveRun` for the code inside; what was there before is restored on every exit."""
        return RunScope(depth=depth, scope=scope, max_depth=max_depth, observers=observers)

    def active_run(self) -> ActiveRun | None:
        """The run that this code is executing in, or None outside any."""
        return _active.get()

    def current_depth(self) -> int:
        """The open run's depth, else ``agent_depth`` of the latest snapshot, else 0."""
        run = _active.get()
        return coerce_depth(self._snapshot().get("agent_depth")) if run is None else run.depth

    def current_scope(self) -> Any:
        """The open run's scope, else the latest snapshot's, else what ``resolve_scope`` says, else None."""
        run = _active.get()
        if run is not None and run.scope is not None:
            return run.scope
        scope = self._snapshot().get("scope")
        if scope is None and self._resolve_scope is not None:
            return self._resolve_scope()
        return scope

    def record_delegation(self, name: str) -> None:
        """Add a delivery to the active run's tally; outside a run there is none to add to."""
        run = _active.get()
        if run is not None:
            run.count_delivery(name)

    def _snapshot(self) -> Mapping[str, Any]:
        return (self._snapshots.latest() if self._snapshots is not None else None) or {}


def _tighter(first: int | None, second: int | None) -> int | None:
    if first is None or second is None:
        return second if first is None else first
    return min(first, second)
