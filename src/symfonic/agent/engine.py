"""`SymfonicAgent`: the agent that speaks the runner contract, so that it can be any agent's child."""

from collections.abc import Sequence
from functools import lru_cache
from types import FunctionType, MethodType
from typing import TYPE_CHECKING, Any, TypeAlias

from symfonic.agent.cutover.delegate import KernelDelegate, check_limits
from symfonic.agent.cutover.envelope import admit_invocation
from symfonic.agent.cutover.result import AgentResult
from symfonic.agent.cutover.tally import delegated_agents as _delegated_agents  # noqa: F401 - its documented place
from symfonic.agent.cutover.tally import report_delegation
from symfonic.agent.stream import EventStream
from symfonic.capabilities.delegation.bounds import NO_BOUNDS, Bounds
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.closing import Closing
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.model import Model
from symfonic.kernel.contracts.observer import Observer
from symfonic.kernel.contracts.options import Instructions, Options, check_observers
from symfonic.kernel.contracts.signatures import REMEMBERED, method_of, signature_of

if TYPE_CHECKING:
    from symfonic.capabilities.delegation.capability import DelegationCapability

__all__ = ["AgentResponse", "AgentResult", "SymfonicAgent"]

AgentResponse: TypeAlias = AgentResult


class SymfonicAgent(Closing):
    """A model, its tools and its children.

    ``max_depth`` is the deepest depth at which anything below may run; None means the enclosing run's ceiling, and
    2 for a root. The object holds no run state: it may run any number of times at once, on several event loops.
    Raises ConfigurationError for anything that cannot work.
    """

    def __init__(
        self,
        model: Model,
        *,
        name: str = "agent",
        instructions: Instructions | None = None,
        tools: Sequence[Any] = (),
        sub_agents: Sequence[Any] | None = None,
        max_depth: int | None = None,
        limits: Limits | None = None,
        options: Options | None = None,
    ) -> None:
        _check(model, name, instructions, options)
        if limits is not None:
            check_limits(limits)
        if tools != ():
            _check_list("tools", tools)
        self.name = name
        self.delegation: DelegationCapability | None = None
        if sub_agents:
            _check_list("sub_agents", sub_agents)
            admit_invocation({"sub_agents": sub_agents})
            from symfonic.agent.cutover.delegation import delegation_for_children

            self.delegation = delegation_for_children(
                sub_agents,
                max_depth=max_depth,
                resolve_scope=options.resolve_scope if options else None,
                report_delegation=report_delegation,
            )
        self._opened = _unopened(tools) if tools != () else ()
        try:
            self.kernel: KernelDelegate = KernelDelegate(
                model=model,
                name=name,
                instructions=instructions,
                tools=tools,
                delegation=self.delegation,
                bounds=_bounds(max_depth, limits, options),
                options=options,
            )
        except BaseException:
            for each in self._opened:
                each.close()
            raise

    async def run(
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
    ) -> AgentResponse:
        """Run to the answer.

        ``scope`` is handed down to children as it is. ``max_depth`` and ``limits`` tighten the bounds of this run.
        ``observers`` are told of everything that happens in it and below.
        ``agent_depth``, ``root_run_id`` and ``parent_run_id`` say where a run stands that a caller outside any
        run places in its own tree. Raises ConfigurationError for any other argument, ModelError if the model
        fails for good, MaxStepsError if it never answers, LimitReachedError if a limit leaves it no model call or
        no time.
        """
        return await self.kernel.run(
            query,
            scope=scope,
            agent_depth=agent_depth,
            max_depth=max_depth,
            root_run_id=root_run_id,
            parent_run_id=parent_run_id,
            limits=limits,
            observers=observers,
            **unknown,
        )

    def stream(self, query: Any, **arguments: Any) -> EventStream[AgentResult]:
        """Run, and see it happen: an async context manager that yields the run's events as they come.

            async with agent.stream("…") as events:
                async for event in events: ...
            print(events.result.text)

        Leaving the block early ends the run. Takes the arguments of `run`, and raises where the events end what the
        run raises; ConfigurationError at once for observers that are none.
        """

        check_observers("observers", arguments.get("observers") or ())
        return EventStream(lambda observe: self.run(query, **_observed(arguments, observe)))

    def run_sync(self, query: Any, **arguments: Any) -> AgentResponse:
        """The same from synchronous code. Raises SymfonicError in a thread whose event loop is running."""
        from symfonic.kernel.concurrency.threads import run_blocking

        return run_blocking(lambda: self.run(query, **arguments))

    async def aclose(self) -> None:
        """Close the children that were built here, and the servers of tools that were opened here."""
        if self.delegation is not None:
            await self.delegation.aclose()
        for each in self._opened:
            await each.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def _observed(arguments: dict[str, Any], observe: Observer) -> dict[str, Any]:
    """The arguments of a run with one more observer."""
    return {**arguments, "observers": (*(arguments.get("observers") or ()), observe)}


def _check(model: Any, name: Any, instructions: Any, options: Any) -> None:
    call = None if isinstance(model, type) else getattr(model, "complete", None)
    if not callable(call):
        raise ConfigurationError(
            f"model must be an object with async complete(messages, tools), got {model!r}; symfonic.Agent also takes"
            " 'offline', 'openai:NAME', 'langchain:PROVIDER:NAME' and LangChain chat models"
        )
    method = method_of(call)
    misfit = _misfit(call) if method is None else _misfit_of_method(method)
    if misfit is not None:
        raise ConfigurationError(f"complete of the model {model!r} must take (messages, tools): {misfit}") from misfit
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"name must be a non-empty string, got {name!r}")
    if instructions is not None and not isinstance(instructions, str) and not callable(instructions):
        raise ConfigurationError(f"instructions must be a string, or a function of the scope, got {instructions!r}")
    if options is not None and not isinstance(options, Options):
        raise ConfigurationError(f"options must be symfonic.Options(...), got {options!r}")


def _misfit(call: Any) -> TypeError | None:
    """Why this cannot be called with messages and tools; None where it can, or where there is no signature to read."""
    try:
        signature_of(call).bind((), ())
    except TypeError as error:
        return error
    except ValueError:
        pass
    return None


@lru_cache(maxsize=REMEMBERED)
def _misfit_of_method(method: FunctionType) -> TypeError | None:
    return _misfit(MethodType(method, method))


def _bounds(max_depth: int | None, limits: Limits | None, options: Options | None) -> Bounds:
    if max_depth is None and limits is None and options is None:
        return NO_BOUNDS
    return Bounds(
        max_depth,
        () if limits is None else (limits,),
        options.observers if options else (),
        (options.on_delegate,) if options and options.on_delegate else (),
        options.pass_through if options else (),
    )


def _unopened(tools: Any) -> tuple[Any, ...]:
    """Those among the tools that are several, and are opened when they are read: whoever opens them closes them."""
    offered = (tools,) if hasattr(tools, "is_open") else tools
    return tuple([each for each in offered if getattr(each, "is_open", None) is False])


def _check_list(name: str, part: Any) -> None:
    if type(part) is not tuple and (not isinstance(part, Sequence) or isinstance(part, str)):
        raise ConfigurationError(f"{name} must be a list or tuple, got {part!r}")
