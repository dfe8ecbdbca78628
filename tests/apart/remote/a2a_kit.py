"""Servers in processes of their own, a worker whose tasks say where they go on, and raw clients of the SDK."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, Task
from plan_kit import PATIENCE, Planned, program, until, written

from symfonic import SubAgent
from symfonic.kernel.concurrency.tasks import started
from symfonic.remote.a2a import a2a_child
from symfonic.remote.a2a.extension import HEADER, URI

PROGRAM = Path(__file__).with_name("a2a_server_process.py")


class Next:
    """A child whose task says where it is: ``{"to": URL, "task": ..., "token": ...}``."""

    async def run(self, query: str) -> Any:
        plan = json.loads(query)
        async with a2a_child(plan["to"], auth=plan.get("token"), timeout=plan.get("timeout", 60)) as child:
            return await child.run(program(plan["task"]))


class Worker(Planned):
    """An agent that does what its task says, and whose child ``next`` is wherever the task of a call says."""

    def __init__(self, journal: Path) -> None:
        super().__init__(journal, SubAgent("next", Next(), "Asks an agent elsewhere."))


def through(*urls: str, then: Any) -> Any:
    """The task for a worker to have something done by way of these."""
    task = then
    for url in reversed(urls):
        task = {"calls": [{"to": url, "task": task}]}
    return task


def told_by(text: str, hops: int) -> Any:
    """What the last of so many workers said."""
    for _ in range(hops):
        [text] = json.loads(text)
    return json.loads(text)


@dataclass
class Process:
    """A server in a process of its own."""

    popen: "subprocess.Popen[str]"
    url: str
    journal: Path

    def lines(self) -> list[dict[str, Any]]:
        return written(self.journal)

    def did(self, what: str) -> int:
        return sum(1 for line in self.lines() if line["did"] == what)

    def go(self) -> None:
        self.journal.with_suffix(".go").touch()

    def kill(self) -> None:
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait(PATIENCE)


@contextmanager
def serving(folder: Path, kind: str = "worker", **settings: Any) -> Iterator[Process]:
    """A server process: ``kind`` and its settings are those of the program beside this file."""
    number = len(list(folder.glob("journal-*.port")))
    journal = folder / f"journal-{kind}-{number}"
    journal.with_suffix(".port").touch()
    settings = {"kind": kind, "journal": str(journal), **settings}
    command = [sys.executable, str(PROGRAM), json.dumps(settings)]
    log = journal.with_suffix(".log").open("w+")
    popen = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert popen.stdout is not None
        line = popen.stdout.readline()
        log.seek(0)
        assert line, log.read()
        yield Process(popen, line.strip(), journal)
    finally:
        popen.kill()
        popen.wait(PATIENCE)
        popen.stdout.close()
        log.close()


@asynccontextmanager
async def served_here(make: Callable[[str], Any]) -> AsyncIterator[str]:
    """The address of an application that this very loop serves; ``make`` is told it."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}"
    config = uvicorn.Config(make(url), log_level="warning", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(server.serve(sockets=[listening]))
        await until(lambda: server.started)
        try:
            yield url
        finally:
            server.should_exit = True
            await asyncio.wait({task}, timeout=PATIENCE)
    listening.close()


class Cutting:
    """A way to a server on which the first streams are cut, after or instead of what has ``mark`` in it."""

    def __init__(self, cuts: int, mark: bytes, *, after: bool) -> None:
        self.left = cuts
        self._mark = mark
        self._after = after
        self.port = 0

    @asynccontextmanager
    async def way(self) -> AsyncIterator[str]:
        async with await asyncio.start_server(self._passed, "127.0.0.1", 0) as server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _passed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self.port)

        async def forth() -> None:
            while data := await reader.read(65536):
                back.write(data)

        sending = started(forth())
        try:
            while data := await there.read(65536):
                cut = self._mark in data and self.left > 0
                self.left -= cut
                if self._after or not cut:
                    writer.write(data)
                    await writer.drain()
                if cut:
                    return
        finally:
            sending.cancel()
            await asyncio.wait({sending})
            for end in (back, writer):
                end.close()


@asynccontextmanager
async def sdk_client(url: str, *, token: str | None = None, streaming: bool = True) -> AsyncIterator[Any]:
    """A client of the SDK, as anybody would make it."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with httpx.AsyncClient(timeout=PATIENCE, headers=headers) as http:
        card = await A2ACardResolver(http, url).get_agent_card()
        yield ClientFactory(ClientConfig(httpx_client=http, streaming=streaming)).create(card)


def request(task: Any, sent: dict[str, Any] | None = None, **message: Any) -> SendMessageRequest:
    """A message with a task, and with metadata of ours where there is any."""
    said = Message(message_id="m-1", role=Role.ROLE_USER, parts=[Part(text=program(task))], **message)
    return SendMessageRequest(message=said, metadata=None if sent is None else {URI: sent})


def sent(run_id: str, **fields: Any) -> dict[str, Any]:
    """Our metadata of a call that is the run of this id."""
    return {"lineage": {"run_id": run_id, "root_run_id": f"root-{run_id}", "via": [run_id]}, "depth": 1} | fields


def extended(**headers: str) -> ClientCallContext:
    """What makes a call one that knows of our extension."""
    return ClientCallContext(service_parameters={HEADER: URI, **headers})


async def task_of(client: Any, asked: SendMessageRequest, context: ClientCallContext | None = None) -> Task:
    """The task of a message, when it has ended."""
    found: Task | None = None
    async for event in client.send_message(asked, context=context):
        if event.HasField("task"):
            found = event.task
        elif event.HasField("status_update"):
            found = Task(id=event.status_update.task_id)
    assert found is not None
    from a2a.types import GetTaskRequest

    return await client.get_task(GetTaskRequest(id=found.id))


def words(task: Task) -> str:
    """What a task says: its answer, or its last words."""
    answer = "".join(part.text for each in task.artifacts for part in each.parts)
    return answer or "".join(part.text for part in task.status.message.parts)
