"""A tree of records, written down."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from symfonic.capabilities.delegation.contracts import DelegationRecord, Tally
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import LimitReachedError
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.text import class_name, encodable, error_text
from symfonic.kernel.contracts.values import is_finished_run, plain


def record_dict(record: DelegationRecord) -> dict[str, Any]:
    """A record and everything below it as plain values that JSON can hold; docs/records.schema.json describes it.

    Errors are given by class and safe text, the child's whole result in its JSON form.
    """
    top: dict[str, Any] = {}
    waiting = [(record, top)]
    while waiting:  # a tree may be deeper than Python's stack
        each, target = waiting.pop()
        target.update(record_line(each))
        for child in each.children:
            below: dict[str, Any] = {}
            target["children"].append(below)
            waiting.append((child, below))
    return top


def tree_dict(records: Iterable[DelegationRecord], delegated: Iterable[str], usage: Usage) -> dict[str, Any]:
    """What a run delegated and what its tree has spent, as plain values that JSON can hold."""
    records = tuple(records)
    counted = Tally.of(records)
    return {
        "delegated_to": list(delegated),
        "delegations": [record_dict(record) for record in records],
        "tally": {
            "by_outcome": {outcome.value: count for outcome, count in counted.by_outcome.items()},
            "by_child": dict(counted.by_child),
        },
        "usage": asdict(usage),
    }


def json_text(value: Any) -> str:
    """Plain values as JSON text, however deep; the standard library's encoder is bounded by Python's stack."""
    written: list[str] = []
    waiting: list[tuple[bool, Any]] = [(False, value)]
    while waiting:
        is_text, each = waiting.pop()
        if is_text:
            written.append(each)
            continue
        inner: list[tuple[bool, Any]] = []
        if isinstance(each, dict):
            for key, item in each.items():
                inner += (True, f"{', ' if inner else ''}{json.dumps(key, ensure_ascii=False)}: "), (False, item)
            inner = [(True, "{"), *inner, (True, "}")]
        elif isinstance(each, list):
            for item in each:
                inner += (True, ", " if inner else ""), (False, item)
            inner = [(True, "["), *inner, (True, "]")]
        else:
            written.append(json.dumps(each, ensure_ascii=False))
        waiting.extend(reversed(inner))
    return encodable("".join(written))


def record_line(record: DelegationRecord) -> dict[str, Any]:
    """One record as plain values, with room for its children."""
    told: dict[str, Any] = {
        "name": record.name,
        "outcome": record.outcome.value,
        "depth": record.depth,
        "message": record.message,
        "run_id": record.run_id,
        "root_run_id": record.root_run_id,
        "parent_run_id": record.parent_run_id,
        "children": [],
    }
    trace = record.trace
    if trace is not None:
        told |= {
            "caller": asdict(trace.caller) if trace.caller else None,
            "child": asdict(trace.child) if trace.child else None,
            "tool_call_id": trace.tool_call_id,
            "task": trace.task,
            "started": trace.timing.started,
            "duration": trace.timing.duration,
            "retryable": trace.retryable,
            "error": _error(trace.error),
            "result": _foreign(trace.result),
            "usage": asdict(trace.usage),
        }
    return told


def _foreign(result: Any) -> Any:
    """A child's result in plain values; nothing for one of our own runs, which the record tells already."""
    inner = result.result if isinstance(result, ChildResponse) else result
    return None if is_finished_run(inner) else plain(inner)


def _error(error: BaseException | None) -> dict[str, Any] | None:
    if error is None:
        return None
    told: dict[str, Any] = {"type": class_name(error), "text": error_text(error)}
    if isinstance(error, LimitReachedError):
        told |= {"limit": error.limit, "value": error.value}
    return told
