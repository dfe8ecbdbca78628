"""`SymfonicAgent`: the agent that speaks the runner contract, so that it can be any agent's child."""

from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

from symfonic.agent.cutover.delegate import Finished, KernelDelegate, check_limits
from symfonic.agent.cutover.delegation import delegation_for_children
from symfonic.agent.cutover.envelope import admit_invocation
from symfonic.agent.stream import EventStream
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.capabilities.delegation.capability import DelegationCapability
from symfonic.capabilities.delegation.contracts import DelegationRecord
from symfonic.capabilities.delegation.reports import Tally, json_text, record_dict, tally
from symfonic.errors import ConfigurationError
from symfonic.kernel.concurrency.threads import run_blocking
from symfonic.kernel.contracts.events import Observer
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.messages import Message, Usage
from symfonic.kernel.contracts.model import Model
from symfonic.kernel.contracts.options import Options, check_observers
from symfonic.kernel.contracts.signatures import signature_of
from symfonic.kernel.contracts.text import plain

_delegated_agents: ContextVar[dict[ActiveRun, list[str]] | None] = ContextVar("symfonic_delegated_agents", default=None)
"""The facade's tally: what each run of the current tree was delivered."""


def _report_delegation(name: str) -> None:
    tally, run = _delegated_agents.get(), active_run()
    if tally is not None and run is not None and run.is_open:
        tally.setdefault(run, []).append(name)


@fact
@dataclass(frozen=True, slots=True)
class AgentResult:
    """A finished run: the answer, what led to it, what it cost, and where the run stands in its tree.

    ``delegations`` are this run's records in the order of the model's calls, each with its own ``children``.
    ``delegated_to`` names the children that delivered. ``usage`` is that of the whole tree below.
    """

    text: str
    delegated_to: tuple[str, ...]
    delegations: tuple[DelegationRecord, ...]
    usage: Usage
    run_id: str
    root_run_id: str
    parent_run_id: str | None
    messages: tuple[Message, ...]

    @property
    def final_response(self) -> str:
        """The answer, in the runner contract's spelling."""
        return self.text

    @property
    def tally(self) -> Tally:
        """The delegations of the whole tree, counted by outcome and by child."""
        return tally(self.delegations)

    def to_dict(self) -> dict[str, Any]:
        """The run and its tree of delegations as plain values that JSON can hold (docs/records.schema.json).

        An error is told by class and safe text, a foreign child's result as far as it has a JSON form.
        """
        counted = self.tally
        return {
            "text": self.text,
            "run_id": self.run_id,
            "root_run_id": self.root_run_id,
            "parent_run_id": self.parent_run_id,
            "delegated_to": list(self.delegated_to),
            "delegations": [record_dict(record) for record in self.delegations],
            "tally": {
                "by_outcome": {outcome.value: count for outcome, count in counted.by_outcome.items()},
                "by_child": counted.by_child,
            },
            "usage": asdict(self.usage),
            "messages": [plain(message) for message in self.messages],
        }

    def to_json(self) -> str:
        """`to_dict` as JSON text."""
        return json_text(self.to_dict())


AgentResponse: TypeAlias = AgentResult


class SymfonicAgent:
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
        instructions: str | None = None,
        tools: Sequence[Any] = (),
        sub_agents: Sequence[Any] | None = None,
        max_depth: int | None = None,
        limits: Limits | None = None,
        options: Options | None = None,
    ) -> None:
        _check(model, name, instructions, options)
        check_limits(limits)
        _check_lists(tools=tools, sub_agents=sub_agents or ())
        admit_invocation({"sub_agents": sub_agents or None})
        self.name = name
        self.delegation: DelegationCapability | None = delegation_for_children(
            sub_agents or (),
            max_depth=max_depth,
            resolve_scope=options.resolve_scope if options else None,
            report_delegation=_report_delegation,
        )
        self._kernel = KernelDelegate(
            model=model,
            name=name,
            instructions=instructions,
            tools=tools,
            delegation=self.delegation,
            bounds=Bounds(
                max_depth,
                () if limits is None else (limits,),
                options.observers if options else (),
                (options.on_delegate,) if options and options.on_delegate else (),
                options.pass_through if options else (),
            ),
            options=options,
        )

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
        if observers is not None:
            check_observers("observers", observers)
        if unknown:
            admit_invocation(unknown)
        delivered = _delegated_agents.get()
        mine = None
        if delivered is None:
            delivered = {}
            mine = _delegated_agents.set(delivered)
        try:
            finished = await self._kernel.run(
                query,
                scope=scope,
                agent_depth=agent_depth,
                max_depth=max_depth,
                root_run_id=root_run_id,
                parent_run_id=parent_run_id,
                limits=limits,
                observers=observers,
            )
        finally:
            if mine is not None:
                _restore(mine)
        return _result(finished, delivered)

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
        return run_blocking(lambda: self.run(query, **arguments))

    async def aclose(self) -> None:
        """Close the children that were built here."""
        if self.delegation is not None:
            await self.delegation.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"


def _observed(arguments: dict[str, Any], observe: Observer) -> dict[str, Any]:
    """The arguments of a run with one more observer."""
    return {**arguments, "observers": (*(arguments.get("observers") or ()), observe)}


def _result(finished: Finished, delivered: dict[ActiveRun, list[str]]) -> AgentResult:
    text, messages, run = finished
    names, identity = delivered.pop(run, None), run.identity
    assert identity is not None  # noqa: S101 - the kernel opened it
    return AgentResult(
        text,
        tuple(names) if names else (),
        run.records,
        run.usage,
        identity.run_id,
        identity.root_run_id,
        identity.parent_run_id,
        messages,
    )


def _restore(previous: Any) -> None:
    try:
        _delegated_agents.reset(previous)
    except ValueError:  # closed from another context, whose tally this never was
        return


def _check(model: Any, name: Any, instructions: Any, options: Any) -> None:
    if isinstance(model, type) or not callable(getattr(model, "complete", None)):
        raise ConfigurationError(
            f"model must be an object with async complete(messages, tools), got {model!r}; symfonic.Agent also takes"
            " 'offline', 'openai:NAME', 'langchain:PROVIDER:NAME' and LangChain chat models"
        )
    try:
        signature_of(model.complete).bind((), ())
    except TypeError as error:
        raise ConfigurationError(f"complete of the model {model!r} must take (messages, tools): {error}") from error
    except ValueError:  # no signature to read
        pass
    if not isinstance(name, str) or not name.strip():
        raise ConfigurationError(f"name must be a non-empty string, got {name!r}")
    if instructions is not None and not isinstance(instructions, str):
        raise ConfigurationError(f"instructions must be a string, got {instructions!r}")
    if options is not None and not isinstance(options, Options):
        raise ConfigurationError(f"options must be symfonic.Options(...), got {options!r}")


def _check_lists(**parts: Any) -> None:
    for name, part in parts.items():
        if not isinstance(part, Sequence) or isinstance(part, str):
            raise ConfigurationError(f"{name} must be a list or tuple, got {part!r}")
