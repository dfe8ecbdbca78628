"""Closing the children that the framework built, and only those."""

from collections.abc import Iterable
from inspect import isawaitable
from typing import Any

from symfonic.kernel.concurrency.tasks import finish_within
from symfonic.kernel.contracts.closing import Closing

CLOSE_TIMEOUT = 10.0
"""Seconds that each child has to close."""


class ChildLifecycle(Closing):
    """Owns exactly the children it is given. Children that the caller built are never given to it.

    ``names`` are those the children were declared by, in the same order.
    """

    def __init__(
        self, owned: Iterable[Any], *, names: Iterable[str] = (), close_timeout: float = CLOSE_TIMEOUT
    ) -> None:
        owned = tuple(owned)
        self._owned = tuple({id(child): child for child in owned}.values())
        self._names = {id(child): name for child, name in zip(owned, names, strict=False)}
        self._close_timeout = close_timeout
        self._closed = False

    @property
    def owned(self) -> tuple[Any, ...]:
        """The children, in the order they were built."""
        return self._owned

    async def aclose(self) -> None:
        """Close every child, last built first; a second call does nothing.

        Each is tried even when another raises, and each has ``close_timeout`` seconds.
        Raises ExceptionGroup of all errors at the end; the error about an overrunning child names it.
        """
        if self._closed:
            return
        self._closed = True
        errors: list[Exception] = []
        going: BaseException | None = None
        for child in reversed(self._owned):
            try:
                await self._close(child)
            except Exception as error:
                errors.append(error)
            except BaseException as error:  # going away: the others are closed first, then it is raised
                going = going or error
        if going is not None:
            raise going
        if errors:
            raise ExceptionGroup(f"{len(errors)} of {len(self._owned)} children did not close", errors)

    async def _close(self, child: Any) -> None:
        close = getattr(child, "aclose", None) or getattr(child, "close", None)
        closing = close() if callable(close) else None
        if isawaitable(closing) and not await finish_within(closing, self._close_timeout):
            name = self._names.get(id(child)) or getattr(child, "name", None) or type(child).__name__
            raise TimeoutError(f"the sub-agent {name!r} did not close within {self._close_timeout:g} s")
