"""A server while it runs: over standard input and output, or over HTTP."""

import sys
from asyncio import CancelledError
from collections.abc import Callable
from hmac import compare_digest
from typing import TYPE_CHECKING, Any

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.text import error_text
from symfonic.remote.web import serve_app

if TYPE_CHECKING:
    from mcp.server import Server

PATH = "/mcp"


async def serve_stdio(server: "Server[Any]", ended: Callable[[], object] | None = None) -> None:
    """Serve the one client at the other end of standard input and output, until it closes them.

    Meanwhile what else is printed goes to standard error; ``sys.stdout`` must be the process's own. ``ended`` is called
    when this was cancelled and all calls have ended: it may end the process, since what reads standard input cannot be
    woken, and the cancellation goes on only when the client sends something, or closes.
    """
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (reading, writing):
        try:
            await server.run(reading, writing, server.create_initialization_options())
        except CancelledError:
            if ended is not None:
                ended()
            raise
        finally:
            sys.stdout.flush()  # what was printed and is not yet written would follow the last message


async def serve_http(
    server: "Server[Any]",
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    token: str = "",
    ready: Callable[[str], object] | None = None,
) -> None:
    """Serve any number of clients over streamable HTTP, until the process is told to end.

    Port 0 is one that is free; ``ready`` is told the address. Callers must send ``token`` as their bearer token;
    without one, whoever reaches the server may use it. Raises ConfigurationError if the address cannot be had.
    """
    import socket

    try:
        listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        raise ConfigurationError(f"cannot listen on {host}:{port}: {error_text(error)}") from error
    with listening:
        app: Any = server.streamable_http_app(streamable_http_path=PATH, host=host)
        shown = f"[{host}]" if ":" in host else host
        address = f"http://{shown}:{listening.getsockname()[1]}{PATH}"
        guarded = _Guarded(app, token) if token else app
        await serve_app(guarded, listening, ready=lambda: ready(address) if ready is not None else None)


class _Guarded:
    """An application for those who know the token."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not compare_digest(_credentials(scope), self._expected):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


def _credentials(scope: Any) -> bytes:
    return next((bytes(value) for name, value in scope["headers"] if name == b"authorization"), b"")
