"""The tree of delegations as observers see it grow."""

import threading
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime

from symfonic import DelegationOutcome
from symfonic.kernel.contracts.events import (
    DelegationFinished,
    DelegationRefused,
    DelegationRetried,
    DelegationStarted,
    Event,
)

RUNNING, DELIVERED, CANCELLED = "running", "delivered", "cancelled"


@dataclass(slots=True)
class Node:
    """One delegation. ``duration`` is in seconds, and None while it runs."""

    event: DelegationStarted | DelegationRefused
    outcome: str = RUNNING
    message: str = ""
    began: float = field(default_factory=time.monotonic)
    began_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    duration: float | None = None
    children: "list[Node]" = field(default_factory=list)

    @property
    def depth(self) -> int:
        """The child's depth."""
        return self.event.where.depth + 1

    def seconds(self) -> float:
        """How long it took, or has been taking."""
        return time.monotonic() - self.began if self.duration is None else self.duration


class DelegationTree:
    """What has been delegated so far. Events may come from any thread, and some twice."""

    def __init__(self) -> None:
        self._roots: list[Node] = []
        self._by_run: dict[str, Node] = {}
        self._lock = threading.RLock()  # Ctrl-C may come while it is held

    def note(self, event: Event) -> Node | None:
        """Add what happened; the node that changed, or None where nothing did."""
        with self._lock:
            if isinstance(event, DelegationFinished):
                return self._finish(event)
            if isinstance(event, DelegationRetried) and event.failed.run_id in self._by_run:
                self._by_run[event.child.run_id] = self._by_run[event.failed.run_id]
            if not isinstance(event, DelegationStarted | DelegationRefused):
                return None
            above = self._by_run.get(event.where.run_id)
            siblings = above.children if above else self._roots
            if any(node.event is event for node in siblings):
                return None
            if isinstance(event, DelegationRefused):
                node = Node(event, event.outcome, event.message, duration=0.0)
            else:
                node = self._by_run[event.child.run_id] = Node(event)
            siblings.append(node)
            return node

    def close(self) -> None:
        """Nothing runs any more: what has not ended was cancelled."""
        for node, _ in self.walk():
            if node.outcome == RUNNING:
                node.outcome, node.duration = CANCELLED, node.seconds()

    def walk(self) -> list[tuple[Node, int]]:
        """Every node with its level, parents before their children, siblings in the order they began."""
        found: list[tuple[Node, int]] = []
        with self._lock:
            todo = [(node, 0) for node in reversed(self._roots)]
            while todo:
                node, level = todo.pop()
                found.append((node, level))
                todo += [(child, level + 1) for child in reversed(node.children)]
        return found

    def summary(self) -> str:
        """How many delegations ended in which way: ``2 delivered, 1 cancelled``."""
        counts: dict[str, int] = {}
        for node, _ in self.walk():
            counts[node.outcome] = counts.get(node.outcome, 0) + 1
        return ", ".join(f"{count} {outcome}" for outcome, count in counts.items()) or "no delegations"

    def _finish(self, event: DelegationFinished) -> Node | None:
        node = self._by_run.get(event.child.run_id)
        if node is None or node.outcome != RUNNING:
            return None
        cancelled = event.outcome == DelegationOutcome.CHILD_CANCELLED
        node.outcome, node.message = (CANCELLED, "") if cancelled else (event.outcome, event.message)
        node.duration = event.duration
        return node
