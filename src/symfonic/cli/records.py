"""Delegations and results as JSON lines: ASCII, one object a line, parents before their children."""

import dataclasses
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from symfonic import AgentResult, DelegationRecord
from symfonic.capabilities.delegation.reports import walk
from symfonic.cli.tree import DelegationTree, Node


def result_lines(result: AgentResult) -> Iterator[str]:
    """A finished run: its records, then the result."""
    for record in walk(result.delegations):
        yield _line(_of_record(record))
    yield _line(
        {
            "type": "result",
            "text": result.text,
            "run_id": result.run_id,
            "root_run_id": result.root_run_id,
            "parent_run_id": result.parent_run_id,
            "delegated_to": list(result.delegated_to),
            "usage": dataclasses.asdict(result.usage),
        }
    )


def unfinished_lines(tree: DelegationTree, kind: str, message: str) -> Iterator[str]:
    """A run without a result: what was seen of its delegations, then why. ``kind`` is "failed" or "cancelled"."""
    for node, _ in tree.walk():
        yield _line(_of_node(node))
    yield _line({"type": kind, "message": message})


def _of_record(record: DelegationRecord) -> dict[str, Any]:
    trace = record.trace
    child = trace and trace.child
    caller = trace and trace.caller
    return {
        "type": "delegation",
        "name": record.name,
        "outcome": str(record.outcome),
        "depth": record.depth,
        "task": trace and trace.task,
        "message": record.message,
        "run_id": record.run_id or (child.run_id if child else ""),
        "root_run_id": record.root_run_id or (child.root_run_id if child else ""),
        "parent_run_id": record.parent_run_id or (caller.run_id if caller else None),
        "started": datetime.fromtimestamp(trace.timing.started, UTC).isoformat() if trace else None,
        "duration": round(trace.timing.duration, 6) if trace else None,
        "usage": dataclasses.asdict(trace.usage) if trace else None,
    }


def _of_node(node: Node) -> dict[str, Any]:
    event = node.event
    child = getattr(event, "child", None)
    return {
        "type": "delegation",
        "name": event.name,
        "outcome": node.outcome,
        "depth": node.depth,
        "task": event.task,
        "message": node.message,
        "run_id": child.run_id if child else "",
        "root_run_id": child.root_run_id if child else "",
        "parent_run_id": event.where.run_id,
        "started": node.began_at.isoformat(),
        "duration": round(node.seconds(), 6),
        "usage": None,
    }


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, default=str)
