"""One call over A2A, and everything that can happen to it: the caller dies, the server dies, connections are lost."""

import asyncio
import json
import logging
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a.client.errors import A2AClientError
from a2a.types import CancelTaskRequest, GetTaskRequest, ListTasksRequest, TaskState
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError
from a2a_kit import (
    PROGRAM,
    Cutting,
    Process,
    Worker,
    extended,
    program,
    request,
    sdk_client,
    sent,
    served_here,
    serving,
    task_of,
    until,
    words,
)

from symfonic import Agent, ConfigurationError, Limits, SubAgent
from symfonic.errors import EnvelopeError, OverrunError
from symfonic.kernel.concurrency.tasks import started
from symfonic.remote.a2a import A2AChild, a2a_app, a2a_child, tasks
from symfonic.remote.a2a.extension import found, plain
from symfonic.remote.answer import Answer, RemoteError
from symfonic.remote.envelope import Envelope
from symfonic.testing import ScriptedModel, tool_call

TOKENS = {"ann-token": "ann", "bob-token": "bob"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with serving(tmp_path_factory.mktemp("calls")) as process:
        yield process


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with serving(tmp_path_factory.mktemp("guarded"), tokens=TOKENS) as process:
        yield process


async def ask(child: A2AChild, task: Any) -> str:
    async with child:
        return (await child.run(program(task))).final_response


async def test_a_message_that_is_sent_again_after_its_client_was_killed_attaches(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        settings = {"kind": "client", "url": server.url, "task": {"tool": "count"}, "sent": sent("again")}
        client = await asyncio.create_subprocess_exec(sys.executable, str(PROGRAM), json.dumps(settings))
        await until(lambda: server.did("counted"))
        client.kill()
        await client.wait()
        async with sdk_client(server.url) as sdk:
            again = started(task_of(sdk, request({"tool": "count"}, sent("again")), extended()))
            await until(lambda: server.did("counted"))
            server.go()
            task = await again
            assert (words(task), server.did("counted")) == ("counted", 1)
            assert task.context_id == "root-again"
            once_more = await task_of(sdk, request({"tool": "count"}, sent("again")), extended())
        async with sdk_client(server.url, streaming=False) as sdk:
            without_stream = await task_of(sdk, request({"tool": "count"}, sent("again")), extended())
        assert task.id == once_more.id == without_stream.id
        assert server.did("counted") == 1


async def test_whoever_attaches_to_a_run_can_cancel_it(server: Process) -> None:
    async with sdk_client(server.url) as first, sdk_client(server.url) as second:
        began, ended = server.did("began"), server.did("ended")
        run = started(task_of(first, request({"tool": "hang"}, sent("shared")), extended()))
        await until(lambda: server.did("began") > began)
        events = second.send_message(request({"tool": "hang"}, sent("shared")), context=extended())
        task = (await anext(events)).task
        cancelled = await second.cancel_task(CancelTaskRequest(id=task.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        assert server.did("ended") == ended + 1
        assert (await run).id == task.id
        await events.aclose()
        with pytest.raises(TaskNotCancelableError):
            await second.cancel_task(CancelTaskRequest(id=task.id))


async def test_a_run_whose_caller_is_gone_ends_at_its_deadline(server: Process) -> None:
    began, ended = server.did("began"), server.did("ended")
    async with sdk_client(server.url) as client:
        events = client.send_message(
            request({"tool": "hang"}, sent("left", deadline=time.time() + 1.5)), context=extended()
        )
        await anext(events)
        await until(lambda: server.did("began") > began)
        await events.aclose()
    await until(lambda: server.did("ended") > ended, 5)


async def test_every_call_has_a_deadline_also_where_nothing_else_has(server: Process) -> None:
    where = json.loads(await ask(a2a_child(server.url, timeout=30), {"tool": "where"}))
    assert 20 < where["timeout"] < 33


@pytest.mark.parametrize(("mark", "after"), [(b"TASK_STATE_WORKING", True), (b"text/event-stream", False)])
async def test_a_lost_connection_is_made_again_and_the_run_is_the_same(
    tmp_path: Path, mark: bytes, after: bool
) -> None:
    worker, cutting = Worker(tmp_path / "journal"), Cutting(3, mark, after=after)
    async with cutting.way() as way, served_here(lambda _: a2a_app(worker.agent, url=way)) as url:
        cutting.port = int(url.rpartition(":")[2])
        run = started(ask(a2a_child(way, timeout=20), {"tool": "count"}))
        await until(lambda: cutting.left == 0)
        (tmp_path / "journal.go").touch()
        assert await run == "counted"
    assert len((tmp_path / "journal").read_text().splitlines()) == 1


async def test_a_server_that_dies_in_the_middle_is_a_failure_with_words(tmp_path: Path) -> None:
    with serving(tmp_path) as server:
        model = ScriptedModel(tool_call("run_agent", name="far", task='{"tool": "die"}'), "It broke.")
        lead = Agent(model, sub_agents=[SubAgent("far", a2a_child(server.url), "Dies.")])
        result = await lead.run("Go.")
        server.popen.wait(10)
    [record] = result.delegations
    assert server.did("died") == 1
    assert f"the agent at {server.url} cannot be reached" in record.message
    assert record.trace is not None
    assert isinstance(record.trace.error, RemoteError)
    assert isinstance(record.trace.error.__cause__, A2AClientError), "and the original is there"
    assert result.text == "It broke."


async def test_a_server_that_is_not_there_is_a_failure_with_words() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(RemoteError, match="cannot be reached"):
        await ask(a2a_child(url), {"say": "hello"})


@pytest.mark.parametrize("answers", ["nothing", "only its card"])
async def test_a_server_that_hangs_is_waited_for_as_long_as_was_said(answers: str) -> None:
    held: list[asyncio.StreamWriter] = []
    from a2a.server.routes.agent_card_routes import agent_card_to_dict
    from a2a.types import AgentCapabilities, AgentCard, AgentInterface

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        held.append(writer)
        line = await reader.readline()
        if answers == "only its card" and line.startswith(b"GET"):
            port = writer.get_extra_info("sockname")[1]
            card = AgentCard(
                name="hangs",
                capabilities=AgentCapabilities(streaming=True),
                supported_interfaces=[
                    AgentInterface(url=f"http://127.0.0.1:{port}", protocol_binding="JSONRPC", protocol_version="1.0")
                ],
            )
            body = json.dumps(agent_card_to_dict(card)).encode()
            head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            await writer.drain()

    server = await asyncio.start_server(hang, "127.0.0.1", 0)
    async with server:
        child = a2a_child(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", timeout=0.3)
        began = time.monotonic()
        with pytest.raises(OverrunError):
            await ask(child, {"say": "hello"})
        assert time.monotonic() - began < 4
        for writer in held:
            writer.close()


async def test_a_task_that_is_too_large_is_refused_before_it_is_sent(server: Process) -> None:
    before = len(server.lines())
    with pytest.raises(EnvelopeError, match="of at most 262144"):
        await ask(a2a_child("http://127.0.0.1:9"), {"say": "x" * 300_000})
    assert len(server.lines()) == before


async def test_a_token_that_is_wrong_or_missing_is_a_401_and_the_card_is_public(guarded: Process) -> None:
    async with sdk_client(guarded.url, token="no-such") as client:
        with pytest.raises(A2AClientError, match="401"):
            await task_of(client, request({"say": "hello"}))
    async with sdk_client(guarded.url) as client:
        with pytest.raises(A2AClientError, match="401"):
            await client.list_tasks(ListTasksRequest())
    with pytest.raises(RemoteError, match=r"does not let this caller in \(401\)"):
        await ask(a2a_child(guarded.url, auth="no-such"), {"say": "hello"})
    assert await ask(a2a_child(guarded.url, auth="ann-token"), {"say": "hello"}) == "hello"

    async def current() -> str:
        return "bob-token"

    assert await ask(a2a_child(guarded.url, auth=current), {"say": "hello"}) == "hello"


async def test_the_task_of_another_user_is_not_found_and_its_run_is_not_attached_to(guarded: Process) -> None:
    async with sdk_client(guarded.url, token="ann-token") as ann, sdk_client(guarded.url, token="bob-token") as bob:
        task = await task_of(ann, request({"say": "for Ann"}, sent("anns")), extended())
        assert words(task) == "for Ann"
        for asked in (bob.get_task(GetTaskRequest(id=task.id)), bob.cancel_task(CancelTaskRequest(id=task.id))):
            with pytest.raises(TaskNotFoundError):
                await asked
        assert task.id not in [each.id for each in (await bob.list_tasks(ListTasksRequest())).tasks]
        with pytest.raises(TaskNotFoundError):
            await task_of(bob, request({"say": "more"}, task_id=task.id))
        his = await task_of(bob, request({"say": "for Bob"}, sent("anns")), extended())
        assert (words(his), his.id != task.id) == ("for Bob", True), "an id that she has used is free to him"
        assert (await task_of(ann, request({"say": "for Ann"}, sent("anns")), extended())).id == task.id


async def test_a_refusal_is_a_rejected_task_with_the_reason(server: Process) -> None:
    async with sdk_client(server.url) as client:
        asked = request({"tool": "where"}, sent("deep", depth=3.0, max_depth=2.0))
        task = await task_of(client, asked, extended())
    assert task.status.state == TaskState.TASK_STATE_REJECTED
    assert "maximum sub-agent depth (2) reached" in words(task)
    answer = Answer.read(found(plain(task.metadata), text=words(task)))
    assert (answer.status, answer.lineage.root_run_id) == ("refused", "root-deep")


def _hello() -> Agent:
    return Agent(ScriptedModel("hello"), name="hello")


async def test_the_limits_of_a_server_tighten_those_of_its_callers(tmp_path: Path) -> None:
    here = Worker(tmp_path / "journal").agent
    async with served_here(lambda url: a2a_app(here, url=url, limits=Limits(timeout=0.5))) as url:
        with pytest.raises(OverrunError):
            await ask(a2a_child(url), {"tool": "hang"})


async def test_anything_that_answers_envelopes_can_be_served() -> None:
    class Clerk:
        asked: list[Envelope] = []  # noqa: RUF012 - of this test alone

        def names(self) -> tuple[str, ...]:
            return ("clerk",)

        async def answer(self, envelope: Envelope) -> Answer:
            self.asked.append(envelope)
            if envelope.task == "break":
                raise ValueError("the pen is dry")
            return Answer(status="finished", text=f"noted: {envelope.task}", lineage=envelope.lineage)

    async with served_here(lambda url: a2a_app(Clerk(), url=url)) as url:
        assert await ask(a2a_child(url), "buy ink") == "noted: buy ink"
        with pytest.raises(RemoteError, match="the pen is dry"):
            await ask(a2a_child(url), "break")
    assert [(each.agent, each.depth) for each in Clerk.asked] == [("clerk", 0), ("clerk", 0)]
    with pytest.raises(ConfigurationError, match="give them to it"):
        a2a_app(Clerk(), url="http://127.0.0.1/", max_depth=1)


async def test_of_tasks_that_have_ended_only_the_latest_can_be_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "KEPT", 2)
    async with served_here(lambda url: a2a_app(_hello(), url=url)) as url, sdk_client(url) as client:
        done = [await task_of(client, request("go", sent(f"run-{number}")), extended()) for number in range(3)]
        with pytest.raises(TaskNotFoundError):
            await client.get_task(GetTaskRequest(id=done[0].id))
        assert (await client.get_task(GetTaskRequest(id=done[1].id))).id == done[1].id
        again = await task_of(client, request("go", sent("run-0")), extended())
    assert again.id not in [each.id for each in done]
    assert words(again) == "hello", "its answer is remembered"


async def test_the_trace_that_a_call_came_with_goes_on_to_what_it_calls(server: Process, tmp_path: Path) -> None:
    trace = f"00-{'a' * 32}-{'b' * 16}-01"
    with serving(tmp_path, kind="plain") as other:
        async with sdk_client(server.url) as client:
            task = {"calls": [{"to": other.url, "task": "headers"}]}
            done = await task_of(client, request(task, sent("traced")), extended(traceparent=trace))
            [said] = json.loads(words(done))
            assert json.loads(said)["traceparent"] == trace
            plainly = await task_of(client, request(task), extended(traceparent="not one"))
            assert "traceparent" not in json.loads(json.loads(words(plainly))[0])


async def test_a_token_is_in_no_error_and_no_log(guarded: Process, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "symfonic")
    caplog.set_level(logging.INFO)
    for wrong in ("secret-token", "secret token", "secret\ntoken"):
        with pytest.raises((RemoteError, ConfigurationError)) as raised:
            await ask(a2a_child(guarded.url, auth=lambda given=wrong: given), {"say": "hello"})
        assert "secret" not in str(raised.value)

    def broken() -> str:
        raise KeyError("secret-token")

    with pytest.raises(ConfigurationError) as raised:
        await ask(a2a_child(guarded.url, auth=broken), {"say": "hello"})
    assert "secret" not in str(raised.value) + caplog.text
    assert "secret" not in repr(a2a_child(guarded.url, auth="secret-token"))


async def test_a_card_does_not_decide_who_gets_the_token(server: Process) -> None:
    async with served_here(lambda url: a2a_app(_hello(), url=server.url)) as url:
        with pytest.raises(RemoteError, match="sends its callers to"):
            await ask(a2a_child(url, auth="token"), {"say": "hello"})
        assert await ask(a2a_child(url), {"say": "from there"}) == "from there"


@pytest.mark.parametrize("url", ["legal", "ftp://host/x", "http://", "https://ann:pw@host/"])
def test_what_is_no_address_is_refused_where_it_is_declared(url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        a2a_child(url)
    assert "pw" not in str(refused.value)


@pytest.mark.parametrize(
    "auth", [5, 0, False, b"secret", ["secret"], "", " ", "se cret", "secret\n", "to\nk", "sécret"]
)
def test_what_is_no_token_is_refused_where_it_is_declared_and_not_shown(auth: Any) -> None:
    with pytest.raises(ConfigurationError, match="auth for http://host must be a token") as refused:
        a2a_child("http://host/", auth=auth)
    assert "cret" not in str(refused.value)


@pytest.mark.parametrize("auth", ["secret", {"secret": "ann"}, 5, ""])
def test_who_may_call_is_told_by_a_function(auth: Any) -> None:
    with pytest.raises(ConfigurationError, match="auth must be a function") as refused:
        a2a_app(_hello(), url="http://host/", auth=auth)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("timeout", [0, -1, float("inf"), True, "1"])
def test_a_timeout_is_a_number_of_seconds(timeout: Any) -> None:
    with pytest.raises(ConfigurationError, match="timeout must be"):
        a2a_child("http://host/", timeout=timeout)
