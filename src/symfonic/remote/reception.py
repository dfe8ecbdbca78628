"""What arrives: checked again, and carried out inside the bounds that it brought along and those of this side."""

import asyncio
from collections import OrderedDict
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Protocol, runtime_checkable

from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.admission import Refused, consult
from symfonic.capabilities.delegation.bounds import Bounds, DelegationRequest
from symfonic.capabilities.delegation.budget import Asked
from symfonic.capabilities.delegation.call import Call
from symfonic.capabilities.delegation.contracts import DelegationOutcome, DelegationRecord, RosterEntry
from symfonic.capabilities.delegation.depth import DEFAULT_MAX_DEPTH, DepthPolicy
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.capabilities.delegation.runner_adapter import adapt_child
from symfonic.errors import LimitReachedError
from symfonic.kernel.concurrency.tasks import cancellation_is_due, run_inside, run_within
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.observer import Observer
from symfonic.kernel.contracts.text import capped
from symfonic.remote.answer import Answer, started
from symfonic.remote.crossing import Out, caller_here, home, own, way_here
from symfonic.remote.envelope import Envelope

REMEMBERED = 1024
"""Runs whose answers are kept for whoever asks for them again."""

ANOTHER_CALL = "Delegation refused: its run id is that of another call"
"""What is said of a run id that the caller has used for another agent or task."""

_OURS = "symfonic_"  # what our context variables are called


@runtime_checkable
class Lasting(Protocol):
    """An agent whose runs outlive this process, and keep their time themselves.

    ``overtime``: the seconds past its deadline in which a run can still say what it has spent.
    """

    overtime: float

    def start(self) -> Coroutine[Any, Any, None]:
        """Take up what was left."""
        ...

    def leave(self) -> Coroutine[Any, Any, None]:
        """Stop working. What is running, or cancelled from now on, goes on in the next process."""
        ...


@dataclass(slots=True, eq=False)
class _Kept:
    """What a run id was used for, by whom, and the answer, when there is one."""

    agent: str
    task: str
    caller: str
    coming: "Future[Answer]" = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.coming.set_running_or_notify_cancel()  # nobody who waits for it can cancel it

    def settle(self, answer: Answer) -> None:
        if not self.coming.done():
            self.coming.set_result(answer)


