"""Delegations and results as JSON lines: ASCII, one object a line, parents before their children."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from symfonic import AgentResult, DelegationOutcome, DelegationRecord
from symfonic.capabilities.delegation.contracts import walk
from symfonic.capabilities.delegation.reports import record_line
from symfonic.cli.tree import CANCELLED, DelegationTree, Node


def result_lines(result: AgentResult) -> Iterator[str]:
    """A finished run: its records, as docs/records.schema.json has them but for the children, then the result."""
    yield from _record_lines(result.delegations)
    told = result.to_dict()
    yield _line({"type": "result", **{key: told[key] for key in told if key not in ("delegations", "messages")}})


def unfinished_lines(
    tree: DelegationTree, kind: str, message: str, records: Sequence[DelegationRecord] = ()
) -> Iterator[str]:
    """A run without a result: its records, or else what was seen of its delegations, then why there is none.

    ``kind`` is "failed" or "cancelled".
    """
    if records:
        yield from _record_lines(records)
    else:
        for node, _ in tree.walk():
            yield _line(_of_node(node))
    yield _line({"type": kind, "message": message})


def _record_lines(records: Sequence[DelegationRecord]) -> Iterator[str]:
    for record in walk(records):
        line = record_line(record)
        del line["children"]  # they have lines of their own
        yield _line({"type": "delegation", **line})


def _of_node(node: Node) -> dict[str, Any]:
    """What events tell of a delegation: less than its record, under the same names."""
    event, where = node.event, node.event.where
    child = getattr(event, "child", None)
    return {
        "type": "delegation",
        "name": event.name,
        "outcome": DelegationOutcome.CHILD_CANCELLED.value if node.outcome == CANCELLED else node.outcome,
        "depth": node.depth,
        "message": node.message,
        "caller": {
            "run_id": where.run_id,
            "root_run_id": where.root_run_id,
            "parent_run_id": where.parent_run_id,
        },
        "child": {
            "run_id": child.run_id,
            "root_run_id": child.root_run_id,
            "parent_run_id": child.parent_run_id,
        }
        if child
        else None,
        "tool_call_id": where.tool_call_id,
        "task": event.task,
        "started": node.began_at.timestamp(),
        "duration": node.seconds(),
    }


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, default=str)
