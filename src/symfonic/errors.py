"""Every error this library raises of its own.

    SymfonicError
    ├── ConfigurationError (ValueError)      a composition is wrong; raised where it is declared
    │   ├── ChildDeclarationError            a child cannot be adopted
    │   └── TeamFileError                    a team file cannot be used
    ├── DelegationError                      a delegation could not be made
    │   └── UnknownChildError (LookupError)  no child of that name on the roster
    ├── EnvelopeError                        what crosses between processes cannot be read, or is too large
    ├── OverrunError                         a child's own time (`ChildPolicy.timeout`) is over
    └── RunError                             a run ended without an answer
        ├── ModelError                       its model failed for good
        ├── MaxStepsError                    its model kept calling tools past ``options.max_steps``
        └── LimitReachedError                a limit of its tree is spent

Errors hold data and log nothing. What happens to a child is never an error in its parent: it is a
`DelegationRecord`.
"""

from collections.abc import Sequence
from typing import Any


class SymfonicError(Exception):
    """The base of every error of this library."""


class ConfigurationError(SymfonicError, ValueError):
    """A composition is wrong: the message names the culprit and what was expected."""


class ChildDeclarationError(ConfigurationError):
    """A child cannot be adopted as it was declared."""


class TeamFileError(ConfigurationError):
    """A team file cannot be used. ``mistakes`` holds one line for each: file, key path, what was expected."""

    def __init__(self, *mistakes: str) -> None:
        self.mistakes = mistakes
        super().__init__(*mistakes)

    def __str__(self) -> str:
        return "\n".join(self.mistakes)


class DelegationError(SymfonicError):
    """A delegation could not be made."""


class UnknownChildError(DelegationError, LookupError):
    """No child of that name is on the roster.

    ``name`` is what was asked for, ``known`` the declared names in order.
    """

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        self.name = name
        self.known: tuple[str, ...] = tuple(known)
        super().__init__(name, self.known)

    def __str__(self) -> str:
        return f"unknown sub-agent {self.name!r}; known: {', '.join(self.known) or '(none)'}"


class EnvelopeError(SymfonicError):
    """What crosses between processes cannot be read, or is larger than it may be; the message names the field."""


class OverrunError(SymfonicError):
    """Work was ended because its own ``seconds`` were over."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"not finished within {seconds:g} s")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.seconds,))


class RunError(SymfonicError):
    """A run ended without an answer.

    ``run_id`` names the run; ``delegations`` are its records and ``usage`` is what its tree has spent, where it got as
    far as that.
    """

    def __init__(self, message: str, run_id: str = "") -> None:
        self.run_id = run_id
        self.delegations: tuple[Any, ...] = ()
        self.usage: Any = None
        super().__init__(message)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), self.run_id), self.__dict__)


class ModelError(RunError):
    """A run's model failed for good; the original error is the cause."""


class MaxStepsError(RunError):
    """A run's model was called ``options.max_steps`` times and still asked for tools."""


class LimitReachedError(RunError):
    """A limit of the tree is spent: ``limit`` is its name in `Limits`, ``value`` its number.

    Raised where a run cannot go on without it; a delegation that is refused for it carries it on its record.
    """

    def __init__(self, limit: str, value: float, run_id: str = "") -> None:
        self.limit = limit
        self.value = value
        super().__init__(f"the limit {limit}={value} is reached", run_id)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.limit, self.value, self.run_id), self.__dict__)
