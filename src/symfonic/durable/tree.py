"""`durable`: an agent whose runs, and whose children's, outlive the processes that they run in."""

import asyncio
import os
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from symfonic.agent.engine import AgentResult
from symfonic.capabilities.delegation.active_run import RunScope, active_run
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.capabilities.delegation.depth import DEFAULT_MAX_DEPTH, DepthPolicy
from symfonic.durable import callers
from symfonic.durable.engine import Engine, enter, leave
from symfonic.durable.info import RunInfo
from symfonic.durable.paths import Rooted, ours, part
from symfonic.durable.runs import GRACE, AnotherCallError, Runs
from symfonic.durable.settings import Settings, Waits
from symfonic.errors import ConfigurationError, DelegationError, SymfonicError
from symfonic.kernel.concurrency.tasks import put_down, started
from symfonic.kernel.concurrency.threads import run_in_thread
from symfonic.kernel.contracts.closing import Closing
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.run_identity import RunIdentity, new_run_id
from symfonic.kernel.contracts.text import task_text
from symfonic.remote.answer import Answer
from symfonic.remote.crossing import caller_here, leaving
from symfonic.remote.envelope import Envelope, check_id
from symfonic.remote.reception import lead_of


def durable(
    agent: Any,
    database: "str | os.PathLike[str] | None" = None,
    *,
    executor_id: str = "local",
    version: str = "1",
    concurrency: int | None = None,
    global_concurrency: int | None = None,
    waits: Waits | None = None,
    worker: bool = True,
) -> "Durable":
    """The agent, with runs that outlive this process.

    ``database`` is a file, which is created, or a ``postgresql://`` URL; without one the DBOS is used that the program
    has launched. ``executor_id`` is who works here: one process at a time, and after a crash the runs of that id go on
    when it is there again. ``version`` is that of the team: runs go on only with the version they began with.
    ``concurrency`` is how many runs of one depth this process carries out at once, ``global_concurrency`` all of them
    together. ``worker=False`` asks for runs that other processes carry out.

    Raises ConfigurationError for an agent that is none of ours, for settings that cannot hold, for others than those of
    the durable trees that this process has already, and if dbos is missing.
    """
    named = os.fspath(database) if isinstance(database, os.PathLike) else database
    settings = Settings(named, executor_id, version, concurrency, global_concurrency, waits or Waits(), worker)
    return Durable(agent, settings)


