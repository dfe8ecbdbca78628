"""A call while its caller is there: the caller is told of its progress, and the call ends when the caller has gone."""

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from symfonic.kernel.concurrency.mailbox import Mailbox
from symfonic.kernel.contracts.observer import Event, Observer
from symfonic.kernel.contracts.text import encodable, preview

if TYPE_CHECKING:
    from mcp.server import ServerRequestContext

T = TypeVar("T")
Call: TypeAlias = "ServerRequestContext[dict[str, Any]]"

MOST_NOTES, LAST_NOTES_SECONDS = 1000, 1.0
"""How many notes one call is told of, and how long those that are left have when it has ended."""

_LAST = ""


async def attended(context: "Call", work: Callable[[tuple[Observer, ...]], Awaitable[T]]) -> T | None:
    """The result of ``work``, which is given the observers that tell the caller; None if the caller went away.

    Over stdio a caller who goes closes the connection, and the protocol cancels the call; over HTTP, only in some of
    its versions.
    """
    import anyio

    notes = _Notes() if (context.meta or {}).get("progress_token") is not None else None
    result: T | None = None
    async with anyio.create_task_group() as group:
        if context.request is not None:
            group.start_soon(_until_gone, context.request, group.cancel_scope.cancel)
        if notes is None:
            result = await work(())
        else:
            told = anyio.Event()
            group.start_soon(notes.tell, context, told)
            result = await work((notes.note,))
            notes.last()
            with anyio.move_on_after(LAST_NOTES_SECONDS):
                await told.wait()
        group.cancel_scope.cancel()
    return result


async def _until_gone(request: Any, gone: Callable[[], None]) -> None:
    """Wait for the end of the HTTP request's connection, then tell. Bounded by the call that it belongs to."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    gone()


class _Notes:
    """What happens in a run, as the protocol's progress: from any thread, and without holding the run up."""

    def __init__(self) -> None:
        self._waiting: Mailbox[str] = Mailbox()
        self._count = 0

    def note(self, event: Event) -> None:
        """Take an event down, if it is of those that are told."""
        text = _words(event)
        if text and self._count < MOST_NOTES:
            self._count += 1
            self._waiting.put(text)

    def last(self) -> None:
        """Nothing comes after this."""
        self._waiting.put(_LAST)

    async def tell(self, context: "Call", told: Any) -> None:
        """Send what comes, in order, until the last."""
        sent = 0
        while text := await self._waiting.get():
            sent += 1
            await context.session.report_progress(sent, message=text)
        told.set()


def _words(event: Event) -> str:
    """A line about a delegation or a tool call; nothing about the rest."""
    from symfonic.kernel.contracts import events

    who = event.where.agent
    if isinstance(event, events.ToolStarted):
        return encodable(f"{who}: {event.name}")
    if isinstance(event, events.DelegationStarted):
        return encodable(f"{who}: {event.name} is asked {preview(event.task)}")
    if isinstance(event, events.DelegationFinished | events.DelegationRefused):
        return encodable(f"{who}: {event.name}: {event.outcome}")
    return ""
