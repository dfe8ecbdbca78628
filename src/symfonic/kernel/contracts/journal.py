"""The port around what a run does to the world: its model calls and its tool calls."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol


class Journal(Protocol):
    """Where a run that outlives its process writes down what it has done, so that nothing done is done again."""

    async def step(self, name: str, fn: Callable[[], Awaitable[Any]]) -> Any:
        """What ``fn`` returns, a value in JSON's terms: done now, or read where it was done before.

        Raises what ``fn`` raises, or an error with its words where it was raised before.
        """
        ...
