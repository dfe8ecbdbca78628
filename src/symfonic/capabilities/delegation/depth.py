"""How deep a run is, and how deep a child may run. Pure."""

from typing import Any

from symfonic.capabilities.delegation.errors import ConfigurationError
from symfonic.kernel.contracts.facts import fact

DEFAULT_MAX_DEPTH = 2
"""The ceiling of a root run whose agent states none."""


def coerce_depth(value: Any) -> int:
    """``value`` as a plain int >= 0; what ``int()`` cannot read is 0, a top-level run.

    Depth arrives from a mapping that users can write, so every object is possible here and none may raise.
    """
    if type(value) is int:
        return value if value > 0 else 0
    if value is None:
        return 0
    try:
        return max(0, int(value))
    except Exception:
        return 0


@fact
class DepthPolicy:
    """The ceiling: the deepest depth at which a child may run.

    ``max_depth=0`` switches delegation off without unwiring the roster.
    Raises ConfigurationError if ``max_depth`` is not an int >= 0.
    """

    max_depth: int

    def __post_init__(self) -> None:
        if isinstance(self.max_depth, bool) or not isinstance(self.max_depth, int) or self.max_depth < 0:
            raise ConfigurationError(f"max_depth must be an int >= 0, got {self.max_depth!r}")

    def child_depth(self, parent_depth: Any) -> int:
        """The depth of a child of a run at ``parent_depth``."""
        return coerce_depth(parent_depth) + 1

    def admits(self, parent_depth: Any) -> bool:
        """Whether a run at ``parent_depth`` may have a child: the ceiling is on the child."""
        return coerce_depth(parent_depth) < self.max_depth

    def refusal(self) -> str:
        """What the model reads at the ceiling."""
        return f"Delegation refused: maximum sub-agent depth ({self.max_depth}) reached; cannot delegate further."
