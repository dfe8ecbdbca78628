"""The run that code is executing in: where it stands, what bounds it, and what it has done so far.

The active run is ambient: seen by everything inside it, in tasks and threads that carry the context.
"""

import logging
import time
from contextvars import ContextVar
from inspect import isawaitable, iscoroutine
from types import TracebackType
from typing import TYPE_CHECKING, Any

from symfonic.capabilities.delegation.bounds import Bounds, Hook, check_covered
from symfonic.capabilities.delegation.contracts import DelegationRecord, Tally
from symfonic.capabilities.delegation.depth import coerce_depth
from symfonic.kernel.contracts.ambient import Block, current_name, later, runs
from symfonic.kernel.contracts.messages import NO_USAGE, Usage, current_tool_call, total
from symfonic.kernel.contracts.observer import EventName, Observer

if TYPE_CHECKING:  # a run that nothing limits and nobody watches loads none of these
    from symfonic.capabilities.delegation.budget import Asked, Budget, Slot
    from symfonic.kernel.contracts.events import Where
    from symfonic.kernel.contracts.journal import Journal
    from symfonic.kernel.contracts.run_identity import RunIdentity

_log = logging.getLogger("symfonic.delegation")


def active_run() -> "ActiveRun | None":
    """The run that this code is executing in, or None outside any."""
    block = runs.var.get()
    if block is None:
        return None
    return runs.get() if block.ended else block.value


