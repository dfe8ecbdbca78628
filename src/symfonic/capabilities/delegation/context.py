"""Reads the active run, and what stands in for it outside any."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from symfonic.capabilities.delegation.active_run import ActiveRun, RunScope, active_run
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.capabilities.delegation.depth import coerce_depth

if TYPE_CHECKING:
    from symfonic.kernel.contracts.run_identity import RunIdentity

__all__ = ["ActiveRun", "DelegationContext", "Snapshots"]


class Snapshots(Protocol):
    """Where the state of a host's run can be read."""

    def latest(self) -> Mapping[str, Any] | None:
        """The newest state, or None."""
        ...


class DelegationContext:
    """Where a run of ours is placed and found; every context object sees the same active run.

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
        bounds: Bounds | None = None,
        agent: str = "",
        identity: "RunIdentity | None" = None,
    ) -> RunScope:
        """Open an `ActiveRun` for the code inside; what was there before is restored on every exit."""
        return RunScope(depth=depth, scope=scope, bounds=bounds, agent=agent, identity=identity)

    def active_run(self) -> ActiveRun | None:
        """The run that this code is executing in, or None outside any."""
        return active_run()

    def current_depth(self) -> int:
        """The open run's depth, else ``agent_depth`` of the latest snapshot, else 0."""
        run = active_run()
        return coerce_depth(self._snapshot().get("agent_depth")) if run is None else run.depth

    def current_scope(self) -> Any:
        """The open run's scope, else the latest snapshot's, else what ``resolve_scope`` says, else None."""
        run = active_run()
        if run is not None and run.scope is not None:
            return run.scope
        scope = self._snapshot().get("scope")
        if scope is None and self._resolve_scope is not None:
            return self._resolve_scope()
        return scope

    def record_delegation(self, name: str) -> None:
        """Add a delivery to the active run's tally; outside a run there is none to add to."""
        run = active_run()
        if run is not None:
            run.count_delivery(name)

    def _snapshot(self) -> Mapping[str, Any]:
        return (self._snapshots.latest() if self._snapshots is not None else None) or {}
