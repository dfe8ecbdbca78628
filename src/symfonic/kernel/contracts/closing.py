"""What has an ``aclose``, as an async context manager."""

from types import TracebackType
from typing import Self


class Closing:
    """Closes itself at the end of an ``async with`` block."""

    __slots__ = ()

    async def aclose(self) -> None:
        """Close what is owned here."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
