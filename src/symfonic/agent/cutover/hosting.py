"""Delegation in somebody else's loop: the capability on its own, and its tools for a host to bind."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from symfonic.agent.cutover.delegate import check_limits
from symfonic.agent.cutover.delegation import delegation_for_children, delegation_tools
from symfonic.capabilities.delegation.active_run import RunScope, active_run
from symfonic.capabilities.delegation.bounds import NO_BOUNDS, Bounds
from symfonic.capabilities.delegation.capability import DelegationCapability
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.options import Options
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity
from symfonic.kernel.contracts.text import to_text
from symfonic.kernel.contracts.tool import Tool
from symfonic.kernel.runtime.plan import BadCallError, Plan, compile_tool

_log = logging.getLogger("symfonic.delegation")


class HostedDelegation(DelegationCapability):
    """The children of a host: of an agent of another framework, or of a program with a loop of its own.

    ``async with hosted.run_scope() as run`` makes what the host calls inside one tree, with one budget: read
    ``run.records``, ``run.tally`` and ``run.usage``. Outside such a block every call is a root of its own.
    """

    bounds: Bounds = NO_BOUNDS
    _warned = False

    @cached_property
    def _plan(self) -> Plan:
        return Plan(tuple(compile_tool(tool) for tool in delegation_tools(self)))

    def host_tools(self) -> tuple[Tool, ...]:
        """The tools for a host to bind: ``run_agent``, with the children's names as an enum, and ``list_agents``.

        ``invoke(arguments)`` returns the text that the host's model is to read, whatever happens to the child.
        """
        return tuple(replace(tool, invoke=partial(self.call, tool.name)) for tool in self._plan.offer())

    async def call(self, name: str, arguments: Mapping[str, Any] | str | None) -> str:
        """Carry out a call of the host's model; arguments may be the JSON text as it came.

        A name or arguments that do not fit are told in the text. Raises a cancellation and its like, and what
        `Options.pass_through` names.
        """
        try:
            tool = self._plan.find(name, self._plan.offer())
            fitting = tool.arguments(arguments)
        except BadCallError as problem:
            return str(problem)
        run = active_run()
        if run is not None:
            run.tighten(self.bounds)  # once: in a scope of this one's, and in what is called below, they hold already
            return to_text(await tool.tool.invoke(fitting))
        self._warn()
        async with self.run_scope():
            return to_text(await tool.tool.invoke(fitting))

    def _warn(self) -> None:
        """Say once that limits are those of one call each, where no scope makes several calls one tree."""
        if self.bounds.limits and not self._warned:
            self._warned = True
            _log.warning(
                "run_agent was called outside run_scope(): the limits of this delegation hold for each such call alone;"
                " use `async with hosted.run_scope():` around what is to share one budget"
            )

    def run_scope(
        self,
        *,
        depth: Any = 0,
        scope: Any = None,
        bounds: Bounds | None = None,
        agent: str = "host",
        identity: RunIdentity | None = None,
    ) -> RunScope:
        """Open a run for the code inside: a root, or where there is a run around it a child of that one."""
        if identity is None:
            around = current_run_identity()
            identity = RunIdentity.root() if around is None else around.child()
        return super().run_scope(depth=depth, scope=scope, bounds=bounds or self.bounds, agent=agent, identity=identity)


def delegation(
    sub_agents: Sequence[Any],
    *,
    max_depth: int | None = None,
    limits: Limits | None = None,
    options: Options | None = None,
) -> HostedDelegation:
    """Delegation on its own, for a host to bind: see `symfonic.adapters`.

    Takes the children, the ceiling, the limits and the options (observers, hook, signals) that an `Agent` takes. Raises
    ConfigurationError if there are no children, ChildDeclarationError for one that cannot be adopted.
    """
    if type(sub_agents) is not tuple and (not isinstance(sub_agents, Sequence) or isinstance(sub_agents, str)):
        raise ConfigurationError(f"sub_agents must be a list or tuple, got {sub_agents!r}")
    check_limits(limits)
    if options is not None and not isinstance(options, Options):
        raise ConfigurationError(f"options must be symfonic.Options(...), got {options!r}")
    capability = delegation_for_children(
        sub_agents, max_depth=max_depth, resolve_scope=options.resolve_scope if options else None
    )
    if capability is None:
        raise ConfigurationError("delegation(...) needs children: give it SubAgents")
    hosted = HostedDelegation(
        roster=capability.roster,
        tools=capability.tools,
        lifecycle=capability.lifecycle,
        context=capability.context,
        depth=capability.depth,
    )
    hosted.bounds = Bounds(
        max_depth,
        () if limits is None else (limits,),
        options.observers if options else (),
        (options.on_delegate,) if options and options.on_delegate else (),
        options.pass_through if options else (),
    )
    return hosted
