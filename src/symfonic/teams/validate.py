"""The second step: from TOML data to a `TeamSpec`, every mistake of form and reference found."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from symfonic.teams.mistakes import Mistakes, did_you_mean, got, key_path, names
from symfonic.teams.spec import AgentSpec, Bounds, Card, ChildLink, TeamSpec

MAX_NESTING = 50
_NAME = re.compile(r"[^\s/]+")
_Text = Annotated[str, Field(pattern=r"\S")]
_Key = tuple[str | int, ...]


class TeamTable(BaseModel):
    """The file's top level."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    agents: Annotated[dict[str, Any], Field(min_length=1)]
    lead: _Text | None = None


class AgentTable(BaseModel):
    """An agent's table. What ``sub_agents`` holds is checked one child at a time."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid", strict=True)

    model: _Text = "offline"
    instructions: str | None = None
    description: _Text | None = None
    when_to_use: _Text | None = None
    examples: list[_Text] = []
    tools: list[Annotated[str, Field(pattern=r"^[^\s:]+:[^\s:]+$")]] = []
    sub_agents: list[Any] | dict[str, Any] = []
    max_depth: Annotated[int, Field(ge=0)] | None = None
    max_steps: Annotated[int, Field(ge=1)] | None = None


_EXPECTED = {
    "agents": "a table for each agent, [agents.NAME]",
    "lead": "the name of the agent that takes the task",
    "model": 'a model: "offline", "openai:NAME" or "langchain:PROVIDER:NAME"',
    "instructions": "text",
    "description": "text that says what the agent does",
    "when_to_use": "text that says when to delegate to it",
    "examples": "an array of example requests, each a text",
    "tools": 'an array of tools, each "module:function"',
    "sub_agents": "an array of agents' names, or a table of agents",
    "max_depth": "an integer >= 0",
    "max_steps": "an integer >= 1",
}
_EXPECTED_ITEM = {"examples": "an example request, a text", "tools": 'a tool, "module:function"'}
_PARTS_OF_A_NAME = "a name without blanks and slashes"


def validate(data: dict[str, Any], path: str, mistakes: Mistakes) -> TeamSpec:
    """What the file at ``path`` says. Raises TeamFileError with every mistake found."""
    table = _table(TeamTable, data, (), mistakes)
    if table is None:
        raise mistakes.error()
    reader = _Reader(table.agents, mistakes)
    for name, agent in table.agents.items():
        reader.read(name, agent, ("agents", name), "")
    mistakes.check()
    _check_descriptions(reader.agents, mistakes)
    lead = _lead(table, reader.agents, mistakes)
    mistakes.check()
    return TeamSpec(path, Path(path).resolve().parent, lead, reader.agents)


class _Reader:
    """Walks the tables of agents into definitions by path."""

    def __init__(self, top: dict[str, Any], mistakes: Mistakes) -> None:
        self._top = top
        self._mistakes = mistakes
        self.agents: dict[str, AgentSpec] = {}

    def read(self, name: str, data: Any, key: _Key, outer: str, depth: int = 0) -> str | None:
        """The path of the definition in ``data``, noted with all that are nested in it; None if it is unusable."""
        where = key_path(*key)
        problem = _problem(name, data, depth)
        table = None if problem else _table(AgentTable, data, key, self._mistakes)
        if table is None:
            if problem:
                self._mistakes.add(where, problem)
            return None
        path = f"{outer}/{name}" if outer else name
        spec = AgentSpec(
            path,
            where,
            Card(name, table.description, table.when_to_use, tuple(table.examples)),
            table.model,
            table.instructions,
            tuple(table.tools),
            (),
            Bounds(table.max_depth, table.max_steps),
        )
        self.agents[path] = spec  # takes its place before those nested in it
        children = tuple(self._children(table.sub_agents, (*key, "sub_agents"), path, depth))
        self.agents[path] = replace(spec, children=children)
        return path

    def _children(self, declared: list[Any] | dict[str, Any], key: _Key, outer: str, depth: int) -> Iterator[ChildLink]:
        for at, name, data in self._declared(declared):
            where = key_path(*key, at)
            if data is None:
                if name in self._top:
                    yield ChildLink(name, where, nested=False)
                else:
                    hint = f"{names(self._top)}{did_you_mean(name, self._top)}"
                    self._mistakes.add(where, f"no agent {name!r} at the top level; expected one of {hint}")
            elif (path := self._nested(name, data, (*key, at), outer, depth)) is not None:
                yield ChildLink(path, where, nested=True)

    def _declared(self, declared: list[Any] | dict[str, Any]) -> Iterator[tuple[str | int, Any, Any]]:
        """Where each child stands, its name, and its table; None where it is a name alone."""
        if isinstance(declared, dict):
            yield from ((name, name, data) for name, data in declared.items())
            return
        for index, item in enumerate(declared):
            if isinstance(item, dict):
                yield index, item.get("name"), {name: value for name, value in item.items() if name != "name"}
            else:
                yield index, item, None if isinstance(item, str) else item

    def _nested(self, name: Any, data: Any, key: _Key, outer: str, depth: int) -> str | None:
        where = key_path(*key)
        if not isinstance(data, dict) and isinstance(key[-1], int):
            self._mistakes.add(where, f"expected an agent's name, or a table with a name, got {got(data)}")
        elif not isinstance(name, str):
            told = "nothing" if name is None else got(name)
            self._mistakes.add(f"{where}.name", f"expected {_PARTS_OF_A_NAME}, got {told}")
        elif f"{outer}/{name}" in self.agents:
            self._mistakes.add(where, f"a second agent {name!r} here; expected different names")
        else:
            return self.read(name, data, key, outer, depth + 1)
        return None


def _problem(name: str, data: Any, depth: int) -> str | None:
    """What keeps ``data`` from being read as an agent's table at all."""
    if not _NAME.fullmatch(name):
        return f"expected {_PARTS_OF_A_NAME}, got {name!r}"
    if not isinstance(data, dict):
        return f"expected an agent's table, got {got(data)}"
    return f"expected at most {MAX_NESTING} levels of agents in agents" if depth > MAX_NESTING else None


