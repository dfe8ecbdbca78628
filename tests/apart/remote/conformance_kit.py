"""Every way to a child beyond a boundary, each with the same agent, `plan_kit.Planned`, at its other end.

Over MCP an agent is a tool of its caller's and no `SubAgent`: that a child goes on when its caller is gone is what it
cannot show, since there a connection that is lost is a call that is cancelled.
"""

import os
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from a2a_kit import extended, request, sdk_client, sent, serving, task_of, words
from durable_kit import SERVERS, Stage
from mcp import Client
from mcp.types import TextContent
from mcp_kit import over_http
from plan_kit import Planned, program, written

from symfonic import Agent, SubAgent
from symfonic.durable import Durable, durable
from symfonic.remote.mcp import mcp_tools
from symfonic.testing import ScriptedModel, tool_call

ELSEWHERE = ["durable on a file", *(["durable on PostgreSQL"] if SERVERS else []), "A2A", "MCP"]
"""The ways that lead to another process. In the same one nothing is sent, and so nothing can be sent twice."""
EVERY_WAY = ["in process", *ELSEWHERE]


@dataclass
class Place:
    """Where the far agent is carried out: the way there, its address, its process, and what its tools write down."""

    way: str
    address: str
    pid: int
    journal: Path


@dataclass
class Far:
    """A far agent as its caller has it.

    ``options`` are what an agent needs to call it as ``far``; ``sent`` sends a task as the run of an id.
    """

    place: Place
    options: dict[str, Any]
    sent: Callable[[str, Any], Coroutine[Any, Any, str]]
    _before: int = field(init=False)

    def __post_init__(self) -> None:
        self._before = len(written(self.place.journal))

    def caller(self, *tasks: Any, **options: Any) -> Agent:
        """An agent that says where it runs itself, and has these done by the far one, all at once."""
        calls = [tool_call("run_agent", name="far", task=program(task)) for task in tasks]
        model = ScriptedModel([tool_call("where"), *calls], "done")
        tools = [Planned(self.place.journal).where, *self.options.get("tools", ())]
        return Agent(model, name="lead", **{**self.options, **options, "tools": tools})

    def did(self, what: str) -> list[dict[str, Any]]:
        """What it has done of a kind since it was reached."""
        return [line for line in written(self.place.journal)[self._before :] if line["did"] == what]

    def go(self) -> None:
        """Let those who wait for it go on."""
        self.place.journal.with_suffix(".go").touch()


@contextmanager
def carried_out(way: str, folder: Path, database: str) -> Iterator[Place]:
    """A place at the end of a way. ``database`` is for the durable ones."""
    journal = folder / "plans"
    if way == "in process":
        yield Place(way, "", os.getpid(), journal)
    elif way == "A2A":
        with serving(folder) as server:
            yield Place(way, server.url, server.popen.pid, server.journal)
    elif way == "MCP":
        with over_http("planned", folder) as (address, process):
            yield Place(way, address, process.pid, journal)
    else:
        stage = Stage(folder, database)
        try:
            yield Place(way, database, stage.start("worker", executor_id="elsewhere", planned=1).pid, journal)
        finally:
            stage.close()


@asynccontextmanager
async def reached(place: Place) -> AsyncIterator[Far]:
    """The far agent, for callers in this process and on this event loop."""
    if place.way == "in process":
        yield Far(place, _child(Planned(place.journal, name="far").agent), _nowhere)
    elif place.way == "A2A":
        yield Far(place, _child(place.address), partial(_as_message, place.address))
    elif place.way == "MCP":
        async with mcp_tools(url=place.address) as tools:
            run_agent = [tool for tool in tools if tool.name == "run_agent"]
            yield Far(place, {"tools": run_agent}, partial(_as_tool_call, place.address))
    else:
        async with durable(Planned(place.journal, name="far").agent, place.address, worker=False) as tree:
            yield Far(place, _child(tree), partial(_as_run, tree))


def _child(agent: Any) -> dict[str, Any]:
    return {"sub_agents": [SubAgent("far", agent, "Works elsewhere.")]}


async def _nowhere(run_id: str, task: Any) -> str:
    raise AssertionError("in the same process nothing is sent")


async def _as_message(url: str, run_id: str, task: Any) -> str:
    async with sdk_client(url) as client:
        return words(await task_of(client, request(task, sent(run_id)), extended()))


async def _as_tool_call(url: str, run_id: str, task: Any) -> str:
    async with Client(url) as client:
        meta: Any = {"symfonic/envelope": sent(run_id)}
        result = await client.call_tool("run_agent", {"name": "far", "task": program(task)}, meta=meta)
    [said] = result.content
    assert isinstance(said, TextContent)
    return said.text


async def _as_run(tree: Durable, run_id: str, task: Any) -> str:
    return (await tree.run(program(task), run_id=run_id)).text
