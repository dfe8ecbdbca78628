"""What observers are told, as it happens. An observer that raises is logged and dropped for that event."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from symfonic.kernel.contracts.run_identity import RunIdentity


@dataclass(frozen=True, slots=True)
class DelegationStarted:
    """A child is about to run. ``caller`` is None for a delegation made outside any run."""

    name: str
    task: str
    depth: int
    caller: "RunIdentity | None"
    child: "RunIdentity"


@dataclass(frozen=True, slots=True)
class DelegationRefused:
    """A delegation ended before any child ran. ``outcome`` is a `DelegationOutcome`'s value."""

    name: str
    task: str
    depth: int
    caller: "RunIdentity | None"
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class DelegationFinished:
    """A child's run ended, well or not. ``duration`` is in seconds."""

    name: str
    depth: int
    caller: "RunIdentity | None"
    child: "RunIdentity"
    outcome: str
    message: str
    duration: float


Event: TypeAlias = DelegationStarted | DelegationRefused | DelegationFinished
Observer: TypeAlias = Callable[[Event], object]
