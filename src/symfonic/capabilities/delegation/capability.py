"""Delegation as one thing to plug into a runtime."""

from collections.abc import Iterable
from types import TracebackType
from typing import Any

from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.capabilities.delegation.context import ActiveRun, DelegationContext
from symfonic.capabilities.delegation.contracts import ChildSpec, DelegationToolSpec, PrebuiltChild, RosterEntry
from symfonic.capabilities.delegation.depth import DepthPolicy
from symfonic.capabilities.delegation.lifecycle import ChildLifecycle
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.capabilities.delegation.runner_adapter import adapt_child
from symfonic.capabilities.delegation.tools import DelegationTools


class DelegationCapability:
    """A roster, its tools, the lifecycle of the children, the context they run in, and the ceiling."""

    name = "delegation"

    def __init__(
        self,
        *,
        roster: DelegationRoster,
        tools: DelegationTools,
        lifecycle: ChildLifecycle,
        context: DelegationContext,
        depth: DepthPolicy | None,
    ) -> None:
        self.roster = roster
        self.tools = tools
        self.lifecycle = lifecycle
        self.context = context
        self.depth = depth

    @classmethod
    def declare(
        cls,
        children: Iterable[PrebuiltChild | ChildSpec],
        *,
        max_depth: int | None,
        context: DelegationContext | None = None,
        record: bool = True,
    ) -> "DelegationCapability":
        """Adopt each child, building those that are declared for us to build.

        Raises ChildDeclarationError for a child that cannot be adopted, ConfigurationError for a ``max_depth``
        that is not an int >= 0 (None states no ceiling of its own).
        """
        depth = None if max_depth is None else DepthPolicy(max_depth)
        context = context or DelegationContext()
        owned: list[Any] = []
        entries: list[RosterEntry] = []
        for child in children:
            agent = child.build() if isinstance(child, ChildSpec) else child.agent
            if isinstance(child, ChildSpec):
                owned.append(agent)
            entries.append(
                RosterEntry(
                    child.name,
                    child.description,
                    adapt_child(child.name, agent, context),
                    child.when_to_use,
                    isinstance(child, ChildSpec),
                    child.examples,
                    child.policy,
                )
            )
        roster = DelegationRoster(entries)
        tools = DelegationTools(roster=roster, depth=depth, context=context, record=record)
        return cls(roster=roster, tools=tools, lifecycle=ChildLifecycle(owned), context=context, depth=depth)

    def tool_specs(self) -> tuple[DelegationToolSpec, ...]:
        """The tools to offer to the parent's model."""
        return self.tools.specs()

    def run_scope(
        self, *, depth: Any, scope: Any = None, bounds: Bounds | None = None, agent: str = ""
    ) -> "AsyncRunScope":
        """An async context manager over `DelegationContext.run_scope` that yields its `ActiveRun`."""
        return AsyncRunScope(self.context, depth, scope, bounds, agent)

    async def aclose(self) -> None:
        """Close the children that were built here."""
        await self.lifecycle.aclose()


class AsyncRunScope:
    """A run's scope for ``async with``; it is opened on entry."""

    __slots__ = ("_agent", "_bounds", "_context", "_depth", "_opened", "_scope")

    def __init__(
        self, context: DelegationContext, depth: Any, scope: Any = None, bounds: Bounds | None = None, agent: str = ""
    ) -> None:
        self._context = context
        self._depth = depth
        self._scope = scope
        self._bounds = bounds
        self._agent = agent

    async def __aenter__(self) -> ActiveRun:
        stated: dict[str, Any] = {"depth": self._depth, "scope": self._scope}
        if self._bounds is not None:  # a context of a host's own need not know what is not stated
            stated["bounds"] = self._bounds
        if self._agent:
            stated["agent"] = self._agent
        self._opened = self._context.run_scope(**stated)
        return self._opened.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)
