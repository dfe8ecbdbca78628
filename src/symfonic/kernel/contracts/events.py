"""What observers are told, as it happens, in order.

Every event says where in the tree it happened and when: ``monotonic`` for measuring, ``wall`` in seconds since the
epoch. An observer can never change a run: one that raises is logged.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.messages import ToolCall, Usage

if TYPE_CHECKING:
    from symfonic.kernel.contracts.run_identity import RunIdentity


@fact
class Where:
    """A run, and the tool call being executed: its own while a tool runs, else the one that the run was made for.

    ``agent`` is the name that a child was declared under, else the agent's own.
    """

    agent: str
    run_id: str
    parent_run_id: str | None
    root_run_id: str
    depth: int
    tool_call_id: str | None


@fact
class RunStarted:
    """A run of an agent begins on ``task``."""

    where: Where
    monotonic: float
    wall: float
    task: str


@fact
class RunFinished:
    """A run ended; ``text`` is its answer, or why there is none. ``usage`` is that of the tree below it."""

    where: Where
    monotonic: float
    wall: float
    status: Literal["finished", "failed", "cancelled"]
    text: str
    usage: Usage


@fact
class ModelCalled:
    """A model is asked to continue a conversation of so many ``messages``."""

    where: Where
    monotonic: float
    wall: float
    messages: int


@fact
class ModelAnswered:
    """A model call ended. ``error`` says why where it failed or was cancelled; ``model`` what answered, where known."""

    where: Where
    monotonic: float
    wall: float
    text: str
    tool_calls: tuple[ToolCall, ...]
    usage: Usage
    error: str | None = None
    model: str = ""


@fact
class ToolStarted:
    """A model's tool call is carried out."""

    where: Where
    monotonic: float
    wall: float
    name: str
    arguments: Mapping[str, Any] | str


@fact
class ToolFinished:
    """A tool call ended; ``text`` is what the model reads."""

    where: Where
    monotonic: float
    wall: float
    name: str
    text: str
    failed: bool


@fact
class DelegationStarted:
    """A child is about to run. ``where`` is its caller's place."""

    where: Where
    monotonic: float
    wall: float
    name: str
    task: str
    child: "RunIdentity"


@fact
class DelegationRefused:
    """A delegation ended before any child ran. ``outcome`` is a `DelegationOutcome`'s value."""

    where: Where
    monotonic: float
    wall: float
    name: str
    task: str
    outcome: str
    message: str


@fact
class DelegationRetried:
    """A delegation's child failed and is about to run again, as ``child`` in place of ``failed``."""

    where: Where
    monotonic: float
    wall: float
    name: str
    failed: "RunIdentity"
    child: "RunIdentity"
    message: str


@fact
class DelegationFinished:
    """A delegation that had started ended, well or not. ``child`` is its latest run, ``duration`` in seconds."""

    where: Where
    monotonic: float
    wall: float
    name: str
    child: "RunIdentity"
    outcome: str
    message: str
    duration: float


Event: TypeAlias = (
    RunStarted
    | RunFinished
    | ModelCalled
    | ModelAnswered
    | ToolStarted
    | ToolFinished
    | DelegationStarted
    | DelegationRefused
    | DelegationRetried
    | DelegationFinished
)
Observer: TypeAlias = Callable[[Event], Awaitable[object] | object]
