"""The runs in the database, from outside: put into their queues, waited for, cancelled, resumed, listed."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable
from contextvars import Context
from datetime import UTC, datetime
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from symfonic.durable.database import Database, database_errors, unusable
from symfonic.durable.info import CANCELLED, ENDED, GIVEN_UP, LIVE, WAITING, RunInfo, info
from symfonic.durable.log import GAVE_UP
from symfonic.durable.settings import Settings, dbos
from symfonic.durable.watch import Watch
from symfonic.errors import DelegationError, OverrunError, SymfonicError
from symfonic.kernel.concurrency.tasks import run_inside, run_within, started
from symfonic.kernel.contracts.run_identity import beginning
from symfonic.kernel.contracts.text import error_text
from symfonic.remote.answer import Answer
from symfonic.remote.envelope import Envelope
from symfonic.remote.reception import ANOTHER_CALL

T = TypeVar("T")

APPLICATION, WORKFLOW = "symfonic", "symfonic.run_agent"
_CANCELLED = "it was cancelled; resume({0!r}), or `symfonic resume {0}`, lets it go on"
_MOST_PASSES, GRACE = 100, 10.0
"""Rounds of cancelling until nothing new is found, and seconds past its deadline in which a run can still say so.

So long a cancellation goes on as well that is itself cancelled.
"""


def queue_of(depth: int) -> str:
    """The queue of the runs at a depth. Each has its own: parents must not hold the places their children wait for."""
    return f"symfonic-{depth}"


class AnotherCallError(DelegationError):
    """A run id that was used before, for another agent or task."""


class Runs:
    """What can be done with runs by whoever reaches their database.

    ``calls`` is a client of DBOS, or its class where the program has launched that; ``looks`` is another client, for
    what changes nothing. Nothing here is a step of the workflow that asks for it: a derived run id makes it the same
    whenever it is done again, in whatever order.
    """

    def __init__(self, calls: Any, settings: Settings, looks: Any = None) -> None:
        self._calls = calls
        self._looks = looks or calls
        self._settings = settings
        self._dbos = dbos()
        self._queues: set[str] = set()
        self._watches: WeakKeyDictionary[asyncio.AbstractEventLoop, Watch] = WeakKeyDictionary()
        self.closing: bool = False

    async def through(self, envelope: Envelope, left: Callable[[], bool] = lambda: False) -> Answer:
        """Have a run carried out and wait for what comes of it; one that has run before has its answer already.

        A cancellation here cancels the run and everything below it, unless this process is being closed, or whoever
        asks has ``left``: then it is for the next one to go on. Raises EnvelopeError if the envelope is too large, and
        AnotherCallError if the run of its id is that of another call.
        """
        written, queued = envelope.plain(), False
        try:
            await self._enqueue(envelope, written)
            queued = True
            rows = await self._around(envelope)
            if _is_another(envelope, rows):
                raise AnotherCallError(ANOTHER_CALL)
            await self._unless_cancelled(envelope, rows)
            ended = any(each.workflow_id == envelope.lineage.run_id and each.status in ENDED for each in rows)
            return await self._outcome(envelope, ended)
        except asyncio.CancelledError:
            if not self.closing and not left():
                await _surely(self._called_off(envelope, None if queued else written))
            raise

    async def _called_off(self, envelope: Envelope, written: dict[str, Any] | None) -> None:
        if written is not None:  # it may still be on its way there: then what comes second changes nothing
            await self._enqueue(envelope, written)
        if not _is_another(envelope, await self._around(envelope)):
            await self.cancel(envelope.lineage.run_id)

    async def admit(self, envelope: Envelope) -> None:
        """Let a run begin. Raises DBOS's error of a cancelled workflow where its parent or root was cancelled."""
        await self._unless_cancelled(envelope, await self._around(envelope))

    async def cancel(self, run_id: str) -> int:
        """Cancel a run that has not ended and everything below it; how many runs below it there were."""
        await self._apart(self._calls.cancel_workflows_async([run_id]))
        return await self._cancel_below(run_id)

    async def _cancel_below(self, run_id: str) -> int:
        cancelled = 0
        for _ in range(_MOST_PASSES):
            ids = [each.run_id for each in await self._below(run_id) if each.live]
            if not ids:
                return cancelled
            await self._apart(self._calls.cancel_workflows_async(ids))
            cancelled += len(ids)
        raise SymfonicError(f"the run {run_id} goes on starting others while it is cancelled")

    async def resume(self, run_id: str) -> int:
        """Let a run and those below it go on that were cancelled, given up, or left by a process that is gone.

        What they had done stays done. All at once, since a run whose parent is cancelled does not begin, and a parent
        does not wait for a child that is: so they come from DBOS's own queue, where no number of places is kept.
        Returns how many there were.
        """
        return await self._resume(run_id, lambda each: True)

    async def _resume(self, run_id: str, which: Callable[[RunInfo], bool]) -> int:
        found = await self._listed(workflow_ids=[run_id]) + await self._below(run_id)
        may_be = (each for each in found if each.live or each.status in (CANCELLED, GIVEN_UP))
        stopped = [each.run_id for each in may_be if which(each)]
        if stopped:
            await self._apart(self._calls.resume_workflows_async(stopped))
        return len(stopped)

    async def latest(self, limit: int) -> list[RunInfo]:
        """The latest runs, newest first, with what came of them."""
        return await self._listed(limit=limit, sort_desc=True, load_output=True)

    async def tree(self, run_id: str) -> list[RunInfo]:
        """A run and everything below it, by depth, with what came of them."""
        return await self._listed(workflow_ids=[run_id], load_output=True) + await self._below(run_id, load_output=True)

    def of_others(self, trees: Collection[str]) -> RunInfo | None:
        """A run that waits or runs with this version and belongs to none of these trees; None is well. Blocks."""
        rows = self._looks.list_workflows(
            name=WORKFLOW, status=[*LIVE], app_version=self._settings.version, load_input=False, load_output=False
        )
        return next((each for each in map(info, rows) if each.tree not in trees), None)

    async def register(self, depth: int) -> None:
        """Make sure that a depth has its queue."""
        name = queue_of(depth)
        if name not in self._queues:
            await self._apart(self._calls.register_queue_async(name, **self._settings.queue()))
            self._queues.add(name)

    async def _enqueue(self, envelope: Envelope, written: dict[str, Any]) -> None:
        await self.register(envelope.depth)
        ids = envelope.lineage
        options = {
            "workflow_name": WORKFLOW,
            "queue_name": queue_of(envelope.depth),
            "workflow_id": ids.run_id,
            "app_version": self._settings.version,
            "application_name": None if self._settings.database is None else APPLICATION,
            "serialization_type": self._dbos.WorkflowSerializationFormat.PORTABLE,
            "attributes": {
                "agent": envelope.agent,
                "depth": envelope.depth,
                "root": ids.root_run_id,
                "parent": ids.parent_run_id,
            },
        }
        client = getattr(self._calls, "enqueue_async", None)
        await self._apart((client or self._calls.enqueue_workflow_with_options_async)(options, written))

    async def _around(self, envelope: Envelope) -> list[Any]:
        """The rows of a run, its parent and its root, as far as there are any: one look for all that is to be seen."""
        ids = envelope.lineage
        wanted = [each for each in {ids.run_id, ids.parent_run_id, ids.root_run_id} if each is not None]
        which = {"workflow_ids": wanted, "load_input": not _is_child(envelope), "load_output": False}
        found: list[Any] = await self._apart(self._looks.list_workflows_async(**which))
        return found

    async def _unless_cancelled(self, envelope: Envelope, rows: list[Any]) -> None:
        """What a cancellation that is under way has not seen is not left behind: it is cancelled here."""
        above = self._over_above(envelope, rows)
        if above is None:
            return
        run_id = envelope.lineage.run_id
        await self.cancel(run_id)
        await self._resumed_with(above, run_id)
        raise self._gone_on_no_more(above)

    async def _resumed_with(self, above: str, run_id: str) -> None:
        """What was cancelled since a run goes on no more, goes on with it if that was resumed meanwhile."""
        if any(each.live for each in await self._states([above])):
            await self._resume(run_id, lambda each: not each.live)

    def _over_above(self, envelope: Envelope, rows: list[Any]) -> str | None:
        """Which of a run's parent and root goes on no more."""
        found = (each for each in map(info, rows) if each.run_id != envelope.lineage.run_id)
        return next((each.run_id for each in found if each.status in (CANCELLED, GIVEN_UP)), None)

    def _gone_on_no_more(self, above: str) -> Exception:
        error: Exception = self._dbos.error.DBOSWorkflowCancelledError(f"the run {above} goes on no more")
        return error

    async def _outcome(self, envelope: Envelope, ended: bool) -> Answer:
        """The answer of a run, good or bad, at the latest when it is not waited for any longer."""
        run_id, waits, left = envelope.lineage.run_id, self._settings.waits, envelope.left_seconds()
        until = time.monotonic() + (waits.end if left is None else min(waits.end, max(left, 0) + GRACE))
        while (patience := min(waits.start, until - time.monotonic())) > 0:
            try:
                return await self._answer_of(await run_within(patience, self._row_at_end(run_id, ended)), envelope)
            except OverrunError:
                problem = await self._stuck(envelope)
                if problem is None:
                    continue
            except Exception as error:
                return Answer(status="failed", text=error_text(error), lineage=envelope.lineage)
            break
        else:
            problem = f"it has not ended within {waits.end:g} s, and is not waited for any longer"
        await self.cancel(run_id)
        return Answer(status="failed", text=problem, lineage=envelope.lineage)

    async def _row_at_end(self, run_id: str, ended: bool) -> Any:
        """The row of a run, with what came of it, when it has ended."""
        watch = self._watches.setdefault(asyncio.get_running_loop(), Watch(self._rows_at_end))
        return await watch.ended(run_id, at_once=ended)

    async def _rows_at_end(self, run_ids: list[str]) -> dict[str, Any]:
        which = {"workflow_ids": run_ids, "status": [*ENDED], "load_input": False}
        return {each.workflow_id: each for each in await self._apart(self._looks.list_workflows_async(**which))}

    async def _answer_of(self, row: Any, envelope: Envelope) -> Answer:
        """What is told of a run that has ended."""
        status = info(row).status
        if row.status == "SUCCESS":
            return Answer.read(row.output)
        if status == GIVEN_UP:
            await self._cancel_below(envelope.lineage.run_id)
            await self._resumed_with(envelope.lineage.run_id, envelope.lineage.run_id)
            return Answer(status="failed", text=GAVE_UP, lineage=envelope.lineage)
        if status == CANCELLED:
            above = self._over_above(envelope, await self._around(envelope))
            if above is not None:  # this was cancelled with it, and may be resumed with it by now: it is left alone
                raise self._gone_on_no_more(above)
            told = _CANCELLED.format(envelope.lineage.run_id)
            return Answer(status="cancelled", text=told, lineage=envelope.lineage)
        return Answer(status="failed", text=info(row).text or "", lineage=envelope.lineage)

    async def _stuck(self, envelope: Envelope) -> str | None:
        """What is to be said of a run that nobody takes out of its queue; None for one that is run, or will be."""
        mine, queue = envelope.lineage.run_id, queue_of(envelope.depth)
        if not any(each.status == WAITING for each in await self._states([mine])):
            return None
        of_mine: dict[str, Any] = {"queue_name": queue, "app_version": self._settings.version, "limit": 1}
        lately = datetime.fromtimestamp(time.time() - self._settings.waits.start, UTC).isoformat()
        if await self._listed(status="PENDING", **of_mine) or await self._listed(completed_after=lately, **of_mine):
            return None
        versions = await self._apart(self._looks.list_application_versions_async())
        known = ", ".join(repr(each["version_name"]) for each in versions) or "none"
        return (
            f"no worker took it out of the queue {queue!r} within {self._settings.waits.start:g} s: none of the version"
            f" {self._settings.version!r} is there, or has a place; the versions that have ever worked on this database"
            f" are: {known}"
        )

    async def _states(self, ids: Iterable[str | None]) -> list[RunInfo]:
        wanted = [each for each in ids if each is not None]
        return await self._listed(workflow_ids=wanted) if wanted else []

    async def _below(self, run_id: str, **which: Any) -> list[RunInfo]:
        """The runs below one, whatever became of them."""
        top = await self._listed(workflow_ids=[run_id])
        if not top:
            return []
        root = top[0].root_run_id
        begins = {f"{each}." for each in (run_id.partition(".")[0], root, beginning(root))}  # as all below, and others
        below, found = {run_id}, []
        for each in sorted(await self._listed(workflow_id_prefix=sorted(begins), **which), key=lambda each: each.depth):
            if each.parent_run_id in below:
                below.add(each.run_id)
                found.append(each)
        return found

    async def _listed(self, *, load_output: bool = False, **which: Any) -> list[RunInfo]:
        asked = {"name": WORKFLOW, "load_input": False, "load_output": load_output, **which}
        return [info(each) for each in await self._apart(self._looks.list_workflows_async(**asked))]

    async def _apart(self, work: Awaitable[T]) -> T:
        """What comes of a call of DBOS that is no step of the workflow around it.

        Raises ConfigurationError if the database cannot be read or written to: its driver's words have the statement.
        """
        assert isinstance(work, Coroutine)  # noqa: S101 - all of these are
        try:
            return await run_inside(Context(), work)
        except database_errors() as error:
            named = self._settings.database
            raise unusable("of this program" if named is None else Database(named), error) from error


async def _surely(work: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, also where that is cancelled again and again; not for longer than is worth waiting for."""
    task, until = started(work), time.monotonic() + GRACE
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            if time.monotonic() > until:
                task.cancel()
                raise
    task.result()


def _is_child(envelope: Envelope) -> bool:
    return "/" in envelope.agent


def _is_another(envelope: Envelope, rows: list[Any]) -> bool:
    """Whether the id was used before for another call: whoever is the first has it, also where two come at once.

    A child's is derived from its parent's: its agent and parent say whose it is, and its task may be put in other
    words when its parent is gone through again.
    """
    ids = envelope.lineage
    row = next((each for each in rows if each.workflow_id == ids.run_id), None)
    if row is None or (first := info(row)).agent != envelope.agent:
        return row is not None
    if _is_child(envelope):
        return first.parent_run_id != ids.parent_run_id
    return Envelope.read(row.input["args"][0]).task != envelope.task
