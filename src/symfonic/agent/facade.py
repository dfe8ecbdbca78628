"""`Agent`: the friendly face of one `SymfonicAgent`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from symfonic.agent.engine import AgentResult, SymfonicAgent
from symfonic.agent.stream import EventStream
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.closing import Closing
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.observer import Observer
from symfonic.kernel.contracts.options import Instructions, Options
from symfonic.models import resolve_model

if TYPE_CHECKING:
    from symfonic.durable import Durable, Settings

__all__ = ["Agent", "AgentResult"]


class Keeping(TypedDict, total=False):
    """How the runs of an agent are kept, besides what an `Agent` is made of."""

    durable: "str | Settings | None"


class Agent(Closing):
    """An agent: a model, instructions, tools, and sub-agents it may delegate to.

    ``model`` is a model object, ``"offline"``, ``"openai:NAME"``, ``"langchain:PROVIDER:NAME"`` or a LangChain chat
    model. ``instructions`` are a text, or a function that makes it of the run's scope. ``tools`` are plain functions,
    `symfonic.tool` objects, LangChain tools, or `mcp_tools(...)`. ``sub_agents`` are `SubAgent`s.
    ``max_depth`` is the deepest depth at which anything below may run (None: the enclosing run's ceiling, 2 for a
    root), ``limits`` what the tree below may spend. ``durable``, a database, lets runs that are roots outlive the
    process: see `symfonic.durable`. The object holds no run state. Raises ConfigurationError for anything that cannot
    work.
    """

    def __init__(
        self,
        model: Any,
        *,
        name: str = "agent",
        instructions: Instructions | None = None,
        tools: Sequence[Any] = (),
        sub_agents: Sequence[Any] = (),
        max_depth: int | None = None,
        limits: Limits | None = None,
        options: Options | None = None,
        **keeping: Unpack[Keeping],
    ) -> None:
        self._durable: Durable | None = None
        self.engine: SymfonicAgent = SymfonicAgent(
            resolve_model(model),
            name=name,
            instructions=instructions,
            tools=tools,
            sub_agents=sub_agents,
            max_depth=max_depth,
            limits=limits,
            options=options,
        )
        if keeping:
            self._durable = self._kept(**keeping)

    @property
    def name(self) -> str:
        """What the agent is called."""
        return self.engine.name

    @property
    def durable(self) -> "Durable | None":
        """What keeps the agent's runs, and takes a ``run_id`` to ask for one again; None for an agent that is not."""
        return self._durable

    async def run(
        self,
        prompt: Any,
        *,
        scope: Any = None,
        agent_depth: Any = None,
        max_depth: int | None = None,
        root_run_id: str | None = None,
        parent_run_id: str | None = None,
        limits: Limits | None = None,
        observers: tuple[Observer, ...] | None = None,
    ) -> AgentResult:
        """Run to the answer; see `SymfonicAgent.run`, or `Durable.run` of a durable agent, for arguments and errors."""
        return await (self.engine.kernel.run if self._durable is None else self._durable.run_root)(
            prompt,
            scope=scope,
            agent_depth=agent_depth,
            max_depth=max_depth,
            root_run_id=root_run_id,
            parent_run_id=parent_run_id,
            limits=limits,
            observers=observers,
        )

    def stream(
        self,
        prompt: Any,
        *,
        scope: Any = None,
        max_depth: int | None = None,
        limits: Limits | None = None,
        observers: tuple[Observer, ...] | None = None,
    ) -> EventStream[AgentResult]:
        """Run, and see it happen; see `SymfonicAgent.stream`. Raises ConfigurationError for a durable agent."""
        if self._durable is not None:
            raise ConfigurationError("a durable run is told of where it runs: give the agent Options(observers=...)")
        return self.engine.stream(prompt, scope=scope, max_depth=max_depth, limits=limits, observers=observers)

    def run_sync(
        self,
        prompt: Any,
        *,
        scope: Any = None,
        max_depth: int | None = None,
        limits: Limits | None = None,
        observers: tuple[Observer, ...] | None = None,
    ) -> AgentResult:
        """Run to the answer from synchronous code: a script, a thread, or a synchronous tool.

        Inside a synchronous tool the run is part of the tree, and a cancellation of the outer run reaches it.
        Raises SymfonicError in a thread whose event loop is running.
        """
        from symfonic.kernel.concurrency.threads import run_blocking

        return run_blocking(
            lambda: self.run(prompt, scope=scope, max_depth=max_depth, limits=limits, observers=observers)
        )

    async def aclose(self) -> None:
        """Close what the agent owns."""
        if self._durable is not None:
            await self._durable.leave()
        await self.engine.aclose()

    def _kept(self, *, durable: "str | Settings | None" = None) -> "Durable | None":
        if durable is None:
            return None
        from symfonic.durable import Durable, Settings

        if not isinstance(durable, str | Settings):
            given = type(durable).__name__
            raise ConfigurationError(f"durable must be a file, a postgresql:// URL or Settings(...), got {given}")
        return Durable(self, durable if isinstance(durable, Settings) else Settings(durable))

    def __repr__(self) -> str:
        return f"Agent({self.name!r})"
