"""One agent, folded: its tools and children compiled into a plan, and the way of a run through it."""

import logging
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from symfonic.agent.cutover.envelope import admit_invocation, refuse_unknown
from symfonic.agent.cutover.result import AgentResult
from symfonic.agent.cutover.tally import delegated_agents
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.bounds import NO_BOUNDS, Bounds
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.capabilities.delegation.depth import DEFAULT_MAX_DEPTH, DepthPolicy, coerce_depth
from symfonic.errors import ConfigurationError, LimitReachedError, RunError
from symfonic.kernel.concurrency.awaitables import is_awaitable
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.messages import Message
from symfonic.kernel.contracts.model import Model
from symfonic.kernel.contracts.observer import Observer
from symfonic.kernel.contracts.options import Instructions, Options, check_observers
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity
from symfonic.kernel.contracts.text import encodable, error_text, task_text
from symfonic.kernel.contracts.tool import Tool
from symfonic.kernel.runtime.plan import Plan
from symfonic.kernel.runtime.registry import ToolRegistry

if TYPE_CHECKING:
    from symfonic.capabilities.delegation.capability import DelegationCapability
    from symfonic.kernel.runtime.turn import Turn

_Run: TypeAlias = AbstractContextManager[ActiveRun]

_log = logging.getLogger("symfonic.runtime")
_DEFAULTS, _CONTEXT, _NO_TOOLS = Options(), DelegationContext(), ToolRegistry()
_NO_TOOLS.compile()


