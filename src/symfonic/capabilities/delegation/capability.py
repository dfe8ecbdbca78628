"""Delegation as one thing to plug into a runtime."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from symfonic.capabilities.delegation.active_run import RunScope
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.capabilities.delegation.contracts import ChildSpec, DelegationToolSpec, PrebuiltChild, RosterEntry
from symfonic.capabilities.delegation.depth import DepthPolicy
from symfonic.capabilities.delegation.lifecycle import ChildLifecycle
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.capabilities.delegation.runner_adapter import adapt_child
from symfonic.capabilities.delegation.tools import DelegationTools

if TYPE_CHECKING:
    from symfonic.kernel.contracts.run_identity import RunIdentity


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
        owned: dict[str, Any] = {}
        entries: list[RosterEntry] = []
        for child in children:
            ours = isinstance(child, ChildSpec)
            agent = child.build() if isinstance(child, ChildSpec) else child.agent
            if ours:
                owned[child.name] = agent
            entries.append(
                RosterEntry(
                    child.name,
                    child.description,
                    adapt_child(child.name, agent, context),
                    child.when_to_use,
                    ours,
                    child.examples,
                    child.policy,
                )
            )
        roster = DelegationRoster(entries)
        tools = DelegationTools(roster=roster, depth=depth, context=context, record=record)
        return cls(
            roster=roster,
            tools=tools,
            lifecycle=ChildLifecycle(owned.values(), names=owned),
            context=context,
            depth=depth,
        )

    def tool_specs(self) -> tuple[DelegationToolSpec, ...]:
        """The tools to offer to the parent's model."""
        return self.tools.specs()

    def run_scope(
        self,
        *,
        depth: Any,
        scope: Any = None,
        bounds: Bounds | None = None,
        agent: str = "",
        identity: "RunIdentity | None" = None,
    ) -> RunScope:
        """An async context manager over `DelegationContext.run_scope` that yields its `ActiveRun`."""
        if bounds is None and not agent:  # all that a context of somebody's own needs to know
            return self.context.run_scope(depth=depth, scope=scope)
        return self.context.run_scope(depth=depth, scope=scope, bounds=bounds, agent=agent, identity=identity)

    async def aclose(self) -> None:
        """Close the children that were built here."""
        await self.lifecycle.aclose()
