"""Servers for the tests of MCP, each in a process of its own: ``python mcp_kit.py KIND stdio|http FOLDER``.

Those of ours are agents; the others are written with the SDK alone and know nothing of us.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from plan_kit import Planned

from symfonic import Agent, SubAgent
from symfonic.testing import FunctionModel, ScriptedModel, tool_call

KIT = Path(__file__)
SECONDS = 60.0
"""How long a test waits for what another process does."""


# --- agents of ours


def lead(folder: Path) -> Agent:
    """Asks a clerk, who answers; both print on the way."""

    def look() -> str:
        """Look into the ledger."""
        print("printed by a tool", flush=True)
        print("printed and not flushed", end="")
        os.system("echo printed by a process")
        return "12"

    clerk = Agent(ScriptedModel(tool_call("look"), "12 invoices."), tools=[look])
    replies = (tool_call("run_agent", name="clerk", task="Count."), "There are 12 invoices.")
    return Agent(ScriptedModel(*replies), name="lead", sub_agents=[SubAgent("clerk", clerk, "Knows the invoices.")])


def deep(folder: Path) -> Agent:
    """Delegates to a child that delegates, and so on, six levels; what each is told ends up in the answer."""

    def tell(messages: Any, tools: Any) -> Any:
        last = messages[-1]
        return f"[{last.text}]" if last.role == "tool" else tool_call("run_agent", name="next", task="Go on.")

    agent = Agent(FunctionModel(lambda messages, tools: "bottom"))
    for _ in range(6):
        agent = Agent(FunctionModel(tell), name="lead", sub_agents=[SubAgent("next", agent, "Goes on.")])
    return agent


def slow(folder: Path) -> Agent:
    """Asks a child that says in files when it starts and when it is cancelled, and would never end."""

    async def waits() -> str:
        """Wait."""
        (folder / "started").touch()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            (folder / "cancelled").touch()
            raise
        return "never"

    child = Agent(ScriptedModel(tool_call("waits"), "never"), tools=[waits])
    replies = (tool_call("run_agent", name="child", task="Wait."), "never")
    return Agent(ScriptedModel(*replies), name="lead", sub_agents=[SubAgent("child", child, "Waits.")])


def echo(folder: Path) -> Agent:
    """Answers with its task; fails at ``fail``; is long at ``long``."""

    def answer(messages: Any, tools: Any) -> Any:
        task = messages[-1].text
        return {"fail": OSError("no paper"), "long": "x" * 300_000}.get(task, f"You said {task}")

    return Agent(FunctionModel(answer), name="lead")


def planned(folder: Path) -> Agent:
    """Does what its task says."""
    return Planned(folder / "plans", name="far").agent


# --- servers that know nothing of us


def plain(folder: Path) -> Any:
    """Tools of every kind."""
    from mcp.server.mcpserver import Image, MCPServer

    server = MCPServer("plain", log_level="ERROR")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    @server.tool()
    def fails() -> str:
        """Fail."""
        from mcp.server.mcpserver.exceptions import ToolError

        raise ToolError("the shelf is empty")

    @server.tool()
    def crashes() -> str:
        """Crash."""
        raise KeyError("secret")

    @server.tool()
    def huge() -> str:
        """Say more than anybody reads."""
        return "x" * 3_000_000

    @server.tool()
    def draws() -> Image:
        """Draw."""
        return Image(data=b"\x89PNG", format="png")

    @server.tool()
    def dies() -> str:
        """End the process."""
        os._exit(3)

    @server.tool()
    async def dawdles() -> str:
        """Take for ever."""
        (folder / "started").touch()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            (folder / "cancelled").touch()
            raise
        return "never"

    @server.tool()
    def grows() -> str:
        """Offer another tool from now on, and this one no longer."""
        server.add_tool(lambda: "late", name="late")
        server.remove_tool("grows")
        return "grown"

    return server._lowlevel_server  # the one that `symfonic.remote.mcp.serving` serves


def hostile(folder: Path) -> Any:
    """Schemas that no agent could be declared with, and results to match."""
    from mcp.server import Server
    from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

    deep: dict[str, Any] = {}
    for _ in range(60):
        deep = {"type": "object", "properties": {"x": deep}}
    schemas: dict[str, Any] = {
        "bare": {"type": "object"},
        "undescribed": {"type": "object", "required": ["a", "a", 3], "properties": {"b": True}},
        "elsewhere": {"type": "object", "$ref": "#/$defs/x", "$defs": {"x": {"properties": {"a": {}}}}},
        "vast": {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(20_000)}},
        "nested": {"type": "object", "properties": {"x": deep}},
        "odd": {"type": "object", "properties": {"a": {"type": 7}}, "required": "a"},
    }

    async def listed(context: Any, params: Any) -> Any:
        tools = [Tool(name=name, description="d" * 100_000, input_schema=each) for name, each in schemas.items()]
        tools[0].output_schema = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
        return ListToolsResult(tools=tools)

    async def called(context: Any, params: Any) -> Any:
        told = {"x": "a" * 40 + "!"} if params.name == "bare" else None
        text = json.dumps(params.arguments)
        return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=told)

    return Server("hostile", on_list_tools=listed, on_call_tool=called)


def endless(folder: Path) -> Any:
    """A list of tools that never ends."""
    from mcp.server import Server
    from mcp.types import ListToolsResult, Tool

    async def listed(context: Any, params: Any) -> Any:
        return ListToolsResult(tools=[Tool(name="again", input_schema={"type": "object"})], next_cursor="more")

    return Server("endless", on_list_tools=listed)


def liar(folder: Path) -> Any:
    """Says that it runs agents of ours, and answers what the file ``answer.json`` says."""
    from mcp.server import Server
    from mcp.types import CallToolResult, ListToolsResult, TextContent, Tool

    async def listed(context: Any, params: Any) -> Any:
        tool = Tool(
            name="run_agent",
            description="Runs agents.",
            input_schema={"type": "object", "required": ["name", "task"]},
            _meta={"symfonic/agents": {"lead": "The lead."}},
        )
        return ListToolsResult(tools=[tool])

    async def called(context: Any, params: Any) -> Any:
        (folder / "sent.json").write_text(json.dumps(dict(context.meta or {})))
        meta = json.loads((folder / "answer.json").read_text())
        return CallToolResult(content=[TextContent(type="text", text="done")], _meta=meta)

    return Server("liar", on_list_tools=listed, on_call_tool=called)


AGENTS: dict[str, Callable[[Path], Agent]] = {
    "lead": lead,
    "deep": deep,
    "slow": slow,
    "echo": echo,
    "planned": planned,
}
OTHERS: dict[str, Callable[[Path], Any]] = {"plain": plain, "hostile": hostile, "endless": endless, "liar": liar}


# --- running them


def command(kind: str, folder: Path) -> list[str]:
    """What starts a server that speaks over stdio."""
    return [sys.executable, str(KIT), kind, "stdio", str(folder)]


@contextmanager
def over_http(kind: str, folder: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server that speaks HTTP: its address, and its process."""
    process = subprocess.Popen([sys.executable, str(KIT), kind, "http", str(folder)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(SECONDS)
        assert process.stdout is not None
        process.stdout.close()


def until(path: Path) -> None:
    """Wait for a file that another process makes."""
    ends = time.monotonic() + SECONDS
    while not path.exists():
        assert time.monotonic() < ends, f"{path.name} was never there"
        time.sleep(0.02)


async def soon(path: Path) -> None:
    """The same on an event loop."""
    await asyncio.to_thread(until, path)


def _main(kind: str, transport: str, folder: Path) -> None:
    from symfonic.remote.mcp import mcp_server
    from symfonic.remote.mcp.serving import serve_http, serve_stdio

    server = mcp_server(AGENTS[kind](folder)) if kind in AGENTS else OTHERS[kind](folder)
    if transport == "stdio":
        asyncio.run(serve_stdio(server))
    else:
        with suppress(KeyboardInterrupt):
            asyncio.run(serve_http(server, ready=lambda address: print(address, flush=True)))


if __name__ == "__main__":
    _main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