class KernelDelegate:
    """Everything a run of one agent shares with the others: model, plan, children and bounds. It holds no run state.

    Raises ConfigurationError for a tool that cannot be used, and for names that collide.
    """

    def __init__(
        self,
        *,
        model: Model,
        name: str = "agent",
        instructions: Instructions | None = None,
        tools: Sequence[Any] = (),
        delegation: "DelegationCapability | None" = None,
        bounds: Bounds | None = None,
        options: Options | None = None,
    ) -> None:
        self.model = model
        self.name = name
        self.instructions = instructions
        self.delegation = delegation
        self.bounds: Bounds = bounds or NO_BOUNDS
        self._root_bounds = _AS_ROOT if self.bounds is NO_BOUNDS else _as_root(self.bounds)
        self.options: Options = options or _DEFAULTS
        self._context = _CONTEXT
        contributed: tuple[Tool, ...] = ()
        if delegation is not None:  # only who has children loads what they need
            from symfonic.agent.cutover.delegation import delegation_scope, delegation_tools

            contributed, self._scope, self._context = delegation_tools(delegation), delegation_scope, delegation.context
        elif self.options.resolve_scope is not None:
            self._context = DelegationContext(resolve_scope=self.options.resolve_scope)
        self.registry: ToolRegistry = _registry(tools, delegation, contributed) if tools or delegation else _NO_TOOLS
        self.plan: Plan = self.registry.compile()
        self._turn: Turn | None = None
        text = instructions if isinstance(instructions, str) else None
        self._opening = (Message("system", text),) if text else ()
        self._instructs = partial(_instructed, name, instructions) if callable(instructions) else None
        self._offered = self._offered_at_ceiling = self.plan.offer()
        if contributed:
            self._offered_at_ceiling = self.plan.offer(without=[tool.name for tool in contributed])

    def run(
        self,
        query: Any,
        *,
        scope: Any = None,
        agent_depth: Any = None,
        max_depth: int | None = None,
        root_run_id: str | None = None,
        parent_run_id: str | None = None,
        limits: Limits | None = None,
        observers: tuple[Observer, ...] | None = None,
        **unknown: Any,
    ) -> Coroutine[Any, Any, AgentResult]:
        """Run the plan as the run that the roster opened for this call, or else in a run of its own.

        What can be decided is decided at once, and what comes back is to be awaited at once. Raises
        ConfigurationError for an argument that nothing reads, and ModelError, MaxStepsError and LimitReachedError where
        the turn cannot be finished.
        """
        arguments = {
            "query": query,
            "scope": scope,
            "agent_depth": agent_depth,
            "max_depth": max_depth,
            "root_run_id": root_run_id,
            "parent_run_id": parent_run_id,
            "limits": limits,
            "observers": observers,
        }
        admit_invocation(arguments)
        if unknown:
            refuse_unknown(unknown)
        if observers is not None:
            check_observers("observers", observers)
        around = active_run()
        bounds = self._bounds(around, max_depth, limits, observers or ())
        where = (around, scope, agent_depth, (root_run_id, parent_run_id))
        if bounds.observers:
            return self._relayed(query, partial(self._place, *where), bounds)
        return self._converse(query, self._place(*where, bounds), bounds)

    async def _relayed(self, query: Any, place: "Callable[[Bounds], _Run]", bounds: Bounds) -> AgentResult:
        """Run with observers; those that are asynchronous are waited for at the end."""
        from symfonic.kernel.concurrency.relay import Relayed, is_async

        if not any(map(is_async, bounds.observers)):
            return await self._converse(query, place(bounds), bounds)
        async with Relayed(bounds.observers) as told:
            bounds = replace(bounds, observers=told)
            return await self._converse(query, place(bounds), bounds)

    def _place(
        self,
        around: ActiveRun | None,
        scope: Any,
        agent_depth: Any,
        lineage: tuple[str | None, str | None],
        bounds: Bounds,
    ) -> _Run:
        """The run that the roster opened for this call, or else the scope of one of its own."""
        if around is None or not around.adopt(coerce_depth(agent_depth), lineage[1]):
            return self._delegation_scope(around, agent_depth, scope, bounds, self._identity(*lineage))
        if bounds is not NO_BOUNDS:
            around.tighten(bounds)
        around.narrow(scope)  # a wrapper may have
        return nullcontext(around)

    def _bounds(
        self, enclosing: ActiveRun | None, max_depth: int | None, limits: Limits | None, observers: tuple[Observer, ...]
    ) -> Bounds:
        """The agent's own bounds and this call's; a ceiling only where one is stated or the run is a root."""
        own = self._root_bounds if enclosing is None or enclosing.max_depth is None else self.bounds
        if max_depth is None and limits is None and not observers:
            return own
        check_limits(limits)
        asked = None if max_depth is None else DepthPolicy(max_depth).max_depth
        stated = [each for each in (self.bounds.max_depth, asked) if each is not None]
        return Bounds(
            min(stated) if stated else own.max_depth,
            own.limits if limits is None else (*own.limits, limits),
            (*own.observers, *observers),
            own.hooks,
            own.pass_through,
        )

    def _identity(self, root_run_id: str | None, parent_run_id: str | None) -> RunIdentity:
        """A run started inside a run is that run's child, whatever lineage it is told."""
        current = current_run_identity()
        return RunIdentity.under(root_run_id, parent_run_id) if current is None else current.child()

    def _delegation_scope(
        self, around: ActiveRun | None, agent_depth: Any, scope: Any, bounds: Bounds, identity: RunIdentity
    ) -> _Run:
        """Open the run's scope at its depth: inside a run at least one deeper than that, else as told."""
        depth = coerce_depth(agent_depth)
        if around is not None and depth <= around.depth:
            depth = around.depth + 1
        if self.delegation is None:
            return self._context.run_scope(depth=depth, scope=scope, bounds=bounds, agent=self.name, identity=identity)
        opened: Any = self._scope(self.delegation, depth, scope, bounds=bounds, agent=self.name, identity=identity)
        return opened  # type: ignore[no-any-return]

    def _loop(self) -> "Turn":
        """The turn loop, at the first run: building an agent loads no event loop."""
        from symfonic.kernel.runtime.turn import Turn

        self._turn = Turn(self.model, self.plan, self.options.max_steps)
        return self._turn

    async def _converse(self, query: Any, place: _Run, bounds: Bounds) -> AgentResult:
        """Run to the answer, between the event that it starts and the one that says how it ended."""
        messages = [*self._opening, Message("user", task_text(query))]
        outermost = None if delegated_agents.get() is not None else delegated_agents.set({})
        try:
            with place as run:
                logged = _log.isEnabledFor(logging.DEBUG)
                if logged:
                    _log.debug("run at depth %d started (%s)", run.depth, run.identity)
                if run.observers:
                    run.tell("RunStarted", messages[-1].text)
                at_ceiling = run.max_depth is not None and run.depth >= run.max_depth
                offered = self._offered_at_ceiling if at_ceiling else self._offered
                try:
                    if self._instructs is not None:
                        messages[:0] = await self._instructs(run.scope)
                    turn = (self._turn or self._loop()).run(messages, offered, run)
                    text = await (_timed(turn, bounds.limits) if bounds.limits else turn)
                except BaseException as error:
                    _ended(run, error)
                    raise
                if logged:
                    _log.debug("run finished after %d messages (%s)", len(messages), run.identity)
                if run.observers:
                    run.tell("RunFinished", "finished", text, run.usage)
            return _result(text, messages, run)
        finally:
            if outermost is not None:
                _restore(outermost)


