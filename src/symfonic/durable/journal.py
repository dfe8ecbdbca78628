"""Model calls and tool calls as steps of a DBOS workflow."""

import json
from collections.abc import Awaitable, Callable
from functools import lru_cache
from typing import Any

from symfonic.durable.settings import dbos
from symfonic.errors import SymfonicError
from symfonic.kernel.contracts.text import error_text


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
                return json.dumps({"value": await fn()})
            except Exception as error:
                return json.dumps({"error": type(error).__name__, "text": error_text(error)})

        try:
            told = json.loads(await self._steps.run_step_async({"name": name, "preemptible": True}, done))
        except Exception as error:
            raise JournalLostError(f"the step {name!r} cannot be kept: {error_text(error)}") from error
        if "error" in told:
            raise _error(str(told["error"]))(str(told.get("text", "")))
        return told["value"]


@lru_cache(maxsize=256)
def _error(name: str) -> type[StepError]:
    """A class of that name, so that what is made of an error is the same when it is read again."""
    return type(name, (StepError,), {}) if name.isidentifier() else StepError