class Reception:
    """The agents that others may call, by name: the first one is who is meant where nobody is named.

    ``max_depth`` is the deepest depth at which one of them may run here, ``limits`` what one call may spend. Both only
    tighten what a caller brings along. It may be used from several event loops. Raises ChildDeclarationError for an
    agent that cannot be adopted.
    """

    def __init__(
        self,
        agents: Mapping[str, Any],
        *,
        max_depth: int | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._ceiling = None if max_depth is None else DepthPolicy(max_depth).max_depth
        self._limits = limits
        self._roster = DelegationRoster(
            RosterEntry(name, f"The agent {name}.", adapt_child(name, agent)) for name, agent in agents.items()
        )
        self._overtime = {name: each.overtime for name, each in agents.items() if isinstance(each, Lasting)}
        self._lock = Lock()
        self._running: dict[tuple[str, str], _Kept] = {}
        self._ended: OrderedDict[tuple[str, str], _Kept] = OrderedDict()

    def names(self) -> tuple[str, ...]:
        """Who may be called."""
        return self._roster.names()

    async def answer(self, envelope: Envelope, observers: tuple[Observer, ...] = (), caller: str = "") -> Answer:
        """Carry a call out, whatever comes of it. One with the id of an earlier one of that caller has its answer.

        ``observers``, plain functions, are told of everything that happens in it and below. Raises nothing but a
        cancellation and its like, after which the answer says so to others who wait for it.
        """
        key, mine = (caller, envelope.lineage.run_id), _Kept(envelope.agent, envelope.task, caller)
        kept = self._first(key, mine)
        if kept is not mine:
            if (kept.agent, kept.task) != (mine.agent, mine.task):
                return Answer(status="refused", text=ANOTHER_CALL, lineage=envelope.lineage)
            return await asyncio.wrap_future(kept.coming)
        sent = own(envelope)
        if sent is not None:  # it set out from here, and what it was given then is what holds
            envelope = sent.envelope.model_copy(update={"agent": envelope.agent, "task": envelope.task})
        out = home(envelope.lineage)
        try:
            return await run_inside(_inside(out), self._carried_out(envelope, (out, sent), observers, mine))
        finally:
            mine.settle(Answer(status="cancelled", text="it was cancelled", lineage=envelope.lineage))
            self._keep(key, mine)

    def _first(self, key: tuple[str, str], mine: _Kept) -> _Kept:
        """The first call of a caller's with a run id; it is ``mine`` if there was none before."""
        with self._lock:
            return self._ended.get(key) or self._running.setdefault(key, mine)

    def _keep(self, key: tuple[str, str], kept: _Kept) -> None:
        with self._lock:
            self._ended[key] = self._running.pop(key, kept)
            while len(self._ended) > REMEMBERED:
                self._ended.popitem(last=False)

    async def _carried_out(
        self, envelope: Envelope, outs: tuple[Out | None, Out | None], observers: tuple[Observer, ...], kept: _Kept
    ) -> Answer:
        around, (out, sent) = active_run(), outs
        way_here.set(envelope.lineage.via)
        caller_here.set(kept.caller)
        call = _Arrived(envelope, around, self._bounds(envelope, around, observers))
        record = await self._decided(call, envelope)
        if out is not None:
            out.counted += started((record,))
        answer = Answer.of(record, envelope.lineage)
        if sent is not None:
            sent.saw(answer)
        kept.settle(answer)
        return answer

    async def _decided(self, call: "_Arrived", envelope: Envelope) -> DelegationRecord:
        if call.depth > call.ceiling:
            return call.refused(DelegationOutcome.REFUSED_DEPTH, DepthPolicy(call.ceiling).refusal())
        if call.name not in self._roster:
            known = ", ".join(self._roster.names())
            return call.refused(DelegationOutcome.UNKNOWN_CHILD, f"Unknown agent {call.name!r}. Available: {known}")
        seconds, late = self._time(envelope, call.around)
        if seconds is not None and seconds <= 0:
            return call.failed(late)
        try:
            await call.admitted()
            work = self._roster.started(call.name, call.task, None, call.depth, call.lineage(envelope), call)
            if seconds is not None:
                work = run_within(seconds + self._overtime.get(call.name, 0), work, late)
            response = await work
            if cancellation_is_due():
                await asyncio.sleep(0)  # where it arrives
        except Refused as refusal:
            return call.refused(DelegationOutcome.REFUSED_POLICY, str(refusal), refusal.__cause__)
        except (Exception, asyncio.CancelledError) as error:  # this task has nothing left to do, whoever cancelled it
            return call.failed(error)
        return call.answered(response)

    def _time(self, envelope: Envelope, around: ActiveRun | None) -> tuple[float | None, LimitReachedError]:
        """The seconds that the call has, and what is to be said when they are over; None where nobody says."""
        left = envelope.left_seconds()
        own = None if self._limits is None else self._limits.timeout
        times = [(each, LimitReachedError("timeout", _shown(each))) for each in (left, own) if each is not None]
        budget = around.budget if around is not None else None
        if budget is not None and (time_left := budget.time_left()) is not None:
            times.append(time_left)
        return min(times, key=lambda each: each[0]) if times else (None, LimitReachedError("timeout", 0))

    def _bounds(self, envelope: Envelope, around: ActiveRun | None, observers: tuple[Observer, ...]) -> Bounds:
        """What the call brings along, this side's own, and what holds where the call came from."""
        stated = [envelope.max_depth, self._ceiling, around.max_depth if around is not None else None]
        ceiling = min((each for each in stated if each is not None), default=DEFAULT_MAX_DEPTH)
        left = envelope.left_seconds()
        brought = envelope.left.limits(left if left is None or left > 0 else None)
        own = () if self._limits is None else (self._limits,)
        return Bounds(ceiling, (brought, *own) if brought != _NO_LIMITS else own, observers)


_NO_LIMITS = Limits()


def _inside(out: Out | None) -> Context:
    """Where an arrival is carried out: of ours nothing is current but what was where it set out from, if it did.

    The rest is this side's: what a server or an engine keeps in the context is about the call that it serves.
    """
    inside = Context() if out is None else out.context.copy()
    theirs = [(var, value) for var, value in copy_context().items() if not var.name.startswith(_OURS)]

    def take() -> None:
        for var, value in theirs:
            var.set(value)

    inside.run(take)
    return inside


def _shown(seconds: float) -> float:
    return float(f"{max(seconds, 0):.3g}")


class _Arrived(Call):
    """A call from another process. Its record is the caller's to keep, so none is kept here."""

    __slots__ = ("_bounds", "around")

    def __init__(self, envelope: Envelope, around: ActiveRun | None, bounds: Bounds) -> None:
        super().__init__(envelope.agent, envelope.task)
        self.caller = None
        self.around: ActiveRun | None = around
        self._bounds = bounds
        self.depth = envelope.depth if around is None else max(envelope.depth, around.depth + 1)
        assert bounds.max_depth is not None  # noqa: S101 - stated above
        self.ceiling = bounds.max_depth

    def lineage(self, envelope: Envelope) -> tuple[str, str | None, str]:
        """The ids of the root, the parent and the run; whose tree it is, this side knows better where it is home."""
        ids, known = envelope.lineage, self.around.identity if self.around is not None else None
        if known is None:
            return ids.root_run_id, ids.parent_run_id, ids.run_id
        return known.root_run_id, ids.parent_run_id or known.run_id, ids.run_id

    async def admitted(self) -> None:
        """Ask the hooks and the budget of the call that this one came back from, as for any child of its.

        How many children a run may have, and how often the same, is for the side to count where that run is. Raises
        Refused or LimitReachedError.
        """
        around = self.around
        if around is None:
            return
        if around.hooks:
            request = DelegationRequest(self.name, self.task, self.depth, around.scope, around.identity)
            self.task = (await consult(around.hooks, request, around.pass_through)).task
        reached = None if around.budget is None else around.budget.reserve_child(Asked(), self.name, self.task)
        if reached is not None:
            raise reached

    def opened(self, run: ActiveRun) -> None:
        run.tighten(self._bounds)
        run.journal = None  # that of the call that it came back from is in other hands
        super().opened(run)

    def _cap(self, text: str) -> str:
        around = self.around.budget if self.around is not None else None
        caps = [limits.max_answer_chars for limits in self._bounds.limits]
        caps.append(around.answer_cap() if around is not None else None)
        return capped(text, min((cap for cap in caps if cap is not None), default=None))


def who_answers(agent: Any) -> Any:
    """The agent itself, the lead of a team, or what keeps the runs of one that is durable."""
    agent = lead_of(agent)
    kept = getattr(agent, "durable", None)
    return kept if isinstance(kept, Lasting) else agent


def lead_of(agent: Any) -> Any:
    """The agent itself, or the lead of a team."""
    lead = getattr(agent, "agent", None)
    return lead if lead is not None and hasattr(agent, "agents") else agent
