"""A run whose events are read while it goes on."""

from collections.abc import AsyncIterator, Callable, Coroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar

from symfonic.errors import SymfonicError
from symfonic.kernel.contracts.observer import Event

if TYPE_CHECKING:  # an event loop is loaded with the first block
    import asyncio

T = TypeVar("T")


class EventStream(Generic[T]):
    """An async context manager and an async iterator over the events of one run and of everything below it.

    The run begins with the block, in a task of its own, and ends with it: leaving early cancels it and waits for it.
    After the last event ``result`` holds what the run returned; what it raised is raised where the events end.
    """

    def __init__(self, run: Callable[[Callable[[Event], None]], Coroutine[Any, Any, T]]) -> None:
        self._run = run
        self._task: asyncio.Task[T] | None = None
        self._reading = self._left = self._told = False

    @property
    def result(self) -> T:
        """What the run returned. Raises SymfonicError if it has not ended or was ended early, else what it raised."""
        if self._task is None or not self._task.done():
            raise SymfonicError("the run has not ended yet: read its events to the end first")
        if self._left and self._task.cancelled():
            raise SymfonicError("the run has no result: it was ended when its events were left")
        self._told = True
        return self._task.result()

    async def __aenter__(self) -> Self:
        if self._task is not None:
            raise SymfonicError("an event stream is of one run: open another with agent.stream(...)")
        from symfonic.kernel.concurrency.mailbox import Mailbox
        from symfonic.kernel.concurrency.tasks import started

        self._events: Mailbox[Event | None] = Mailbox()
        self._task = started(self._run(self._events.put))
        self._task.add_done_callback(lambda _: self._events.put(None))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        from symfonic.kernel.concurrency.tasks import put_down

        self._left = True
        if self._task is not None and not self._told:
            await put_down([self._task])  # which also logs an error that nobody has read

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        if self._task is None:
            raise SymfonicError("open the stream first: async with agent.stream(...) as events")
        if self._left:
            raise SymfonicError("the stream is closed: read its events inside the async with block")
        if self._reading:
            raise SymfonicError("the stream is being read already: only one reader gets the events")
        if self._told:
            raise StopAsyncIteration
        self._reading = True
        try:
            event = await self._events.get()
        finally:
            self._reading = False
        if event is not None:
            return event
        self._told = True
        self._task.result()
        raise StopAsyncIteration