class Durable(Rooted, Closing):
    """An agent at the root of a durable tree. Close it when it is not used any more: what is running stays as it is."""

    overtime: float = GRACE

    def __init__(self, agent: Any, settings: Settings) -> None:
        agent = lead_of(agent)
        engine = ours(agent)
        if engine is None:
            raise ConfigurationError(f"durable(...) takes an Agent, a SymfonicAgent or a team, got {agent!r}")
        self.root: Any = agent
        self.name: str = engine.name
        self._kernel = engine.kernel
        self._closed = False
        self._waiting: dict[asyncio.Future[None], asyncio.AbstractEventLoop] = {}
        self._engine: Engine = enter(self.name, agent, settings)
        self._path = part(self.name)

    async def run(
        self,
        query: Any,
        *,
        scope: Any = None,
        agent_depth: Any = None,
        root_run_id: str | None = None,
        parent_run_id: str | None = None,
        max_depth: int | None = None,
        limits: Limits | None = None,
        run_id: str | None = None,
    ) -> AgentResult:
        """Run to the answer, or take it from the run that had this ``run_id`` before.

        Inside another run it is a child of that one. A cancellation cancels the whole tree. Raises RemoteError if the
        run failed, LimitReachedError if its time was over, EnvelopeError for a task that is too large, DelegationError
        if the ``run_id`` is that of a run with another task, SymfonicError if this is closed meanwhile, and
        ConfigurationError if the database cannot be used, and for a ``scope``, which no process can hand to another.
        """
        if scope is not None:
            raise ConfigurationError("a durable run cannot have a scope: it is an object of this process alone")
        if limits is not None and not isinstance(limits, Limits):
            raise ConfigurationError(f"limits must be symfonic.Limits(...), got {limits!r}")
        if run_id is not None:
            check_id("run_id", run_id)
        await self.start()
        text, around = task_text(query), active_run()
        if around is not None:
            return await self._gone_through(text)
        new = run_id or new_run_id()
        identity = RunIdentity(new, root_run_id or new, parent_run_id)
        bounds = self._bounds(max_depth, limits)
        with RunScope(depth=agent_depth or 0, agent=self.name, bounds=bounds, identity=identity) as run:
            run.offer()
            try:
                return await self._gone_through(text)
            except AnotherCallError as error:
                told = f"the run id {new!r} was used before, for another call ({error.first}): take another id"
                raise DelegationError(told) from error

    async def run_root(self, query: Any, *, observers: Any = None, **arguments: Any) -> AgentResult:
        """The same for an agent that is durable by itself: inside another run it runs as any agent does."""
        if active_run() is not None:
            return await self._kernel.run(query, observers=observers, **arguments)
        if observers is not None:
            raise ConfigurationError("a durable run is told of where it runs: give the agent Options(observers=...)")
        return await self.run(query, **arguments)

    def run_sync(self, query: Any, **arguments: Any) -> AgentResult:
        """The same from synchronous code. Raises SymfonicError in a thread whose event loop is running."""
        from symfonic.kernel.concurrency.threads import run_blocking

        return run_blocking(lambda: self.run(query, **arguments))

    async def start(self) -> None:
        """Be ready, and take up what was left. The first run does so as well; a worker has no run of its own.

        Raises ConfigurationError if the database cannot be reached, or if another process has this executor's id.
        """
        if self._closed:
            raise SymfonicError(f"{self!r} has been closed")
        await run_in_thread(self._engine.start, "durable-start")

    async def cancel(self, run_id: str) -> None:
        """Cancel a run and everything below it."""
        await (await self._runs()).cancel(run_id)

    async def resume(self, run_id: str) -> int:
        """Let a run go on, and those below it, that were cancelled or given up; how many there were."""
        return await (await self._runs()).resume(run_id)

    async def runs(self, *, limit: int = 100, run_id: str | None = None) -> list[RunInfo]:
        """The latest runs, newest first, or those of one tree; with what came of them."""
        runs = await self._runs()
        return await (runs.latest(limit) if run_id is None else runs.tree(run_id))

    async def aclose(self) -> None:
        """Stop working, and close what the agent owns. Runs that have not ended go on in the next process."""
        await self.leave()
        await self.root.aclose()

    async def leave(self) -> None:
        """Stop working, and leave the agent as it is."""
        self._closed = True
        for left, loop in tuple(self._waiting.items()):
            with suppress(RuntimeError):  # a loop that is closed waits for nothing
                loop.call_soon_threadsafe(_told, left)
        await run_in_thread(lambda: leave(self._engine, self._path), "durable-stop")

    def __repr__(self) -> str:
        return f"Durable({self.name!r})"

    async def _runs(self) -> Runs:
        await self.start()
        return self._engine.runs

    async def _answer(self, envelope: Envelope) -> Answer:
        runs, caller = self._engine.runs, caller_here.get()
        if caller is None:
            return await self._while_open(runs.through(envelope, self._has_left))
        return await callers.through(runs, envelope, caller, self._has_left)  # cancelled by who serves it, and not told

    async def _while_open(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What comes of it. Raises SymfonicError when this is closed meanwhile: then nobody here hears of it."""
        loop = asyncio.get_running_loop()
        task, left = started(work), loop.create_future()
        self._waiting[left] = loop
        try:
            if not self._closed:  # by another thread, just now
                await asyncio.wait({task, left}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                told = "its runs go on in the next process, where their run_id asks for their answers"
                raise SymfonicError(f"{self!r} has been closed: {told}")
            return task.result()
        finally:
            del self._waiting[left]
            if not task.done():
                await put_down([task])

    def _has_left(self) -> bool:
        return self._closed

    def _bounds(self, max_depth: int | None, limits: Limits | None) -> Bounds:
        own = self._kernel.bounds
        asked = None if max_depth is None else DepthPolicy(max_depth).max_depth
        stated = [each for each in (own.max_depth, asked) if each is not None]
        return Bounds(min(stated, default=DEFAULT_MAX_DEPTH), own.limits if limits is None else (*own.limits, limits))

    async def _gone_through(self, text: str) -> AgentResult:
        with leaving(self._path, text) as out:
            response = out.returned(await self._answer(out.envelope))
            run, ids = active_run(), out.envelope.lineage
        assert run is not None  # noqa: S101 - it has just gone out
        records = run.records
        names = tuple(each.name for each in records if each.delivered)
        return AgentResult(
            response.final_response,
            names,
            records,
            run.usage,
            ids.run_id,
            ids.root_run_id,
            ids.parent_run_id,
            (),
        )


def _told(left: "asyncio.Future[None]") -> None:
    if not left.done():
        left.set_result(None)
