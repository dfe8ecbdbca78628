"""What delegation is made of: the child's contract, declarations, and the record of what happened."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from symfonic.capabilities.delegation.bounds import ChildPolicy
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.messages import NO_USAGE, Usage

if TYPE_CHECKING:
    from symfonic.kernel.contracts.run_identity import RunIdentity


class HasFinalResponse(Protocol):
    """What a child answers with. Run ids are read from it too, where it has them."""

    @property
    def final_response(self) -> Any:
        """The answer: text, or a value that is turned into JSON text."""
        ...


@runtime_checkable
class ChildRunner(Protocol):
    """The contract a child must meet."""

    async def run(self, query: str, **kwargs: Any) -> HasFinalResponse:
        """Do the task. Of the keywords, those that the signature names are sent."""
        ...


@fact
class DelegationToolSpec:
    """A description of a tool, deliberately not a runtime tool object.

    ``parameters`` names the coroutine's parameters; an empty tuple declares nothing.
    """

    name: str
    description: str
    coroutine: Callable[..., Awaitable[str]]
    parameters: tuple[str, ...] = ()


class DelegationOutcome(StrEnum):
    """How a delegation ended: a closed set to branch on without reading English."""

    DELIVERED = "delivered"
    REFUSED_DEPTH = "refused_depth"
    UNKNOWN_CHILD = "unknown_child"
    CHILD_FAILED = "child_failed"
    REFUSED_BUDGET = "refused_budget"
    REFUSED_POLICY = "refused_policy"
    CHILD_TIMED_OUT = "child_timed_out"
    CHILD_CANCELLED = "child_cancelled"

    @property
    def refused(self) -> bool:
        """The child never started, and asking again will not help."""
        return self in _REFUSALS


_REFUSALS = frozenset(
    {
        DelegationOutcome.REFUSED_DEPTH,
        DelegationOutcome.UNKNOWN_CHILD,
        DelegationOutcome.REFUSED_BUDGET,
        DelegationOutcome.REFUSED_POLICY,
    }
)


@fact
class Timing:
    """When a delegation began (seconds since the epoch) and how long it took (seconds)."""

    started: float
    duration: float


@fact
class ChildRun:
    """What is left of a child's run: who it was (None where none was made), what it spent, whom it asked."""

    identity: "RunIdentity | None" = None
    usage: Usage = NO_USAGE
    records: "tuple[DelegationRecord, ...]" = field(default=(), repr=False)  # printed one by one, or not at all


NO_RUN = ChildRun()


@fact
class DelegationTrace:
    """What a person who debugs a delegation wants to know; none of it is shown to a model.

    ``caller`` is the delegating run (None outside any), ``tool_call_id`` the model's call that asked for it.
    ``task`` is the text the child got. ``error`` is the original exception; for a spent budget the
    `LimitReachedError` that names it. ``retryable`` says whether the same call might end otherwise; a refusal's
    never. ``result`` is the child's whole return value, ``run`` its run, also when it failed.
    """

    caller: "RunIdentity | None"
    task: str
    timing: Timing
    tool_call_id: str | None = None
    retryable: bool = False
    error: BaseException | None = None
    result: Any = field(default=None, repr=False)  # it may hold the whole tree once more
    run: ChildRun = NO_RUN

    @property
    def child(self) -> "RunIdentity | None":
        """The run that was made for the child; None for a refusal."""
        return self.run.identity

    @property
    def usage(self) -> Usage:
        """What the child and everything below it spent."""
        return self.run.usage

    @property
    def records(self) -> "tuple[DelegationRecord, ...]":
        """The child's own delegations."""
        return self.run.records


@fact
class DelegationRecord:
    """One delegation: what was asked of whom, and how it ended.

    ``depth`` is the child's. ``message`` is what the model reads: the answer, or why there is none. The run ids
    are those that the child's response carries.
    """

    name: str
    outcome: DelegationOutcome
    depth: int
    message: str
    run_id: str = ""
    root_run_id: str = ""
    parent_run_id: str | None = None
    trace: DelegationTrace | None = None

    @property
    def delivered(self) -> bool:
        """Whether the child answered."""
        return self.outcome is DelegationOutcome.DELIVERED

    @property
    def children(self) -> "tuple[DelegationRecord, ...]":
        """The child's own delegations, in the order they were made."""
        return self.trace.records if self.trace else ()


def walk(records: Iterable[DelegationRecord]) -> Iterator[DelegationRecord]:
    """Every record of the trees, each before its children."""
    waiting = list(records)[::-1]
    while waiting:
        record = waiting.pop()
        yield record
        waiting.extend(reversed(record.children))


@fact
class Tally:
    """The delegations of a whole tree, counted: by how they ended, and by the child that was asked."""

    by_outcome: Counter[DelegationOutcome]
    by_child: Counter[str]

    @classmethod
    def of(cls, records: Iterable[DelegationRecord]) -> "Tally":
        """Count every record of the trees once."""
        tree = list(walk(records))
        return cls(Counter(record.outcome for record in tree), Counter(record.name for record in tree))

    @property
    def total(self) -> int:
        """All of them."""
        return sum(self.by_outcome.values())


@fact
class RosterEntry:
    """One child of a roster. ``owned``: the framework built the runner, so the framework closes it.

    ``examples`` are requests the child is meant for; descriptions leave them out and routers read them.
    """

    name: str
    description: str
    runner: Any
    when_to_use: str | None = None
    owned: bool = False
    examples: tuple[str, ...] = ()
    policy: ChildPolicy | None = None


@fact
class PrebuiltChild:
    """A child that the caller built and keeps: it is never closed by us."""

    name: str
    agent: Any
    description: str
    when_to_use: str | None = None
    examples: tuple[str, ...] = ()
    policy: ChildPolicy | None = None


@fact
class ChildSpec:
    """A child for the framework to build, once, by calling ``build()``, and to close."""

    name: str
    build: Callable[[], Any]
    description: str
    when_to_use: str | None = None
    examples: tuple[str, ...] = ()
    policy: ChildPolicy | None = None
