"""The facades' own tally of deliveries, beside that of the runs."""

from contextvars import ContextVar

from symfonic.capabilities.delegation.active_run import ActiveRun, active_run

delegated_agents: ContextVar[dict[ActiveRun, list[str]] | None] = ContextVar("symfonic_delegated_agents", default=None)
"""The facades' tally: what each run of the current tree was delivered."""


def report_delegation(name: str) -> None:
    """Add a delivery to the facades' tally of the active run."""
    tally, run = delegated_agents.get(), active_run()
    if tally is not None and run is not None and run.is_open:
        tally.setdefault(run, []).append(name)
