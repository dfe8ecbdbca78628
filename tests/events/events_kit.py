"""Agents to be watched, and what was seen of them."""

import asyncio
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any, TypeVar

from symfonic import Agent, SubAgent
from symfonic.kernel.contracts.events import DelegationFinished, DelegationStarted, Event, RunFinished, RunStarted
from symfonic.kernel.contracts.messages import Message, ToolCall
from symfonic.testing import FunctionModel, ScriptedModel, tool_call

E = TypeVar("E")


def asks(name: str, task: str = "t") -> ToolCall:
    """A model's delegation."""
    return tool_call("run_agent", name=name, task=task)


def child(name: str, agent: Any, **policy: Any) -> SubAgent:
    return SubAgent(name, agent, f"Does what {name} does.", **policy)


def leaf(*replies: Any, name: str = "leaf", **parts: Any) -> Agent:
    return Agent(ScriptedModel(*(replies or ("done",))), name=name, **parts)


def boss(*children: SubAgent, ask: Sequence[ToolCall] | None = None, **parts: Any) -> Agent:
    """Asks every child once, at the same time, and is done."""
    made = [asks(each.name) for each in children] if ask is None else list(ask)
    return Agent(ScriptedModel(made, "done"), **{"name": "boss", "sub_agents": children} | parts)


def chain(*names: str) -> Agent:
    """An agent that asks the next, which asks the next …, each known by its name."""
    agent = leaf(name=names[-1])
    for name, below in reversed(list(pairwise(names))):
        agent = boss(child(below, agent), name=name, max_depth=len(names))
    return agent


class Gate:
    """A model that says it was reached, and answers when it may. ``ended`` is how it went."""

    def __init__(self, answer: str = "done") -> None:
        self.answer = answer
        self.reached = asyncio.Event()
        self.open = asyncio.Event()
        self.ended = ""

    async def complete(self, messages: Sequence[Message], tools: Any) -> Any:
        self.reached.set()
        try:
            await self.open.wait()
        except asyncio.CancelledError:
            self.ended = "cancelled"
            raise
        self.ended = "answered"
        return await ScriptedModel(self.answer).complete(messages[:1], tools)


class Watcher:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def of(self, kind: type[E]) -> list[E]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def kinds(self) -> list[str]:
        return kinds(self.events)


class LateWatcher(Watcher):
    """The same, asynchronous, and in no hurry."""

    async def __call__(self, event: Event) -> None:  # type: ignore[override]
        await asyncio.sleep(0)
        self.events.append(event)


def kinds(events: Iterable[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


def check_pairs(events: Sequence[Event]) -> None:
    """Every run and every delegation starts once and then ends once."""
    for started, finished, key in (
        (RunStarted, RunFinished, lambda event: event.where.run_id),
        (DelegationStarted, DelegationFinished, lambda event: event.child.run_id),
    ):
        begun: list[str] = []
        ended: list[str] = []
        for event in events:
            if isinstance(event, started):
                begun.append(key(event))
            if isinstance(event, finished):
                ended.append(key(event))
                assert key(event) in begun
        assert len(set(begun)) == len(begun)
        assert sorted(begun) == sorted(ended)


def hanging() -> FunctionModel:
    """A model that never answers."""

    async def wait(messages: Any, tools: Any) -> str:
        await asyncio.Event().wait()
        return ""

    return FunctionModel(wait)
