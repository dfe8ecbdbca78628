"""What A2A asks of a server, before the SDK's handler: every message is read first, and a known run attached to."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Any

from symfonic.kernel.concurrency.tasks import run_together
from symfonic.remote.a2a.arrival import Arrival, read_arrival
from symfonic.remote.a2a.extension import theirs
from symfonic.remote.a2a.tasks import Tasks
from symfonic.remote.a2a.work import ARRIVAL, Answering, Work

ATTACH_SECONDS = 10.0
"""How long a message of a known run waits for the run's task to be there."""


class Desk:
    """A request handler of the SDK's, with two methods of its own; it makes the contexts of requests, too.

    The SDK gives every message a task. Here a run has one task, so that whoever sends it again reads, and cancels, the
    task that there is.
    """

    def __init__(self, answering: Answering, card: Any) -> None:
        self._agent = answering.names()[0]
        self._arrivals: dict[tuple[str, str], Arrival] = {}
        self._runs: dict[str, tuple[str, str]] = {}
        self._owners: dict[str, Any] = {}
        self._tasks = Tasks(self._forget)
        self._types, self._errors = theirs("a2a.types"), theirs("a2a.utils.errors")
        self._handler = theirs("a2a.server.request_handlers").DefaultRequestHandler(
            agent_executor=Work(answering), task_store=self._tasks, agent_card=card, request_context_builder=self
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handler, name)

    async def on_message_send(self, params: Any, context: Any) -> Any:
        """The task of the message: at its end, or at once where that is asked for."""
        arrival, known = await self._admitted(params, context)
        if known:
            return await self._attached(arrival, params, context)
        try:
            return await self._handler.on_message_send(params, context)
        finally:
            self._forget_unless_stored(arrival)

    async def on_message_send_stream(self, params: Any, context: Any) -> AsyncGenerator[Any, None]:
        """The task of the message, and what happens to it until it has ended."""
        arrival, known = await self._admitted(params, context)
        stream = self._followed(arrival, context) if known else self._handler.on_message_send_stream(params, context)
        told = False
        try:
            async for event in stream:
                if not told and not isinstance(event, self._types.Task):
                    yield await self._task(arrival, context)
                told = True
                yield event
        finally:
            await stream.aclose()
            if not known:
                self._forget_unless_stored(arrival)

    async def build(
        self, context: Any, params: Any = None, task_id: Any = None, context_id: Any = None, task: Any = None
    ) -> Any:
        """The context of a request, whose task is there from now on."""
        arrival: Arrival = context.state[ARRIVAL]
        params.message.task_id, params.message.context_id = arrival.task_id, arrival.context_id
        status = self._types.TaskStatus(state=self._types.TaskState.TASK_STATE_SUBMITTED)
        status.timestamp.GetCurrentTime()
        made = self._types.Task(
            id=arrival.task_id, context_id=arrival.context_id, status=status, history=[params.message]
        )
        await self._tasks.save(made, context)
        self._runs[arrival.task_id] = arrival.key
        self._owners[arrival.task_id] = type(context)(user=context.user)  # of the rest, the headers hold a token
        arrival.stored.set()
        return theirs("a2a.server.agent_execution").RequestContext(
            call_context=context, request=params, task_id=arrival.task_id, context_id=arrival.context_id
        )

    async def end_calls(self) -> None:
        """Cancel the tasks that go on, whose callers are told so."""
        await run_together([self._end(task_id, owner) for task_id, owner in self._owners.items()])

    async def aclose(self) -> None:
        """End what goes on, and all that the SDK has started."""
        await self.end_calls()
        await self._handler.aclose()

    async def _end(self, task_id: str, owner: Any) -> None:
        with suppress(self._errors.A2AError):  # most have ended, and cannot be cancelled
            await self._handler.on_cancel_task(self._types.CancelTaskRequest(id=task_id), owner)

    async def _admitted(self, params: Any, context: Any) -> tuple[Arrival, bool]:
        """What arrived, and whether its run is known already. Raises their errors for what cannot be admitted."""
        if params.message.task_id:
            await self._handler.on_get_task(self._types.GetTaskRequest(id=params.message.task_id), context)
            raise self._errors.UnsupportedOperationError("a task here has one message: send another without a task_id")
        arrival = read_arrival(self._agent, params, context)
        known = self._arrivals.setdefault(arrival.key, arrival)
        if known is arrival:
            context.state[ARRIVAL] = arrival
        elif known.envelope.task != arrival.envelope.task:
            raise self._errors.InvalidParamsError("the run_id is that of a run with another task")
        return known, known is not arrival

    async def _attached(self, arrival: Arrival, params: Any, context: Any) -> Any:
        async for task in self._followed(arrival, context):
            if params.configuration.return_immediately:
                return task
        return await self._task(arrival, context)

    async def _followed(self, arrival: Arrival, context: Any) -> AsyncGenerator[Any, None]:
        """The task of a known run, and what happens to it from now on."""
        try:
            async with asyncio.timeout(ATTACH_SECONDS):
                await arrival.stored.wait()
        except TimeoutError as error:
            raise self._errors.TaskNotFoundError("its task is not there yet") from error
        stream = self._handler.on_subscribe_to_task(self._types.SubscribeToTaskRequest(id=arrival.task_id), context)
        try:
            async for event in stream:
                yield event
        except self._errors.UnsupportedOperationError:  # it has ended
            yield await self._task(arrival, context)
        finally:
            await stream.aclose()

    async def _task(self, arrival: Arrival, context: Any) -> Any:
        return await self._handler.on_get_task(self._types.GetTaskRequest(id=arrival.task_id), context)

    def _forget_unless_stored(self, arrival: Arrival) -> None:
        """One that was refused after it was read is no run; who waits for it is told so."""
        if not arrival.stored.is_set():
            self._arrivals.pop(arrival.key, None)
            arrival.stored.set()

    def _forget(self, task_id: str) -> None:
        self._owners.pop(task_id, None)
        key = self._runs.pop(task_id, None)
        if key is not None:
            del self._arrivals[key]