class ActiveRun:
    """A run in progress. What it did is counted until it ends, and never afterwards.

    ``agent`` is the name of what runs. What bounds it can only be tightened.
    Appending to a list is atomic, so deliveries from tasks and threads are all counted without a lock.
    """

    __slots__ = (
        "_adoptable",
        "_asked",
        "_budget",
        "_delegated",
        "_depth",
        "_hooks",
        "_limited",
        "_max_depth",
        "_open",
        "_outer",
        "_records",
        "_spent",
        "agent",
        "identity",
        "journal",
        "named",
        "observers",
        "pass_through",
        "scope",
        "serial",
        "slot",
    )

    def __init__(
        self,
        depth: int,
        scope: Any = None,
        identity: "RunIdentity | None" = None,
        outer: "ActiveRun | None" = None,
        agent: str = "",
    ) -> None:
        self.scope: Any = scope
        self.identity: RunIdentity | None = identity
        self.named: RunIdentity | None = None
        self.serial: int = 0
        self.agent: str = agent
        self._outer = outer
        self._open = True
        self._adoptable = False
        self._delegated: list[str] = []
        self._records: list[list[DelegationRecord]] = []
        self._spent: list[Usage] = []
        self._asked: Asked | None = None
        if outer is None:
            self._depth = depth
            self._max_depth: int | None = None
            self._budget: Budget | None = None
            self._limited: tuple[Bounds, ...] = ()
            self.slot: Slot | None = None
            self._hooks: tuple[Hook, ...] = ()
            self.observers: tuple[Observer, ...] = ()
            self.pass_through: tuple[type[Exception], ...] = ()
            self.journal: Journal | None = None
            return
        self._depth = depth if depth > outer._depth else outer._depth
        self._max_depth = outer._max_depth
        self._budget = outer._budget
        self._limited = outer._limited
        self.slot = outer.slot
        self._hooks = outer._hooks
        self.observers = outer.observers
        self.pass_through = outer.pass_through
        self.journal = outer.journal
        if scope is not outer.scope:
            self.scope = outer.scope
            self.narrow(scope)
        if identity is outer.identity:  # a scope inside a run is no run of its own
            self._asked = outer.asked

    @property
    def asked(self) -> "Asked":
        """What this run has asked of its children."""
        if self._asked is None:
            from symfonic.capabilities.delegation.budget import Asked

            self._asked = Asked()
        return self._asked

    @property
    def depth(self) -> int:
        """How deep the run is; never less deep than the run it was opened in."""
        return self._depth

    @property
    def max_depth(self) -> int | None:
        """The ceiling in force, the lowest on the path; None where none is stated."""
        return self._max_depth

    @property
    def budget(self) -> "Budget | None":
        """What the tree may still spend, or None where nothing limits it."""
        return self._budget

    @property
    def hooks(self) -> tuple[Hook, ...]:
        """Who is asked before a child starts, outermost first."""
        return self._hooks

    @property
    def is_open(self) -> bool:
        """Whether the run goes on."""
        return self._open

    @property
    def delegated(self) -> tuple[str, ...]:
        """The names of the children that delivered, in that order, one entry a delivery."""
        return tuple(self._delegated)

    @property
    def records(self) -> tuple[DelegationRecord, ...]:
        """The delegations of this run that have ended, in the order they began."""
        return tuple([place[0] for place in tuple(self._records) if place]) if self._records else ()

    @property
    def usage(self) -> Usage:
        """What this run and everything below it has spent."""
        return total(self._spent)

    @property
    def tally(self) -> Tally:
        """The delegations of the whole tree below that have ended, counted by outcome and by child."""
        return Tally.of(self.records)

    def to_dict(self) -> dict[str, Any]:
        """Where the run stands, and what it has done so far, as plain values that JSON can hold.

        As `AgentResult.to_dict` has it, less the text and the messages.
        """
        from symfonic.capabilities.delegation.reports import tree_dict

        who = self.identity
        return {
            "run_id": who.run_id if who else "",
            "root_run_id": who.root_run_id if who else "",
            "parent_run_id": who.parent_run_id if who else None,
            **tree_dict(self.records, self.delegated, self.usage),
        }

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        from symfonic.capabilities.delegation.reports import json_text

        return json_text(self.to_dict())

    def count_delivery(self, name: str) -> None:
        """Add a delivery to the tally."""
        if self._open:
            self._delegated.append(name)

    def admit_model_call(self) -> None:
        """Count a model call. Raises LimitReachedError if a limit leaves none."""
        if self._budget is not None:
            self._budget.reserve_model_call()

    def spend(self, usage: Usage) -> None:
        """Add what this run spent itself."""
        if self._budget is not None:
            self._budget.spend_tokens(usage.input_tokens + usage.output_tokens)
        if self._open:
            self._spent.append(usage)

    def absorb(self, usage: Usage) -> None:
        """Add what a run below has spent, when it has ended."""
        if self._open:
            self._spent.append(usage)

    def charge(self, usage: Usage, delegations: int) -> None:
        """Add what was spent elsewhere, where nobody here could count it."""
        if self._budget is not None:
            self._budget.charge(usage, delegations)
        self.absorb(usage)

    def child_id(self, tool_call_id: str | None) -> str | None:
        """The id of the run's next child: the same whenever the run is gone through again, and no other child's.

        None where the run has no identity.
        """
        if self.identity is None:
            return None
        derived = self.identity.id_below(tool_call_id or "call")
        number = self.asked.number(derived)  # models repeat the ids of their calls from one reply to the next
        return derived if number == 1 else f"{derived}:{number}"

    def reserve(self) -> list[DelegationRecord]:
        """Keep the next place among the records, for `fill`."""
        place: list[DelegationRecord] = []
        if self._open:
            self._records.append(place)
        return place

    def fill(self, place: list[DelegationRecord], record: DelegationRecord) -> None:
        """Put a record in its place."""
        if self._open:
            place.append(record)

    def tighten(self, bounds: Bounds) -> None:
        """Take on bounds besides those in force: none of them can be loosened."""
        if bounds.max_depth is not None:
            self.lower_ceiling(bounds.max_depth)
        if bounds.limits and not any(each is bounds for each in self._limited):  # else they are counted already
            from symfonic.capabilities.delegation.budget import Budget

            self._limited += (bounds,)
            for limits in bounds.limits:
                self._budget = Budget(limits, self._budget)
        for observer in bounds.observers:
            if observer not in self.observers:  # in a cycle the same agent's come again
                self.observers += (observer,)
        for hook in bounds.hooks:
            if hook not in self._hooks:
                self._hooks += (hook,)
        for signal in bounds.pass_through:
            if signal not in self.pass_through:
                self.pass_through += (signal,)

    def lower_ceiling(self, max_depth: int) -> None:
        """Let nothing below run deeper than this."""
        if self._max_depth is None or max_depth < self._max_depth:
            self._max_depth = max_depth

    def narrow(self, scope: Any) -> None:
        """Take on a scope, if there is one. Raises ConfigurationError if the present one covers it not."""
        if scope is not None and scope is not self.scope:
            check_covered(self.scope, scope)
            self.scope = scope

    def offer(self) -> None:
        """Let the run of ours that is called next be this very run."""
        self._adoptable = True

    def adopt(self, depth: int, parent_run_id: str | None) -> bool:
        """Whether a run called with these is this very run; yes at most once."""
        parent = self.identity.parent_run_id if self.identity else None
        if not (self._adoptable and self._open and depth == self.depth and parent_run_id == parent):
            return False
        self._adoptable = False
        return True

    def tell(self, event: EventName, *payload: Any) -> None:
        """Make an event of this place and time, and tell the observers, if there are any."""
        if not self.observers:
            return
        from asyncio import CancelledError

        from symfonic.kernel.contracts import events

        made = getattr(events, event)(self._where(), time.monotonic(), time.time(), *payload)
        for observer in self.observers:
            try:
                answer = observer(made)
            except (Exception, CancelledError):  # the result of a run must not depend on who watches it
                _log.exception("an observer raised on %s of run %s", type(made).__name__, made.where.run_id)
                continue
            if isawaitable(answer):
                if iscoroutine(answer):
                    answer.close()
                told = "observer %r returned an awaitable on %s of run %s: an async observer must be an async function"
                _log.error(told, observer, type(made).__name__, made.where.run_id)

    def finish(self) -> None:
        """End the run: what it spent is its outer run's too."""
        self._open = False
        usage = total(self._spent)
        self._spent = [usage]
        if self._outer is not None and usage is not NO_USAGE:
            self._outer.absorb(usage)

    def _where(self) -> "Where":
        from symfonic.kernel.contracts.events import Where

        identity, call = self.identity, current_tool_call.get()
        if identity is None:
            return Where(self.agent, "", None, "", self.depth, call)
        return Where(self.agent, identity.run_id, identity.parent_run_id, identity.root_run_id, self.depth, call)


