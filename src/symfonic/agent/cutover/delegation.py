"""Delegation, bound for the runtime: its context that also reports, its tools, and its scope around a run."""

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from typing import Any

from symfonic.agent.cutover.adoption import SubAgent
from symfonic.agent.cutover.binding import bind_contributed_tool, bind_contributed_tools, tool_from_spec
from symfonic.capabilities.delegation.active_run import RunScope, active_run
from symfonic.capabilities.delegation.bounds import Bounds, ChildPolicy
from symfonic.capabilities.delegation.capability import DelegationCapability
from symfonic.capabilities.delegation.context import DelegationContext, Snapshots
from symfonic.capabilities.delegation.contracts import PrebuiltChild
from symfonic.capabilities.delegation.depth import DepthPolicy
from symfonic.capabilities.delegation.names import checked_examples
from symfonic.errors import ChildDeclarationError
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.kernel.contracts.tool import Route, Tool

__all__ = [
    "RecordingDelegationContext",
    "bind_contributed_tool",
    "bind_contributed_tools",
    "delegation_for_children",
    "delegation_scope",
    "delegation_tools",
]

_log = logging.getLogger("symfonic.delegation")


class RecordingDelegationContext(DelegationContext):
    """A context that also calls ``report(name)``, once for each delivery: two tallies, one writer."""

    def __init__(
        self,
        *,
        snapshots: Snapshots | None = None,
        resolve_scope: Callable[[], Any] | None = None,
        report: Callable[[str], object] | None = None,
    ) -> None:
        super().__init__(snapshots=snapshots, resolve_scope=resolve_scope)
        self._report = report

    def record_delegation(self, name: str) -> None:
        """Add a delivery to the active run's tally, and report it."""
        run = active_run()
        if run is not None:
            run.count_delivery(name)
        if self._report is not None:
            try:
                self._report(name)
            except Exception:  # the child has delivered; who counts it does not change that
                identity = run.identity if run else None
                _log.exception("reporting the delivery of %r raised in run %s", name, identity or "(none)")


def delegation_for_children(
    children: Iterable[Any],
    *,
    max_depth: int | None,
    resolve_scope: Callable[[], Any] | None = None,
    report_delegation: Callable[[str], object] | None = None,
) -> DelegationCapability | None:
    """The capability over already built children, or None where there are none.

    Children are objects with ``name``, ``description``, ``agent`` and perhaps ``when_to_use``, ``examples`` and
    ``policy``. Nothing is built, compiled or owned here. Raises ChildDeclarationError for a child that cannot be
    adopted.
    """
    if max_depth is not None:
        DepthPolicy(max_depth)
    prebuilt: list[Any] = [child if type(child) is SubAgent else _prebuilt(child) for child in children]
    if not prebuilt:
        return None
    context = RecordingDelegationContext(resolve_scope=resolve_scope, report=report_delegation)
    return DelegationCapability.declare(prebuilt, max_depth=max_depth, context=context)


def _prebuilt(child: Any) -> PrebuiltChild:
    missing = [key for key in ("name", "agent", "description") if not hasattr(child, key)]
    if missing:
        raise ChildDeclarationError(
            f"sub_agents=[...] takes SubAgent(name, agent, description), got {child!r} without {', '.join(missing)}"
        )
    policy = getattr(child, "policy", None)
    if policy is not None and not isinstance(policy, ChildPolicy):
        raise ChildDeclarationError(f"policy of {child.name!r} must be a ChildPolicy(...), got {policy!r}")
    return PrebuiltChild(
        child.name,
        child.agent,
        child.description,
        getattr(child, "when_to_use", None),
        checked_examples(child.name, getattr(child, "examples", ())),
        policy,
    )


def delegation_scope(
    delegation: DelegationCapability | None,
    agent_depth: Any,
    scope: Any = None,
    *,
    bounds: Bounds | None = None,
    agent: str = "",
    identity: RunIdentity | None = None,
) -> RunScope | nullcontext[None]:
    """The scope of a run at ``agent_depth``; nothing is opened where there is no delegation."""
    if delegation is None:
        return nullcontext()
    return delegation.run_scope(depth=agent_depth, scope=scope, bounds=bounds, agent=agent, identity=identity)


def delegation_tools(delegation: DelegationCapability) -> tuple[Tool, ...]:
    """The capability's tools as the runtime executes them.

    ``run_agent`` advertises the children as an enum, which is not validated: an unknown name is answered by the
    roster, as a value.
    """
    return tuple(_with_routes(tool_from_spec(spec), delegation) for spec in delegation.tool_specs())


def _with_routes(tool: Tool, delegation: DelegationCapability) -> Tool:
    properties = tool.parameters.get("properties", {})
    if "name" not in properties:
        return tool
    roster = delegation.roster
    named: Mapping[str, Any] = {**properties["name"], "enum": list(roster.names())}
    parameters = {**tool.parameters, "properties": {**properties, "name": named}}
    routes = [Route(each.name, each.description, each.when_to_use, each.examples) for each in roster]
    return Tool(tool.name, tool.description, parameters, tool.invoke, tuple(routes))
