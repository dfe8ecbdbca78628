"""The settings of an agent that are not its parts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.events import Observer


@dataclass(frozen=True, slots=True)
class Options:
    """How an agent runs.

    ``max_steps`` bounds the model calls of one run. ``observers`` are told of every delegation of the
    agent's runs and of the runs below them. ``resolve_scope`` supplies the scope of a run that was given none.
    Raises ConfigurationError if a value is of the wrong kind.
    """

    max_steps: int = 50
    observers: tuple[Observer, ...] = ()
    resolve_scope: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.max_steps, bool) or not isinstance(self.max_steps, int) or self.max_steps < 1:
            raise ConfigurationError(f"Options.max_steps must be an int >= 1, got {self.max_steps!r}")
        if not isinstance(self.observers, tuple) or not all(callable(each) for each in self.observers):
            raise ConfigurationError(f"Options.observers must be a tuple of callables, got {self.observers!r}")
        if self.resolve_scope is not None and not callable(self.resolve_scope):
            raise ConfigurationError(f"Options.resolve_scope must be callable, got {self.resolve_scope!r}")
