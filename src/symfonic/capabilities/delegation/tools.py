"""Delegation as tools: ``delegate`` for programs, ``run_agent`` and ``list_agents`` for models."""

import asyncio
import logging
from collections.abc import Awaitable
from functools import lru_cache
from typing import Any

from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.admission import Refused, consult, narrowed
from symfonic.capabilities.delegation.bounds import DelegationRequest
from symfonic.capabilities.delegation.call import Call
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.capabilities.delegation.contracts import DelegationOutcome, DelegationRecord, DelegationToolSpec
from symfonic.capabilities.delegation.depth import DEFAULT_MAX_DEPTH, DepthPolicy
from symfonic.capabilities.delegation.lineage import current_identity
from symfonic.capabilities.delegation.names import LONGEST_NAME, spelled
from symfonic.capabilities.delegation.policies import Lineage
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.errors import LimitReachedError
from symfonic.kernel.concurrency.tasks import cancellation_is_due, run_within
from symfonic.kernel.contracts.messages import current_tool_call
from symfonic.kernel.contracts.text import preview

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
        self.context: DelegationContext = context or DelegationContext()
        self._record = record
        self._specs = self._twin()._offer()

    def _twin(self) -> "DelegationTools":
        """The same delegation, for the tools to be methods of: were they this object's own, it would hold itself.

        An agent that nobody uses any more is freed at once, and not when the garbage collector comes by.
        """
        twin = object.__new__(type(self))
        vars(twin).update(vars(self))
        return twin

    def _offer(self) -> tuple[DelegationToolSpec, ...]:
        """What `specs` returns, made anew."""
        guide = _GUIDE.replace("{roster}", self.roster.describe())
        return (
            DelegationToolSpec("run_agent", guide, self.run_agent, ("name", "task")),
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
        """The sub-agents, one line each; at the ceiling the refusal: there is nothing to choose from."""
        ceiling = self._ceiling(active_run())
        if not ceiling.admits(self.context.current_depth()):
            return ceiling.refusal()
        return f"Available sub-agents:\n{self.roster.describe()}"

    async def delegate(self, name: str, task: Any) -> DelegationRecord:
        """Delegate to the child of exactly this name; whatever happens to it is in the record.

        Raises nothing but a cancellation and its like, and what `Options.pass_through` names.
        """
        call = Call(name, task)
        try:
            parent_depth = self.context.current_depth()
            ceiling = self._ceiling(call.caller)
            call.depth, call.ceiling = ceiling.child_depth(parent_depth), ceiling.max_depth
            if not ceiling.admits(parent_depth):
                return call.refused(DelegationOutcome.REFUSED_DEPTH, ceiling.refusal())
            if name not in self.roster:
                return call.refused(DelegationOutcome.UNKNOWN_CHILD, self._unknown(name))
            scope = narrowed(self.roster.policy(call.name), self.context.current_scope())
            if call.caller is None or (call.caller.budget is None and not call.caller.hooks):
                response = await self._run(call, scope)
            else:
                response = await self._run_within_bounds(call, call.caller, scope)
            if cancellation_is_due():
                await asyncio.sleep(0)  # where it arrives
        except Refused as refusal:
            return call.refused(DelegationOutcome.REFUSED_POLICY, str(refusal), refusal.__cause__)
        except Exception as error:
            record = call.failed(error)
            if call.lets_through(error):
                raise
            return record
        except BaseException as error:
            call.failed(error)
            raise
        record = call.answered(response)
        if record.delivered and self._record:
            self._tally(call.name)
        return record

    async def _run_within_bounds(self, call: Call, caller: ActiveRun, scope: Any) -> Any:
        """Run the child as the caller's hooks and budget allow. Raises Refused or LimitReachedError if they do not."""
        budget = caller.budget
        if caller.hooks:
            _unless(budget.peek(caller.asked) if budget else None)  # nobody is asked about what cannot be
            request = DelegationRequest(call.name, call.task, call.depth, scope, caller.identity)
            call.task = (await consult(caller.hooks, request, caller.pass_through)).task
        if budget is None:
            return await self._run(call, scope)
        _unless(budget.reserve_child(caller.asked, call.name, call.task))
        left, work = budget.time_left(), self._run(call, scope)
        return await (work if left is None else run_within(left[0], work, left[1]))

    def _run(self, call: Call, scope: Any) -> Awaitable[Any]:
        lineage = current_identity()
        ids: Lineage = (lineage.root_run_id, lineage.run_id) if lineage is not None else (None, None)
        if call.caller is not None and call.caller.journal is not None:
            own = call.caller.child_id(current_tool_call.get())
            ids = ids if own is None else (ids[0], ids[1], own)
        return self.roster.started(call.name, call.task, scope, call.depth, ids, call)

    def _tally(self, name: str) -> None:
        try:
            self.context.record_delegation(name)
        except Exception:  # the child has delivered; who counts it does not change that
            _log.exception("recording the delivery of %r raised (%s)", name, current_identity())

    def _ceiling(self, caller: ActiveRun | None) -> DepthPolicy:
        own, enclosing = self.depth, caller.max_depth if caller is not None else None
        if own is not None and (enclosing is None or own.max_depth <= enclosing):
            return own
        return _depth_policy(DEFAULT_MAX_DEPTH if enclosing is None else enclosing)

    def _unknown(self, name: Any) -> str:
        text = spelled(name)
        try:
            shown = f"{name!r}" if len(text) <= LONGEST_NAME else preview(text)
        except Exception:  # a name may be any object
            shown = repr(text)
        return f"Unknown sub-agent {shown}. Available:\n{self.roster.describe()}"


@lru_cache
def _depth_policy(max_depth: int) -> DepthPolicy:
    return DepthPolicy(max_depth)


def _unless(reached: LimitReachedError | None) -> None:
    if reached is not None:
        raise reached