def _check_descriptions(agents: dict[str, AgentSpec], mistakes: Mistakes) -> None:
    """Whoever may be delegated to needs a description; one line tells it, with the first that refers to it."""
    parents: dict[str, str] = {}
    for agent in agents.values():
        for child in agent.children:
            parents.setdefault(child.path, agent.path)
    for path, parent in parents.items():
        if agents[path].card.description is None:
            told = f"missing; expected {_EXPECTED['description']}, as {parent!r} may delegate to it"
            mistakes.add(f"{agents[path].key}.description", told)


def _lead(table: TeamTable, agents: dict[str, AgentSpec], mistakes: Mistakes) -> str:
    """The path of the root: the one that is named, or else the only one of the top level that no other refers to."""
    top = list(table.agents)
    if table.lead is not None:
        if table.lead not in top:
            hint = f"{names(top)}{did_you_mean(table.lead, top)}"
            mistakes.add("lead", f"no agent {table.lead!r} at the top level; expected one of {hint}")
        return table.lead
    referred = {child.path for agent in agents.values() for child in agent.children if child.path != agent.path}
    free = [name for name in top if name not in referred]
    if len(free) != 1:
        found = names(free) if free else "every one is some other's sub-agent"
        mistakes.add("lead", f"missing; expected the name of the agent that takes the task ({found})")
        return ""
    return free[0]


def _table(kind: type[Any], data: dict[str, Any], key: _Key, mistakes: Mistakes) -> Any:
    """``data`` as a table of that kind; None, and the mistakes noted, where it is not."""
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        for found in error.errors(include_url=False, include_context=False):
            _note(kind, found, key, mistakes)
    return None


def _note(kind: type[BaseModel], found: Any, key: _Key, mistakes: Mistakes) -> None:
    """One finding of pydantic's in our words: it knows where, we know what was expected."""
    field = str(found["loc"][0])
    if found["type"] == "extra_forbidden":
        known = list(kind.model_fields)
        elsewhere = "; it belongs into an agent's table" if not key and field in AgentTable.model_fields else ""
        hint = elsewhere or did_you_mean(field, known)
        mistakes.add(key_path(*key, field), f"unknown key; expected one of {names(known)}{hint}")
    elif found["type"] == "missing":
        mistakes.add(key_path(*key, field), f"missing; expected {_EXPECTED[field]}")
    elif len(found["loc"]) > 1 and field in _EXPECTED_ITEM:
        where = key_path(*key, field, found["loc"][1])
        mistakes.add(where, f"expected {_EXPECTED_ITEM[field]}, got {got(found['input'])}")
    else:
        mistakes.add(key_path(*key, field), f"expected {_EXPECTED[field]}, got {got(found['input'])}")
