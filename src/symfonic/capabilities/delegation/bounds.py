"""What bounds a run, what bounds one child, and how a person's own rules are asked."""

import math
from collections.abc import Callable
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from symfonic.capabilities.delegation.depth import DepthPolicy
from symfonic.capabilities.delegation.errors import ConfigurationError
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.observer import Observer

if TYPE_CHECKING:
    from symfonic.kernel.contracts.run_identity import RunIdentity


@fact
class DelegationRequest:
    """A delegation that is about to be made, for a hook to judge. ``depth`` is the child's."""

    name: str
    task: str
    depth: int
    scope: Any
    caller: "RunIdentity | None"


@fact
class Veto:
    """A hook's refusal; the model reads the reason."""

    reason: str


Hook: TypeAlias = Callable[[DelegationRequest], Any]
"""``on_delegate(request)``, sync or async: None or True lets it pass, a request with another task rewrites it, a `Veto`
or False refuses it. One that raises refuses as well."""


@fact
class Bounds:
    """What a run states of its own. Inside another run it can only tighten that one's.

    ``pass_through`` are exceptions that are no failures of a child, and reach the root's caller as they are.

    Raises ConfigurationError if ``max_depth`` is not an int >= 0.
    """

    max_depth: int | None = None
    limits: tuple[Limits, ...] = ()
    observers: tuple[Observer, ...] = ()
    hooks: tuple[Hook, ...] = ()
    pass_through: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        if self.max_depth is not None:
            DepthPolicy(self.max_depth)


NO_BOUNDS = Bounds()


@fact
class ChildPolicy:
    """What holds for one child.

    ``timeout``: seconds for a delegation, all attempts together. ``max_concurrency``: delegations to this child at
    once; further ones wait. ``retries``: further attempts after a failure, with growing pauses. ``scope``: called
    with the parent's scope, returns the child's; where a scope has ``covers(other)``, the parent's must cover it.
    Raises ConfigurationError for a value of the wrong kind.
    """

    timeout: float | None = None
    max_concurrency: int | None = None
    retries: int = 0
    scope: Callable[[Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.timeout is not None and not _is_duration(self.timeout):
            raise ConfigurationError(f"ChildPolicy.timeout must be a number of seconds > 0, got {self.timeout!r}")
        if self.max_concurrency is not None and not _is_count(self.max_concurrency, 1):
            raise ConfigurationError(f"ChildPolicy.max_concurrency must be an int >= 1, got {self.max_concurrency!r}")
        if not _is_count(self.retries, 0):
            raise ConfigurationError(f"ChildPolicy.retries must be an int >= 0, got {self.retries!r}")
        if self.scope is not None and not callable(self.scope):
            raise ConfigurationError(f"ChildPolicy.scope must be callable, got {self.scope!r}")


def check_covered(around: Any, scope: Any) -> None:
    """Raises ConfigurationError if a scope that says what it covers does not cover one inside it."""
    covers = getattr(around, "covers", None)
    if covers is None or scope is around:
        return
    answer = covers(scope)
    if iscoroutine(answer):  # nobody would await it, and it would pass for a yes
        answer.close()
        answer = False
    if not answer:
        raise ConfigurationError(
            f"the scope {scope!r} is not covered by that of the run around it, {around!r}: authority can only shrink"
        )


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least
