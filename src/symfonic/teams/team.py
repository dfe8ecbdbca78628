"""A loaded team, and how one is loaded."""

import dataclasses
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from itertools import islice
from types import MappingProxyType, TracebackType
from typing import Any, Self

from symfonic.agent.facade import Agent, AgentResult
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.events import Observer
from symfonic.models import resolve_model
from symfonic.teams.build import Parts, build, import_tools, resolve_models
from symfonic.teams.mistakes import Mistakes, did_you_mean, names
from symfonic.teams.parse import parse
from symfonic.teams.spec import TeamSpec

_MOST_PATHS = 50


def load_team(path: str | os.PathLike[str], *, model: Any = None, observers: tuple[Observer, ...] = ()) -> "Team":
    """The team that a file declares, ready to run.

    ``model``, a model or its name, serves every agent instead of the file's models, which are then not looked
    for: no key of theirs is needed. ``observers`` are told of every delegation of the team's runs.
    Raises TeamFileError with a line for each mistake in the file, ConfigurationError if ``model`` is none.
    """
    from symfonic.teams.validate import validate  # brings pydantic, which importing this module must not

    given = None if model is None else resolve_model(model)
    mistakes = Mistakes(os.fspath(path))
    spec = validate(parse(path, mistakes), os.fspath(path), mistakes)
    tools = import_tools(spec, mistakes)
    models = resolve_models(spec, mistakes) if given is None else dict.fromkeys(spec.agents, given)
    mistakes.check()
    return Team(Parts(spec, tools, models), observers)


class Team:
    """The agents of a team file. ``agent`` is the root, which takes the task.

    ``agents`` holds all of them by path: an agent's name, under the names of those it is nested in. An agent
    that several refer to is one object. ``spec`` is what the file says. ``async with team`` closes what the
    agents own.
    Raises TeamFileError if agents cannot be made of the parts.
    """

    def __init__(self, parts: Parts, observers: tuple[Observer, ...] = ()) -> None:
        self._parts = parts
        self._observers = observers
        self._lifetime = AsyncExitStack()
        mistakes = Mistakes(parts.spec.file)
        self.spec: TeamSpec = parts.spec
        self.agents: Mapping[str, Agent] = MappingProxyType(build(parts, observers, mistakes))
        mistakes.check()
        self.agent: Agent = self.agents[parts.spec.lead]

    def __repr__(self) -> str:
        return f"Team({self.spec.file!r}, lead={self.spec.lead!r}, {len(self.agents)} agents)"

    async def run(self, task: str, **options: Any) -> AgentResult:
        """Run the root agent on ``task``; ``options`` are those of `Agent.run`."""
        return await self.agent.run(task, **options)

    def run_sync(self, task: str, **options: Any) -> AgentResult:
        """The same from synchronous code; see `Agent.run_sync`."""
        return self.agent.run_sync(task, **options)

    def override(self, models: Mapping[str, Any]) -> "Team":
        """The same team with other models, each a model or its name.

        A path names an agent as the root's model reaches it: ``"surveyor/counter"`` is the child ``counter`` of
        the root's child ``surveyor``; the root goes by its own name, which may also lead a path. An agent that
        several paths lead to has one model. Raises ConfigurationError for a path that leads nowhere, for two
        models for one agent, and for what is no model.
        """
        swapped: dict[str, Any] = {}
        for path, given in models.items():
            try:
                model = resolve_model(given)
            except ConfigurationError as error:
                raise ConfigurationError(f"Team.override: {path!r}: {error}") from error
            definition = self._definition(path)
            if definition in swapped and swapped[definition] is not model:
                key = self.spec.agents[definition].key
                raise ConfigurationError(f"Team.override: {path!r} is {key}, which another path gives another model")
            swapped[definition] = model
        return Team(dataclasses.replace(self._parts, models={**self._parts.models, **swapped}), self._observers)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            for agent in self.agents.values():
                await stack.enter_async_context(agent)
            self._lifetime = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._lifetime.aclose()

    def _definition(self, path: str) -> str:
        """The definition that a path from the root leads to."""
        root = self.spec.lead
        first, *rest = path.split("/")
        found: str | None = root
        for name in rest if first == root else (first, *rest):
            found = self._children(found).get(name) if found is not None else None
        if found is None:
            known = list(islice(self._paths(), _MOST_PATHS))
            raise ConfigurationError(
                f"Team.override: no agent at {path!r}; expected one of {names(known)}{did_you_mean(path, known)}"
            )
        return found

    def _children(self, definition: str) -> dict[str, str]:
        agents = self.spec.agents
        return {agents[child.path].card.name: child.path for child in agents[definition].children}

    def _paths(self) -> Iterator[str]:
        """Paths from the root, the short ones first; none that goes round a cycle."""
        root = self.spec.lead
        yield root
        todo: deque[tuple[str, tuple[str, ...]]] = deque([("", (root,))])
        while todo:
            prefix, trail = todo.popleft()
            for name, definition in self._children(trail[-1]).items():
                if definition not in trail:
                    yield prefix + name
                    todo.append((f"{prefix}{name}/", (*trail, definition)))
