"""The settings of an agent that are not its parts."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.observer import Observer

Instructions: TypeAlias = str | Callable[[Any], str | Awaitable[str | None] | None]
"""What a model is told first: a text, or a function, sync or async, that makes it of the run's scope."""


@fact
class Options:
    """How an agent runs.

    ``max_steps`` bounds the model calls of one run. ``observers``, sync or async, are told of every event of the
    agent's runs and of the runs below them. ``resolve_scope`` supplies the scope of a run that was given none.
    ``on_delegate``, sync or async, is asked before every child of the tree starts, and may veto or rewrite.
    ``pass_through`` names the exceptions that end the whole tree and reach the caller as they are: a host's signals to
    pause or to ask a person, which are no failures of a child.

    Raises ConfigurationError if a value is of the wrong kind.
    """

    max_steps: int = 50
    observers: tuple[Observer, ...] = ()
    resolve_scope: Callable[[], Any] | None = None
    on_delegate: Callable[[Any], Any] | None = None
    pass_through: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.max_steps, bool) or not isinstance(self.max_steps, int) or self.max_steps < 1:
            raise ConfigurationError(f"Options.max_steps must be an int >= 1, got {self.max_steps!r}")
        check_observers("Options.observers", self.observers)
        signals = self.pass_through
        if not isinstance(signals, tuple) or not all(isinstance(s, type) and issubclass(s, Exception) for s in signals):
            raise ConfigurationError(f"Options.pass_through must be a tuple of Exception classes, got {signals!r}")
        for name in ("resolve_scope", "on_delegate"):
            value = getattr(self, name)
            if value is not None and not callable(value):
                raise ConfigurationError(f"Options.{name} must be callable, got {value!r}")


def check_observers(what: str, observers: Any) -> None:
    """Raises ConfigurationError, naming ``what``, if this is not a tuple of callables."""
    if not isinstance(observers, tuple) or not all(callable(each) for each in observers):
        raise ConfigurationError(f"{what} must be a tuple of callables, got {observers!r}")
