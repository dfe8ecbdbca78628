"""Delegation as tools: ``delegate`` for programs, ``run_agent`` and ``list_agents`` for models."""

import logging
import time
from typing import TYPE_CHECKING, Any

from symfonic.capabilities.delegation.context import ActiveRun, DelegationContext, active_run
from symfonic.capabilities.delegation.contracts import (
    DelegationOutcome,
    DelegationRecord,
    DelegationToolSpec,
    DelegationTrace,
    Timing,
)
from symfonic.capabilities.delegation.depth import DepthPolicy, lowest
from symfonic.capabilities.delegation.names import spelled
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.kernel.concurrency.tasks import self_cancelled
from symfonic.kernel.contracts.events import DelegationFinished, DelegationRefused, DelegationStarted, Event
from symfonic.kernel.contracts.messages import NO_USAGE
from symfonic.kernel.contracts.text import encodable, error_text, task_text, to_text

if TYPE_CHECKING:
    from symfonic.kernel.contracts.run_identity import RunIdentity

_log = logging.getLogger("symfonic.delegation")

_GUIDE = """\
Delegate a task to a sub-agent and read its answer. The sub-agent works on its own and does not see this \
conversation: put everything it needs into the task. The answer comes back to you, and you stay in charge. \
A refusal is final: do not repeat the call; answer yourself with what you have, or pick one of the sub-agents \
listed here.

Available sub-agents:
{roster}"""


class DelegationTools:
    """The one path of every delegation.

    ``depth`` is this agent's ceiling; None states none, so that of the enclosing run holds, and the default for a
    root. ``record=False`` turns the tally of deliveries off and changes nothing else.
    """

    def __init__(
        self,
        *,
        roster: DelegationRoster,
        depth: DepthPolicy | None,
        context: DelegationContext | None = None,
        record: bool = True,
    ) -> None:
        self.roster = roster
        self.depth = depth
        self.context = context or DelegationContext()
        self._record = record
        self._specs = (
            DelegationToolSpec(
                "run_agent",
                _GUIDE.replace("{roster}", roster.describe()),
                self.run_agent,
                ("name", "task"),
            ),
            DelegationToolSpec("list_agents", "List the sub-agents that tasks can be delegated to.", self.list_agents),
        )

    def specs(self) -> tuple[DelegationToolSpec, ...]:
        """The tools to offer; the same tuple each time."""
        return self._specs

    async def run_agent(self, name: str, task: Any) -> str:
        """Delegate and return what the model reads. ``name`` may be spelled as models spell."""
        resolved = self.roster.resolve(name)
        return (await self.delegate(name if resolved is None else resolved, task)).message

    async def list_agents(self) -> str:
        """The sub-agents, one line each."""
        return f"Available sub-agents:\n{self.roster.describe()}"

    async def delegate(self, name: str, task: Any) -> DelegationRecord:
        """Delegate to the child of exactly this name; whatever happens to it is in the record.

        Raises nothing but a cancellation and its like.
        """
        call = _Call(name, task)
        try:
            parent_depth = self.context.current_depth()
            policy = self._ceiling(call.caller)
            call.depth, call.ceiling = policy.child_depth(parent_depth), policy.max_depth
            if not policy.admits(parent_depth):
                return call.refused(DelegationOutcome.REFUSED_DEPTH, policy.refusal())
            if name not in self.roster:
                return call.refused(DelegationOutcome.UNKNOWN_CHILD, self._unknown(name))
            lineage = _current_identity()
            response = await self.roster.run(
                name,
                task,
                scope=self.context.current_scope(),
                depth=call.depth,
                root_run_id=lineage.root_run_id if lineage else None,
                parent_run_id=lineage.run_id if lineage else None,
                opened=call.started,
            )
            await self_cancelled()
            text = _final_text(response)
            ids = _run_ids(response)
        except Exception as error:
            return call.failed(error_text(error), error)
        except BaseException as error:
            call.failed(error_text(error), error)
            raise
        if not text:
            return call.failed("it returned no final response", None, response, *ids)
        record = call.ended(DelegationOutcome.DELIVERED, text, None, response, *ids)
        if self._record:
            self._tally(name)
        return record

    def _tally(self, name: str) -> None:
        try:
            self.context.record_delegation(name)
        except Exception:  # the child has delivered; who counts it does not change that
            _log.exception("recording the delivery of %r raised", name)

    def _ceiling(self, caller: ActiveRun | None) -> DepthPolicy:
        own = self.depth.max_depth if self.depth is not None else None
        if caller is None or caller.max_depth is None:
            return self.depth or DepthPolicy(lowest())
        return DepthPolicy(lowest(own, caller.max_depth))

    def _unknown(self, name: Any) -> str:
        return encodable(f"Unknown sub-agent {name!r}. Available:\n{self.roster.describe()}")


