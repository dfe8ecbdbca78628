"""What bounds a tree of runs besides its depth."""

import math
from dataclasses import fields

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.facts import fact


@fact
class Limits:
    """Bounds of a run and of everything below it; None states none.

    ``max_delegations``: children started in the tree. ``max_fan_out``: children started by one run.
    ``max_concurrency``: children running at once in the tree; a run that waits for its children is not counted.
    ``max_repeats``: children started by one run with the same name and task. ``max_model_calls`` and ``max_tokens``
    (input and output together): spent in the tree. ``timeout``: seconds, for the tree. ``max_answer_chars``: the length
    of one child's answer as the model reads it. Limits only tighten: a child has what is left, and its own on top.
    Raises ConfigurationError for a value of the wrong kind.
    """

    max_delegations: int | None = None
    max_fan_out: int | None = None
    max_concurrency: int | None = None
    max_repeats: int | None = None
    max_model_calls: int | None = None
    max_tokens: int | None = None
    timeout: float | None = None
    max_answer_chars: int | None = None

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is not None:
                _check(field.name, value)


_AT_LEAST_ONE = ("max_concurrency", "max_repeats", "max_model_calls")


def _check(name: str, value: object) -> None:
    if name == "timeout":
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise ConfigurationError(f"Limits.timeout must be a number of seconds > 0, got {value!r}")
        return
    least = 1 if name in _AT_LEAST_ONE else 0
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigurationError(f"Limits.{name} must be an int >= {least}, got {value!r}")
