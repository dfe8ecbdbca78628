"""How a durable tree is kept: its database, who works on it, and how long is waited."""

import math
from dataclasses import field
from importlib import import_module
from typing import Any

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.facts import fact

POLL = 0.05
"""Seconds between two looks at a queue, and at a run that is waited for."""

MOST_RECOVERIES = 3
"""How often a run is taken up again after its worker died; then it has failed."""

LONGEST = 200
"""Characters of an executor's id or a version."""


@fact
class Waits:
    """Seconds that a caller waits for a run.

    ``end``: for its end, where no `Limits.timeout` ends it earlier. ``start``: until a run that nobody takes out of its
    queue has failed, and is cancelled; one that stands behind others which are being run is not. Raises
    ConfigurationError for anything but numbers > 0.
    """

    end: float = 3600.0
    start: float = 60.0

    def __post_init__(self) -> None:
        for name in ("end", "start"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
                raise ConfigurationError(f"Waits.{name} must be a number of seconds > 0, got {value!r}")


@fact
class Settings:
    """What the trees of one process have in common. ``database`` is None for the DBOS that the program launched itself.

    ``worker`` is False for a process that asks for runs and carries none out. Raises ConfigurationError for a value of
    the wrong kind.
    """

    database: str | None = field(repr=False)  # it may have a password
    executor_id: str = "local"
    version: str = "1"
    concurrency: int | None = None
    global_concurrency: int | None = None
    waits: Waits = Waits()
    worker: bool = True

    def __post_init__(self) -> None:
        if self.database is not None and not (isinstance(self.database, str) and self.database.strip()):
            given = "a blank text" if isinstance(self.database, str) else type(self.database).__name__
            raise ConfigurationError(f"database must be the name of a file or a postgresql:// URL, got {given}")
        for name in ("executor_id", "version"):
            value = getattr(self, name)
            if not isinstance(value, str) or not value.isprintable() or not 0 < len(value.strip()) <= LONGEST:
                raise ConfigurationError(
                    f"{name} must be a string of 1 to {LONGEST} printable characters, got {value!r}"
                )
        for name in ("concurrency", "global_concurrency"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
                raise ConfigurationError(f"{name} must be an int >= 1, got {value!r}")
        if self.concurrency and self.global_concurrency and self.concurrency > self.global_concurrency:
            raise ConfigurationError(
                f"concurrency={self.concurrency} is more than global_concurrency={self.global_concurrency}"
            )
        if not isinstance(self.waits, Waits):
            raise ConfigurationError(f"waits must be Waits(...), got {self.waits!r}")

    def queue(self) -> dict[str, Any]:
        """How a queue is registered. What a worker states replaces what was stated before."""
        limits = {"worker_concurrency": self.concurrency, "global_concurrency": self.global_concurrency}
        stated = limits if self.worker else {}
        return {
            "polling_interval_sec": POLL,
            "on_conflict": "always_update" if self.worker else "never_update",
            **stated,
        }


def dbos() -> Any:
    """The package, which is loaded here. Raises ConfigurationError if it is not installed."""
    try:
        return import_module("dbos")
    except ImportError as error:
        needed = 'durable trees need dbos: pip install "symfonic-delegation[dbos]"'
        raise ConfigurationError(f"{needed} ({error})") from error
