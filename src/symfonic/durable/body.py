"""One agent as the body of a workflow: its id sees to it that it is called once, and its context is the workflow's."""

import asyncio
from typing import Any

from symfonic.capabilities.delegation.active_run import ActiveRun
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.capabilities.delegation.call import Call
from symfonic.capabilities.delegation.contracts import DelegationOutcome, DelegationRecord, RosterEntry
from symfonic.capabilities.delegation.depth import DEFAULT_MAX_DEPTH, DepthPolicy
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.capabilities.delegation.runner_adapter import adapt_child
from symfonic.durable.journal import DbosJournal, survived
from symfonic.errors import LimitReachedError
from symfonic.kernel.concurrency.tasks import cancellation_is_due, run_within
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.text import capped
from symfonic.remote.answer import Answer
from symfonic.remote.crossing import way_here
from symfonic.remote.envelope import Envelope

_NO_LIMITS = Limits()


class Body:
    """Where an agent is called by its envelopes. Raises ChildDeclarationError for one that cannot be adopted."""

    def __init__(self, name: str, agent: Any) -> None:
        self._name = name
        self._roster = DelegationRoster([RosterEntry(name, f"The agent {name}.", adapt_child(name, agent))])

    async def answer(self, envelope: Envelope) -> Answer:
        """Carry a call out, whatever comes of it. Raises only what ends the workflow without an answer: a cancellation
        from outside, and its like."""
        way_here.set(envelope.lineage.via)
        call = _Begun(self._name, envelope)
        return Answer.of(await self._record(call, envelope), envelope.lineage)

    async def _record(self, call: "_Begun", envelope: Envelope) -> DelegationRecord:
        left, ids = envelope.left_seconds(), envelope.lineage
        late = LimitReachedError("timeout", max(left or 0, 0))
        if call.depth > call.ceiling:
            return call.refused(DelegationOutcome.REFUSED_DEPTH, DepthPolicy(call.ceiling).refusal())
        if left is not None and left <= 0:
            return call.failed(late)
        lineage = (ids.root_run_id, ids.parent_run_id, ids.run_id)
        work = survived(lambda: self._roster.started(call.name, call.task, None, call.depth, lineage, call))
        try:
            response = await (work if left is None else run_within(left, work, late))
        except Exception as error:
            return call.failed(error)
        except asyncio.CancelledError as error:
            if cancellation_is_due():  # the process ends, and the run goes on in the next
                raise
            return call.failed(error)
        return call.answered(response)


class _Begun(Call):
    """A run that was called from elsewhere. Its record is the caller's to keep, so none is kept here."""

    __slots__ = ("_bounds",)

    def __init__(self, name: str, envelope: Envelope) -> None:
        super().__init__(name, envelope.task)
        self.caller = None
        self.depth = envelope.depth
        self.ceiling = DEFAULT_MAX_DEPTH if envelope.max_depth is None else envelope.max_depth
        left = envelope.left_seconds()
        brought = envelope.left.limits(left if left is None or left > 0 else None)
        self._bounds = Bounds(self.ceiling, (brought,) if brought != _NO_LIMITS else ())

    def opened(self, run: ActiveRun) -> None:
        run.tighten(self._bounds)
        run.journal = DbosJournal()
        super().opened(run)

    def _cap(self, text: str) -> str:
        return capped(text, next((limits.max_answer_chars for limits in self._bounds.limits), None))
