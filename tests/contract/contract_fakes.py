"""Children, tools and small helpers that the contract tests share."""

import asyncio
import gc
import inspect
import threading
from collections.abc import Callable
from typing import Any

from symfonic.capabilities.delegation import (
    ChildResponse,
    DelegationContext,
    DelegationRoster,
    DelegationTools,
    DepthPolicy,
    RosterEntry,
)


class Child:
    """Speaks the runner contract with a catch-all, and remembers what it was called with.

    ``does`` is the answer, an exception to raise, or a function of the query (sync or async) that makes the answer.
    """

    def __init__(self, does: Any = "done") -> None:
        self.does = does
        self.queries: list[Any] = []
        self.keywords: list[dict[str, Any]] = []

    async def run(self, query: str, **kwargs: Any) -> Any:
        self.queries.append(query)
        self.keywords.append(kwargs)
        answer = self.does(query) if callable(self.does) else self.does
        if inspect.isawaitable(answer):
            answer = await answer
        if isinstance(answer, BaseException):
            raise answer
        return ChildResponse(answer) if isinstance(answer, str) else answer


class Answers:
    """A response with just the attributes it is given."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def entry(name: str, runner: Any = None, description: str | None = None, **more: Any) -> RosterEntry:
    return RosterEntry(name, description or f"Does {name}.", Child() if runner is None else runner, **more)


def roster_of(**children: Any) -> DelegationRoster:
    return DelegationRoster(entry(name, child) for name, child in children.items())


def tools_of(
    max_depth: int = 2, context: DelegationContext | None = None, record: bool = True, **children: Any
) -> DelegationTools:
    return DelegationTools(roster=roster_of(**children), depth=DepthPolicy(max_depth), context=context, record=record)


def collect() -> None:
    """Three rounds: an object that only a collected one held goes in the next."""
    for _ in range(3):
        gc.collect()


async def others_pending() -> list[str]:
    """The names of the tasks that are still going, this one aside, once what has ended has been seen to end."""
    for _ in range(3):
        await asyncio.sleep(0)
    return [task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}]


async def swallows_once(started: asyncio.Event, swallowed: list[str]) -> str:
    """Sets ``started``, and takes two cancellations to end."""
    started.set()
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        swallowed.append("once")
    try:
        await asyncio.Event().wait()
    finally:
        swallowed.append("ended")
    return "never"


def in_threads(count: int, work: Callable[[int], None]) -> None:
    """Run ``work(0) … work(count - 1)`` in threads that start together and carry no context."""
    together = threading.Barrier(count)

    def start(number: int) -> None:
        together.wait()
        work(number)

    threads = [threading.Thread(target=start, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def adopt_there(name: str, agent: Any) -> Any:
    """An adapter of an installed package."""
    return ("adopted", name)
