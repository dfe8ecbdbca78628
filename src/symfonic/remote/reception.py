"""What arrives: checked again, and carried out inside the bounds that it brought along and those of this side."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from contextvars import Context
from typing import Any

from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.capabilities.delegation.call import Call
from symfonic.capabilities.delegation.contracts import DelegationOutcome, DelegationRecord, RosterEntry, walk
from symfonic.capabilities.delegation.depth import DEFAULT_MAX_DEPTH, DepthPolicy
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.capabilities.delegation.runner_adapter import adapt_child
from symfonic.errors import LimitReachedError
from symfonic.kernel.concurrency.tasks import cancellation_is_due, run_inside, run_within
from symfonic.kernel.contracts.limits import Limits
from symfonic.remote.answer import Answer
from symfonic.remote.crossing import Out, home, own, way_here
from symfonic.remote.envelope import Envelope

REMEMBERED = 1024
"""Runs whose answers are kept for whoever asks for them again."""


class Reception:
    """The agents that others may call, by name: the first one is who is meant where nobody is named.

    ``max_depth`` is the deepest depth at which one of them may run here, ``limits`` what one call may spend. Both only
    tighten what a caller brings along. Raises ChildDeclarationError for an agent that cannot be adopted.
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
        self._answers: OrderedDict[str, asyncio.Future[Answer]] = OrderedDict()

    def names(self) -> tuple[str, ...]:
        """Who may be called."""
        return self._roster.names()

    async def answer(self, envelope: Envelope) -> Answer:
        """Carry a call out, whatever comes of it. One with the id of an earlier one has that one's answer.

        Raises nothing but a cancellation and its like, after which the answer says so to others who wait for it.
        """
        run_id = envelope.lineage.run_id
        earlier = self._answers.get(run_id)
        if earlier is not None:
            return await asyncio.shield(earlier)
        coming: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._answers[run_id] = coming
        while len(self._answers) > REMEMBERED and next(iter(self._answers.values())).done():
            self._answers.popitem(last=False)
        sent = own(envelope)
        if sent is not None:  # it set out from here, and what it was given then is what holds
            envelope = sent.envelope.model_copy(update={"agent": envelope.agent, "task": envelope.task})
        out = home(envelope.lineage)
        inside = Context() if out is None else out.context.copy()
        answer = Answer(status="cancelled", text="it was cancelled", lineage=envelope.lineage)
        try:
            answer = await run_inside(inside, self._carried_out(envelope, out))
        finally:
            coming.set_result(answer)
        if sent is not None:
            sent.seen = answer.spent.usage()
        return answer

    async def _carried_out(self, envelope: Envelope, out: Out | None) -> Answer:
        around = active_run()
        way_here.set(envelope.lineage.via)
        call = _Arrived(envelope, around, self._bounds(envelope, around))
        record = await self._decided(call, envelope)
        if out is not None:
            out.counted += sum(1 for _ in walk(record.children))
        return Answer.of(record, envelope.lineage)

    async def _decided(self, call: "_Arrived", envelope: Envelope) -> DelegationRecord:
        left = envelope.left_seconds()
        if call.depth > call.ceiling:
            return call.refused(DelegationOutcome.REFUSED_DEPTH, DepthPolicy(call.ceiling).refusal())
        if call.name not in self._roster:
            known = ", ".join(self._roster.names())
            return call.refused(DelegationOutcome.UNKNOWN_CHILD, f"Unknown agent {call.name!r}. Available: {known}")
        late = LimitReachedError("timeout", left or 0)
        if left is not None and left <= 0:
            return call.failed(late)
        ids = envelope.lineage
        remembered = call.around.identity if call.around is not None else None
        root = ids.root_run_id if remembered is None else remembered.root_run_id
        work = self._roster.started(call.name, call.task, None, call.depth, (root, ids.parent_run_id, ids.run_id), call)
        try:
            response = await (work if left is None else run_within(left, work, late))
            if cancellation_is_due():
                await asyncio.sleep(0)  # where it arrives
        except Exception as error:
            return call.failed(error)
        return call.answered(response)

    def _bounds(self, envelope: Envelope, around: ActiveRun | None) -> Bounds:
        """What the call brings along, this side's own, and what holds where the call came from."""
        stated = [envelope.max_depth, self._ceiling, around.max_depth if around is not None else None]
        ceiling = min((each for each in stated if each is not None), default=DEFAULT_MAX_DEPTH)
        brought = envelope.left.limits(None)
        own = () if self._limits is None else (self._limits,)
        return Bounds(ceiling, (brought, *own) if brought != _NO_LIMITS else own)


_NO_LIMITS = Limits()


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

    def opened(self, run: ActiveRun) -> None:
        run.tighten(self._bounds)
        super().opened(run)
