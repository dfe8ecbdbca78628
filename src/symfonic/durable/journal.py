"""Model calls and tool calls as steps of a DBOS workflow."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any, TypeVar

from symfonic.durable.settings import dbos
from symfonic.errors import SymfonicError
from symfonic.kernel.contracts.text import class_name, error_text

T = TypeVar("T")


class StepError(SymfonicError):
    """What failed in a step, in its own words. Its class has the name of the error's, now and when it is read again."""


class JournalLostError(BaseException):
    """The journal cannot be gone on with: no failure of a model or tool, and nothing that a run may cope with."""


class DbosJournal:
    """Where a run in a workflow writes down what it has done.

    Steps are numbered in the order they are asked for, so a run asks for them in the same order each time. An error is
    written down as a value, never as an object: what is in the database cannot be made to run code.
    """

    __slots__ = ("_steps",)

    def __init__(self) -> None:
        self._steps: Any = dbos().DBOS

    async def step(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        """What ``fn`` returns, done now or read. Raises StepError with the words of what it raises, or raised.

        Raises JournalLostError if the journal does not fit the run or cannot be written.
        """

        async def done() -> str:
            try:
                return json.dumps({"value": await survived(fn)})
            except Exception as error:
                return json.dumps({"error": class_name(error), "text": error_text(error)})

        kept_as = name.replace("\x00", "%00")  # no text in PostgreSQL can have it, and models name their calls
        try:
            told = json.loads(await self._steps.run_step_async({"name": kept_as, "preemptible": True}, done))
        except Exception as error:
            raise JournalLostError(f"the step {name!r} cannot be kept: {error_text(error)}") from error
        if "error" in told:
            raise _error(str(told["error"]))(str(told.get("text", "")))
        return told["value"]


async def survived(work: Callable[[], Awaitable[T]]) -> T:
    """What ``work`` comes to. Raises what it raises; as a StepError what only another process's end could answer to.

    Not caught here, a SystemExit ends the engine's loop, and with it all runs of the process; any other BaseException
    leaves its run without an end.
    """
    try:
        return await work()
    except Exception:
        raise
    except BaseException as error:
        if _is_for_the_engine(error):
            raise
        kind, words = class_name(error), error_text(error)
        raise _error(kind)(f"it raised {kind}" if words == kind else f"it raised {kind}: {words}") from error


def _is_for_the_engine(error: BaseException) -> bool:
    return isinstance(error, asyncio.CancelledError | JournalLostError | dbos().error.DBOSBaseException)


@lru_cache(maxsize=256)
def _error(name: str) -> type[StepError]:
    """A class of that name, so that what is made of an error is the same when it is read again."""
    return type(name, (StepError,), {}) if name.isidentifier() else StepError
