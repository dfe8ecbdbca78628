"""Servers in processes of their own, a worker that does what its task says, and raw clients of the SDK."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import Message, Part, Role, SendMessageRequest, Task

from symfonic import Agent, SubAgent
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.kernel.concurrency.tasks import started
from symfonic.kernel.contracts.messages import Message as Said
from symfonic.kernel.contracts.model import ModelReply
from symfonic.remote.a2a import a2a_child
from symfonic.remote.a2a.extension import HEADER, URI
from symfonic.testing import FunctionModel, tool_call

PROGRAM = Path(__file__).with_name("a2a_server_process.py")
PATIENCE = 20.0


class Next:
    """A child whose task says where it is: ``{"to": URL, "task": ..., "token": ...}``."""

    async def run(self, query: str) -> Any:
        plan = json.loads(query)
        async with a2a_child(plan["to"], auth=plan.get("token"), timeout=plan.get("timeout", 60)) as child:
            return await child.run(program(plan["task"]))


class Worker:
    """An agent that does what its task, a program in JSON, says.

    ``{"say": TEXT}`` answers, ``{"tool": NAME}`` answers with what a tool returns, ``{"calls": [...]}`` delegates to
    agents elsewhere and answers with what they say, as a list. What its tools do is written to ``journal``.
    """

    def __init__(self, journal: Path, **options: Any) -> None:
        self._journal = journal
        self.agent = Agent(
            FunctionModel(self._reply),
            name="worker",
            tools=[self.where, self.hang, self.linger, self.count, self.die],
            sub_agents=[SubAgent("next", Next(), "Asks an agent elsewhere.")],
            **options,
        )

    def note(self, **line: Any) -> None:
        run = active_run()
        assert run is not None
        assert run.identity is not None
        line |= {"pid": os.getpid(), "run_id": run.identity.run_id, "depth": run.depth}
        with self._journal.open("a") as journal:
            journal.write(json.dumps(line) + "\n")

    async def where(self) -> str:
        """Say where this runs."""
        run = active_run()
        assert run is not None
        assert run.identity is not None
        found = {"pid": os.getpid(), "depth": run.depth, "max_depth": run.max_depth, "run_id": run.identity.run_id}
        left = run.budget.left() if run.budget is not None else None
        limits = {"delegations": left.max_delegations, "timeout": left.timeout} if left else {}
        ids = {"root": run.identity.root_run_id, "parent": run.identity.parent_run_id}
        return json.dumps(found | ids | limits)

    async def hang(self) -> str:
        """Wait for ever."""
        self.note(did="began")
        try:
            await asyncio.Event().wait()
        finally:
            self.note(did="ended")
        return "never"

    async def linger(self) -> str:
        """Wait for ever, and take a second to end."""
        self.note(did="began")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        end = time.monotonic() + 1
        while (left := end - time.monotonic()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(left)
        self.note(did="ended")
        raise asyncio.CancelledError

    async def count(self) -> str:
        """Count one more, and wait until the file ``go`` is there."""
        self.note(did="counted")
        await until(self._journal.with_suffix(".go").exists)
        return "counted"

    async def die(self) -> str:
        """End the process."""
        self.note(did="died")
        os._exit(9)

    def _reply(self, messages: list[Said], tools: Any) -> Any:
        last = max(number for number, each in enumerate(messages) if each.role == "user")
        answers = [each.text for each in messages[last + 1 :] if each.role == "tool"]
        plan = json.loads(messages[last].text)
        usage = {"input_tokens": plan.get("tokens", 0), "output_tokens": 0}
        if "say" in plan:
            return ModelReply(plan["say"], **usage)
        if answers:
            return ModelReply(answers[0] if "tool" in plan else json.dumps(answers), **usage)
        if "tool" in plan:
            return tool_call(plan["tool"])
        return [tool_call("run_agent", name="next", task=json.dumps(call)) for call in plan["calls"]]


def program(task: Any) -> str:
    return task if isinstance(task, str) else json.dumps(task)


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
        return [json.loads(line) for line in self.journal.read_text().splitlines()] if self.journal.exists() else []

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


async def until(true: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.01)


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
