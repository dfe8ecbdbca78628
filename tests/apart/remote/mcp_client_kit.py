"""An agent with the tools of a server that is started for a test of MCP."""

from contextlib import asynccontextmanager
from pathlib import Path

import mcp_kit as kit

from symfonic import Agent
from symfonic.remote.mcp import mcp_tools
from symfonic.testing import ScriptedModel


@asynccontextmanager
async def tools_of(kind: str, transport: str, folder: Path, **options):
    """The tools of a server that is started for it."""
    if transport == "stdio":
        async with mcp_tools(command=kit.command(kind, folder), **options) as tools:
            yield tools
    else:
        with kit.over_http(kind, folder) as (address, _):
            async with mcp_tools(url=address, **options) as tools:
                yield tools


async def answers(tools, *calls, **options):
    """What a model reads of these calls."""
    agent = Agent(ScriptedModel(list(calls), "done"), tools=tools)
    result = await agent.run("Go.", **options)
    return [message.text for message in result.messages if message.role == "tool"], result
