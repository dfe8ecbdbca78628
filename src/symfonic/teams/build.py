"""The third step: from a `TeamSpec` to agents."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from symfonic.agent.facade import Agent
from symfonic.capabilities.delegation.declarations import AgentRef, SubAgent
from symfonic.errors import ChildDeclarationError, ConfigurationError
from symfonic.kernel.contracts.events import Observer
from symfonic.kernel.contracts.model import Model
from symfonic.kernel.contracts.options import Options
from symfonic.models import resolve_model
from symfonic.teams.imports import ToolImportError, folder_first, import_tool
from symfonic.teams.mistakes import Mistakes
from symfonic.teams.spec import ChildLink, TeamSpec

Tools: TypeAlias = Mapping[str, tuple[Any, ...]]
Models: TypeAlias = Mapping[str, Model]


@dataclass(frozen=True, slots=True)
class Parts:
    """What a team is made of: the file's words, and what they stand for, by the agents' paths."""

    spec: TeamSpec
    tools: Tools
    models: Models


def import_tools(spec: TeamSpec, mistakes: Mistakes) -> Tools:
    """Every agent's tools by the agent's path, imported once. Those that cannot be are noted as mistakes."""
    tools: dict[str, tuple[Any, ...]] = {}
    with folder_first(spec.folder):
        for path, agent in spec.agents.items():
            found = []
            for index, name in enumerate(agent.tools):
                try:
                    found.append(import_tool(name))
                except ToolImportError as error:
                    mistakes.add(f"{agent.key}.tools[{index}]", f'{error}; expected a tool, "module:function"')
            tools[path] = tuple(found)
    return tools


def resolve_models(spec: TeamSpec, mistakes: Mistakes) -> Models:
    """Every agent's model by the agent's path. Those that cannot be had are noted as mistakes."""
    models: dict[str, Model] = {}
    for path, agent in spec.agents.items():
        try:
            models[path] = resolve_model(agent.model)
        except ConfigurationError as error:
            mistakes.add(f"{agent.key}.model", str(error))
    return models


def build(parts: Parts, observers: tuple[Observer, ...], mistakes: Mistakes) -> dict[str, Agent]:
    """One agent for each definition, by path. What an agent refuses is noted as a mistake of its table.

    Observers are the root's: what they are told of its runs includes the runs below.
    """
    spec = parts.spec
    agents: dict[str, Agent] = {}
    for path, agent in spec.agents.items():
        options = Options(observers=observers if path == spec.lead else ())
        if agent.bounds.max_steps is not None:
            options = replace(options, max_steps=agent.bounds.max_steps)
        try:
            agents[path] = Agent(
                parts.models[path],
                name=agent.card.name,
                instructions=agent.instructions,
                tools=parts.tools[path],
                sub_agents=[_child(child, spec, agents) for child in agent.children],
                max_depth=agent.bounds.max_depth,
                options=options,
            )
        except ConfigurationError as error:
            place = "sub_agents" if isinstance(error, ChildDeclarationError) else "tools"
            mistakes.add(f"{agent.key}.{place}", str(error))
    return agents


def _child(child: ChildLink, spec: TeamSpec, agents: Mapping[str, Agent]) -> SubAgent:
    """A child, by a reference that is resolved when it is first delegated to: so the order of the file does not
    matter, and a cycle is no special case."""
    card = spec.agents[child.path].card
    return SubAgent(
        card.name,
        AgentRef(lambda: agents[child.path]),
        card.description or "",
        card.when_to_use,
        examples=card.examples,
    )
