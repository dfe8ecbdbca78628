"""The port around what a run does to the world: its model calls and its tool calls."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class Journal(Protocol):
    """Where a run that outlives its process writes down what it has done, so that nothing done is done again."""

    async def step(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        """What ``fn`` returns, a value in JSON's terms: done now, or read where it was done before.

        ``name`` says what it is and in which run; the same one may come again, later in the same run. Raises what
        ``fn`` raises, or an error with its words and a class of the same name where it was raised before. A
        cancellation is nothing that was done.
        """
        ...
