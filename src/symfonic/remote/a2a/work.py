"""The work on a task: the agent is asked, and what comes of it told in A2A's terms."""

import asyncio
from typing import Any, Protocol

from symfonic.kernel.concurrency.mailbox import Mailbox
from symfonic.kernel.concurrency.tasks import run_together
from symfonic.kernel.contracts.observer import Event
from symfonic.kernel.contracts.text import error_text
from symfonic.remote.a2a.arrival import Arrival
from symfonic.remote.a2a.extension import carried, theirs, traced
from symfonic.remote.answer import Answer, Status
from symfonic.remote.envelope import Envelope
from symfonic.remote.reception import Reception

ARRIVAL = "symfonic.arrival"
"""Where the SDK's context of a call holds what arrived."""

MOST_UPDATES = 100
"""Status updates of one task: each is kept with it."""

STATES: dict[Status, str] = {
    "finished": "TASK_STATE_COMPLETED",
    "refused": "TASK_STATE_REJECTED",
    "failed": "TASK_STATE_FAILED",
    "timed_out": "TASK_STATE_FAILED",
    "cancelled": "TASK_STATE_CANCELED",
}


class Answering(Protocol):
    """Who carries calls out: `Reception`, or what does the same and keeps it safe."""

    def names(self) -> tuple[str, ...]:
        """Who may be called; the first one is who is meant."""
        ...

    async def answer(self, envelope: Envelope) -> Answer:
        """How the run ended. One run id is one run, however often it is asked for."""
        ...


class Work:
    """What the SDK calls an executor."""

    def __init__(self, answering: Answering) -> None:
        self._answering = answering

    async def execute(self, context: Any, queue: Any) -> None:
        """Carry a call out, and tell how it goes and how it ended."""
        arrival: Arrival = context.call_context.state[ARRIVAL]
        updates = theirs("a2a.server.tasks").TaskUpdater(queue, context.task_id, context.context_id)
        await updates.start_work()
        try:
            with traced(arrival.run_id, arrival.trace):
                answer = await self._watched(arrival, updates)
        except asyncio.CancelledError:
            await _tell(await self._cancelled(arrival), arrival, updates)
            raise
        except Exception as error:  # the SDK would tell its caller of an internal error, without words
            failed = Answer(status="failed", text=error_text(error), lineage=arrival.envelope.lineage)
            answer = failed.small_enough()
        await _tell(answer, arrival, updates)

    async def cancel(self, context: Any, queue: Any) -> None:
        """Nothing more: the SDK cancels `execute`, which ends the tree below, waits for it and says so."""

    async def _cancelled(self, arrival: Arrival) -> Answer:
        """How a run that was cancelled ended; a reception remembers what it has spent, if it ever began."""
        if arrival.begun and isinstance(self._answering, Reception):
            return await self._answering.answer(arrival.envelope, caller=arrival.user)
        return Answer(status="cancelled", text="it was cancelled", lineage=arrival.envelope.lineage)

    async def _watched(self, arrival: Arrival, updates: Any) -> Answer:
        """The answer; delegations on the way to it are told as they happen."""
        if not isinstance(self._answering, Reception):
            return await self._answering.answer(arrival.envelope)
        reception, events = self._answering, Mailbox[Event | None]()

        async def answered() -> Answer | None:
            arrival.begun = True
            try:
                return await reception.answer(arrival.envelope, (events.put,), arrival.user)
            finally:
                events.put(None)

        answer, _ = await run_together([answered(), _told(events, updates)])
        if isinstance(answer, asyncio.CancelledError):
            raise answer
        assert answer is not None  # noqa: S101 - only what tells returns None
        return answer


async def _told(events: "Mailbox[Event | None]", updates: Any) -> None:
    """Tell of delegations, until there are no more events."""
    types = theirs("a2a.types")
    told = 0
    while (event := await events.get()) is not None:
        words = _words(event)
        if words and told < MOST_UPDATES:
            told += 1
            await updates.start_work(updates.new_agent_message([types.Part(text=words)]))


def _words(event: Event) -> str:
    from symfonic.kernel.contracts.events import DelegationFinished, DelegationRefused, DelegationStarted

    if isinstance(event, DelegationStarted):
        return f"{event.name}: started at depth {event.where.depth + 1}"
    if isinstance(event, DelegationFinished | DelegationRefused):
        return f"{event.name}: {event.outcome} at depth {event.where.depth + 1}"
    return ""


async def _tell(answer: Answer, arrival: Arrival, updates: Any) -> None:
    """Say how it ended; whoever knows of our extension is told all of it."""
    types = theirs("a2a.types")
    words = [types.Part(text=answer.text)]
    message = None
    if answer.status == "finished":
        await updates.add_artifact(words, artifact_id="answer", name="answer", append=False, last_chunk=True)
    else:
        message = updates.new_agent_message(words)
    state = types.TaskState.Value(STATES[answer.status])
    await updates.update_status(state, message, metadata=carried(answer) if arrival.extended else None)
