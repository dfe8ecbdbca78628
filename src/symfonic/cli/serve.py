"""``symfonic serve --a2a``: a team's lead as an A2A server. Other protocols have a module each."""

import asyncio
import hmac
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, redirect_stdout, suppress
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from symfonic import ConfigurationError, load_team
from symfonic.cli.interrupt import SIGINT, SIGTERM, InterruptedRunError, run_interruptibly
from symfonic.cli.keeping import Keeping, kept
from symfonic.cli.streams import Out
from symfonic.kernel.contracts.text import error_text
from symfonic.teams import Team

TOKEN = "SYMFONIC_TOKEN"  # noqa: S105 - the name of the variable
"""The environment variable that holds the bearer token which callers must have."""

MOST_PORT = 65535

ENDS = (SIGINT, SIGTERM)
"""Ctrl-C, and what a supervisor sends."""


@dataclass(frozen=True, slots=True)
class A2AOrder:
    """What the command line asks for. ``where`` is ``[HOST]:PORT``, ``url`` how callers reach it, if otherwise.

    What ``keeping`` keeps goes on after the server's end, when it is there again under its executor's id.
    """

    team: str
    where: str
    url: str | None = None
    model: str | None = None
    max_depth: int | None = None
    keeping: Keeping | None = None


def serve_a2a(order: A2AOrder) -> int:
    """Serve until Ctrl-C or SIGTERM; the exit status. A second one raises KeyboardInterrupt, and leaves what goes on.

    Raises ConfigurationError if the team cannot be loaded, ``where`` is no address or cannot be had, others than this
    machine's users would reach the server and need no token, the database or the executor's id cannot be had, or the
    A2A SDK is missing.
    """
    host, port, token = place("--a2a", order.where)
    team = loaded(order.team, order.model)
    with suppress(InterruptedRunError):  # which is how it ends
        run_interruptibly(_served(team, order, (host, port), token), ENDS)
    return 0


def place(option: str, where: str) -> tuple[str, int, str]:
    """The host, the port and the token that callers must have, which may be blank on this machine alone.

    Raises ConfigurationError if ``where`` is no ``[HOST]:PORT``, or others reach it there and need no token.
    """
    host, port = _address(option, where)
    token = os.environ.get(TOKEN, "").strip()
    if not token and not _is_this_machine(host):
        raise ConfigurationError(f"{option} {where}: others reach it there, so set {TOKEN} to what they must know")
    return host, port, token


def loaded(file: str, model: str | None) -> Team:
    """The team, whatever its modules print; tools that import a neighbour when they are called find it."""
    with redirect_stdout(sys.stderr):
        team = load_team(file, model=model)
        sys.path.append(str(Path(file).resolve().parent))
    return team


async def _served(team: Team, order: A2AOrder, address: tuple[str, int], token: str) -> None:
    from symfonic.remote.a2a import a2a_app
    from symfonic.remote.web import serve_app

    def user(given: str) -> str | None:
        return "caller" if hmac.compare_digest(given.encode(), token.encode()) else None

    host, port = address
    async with team, _kept(team, order) as agent:
        with _listening(host, port) as listening:
            shown = f"[{host}]" if ":" in host else host
            url = order.url or f"http://{shown}:{listening.getsockname()[1]}/"
            try:
                app = a2a_app(agent, url=url, max_depth=order.max_depth, auth=user if token else None)
            except ConfigurationError as error:
                raise ConfigurationError(f"--a2a: {error_text(error)}") from error
            # else every stream would be cut at once, and not when its call has ended
            import_module("sse_starlette.sse").AppStatus.disable_automatic_graceful_drain()
            served = partial(Out(sys.stderr).line, f"{team.agent.name} is served at {url}")
            await serve_app(app, listening, ready=served, end=app.state.end_calls)
        await asyncio.sleep(0)  # the signal that ended it arrives here


@asynccontextmanager
async def _kept(team: Team, order: A2AOrder) -> AsyncIterator[Any]:
    """What is to be served: the team, or its lead at the root of a durable tree."""
    if order.keeping is None:
        yield team
        return
    async with kept(team, order.keeping) as tree:
        yield tree


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"--a2a: cannot listen on {host}:{port}: {error_text(error)}") from error


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _address(option: str, where: str) -> tuple[str, int]:
    host, colon, port = where.rpartition(":")
    if not colon or not port.isdecimal():
        expected = "stdio or [HOST]:PORT" if option == "--mcp" else "[HOST]:PORT"
        raise ConfigurationError(f"{option}: expected {expected}, got {where!r}")
    if int(port) > MOST_PORT:
        raise ConfigurationError(f"{option}: expected a port of at most {MOST_PORT}, got {where!r}")
    return host.strip("[]") or "127.0.0.1", int(port)
