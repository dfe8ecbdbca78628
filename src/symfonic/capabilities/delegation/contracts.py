"""What delegation is made of: the child's contract, declarations, and the record of what happened."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

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


@dataclass(frozen=True, slots=True)
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

    @property
    def refused(self) -> bool:
        """The child never started, and asking again will not help."""
        return self in _REFUSALS


_REFUSALS = frozenset({DelegationOutcome.REFUSED_DEPTH, DelegationOutcome.UNKNOWN_CHILD})


@dataclass(frozen=True, slots=True)
class Timing:
    """When a delegation began (seconds since the epoch) and how long it took (seconds)."""

    started: float
    duration: float


@dataclass(frozen=True, slots=True)
class DelegationTrace:
    """What a person who debugs a delegation wants to know; none of it is shown to a model.

    ``caller`` is the delegating run (None outside any), ``child`` the run that was made for the child, also
    when it failed (None for a refusal). ``task`` is the text the child got. ``error`` is the original
    exception, ``result`` the child's whole return value, ``usage`` what it and everything below it spent,
    ``records`` its own delegations.
    """

    caller: "RunIdentity | None"
    child: "RunIdentity | None"
    task: str
    timing: Timing
    error: BaseException | None = None
    result: Any = None
    usage: Usage = NO_USAGE
    records: "tuple[DelegationRecord, ...]" = ()


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
class PrebuiltChild:
    """A child that the caller built and keeps: it is never closed by us."""

    name: str
    agent: Any
    description: str
    when_to_use: str | None = None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """A child for the framework to build, once, by calling ``build()``, and to close."""

    name: str
    build: Callable[[], Any]
    description: str
    when_to_use: str | None = None
    examples: tuple[str, ...] = ()
