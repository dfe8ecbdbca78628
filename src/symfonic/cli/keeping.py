"""A team whose runs a command keeps in a database, and which of its options a mistake is in."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from symfonic import ConfigurationError
from symfonic.kernel.contracts.text import error_text
from symfonic.teams import Team

if TYPE_CHECKING:
    from symfonic.durable import Durable

_OPTIONS = {
    "executor_id": "--executor-id",
    "version": "--team-version (SYMFONIC_TEAM_VERSION)",
    "concurrency": "--concurrency",
    "global_concurrency": "--global-concurrency",
}


class OptionError(ConfigurationError):
    """A mistake in the command: the message begins with the option."""


@dataclass(frozen=True, slots=True)
class Keeping:
    """Where runs are kept, and as whom. ``option`` is the one that names the database."""

    database: str
    executor_id: str = "local"
    version: str = "1"
    concurrency: int | None = None
    global_concurrency: int | None = None
    option: str = "--durable"


@asynccontextmanager
async def kept(team: Team, keeping: Keeping) -> AsyncIterator["Durable"]:
    """The team's lead at the root of a durable tree that is ready. Raises OptionError if it cannot be made so."""
    with _blamed(keeping.option):
        from symfonic.durable import durable

        tree = durable(
            team.agent,
            keeping.database,
            executor_id=keeping.executor_id,
            version=keeping.version,
            concurrency=keeping.concurrency,
            global_concurrency=keeping.global_concurrency,
        )
    async with tree:
        with _blamed(keeping.option):
            await tree.start()
        yield tree


@contextmanager
def _blamed(option: str) -> Iterator[None]:
    """Errors name the option and not the argument that it is in Python."""
    try:
        yield
    except ConfigurationError as error:
        words = error_text(error)
        first, _, rest = words.partition(" ")
        argument, given, _ = first.partition("=")
        blamed = _OPTIONS.get(argument, option)
        told = rest if argument in (*_OPTIONS, "database") and not given else words
        raise OptionError(f"{blamed}: {told}") from error