async def _instructed(name: str, instructions: Callable[[Any], Any], scope: Any) -> list[Message]:
    """What instructions that are a function say of a scope. Raises ConfigurationError if that is no text, or none."""
    try:
        said = instructions(scope)
        if is_awaitable(said):
            said = await said
    except Exception as error:
        raise ConfigurationError(f"the instructions of the agent {name!r} raised: {error_text(error)}") from error
    if said is not None and not isinstance(said, str):
        raise ConfigurationError(f"the instructions of the agent {name!r} returned {said!r}, expected a string or None")
    return [Message("system", encodable(said))] if said else []


def _ended(run: ActiveRun, error: BaseException) -> None:
    """Tell how a run ended that has no answer, and let the error know what was done until then."""
    _log.debug("run ended with %s (%s)", type(error).__name__, run.identity)
    run.tell("RunFinished", "failed" if isinstance(error, Exception) else "cancelled", error_text(error), run.usage)
    if isinstance(error, RunError):
        error.run_id = run.identity.run_id if run.identity else ""
        error.delegations, error.usage = run.records, run.usage


async def _timed(turn: Coroutine[Any, Any, str], limits: tuple[Limits, ...]) -> str:
    """The answer within the time that this run itself is given, besides that of the runs around it."""
    from symfonic.kernel.concurrency.tasks import run_within

    times = [each.timeout for each in limits if each.timeout is not None]
    if not times:
        return await turn
    return await run_within(min(times), turn, LimitReachedError("timeout", min(times)))


def _result(text: str, messages: list[Message], run: ActiveRun) -> AgentResult:
    identity, delivered = run.identity, delegated_agents.get()
    names = delivered.pop(run, ()) if delivered else ()
    assert identity is not None  # noqa: S101 - it was opened here, or by the roster
    return AgentResult(
        text,
        tuple(names),
        run.records,
        run.usage,
        identity.run_id,
        identity.root_run_id,
        identity.parent_run_id,
        tuple(messages),
    )


def _restore(mine: Any) -> None:
    try:
        delegated_agents.reset(mine)
    except ValueError:  # closed from another context, whose tally this never was
        return


def _as_root(bounds: Bounds) -> Bounds:
    """The bounds of an agent's run that is a root: somebody has to state a ceiling."""
    return bounds if bounds.max_depth is not None else replace(bounds, max_depth=DEFAULT_MAX_DEPTH)


_AS_ROOT = _as_root(NO_BOUNDS)


def check_limits(limits: Any) -> None:
    """Raises ConfigurationError if this is neither None nor `Limits`."""
    if limits is not None and not isinstance(limits, Limits):
        raise ConfigurationError(f"limits must be symfonic.Limits(...), got {limits!r}")


def _registry(
    tools: Sequence[Any], delegation: "DelegationCapability | None", contributed: Iterable[Tool]
) -> ToolRegistry:
    from symfonic.agent.cutover.merge import merge_capability_tools
    from symfonic.agent.cutover.tools import as_tool

    own = [as_tool(tool) for each in tools for tool in (each if hasattr(each, "is_open") else (each,))]
    if delegation is not None:
        _check_children(own, delegation)
    return ToolRegistry(merge_capability_tools(own, [("delegation", tool) for tool in contributed]))


def _check_children(tools: Sequence[Tool], delegation: "DelegationCapability") -> None:
    reserved = next((spec.name for spec in delegation.tool_specs() if spec.name in delegation.roster), None)
    if reserved is not None:
        raise ConfigurationError(f"the sub-agent {reserved!r} has the name of a tool that delegation contributes")
    shared = next((tool.name for tool in tools if tool.name in delegation.roster), None)
    if shared is not None:
        from symfonic.agent.cutover.merge import CALLERS

        raise ConfigurationError(
            f"the sub-agent {shared!r} has the name of {CALLERS}: models could not tell them apart"
        )
