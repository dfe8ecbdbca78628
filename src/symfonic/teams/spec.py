"""What a valid team file says, as plain facts."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Card:
    """How an agent is introduced to the models that may delegate to it."""

    name: str
    description: str | None = None
    when_to_use: str | None = None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Bounds:
    """How deep below an agent its delegations may go, and how many model calls a run of it may take."""

    max_depth: int | None = None
    max_steps: int | None = None


@dataclass(frozen=True, slots=True)
class ChildLink:
    """A line of an agent's roster: the definition it stands for, and the key that says so.

    ``nested`` children are defined in place, the others refer to an agent of the top level.
    """

    path: str
    key: str
    nested: bool


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One definition. ``path`` is its name under those of the agents it is nested in, ``key`` its place in the file."""

    path: str
    key: str
    card: Card
    model: str
    instructions: str | None
    tools: tuple[str, ...]
    children: tuple[ChildLink, ...]
    bounds: Bounds


@dataclass(frozen=True, slots=True)
class TeamSpec:
    """A whole file. ``agents`` holds every definition by its path, nested ones after the one they are nested in."""

    file: str
    folder: Path
    lead: str
    agents: Mapping[str, AgentSpec]