class RunScope(Block["ActiveRun"]):
    """Opens an `ActiveRun` for the code inside and ends it on every exit; for ``with`` and for ``async with``.

    What is not given is the enclosing run's, and ``bounds`` only tighten that one's. ``identity`` is who the run is;
    without one it belongs to whom is current.
    """

    __slots__ = ("_agent", "_bounds", "_depth", "_identity", "_scope")

    def __init__(
        self,
        *,
        depth: Any,
        scope: Any = None,
        bounds: Bounds | None = None,
        agent: str = "",
        identity: "RunIdentity | None" = None,
    ) -> None:
        self.var: ContextVar[Block[ActiveRun] | None] = runs.var
        self.ended: bool | None = None
        self._identity = identity
        self._depth = depth
        self._scope = scope
        self._bounds = bounds
        self._agent = agent

    def __enter__(self) -> ActiveRun:
        outer = active_run()
        own = self._identity
        run = ActiveRun(coerce_depth(self._depth), self._scope, own or current_name(), outer, self._agent)
        if own is not None:
            run.named, run.serial = own, later()
        elif outer is not None:
            run.named, run.serial = outer.named, outer.serial
        if self._bounds is not None:
            run.tighten(self._bounds)
        self.value = run
        return Block.__enter__(self)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        Block.__exit__(self, kind, error, trace)
        self.value.finish()

    async def __aenter__(self) -> ActiveRun:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)
