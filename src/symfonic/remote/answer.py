"""What comes back from another process: how the run ended there, what it spent, and its records."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from symfonic.capabilities.delegation.contracts import (
    ChildRun,
    DelegationOutcome,
    DelegationRecord,
    DelegationTrace,
    Timing,
    walk,
)
from symfonic.capabilities.delegation.reports import record_dict
from symfonic.errors import DelegationError, EnvelopeError, SymfonicError
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.kernel.contracts.text import encodable, error_text
from symfonic.remote.envelope import MOST, Count, Crossing, Lineage, Number, Seconds, Text, checked, read

Status = Literal["finished", "refused", "failed", "timed_out", "cancelled"]

MOST_RECORDS = 10_000

_STATUSES: dict[DelegationOutcome, Status] = {
    DelegationOutcome.DELIVERED: "finished",
    DelegationOutcome.CHILD_FAILED: "failed",
    DelegationOutcome.CHILD_TIMED_OUT: "timed_out",
    DelegationOutcome.CHILD_CANCELLED: "cancelled",
}  # the others are refusals


class RemoteError(SymfonicError):
    """What failed in another process, in that one's words."""


class UnusableError(RemoteError, DelegationError):
    """The far side cannot be used as it was declared: the same call would end the same way, so none is tried again."""


class Spent(Crossing):
    """What a tree has spent, as `Usage` counts it."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    model_calls: Count = 0
    tool_calls: Count = 0

    def usage(self) -> Usage:
        """The same as usage."""
        return Usage(self.input_tokens, self.output_tokens, self.model_calls, self.tool_calls)

    @classmethod
    def of(cls, usage: Usage) -> "Spent":
        """What a usage comes to."""
        return cls(**{name: min(getattr(usage, name), MOST) for name in cls.model_fields})


class Answer(Crossing):
    """How a run ended: ``text`` is its answer, or says why there is none.

    ``delegations`` counts the children that were started in all of the tree below it, also where ``records`` had to be
    left out, since they were too large.
    """

    status: Status
    text: Text
    lineage: Lineage
    spent: Spent = Spent()
    delegations: Count = 0
    records: tuple[dict[str, Any], ...] = ()

    @classmethod
    def read(cls, sent: Any) -> "Answer":
        """What was sent, as text, bytes or a mapping. Raises EnvelopeError, naming what is wrong with which field."""
        return read(cls, sent)

    @classmethod
    def of(cls, record: DelegationRecord, lineage: Lineage) -> "Answer":
        """What a record of a run says, small enough to be sent."""
        trace = record.trace
        assert trace is not None  # noqa: S101 - every record that is made here has one
        status = _STATUSES.get(record.outcome, "refused")
        answer = cls(
            status=status,
            text=_words(record, status, trace.error),
            lineage=lineage,
            spent=Spent.of(trace.usage),
            delegations=started(record.children),
            records=tuple(_told(each) for each in record.children),
        )
        return answer.small_enough()

    def small_enough(self) -> "Answer":
        """The same, without the records where they are too many; a failure where the text alone is too much."""
        for smaller in (self, self.model_copy(update={"records": ()})):
            try:
                smaller.text_of()
            except EnvelopeError as error:
                problem = str(error)
            else:
                return smaller
        return self.model_copy(update={"status": "failed", "text": problem, "records": ()})

    def record_tree(self) -> tuple[DelegationRecord, ...]:
        """The records as records. Raises EnvelopeError if they are none, or too many."""
        return _records(self.records)


def started(records: Iterable[DelegationRecord]) -> int:
    """How many children were started in these trees; what was refused costs nothing."""
    return sum(not each.outcome.refused for each in walk(records))


def _words(record: DelegationRecord, status: Status, error: BaseException | None) -> str:
    """What the run said, or what is said of it, without its name: that is for whoever is told to add."""
    if status == "failed" and error is not None:
        return error_text(error)
    named = encodable(f"Sub-agent {record.name!r} ")
    if status not in ("failed", "cancelled") or not record.message.startswith(named):
        return record.message
    said = record.message.removeprefix(named)
    return said.removeprefix("failed: ") if status == "failed" else f"it {said}"


def _told(record: DelegationRecord) -> dict[str, Any]:
    """A record as it is sent: without the children's whole results, which stay where they are."""
    told = record_dict(record)
    waiting = [told]
    while waiting:
        each = waiting.pop()
        each.pop("result", None)
        waiting.extend(each["children"])
    return told


class _Line(Crossing):
    """One record, as `record_dict` writes it."""

    name: Text
    outcome: DelegationOutcome
    depth: Count
    message: Text
    run_id: str = ""
    root_run_id: str = ""
    parent_run_id: str | None = None
    caller: dict[str, Any] | None = None
    child: dict[str, Any] | None = None
    tool_call_id: str | None = None
    task: Text = ""
    started: Number = 0.0
    duration: Seconds = 0.0
    retryable: bool = False
    error: dict[str, Any] | None = None
    usage: Spent = Spent()

    def record(self, children: tuple[DelegationRecord, ...]) -> DelegationRecord:
        error = RemoteError(str(self.error.get("text", ""))) if self.error else None
        run = ChildRun(_identity(self.child), self.usage.usage(), children)
        timing = Timing(self.started, self.duration)
        trace = DelegationTrace(
            _identity(self.caller), self.task, timing, self.tool_call_id, self.retryable, error, None, run
        )
        ids = (self.run_id, self.root_run_id, self.parent_run_id)
        return DelegationRecord(self.name, self.outcome, self.depth, self.message, *ids, trace)


def _identity(told: dict[str, Any] | None) -> RunIdentity | None:
    return None if told is None else checked(Lineage, told).identity()


def _records(told: Sequence[Mapping[str, Any]]) -> tuple[DelegationRecord, ...]:
    """The trees, built from their leaves up: they may be deeper than Python's stack."""
    lines: list[tuple[_Line, list[int]]] = []
    tops: list[int] = []
    waiting: list[tuple[Any, list[int]]] = [(each, tops) for each in reversed(told)]
    while waiting:
        each, among = waiting.pop()
        if len(lines) == MOST_RECORDS:
            raise EnvelopeError(f"the answer has more than {MOST_RECORDS} records")
        below: list[int] = []
        among.append(len(lines))
        lines.append((checked(_Line, each), below))
        children = each.get("children") or ()
        if not isinstance(children, Sequence) or isinstance(children, str):
            raise EnvelopeError("the answer cannot be read: children of a record: expected a list")
        waiting.extend((child, below) for child in reversed(children))
    made: dict[int, DelegationRecord] = {}
    for place in range(len(lines) - 1, -1, -1):
        line, below = lines[place]
        made[place] = line.record(tuple(made[each] for each in below))
    return tuple(made[each] for each in tops)
