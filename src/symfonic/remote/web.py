"""A web server that ends in order: calls in progress have a while to end, are then ended, and nothing is cut."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from importlib import import_module
from socket import socket
from typing import Any

from symfonic.kernel.concurrency.tasks import put_down, started

CLOSING_SECONDS, LAST_SECONDS = 5.0, 5
"""How long calls in progress may go on when a server is told to end, and how long it takes to end those that do."""


async def serve_app(
    app: Any,
    listening: socket,
    *,
    ready: Callable[[], object] | None = None,
    end: Callable[[], Awaitable[object]] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, from when ``ready`` is called on.

    ``end`` ends the calls that go on too long; without it they are cut off then.
    """
    uvicorn: Any = import_module("uvicorn")  # it comes with the extras, and is not typed without them

    class Server(uvicorn.Server):  # type: ignore[misc, unused-ignore]
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if ready is not None and self.started:
                ready()

        async def shutdown(self, sockets: Any = None) -> None:
            ending = started(_late(end) if end is not None else _silence())
            try:
                await super().shutdown(sockets)
            finally:
                await put_down([ending])

    seconds = CLOSING_SECONDS + (LAST_SECONDS if end is not None else 0)
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=seconds)
    await Server(config).serve(sockets=[listening])


async def _late(end: Callable[[], Awaitable[object]]) -> None:
    await asyncio.sleep(CLOSING_SECONDS)
    await end()


async def _silence() -> None:
    """That calls are cut off is no news, and where in the code they were is nobody's business."""
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
