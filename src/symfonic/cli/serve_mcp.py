"""``symfonic serve --mcp``: a team's lead as the tools of an MCP server."""

import asyncio
import os
import sys
from contextlib import suppress
from dataclasses import dataclass

from symfonic import ConfigurationError
from symfonic.cli.interrupt import InterruptedRunError, run_interruptibly
from symfonic.cli.serve import ENDS, loaded, place
from symfonic.cli.streams import Out
from symfonic.kernel.contracts.text import error_text
from symfonic.teams import Team

STDIO = "stdio"


@dataclass(frozen=True, slots=True)
class MCPOrder:
    """What the command line asks for. ``where`` is ``stdio`` or ``[HOST]:PORT``."""

    team: str
    where: str
    model: str | None = None
    max_depth: int | None = None


def serve_mcp(order: MCPOrder) -> int:
    """Serve until the client closes, Ctrl-C or SIGTERM; the exit status. A second signal raises KeyboardInterrupt.

    Raises ConfigurationError if the team cannot be loaded, ``where`` is no such place or cannot be had, others than
    this machine's users would reach the server and need no token, or mcp is missing.
    """
    address = None if order.where == STDIO else place("--mcp", order.where)
    team = loaded(order.team, order.model)
    with suppress(InterruptedRunError):  # which is how it ends
        run_interruptibly(_served(team, order.max_depth, address), ENDS)
    return 0


async def _served(team: Team, max_depth: int | None, address: tuple[str, int, str] | None) -> None:
    from symfonic.remote.mcp import mcp_server
    from symfonic.remote.mcp.serving import serve_http, serve_stdio

    async with team:
        try:
            server = mcp_server(team, max_depth=max_depth)
            if address is None:
                await serve_stdio(server, _end)
            else:
                host, port, token = address
                await serve_http(server, host, port, token=token, ready=lambda url: _say(team, url))
        except ConfigurationError as error:
            raise ConfigurationError(f"--mcp: {error_text(error)}") from error
        await asyncio.sleep(0)  # the signal that ended it arrives here


def _say(team: Team, url: str) -> None:
    Out(sys.stderr).line(f"{team.agent.name} is served at {url}")


def _end() -> None:
    os._exit(0)  # the thread that waits for standard input would keep the process
