"""`SymfonicAgent`: the agent that speaks the runner contract, so that it can be any agent's child."""

from collections.abc import Sequence
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

from symfonic.agent.cutover.delegate import Finished, KernelDelegate
from symfonic.agent.cutover.delegation import delegation_for_children
from symfonic.agent.cutover.envelope import admit_invocation
from symfonic.capabilities.delegation.context import ActiveRun, active_run
from symfonic.capabilities.delegation.contracts import DelegationRecord
from symfonic.errors import ConfigurationError
from symfonic.kernel.concurrency.threads import run_blocking
from symfonic.kernel.contracts.messages import Message, Usage
from symfonic.kernel.contracts.model import Model
from symfonic.kernel.contracts.options import Options

_delegated_agents: ContextVar[dict[ActiveRun, list[str]] | None] = ContextVar("symfonic_delegated_agents", default=None)
"""The facade's tally: what each run inside the current `SymfonicAgent.run` was delivered."""


def _report_delegation(name: str) -> None:
    tally, run = _delegated_agents.get(), active_run()
    if tally is not None and run is not None:
        tally.setdefault(run, []).append(name)


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
        options: Options | None = None,
    ) -> None:
        _check(model, name, instructions, options)
        _check_lists(tools=tools, sub_agents=sub_agents or ())
        admit_invocation({"sub_agents": sub_agents or None})
        self.name = name
        self.delegation = delegation_for_children(
            sub_agents or (),
            max_depth=max_depth,
            resolve_scope=options.resolve_scope if options else None,
            report_delegation=_report_delegation,
        )
        self._kernel = KernelDelegate(
            model=model,
            instructions=instructions,
            tools=tools,
            delegation=self.delegation,
            max_depth=max_depth,
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
        **unknown: Any,
    ) -> AgentResponse:
        """Run to the answer.

        ``scope`` is handed down to children as it is. ``max_depth`` tightens the ceiling for this run.
        ``agent_depth``, ``root_run_id`` and ``parent_run_id`` say where a run stands that a caller outside any
        run places in its own tree. Raises ConfigurationError for any other argument, ModelError if the model
        fails for good, MaxStepsError if it never answers.
        """
        tally: dict[ActiveRun, list[str]] = {}
        previous = _delegated_agents.set(tally)
        try:
            finished = await self._kernel.run(
                query,
                scope=scope,
                agent_depth=agent_depth,
                max_depth=max_depth,
                root_run_id=root_run_id,
                parent_run_id=parent_run_id,
                **unknown,
            )
        finally:
            _restore(previous)
        return _result(finished, tally)

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


def _result(finished: Finished, tally: dict[ActiveRun, list[str]]) -> AgentResult:
    run = finished.run
    identity = run.identity
    assert identity is not None  # noqa: S101 - the kernel opened it
    return AgentResult(
        text=finished.text,
        delegated_to=tuple(tally.get(run, ())),
        delegations=run.records,
        usage=run.usage,
        run_id=identity.run_id,
        root_run_id=identity.root_run_id,
        parent_run_id=identity.parent_run_id,
        messages=finished.messages,
    )


def _restore(previous: Any) -> None:
    with suppress(ValueError):  # closed from another context, whose tally this never was
        _delegated_agents.reset(previous)


def _check(model: Any, name: Any, instructions: Any, options: Any) -> None:
    if isinstance(model, type) or not callable(getattr(model, "complete", None)):
        raise ConfigurationError(
            f"model must be an object with async complete(messages, tools), got {model!r}; symfonic.Agent also takes"
            " 'offline', 'openai:NAME', 'langchain:PROVIDER:NAME' and LangChain chat models"
        )
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
