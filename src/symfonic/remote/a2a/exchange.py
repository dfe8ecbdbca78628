"""One call to a far side: sent, followed until it has ended, and sent again where a connection was lost."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Any
from uuid import uuid4

from symfonic.errors import SymfonicError
from symfonic.kernel.contracts.text import encodable
from symfonic.remote.a2a.connection import Connection, Line
from symfonic.remote.a2a.extension import carried, theirs, trace_of
from symfonic.remote.a2a.seen import Seen
from symfonic.remote.a2a.trouble import UntoldError, lost, never_sent, unknown_task
from symfonic.remote.answer import Answer
from symfonic.remote.crossing import Out
from symfonic.remote.envelope import Envelope

MOST_LOST, FIRST_PAUSE, LONGEST_PAUSE = 5, 0.1, 2.0
"""Connections that one call may lose, and the seconds between looking again, which double."""

REACH_SECONDS = 2.0
"""How long the far side has to name the task of a message, where it is to be ended."""


class Exchange:
    """A call that is being made. ``sent``: whether the far side may know of it."""

    def __init__(self, connection: Connection, envelope: Envelope) -> None:
        self._connection = connection
        self._envelope = envelope
        self._trace = trace_of(envelope.lineage.via)
        self._message_id = str(uuid4())  # one, however often it is sent
        self._seen = Seen()
        self._lost = 0
        self._extended = False
        self._lasting = False
        self._reached = asyncio.Event()  # there is a task, or never will be
        self.sent: bool = False

    async def answer(self) -> Answer:
        """How it ended. Raises what the SDK raises, and EnvelopeError for what cannot be read."""
        try:
            line: Line = await self._persistently(self._connection.line, never_sent)
            self._extended, self._lasting = line.extended, line.lasting
            pause = FIRST_PAUSE
            while not self._seen.final:
                await self._persistently(lambda: self._step(line), lambda error: self._may_go_on(error, line))
                if not self._seen.final:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_PAUSE)
            return self._seen.answer(self._envelope.lineage, self._extended)
        finally:
            self._reached.set()

    async def end(self) -> None:
        """End the task on the far side, where there is one that has not ended. Raises what the SDK raises."""
        async with asyncio.timeout(REACH_SECONDS):  # without its id it cannot be ended, and the id is about to come
            await self._reached.wait()
        if not self._seen.task_id or (self._seen.final and not self._seen.interrupted):
            return
        line = await self._connection.line()
        request = theirs("a2a.types").CancelTaskRequest(id=self._seen.task_id)
        with suppress(theirs("a2a.utils.errors").TaskNotCancelableError):  # it has ended just now
            self._seen.take_task(await line.client.cancel_task(request, context=await self._context(line)))

    @property
    def must_be_ended(self) -> bool:
        """Whether it waits for somebody on the far side, with nobody here to wait for it."""
        return self._seen.interrupted

    def settle(self, out: Out) -> None:
        """Take what a call has spent that nobody waits for any more, where the far side has said it."""
        if self._seen.final:
            with suppress(SymfonicError):  # it says how it ended, too, which is known
                out.returned(self._seen.answer(self._envelope.lineage, self._extended))

    async def _persistently(self, step: Callable[[], Awaitable[Any]], may: Callable[[Exception], bool]) -> Any:
        """What a step returns. Where a connection was lost, and it ``may`` be done again, it is.

        A run that outlives its server is worth waiting for, once it has begun: whoever waits for this has a clock.
        """
        pause = FIRST_PAUSE
        while True:
            try:
                return await step()
            except Exception as error:
                self._lost += 1
                kept = self._lasting and self._reached.is_set()
                if (self._lost > MOST_LOST and not kept) or not may(error):
                    raise
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def _may_go_on(self, error: Exception, line: Line) -> bool:
        """Whether to ask again. Only who knows of run ids can be sent a message twice and not do the work twice."""
        if line.extended and (lost(error) or unknown_task(error)):
            self._seen = Seen()
            return True
        return lost(error) if self._seen.task_id else never_sent(error)

    async def _step(self, line: Line) -> None:
        if self._seen.task_id:
            await self._look(line)
        else:
            await self._send(line)

    async def _send(self, line: Line) -> None:
        types, lineage = theirs("a2a.types"), self._envelope.lineage
        message = types.Message(
            message_id=self._message_id,
            role=types.Role.ROLE_USER,
            parts=[types.Part(text=encodable(self._envelope.task))],
            context_id=lineage.root_run_id if line.extended else "",
        )
        metadata = carried(self._envelope) if line.extended else None
        request = types.SendMessageRequest(message=message, metadata=metadata)
        self.sent = True
        async with aclosing(line.client.send_message(request, context=await self._context(line))) as events:
            async for event in events:
                self._seen.take(event)
                if self._seen.task_id or self._seen.final:
                    self._reached.set()
                if self._seen.final:
                    return
        if not self._seen.task_id:  # there is nothing to ask after
            raise UntoldError

    async def _look(self, line: Line) -> None:
        request = theirs("a2a.types").GetTaskRequest(id=self._seen.task_id)
        self._seen.take_task(await line.client.get_task(request, context=await self._context(line)))

    async def _context(self, line: Line) -> Any:
        headers = await self._connection.headers(line.extended, self._trace)
        return theirs("a2a.client").ClientCallContext(service_parameters=headers)
