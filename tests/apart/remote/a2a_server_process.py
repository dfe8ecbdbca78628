"""A server to be started as a process: prints its address, and serves until it is ended.

``python a2a_server_process.py SETTINGS``, JSON: ``kind`` is ``worker`` (`a2a_kit.Worker`) or ``plain``, a server of the
SDK alone, and ``journal`` a file; a worker also takes ``max_depth``, ``limits`` and ``tokens`` (token to user). A
``durable`` one serves the team of `durable_programs`, kept in ``database``; it says beside the journal what it does. A
``client`` is none: it sends the message ``task`` with the metadata ``sent`` to ``url``.
"""

import asyncio
import json
import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from a2a_kit import Worker, extended, request, sdk_client, task_of

from symfonic import Limits
from symfonic.remote.a2a import a2a_app


def worker(settings: dict[str, Any], url: str) -> Any:
    return app_of(Worker(Path(settings["journal"])).agent, settings, url)


def kept(settings: dict[str, Any], url: str) -> Any:
    from durable_programs import team

    from symfonic.durable import durable

    return app_of(
        durable(team(Path(settings["journal"]).parent), settings["database"], executor_id="server"), settings, url
    )


def app_of(agent: Any, settings: dict[str, Any], url: str) -> Any:
    tokens = settings.get("tokens")
    limits = settings.get("limits")
    return a2a_app(
        agent,
        url=url,
        max_depth=settings.get("max_depth"),
        limits=Limits(**limits) if limits else None,
        auth=tokens.get if tokens is not None else None,
    )


def plain(settings: dict[str, Any], url: str) -> Any:
    from a2a_plain_server import plain_app

    return plain_app(url, streaming=settings.get("streaming", True))


async def ask(settings: dict[str, Any]) -> None:
    async with sdk_client(settings["url"]) as client:
        await task_of(client, request(settings["task"], settings["sent"]), extended())


def main() -> None:
    settings = json.loads(sys.argv[1])
    if settings["kind"] == "client":
        print("asking", flush=True)
        asyncio.run(ask(settings))
        return
    listening = socket.socket()
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("127.0.0.1", settings.get("port", 0)))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    app = {"worker": worker, "durable": kept, "plain": plain}[settings["kind"]](settings, url)
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1))
    listening.listen(64)  # whoever knows the address may call at once
    print(url, flush=True)
    asyncio.run(server.serve(sockets=[listening]))


if __name__ == "__main__":
    main()