class _Call:
    """One delegation in progress: its place among the caller's records, and the child's runs."""

    __slots__ = ("_began", "_clock", "_fill", "_runs", "caller", "ceiling", "depth", "name", "task")

    def __init__(self, name: Any, task: Any) -> None:
        self.name = spelled(name)
        self.task = task_text(task)
        self.depth = 1
        self.ceiling: int | None = None
        self.caller = active_run()
        self._fill = self.caller.reserve() if self.caller else None
        self._runs: list[ActiveRun] = []
        self._began = time.time()
        self._clock = time.perf_counter()

    def started(self, run: ActiveRun) -> None:
        """The child's scope is open: what bounds this delegation bounds everything below it."""
        self._runs.append(run)
        run.tighten(self.ceiling)
        if self.caller is not None and self.caller.observers and run.identity:
            self.caller.emit(DelegationStarted(self.name, self.task, run.depth, self.caller.identity, run.identity))

    def refused(self, outcome: DelegationOutcome, message: str) -> DelegationRecord:
        """The child never starts."""
        return self.ended(outcome, message)

    def failed(self, problem: str, error: BaseException | None, result: Any = None, *ids: Any) -> DelegationRecord:
        """The child could not answer."""
        message = encodable(f"Sub-agent {self.name!r} failed: {problem}")
        return self.ended(DelegationOutcome.CHILD_FAILED, message, error, result, *ids)

    def ended(
        self,
        outcome: DelegationOutcome,
        message: str,
        error: BaseException | None = None,
        result: Any = None,
        run_id: str = "",
        root_run_id: str = "",
        parent_run_id: str | None = None,
    ) -> DelegationRecord:
        """Write the record, into the caller's run too, and tell the observers."""
        run = self._runs[-1] if self._runs else None
        trace = DelegationTrace(
            self._caller_identity(),
            run.identity if run else None,
            self.task,
            Timing(self._began, time.perf_counter() - self._clock),
            error,
            result,
            sum((each.usage for each in self._runs), NO_USAGE),
            tuple(record for each in self._runs for record in each.records),
        )
        record = DelegationRecord(self.name, outcome, self.depth, message, run_id, root_run_id, parent_run_id, trace)
        if self._fill is not None:
            self._fill(record)
        if self.caller is not None and self.caller.observers:
            self.caller.emit(_closing_event(record, trace))
        return record

    def _caller_identity(self) -> "RunIdentity | None":
        if self.caller is not None and self.caller.identity is not None:
            return self.caller.identity
        try:
            return _current_identity()
        except Exception:  # the look-up is reported as the delegation's failure where it matters
            return None


def _closing_event(record: DelegationRecord, trace: DelegationTrace) -> Event:
    name, depth, outcome, message = record.name, record.depth, record.outcome, record.message
    if trace.child is None:
        return DelegationRefused(name, trace.task, depth, trace.caller, outcome, message)
    return DelegationFinished(name, depth, trace.caller, trace.child, outcome, message, trace.timing.duration)


def _current_identity() -> "RunIdentity | None":
    from symfonic.kernel.contracts.run_identity import current_run_identity

    return current_run_identity()


def _final_text(response: Any) -> str:
    final = getattr(response, "final_response", None)
    if isinstance(final, str):
        return encodable(final.strip())
    return to_text(final).strip() if final else ""


def _run_ids(response: Any) -> tuple[str, str, str | None]:
    run_id, root_run_id, parent_run_id = (
        encodable(str(value)) if value else None
        for value in (getattr(response, key, None) for key in ("run_id", "root_run_id", "parent_run_id"))
    )
    return run_id or "", root_run_id or "", parent_run_id
