"""Delegation as tools: ``delegate`` for programs, ``run_agent`` and ``list_agents`` for models."""

import logging
from typing import Any

from symfonic.capabilities.delegation.active_run import ActiveRun
from symfonic.capabilities.delegation.admission import Refused, consult, narrowed, spent_message
from symfonic.capabilities.delegation.bounds import DelegationRequest
from symfonic.capabilities.delegation.budget import place_of_child
from symfonic.capabilities.delegation.call import Call, current_identity
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.capabilities.delegation.contracts import DelegationOutcome, DelegationRecord, DelegationToolSpec
from symfonic.capabilities.delegation.depth import DepthPolicy, lowest
from symfonic.capabilities.delegation.names import LONGEST_NAME, spelled
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.errors import LimitReachedError
from symfonic.kernel.concurrency.tasks import run_within, self_cancelled
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
        call = Call(name, task)
        try:
            parent_depth = self.context.current_depth()
            policy = self._ceiling(call.caller)
            call.depth, call.ceiling = policy.child_depth(parent_depth), policy.max_depth
            if not policy.admits(parent_depth):
                return call.refused(DelegationOutcome.REFUSED_DEPTH, policy.refusal())
            if name not in self.roster:
                return call.refused(DelegationOutcome.UNKNOWN_CHILD, self._unknown(name))
            scope = narrowed(self.roster.policy(name), self.context.current_scope())
            if call.caller is None:
                response = await self._run(call, scope)
            else:
                response = await self._run_within_bounds(call, call.caller, scope)
            await self_cancelled()
        except Refused as refusal:
            return call.refused(DelegationOutcome.REFUSED_POLICY, str(refusal), refusal.__cause__)
        except _Spent as spent:
            return call.refused(DelegationOutcome.REFUSED_BUDGET, spent_message(spent.reached), spent.reached)
        except Exception as error:
            return call.failed(error)
        except BaseException as error:
            call.failed(error)
            raise
        record = call.answered(response)
        if record.delivered and self._record:
            self._tally(name)
        return record

    async def _run_within_bounds(self, call: Call, caller: ActiveRun, scope: Any) -> Any:
        """Run the child as the caller's hooks, budget and places allow. Raises Refused or _Spent if they do not."""
        budget = caller.budget
        if caller.hooks:
            _unless(budget.peek() if budget else None)  # nobody is asked about what cannot be
            request = DelegationRequest(call.name, call.task, call.depth, scope, caller.identity)
            call.task = (await consult(caller.hooks, request)).task
        if budget is None:
            return await self._run(call, scope)
        _unless(budget.reserve_child(caller.asked, call.name, call.task))
        async with place_of_child(budget, caller.slot) as call.slot:
            seconds = budget.seconds_left()
            return await (self._run(call, scope) if seconds is None else run_within(seconds, self._run(call, scope)))

    async def _run(self, call: Call, scope: Any) -> Any:
        lineage = current_identity()
        return await self.roster.run(
            call.name,
            call.task,
            scope=scope,
            depth=call.depth,
            root_run_id=lineage.root_run_id if lineage else None,
            parent_run_id=lineage.run_id if lineage else None,
            watch=call,
        )

    def _tally(self, name: str) -> None:
        try:
            self.context.record_delegation(name)
        except Exception:  # the child has delivered; who counts it does not change that
            _log.exception("recording the delivery of %r raised (%s)", name, current_identity())

    def _ceiling(self, caller: ActiveRun | None) -> DepthPolicy:
        own = self.depth.max_depth if self.depth is not None else None
        if caller is None or caller.max_depth is None:
            return self.depth or DepthPolicy(lowest())
        return DepthPolicy(lowest(own, caller.max_depth))

    def _unknown(self, name: Any) -> str:
        shown = repr(name) if len(spelled(name)) <= LONGEST_NAME else preview(spelled(name))
        return f"Unknown sub-agent {shown}. Available:\n{self.roster.describe()}"


class _Spent(Exception):  # noqa: N818 - a decision on its way up, not an error
    """A limit refuses the child."""

    def __init__(self, reached: LimitReachedError) -> None:
        self.reached = reached
        super().__init__(str(reached))


def _unless(reached: LimitReachedError | None) -> None:
    if reached is not None:
        raise _Spent(reached)
