"""Clients and servers of the SDK alone, which know nothing of us."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from a2a.client import A2ACardResolver
from a2a.types import ListTasksRequest, Message, Part, Role, SendMessageRequest, TaskState
from a2a.utils.errors import ContentTypeNotSupportedError, InvalidParamsError, UnsupportedOperationError
from a2a_kit import Cutting, Process, Worker, extended, request, sdk_client, served_here, serving, task_of, words
from a2a_plain_server import plain_app
from google.protobuf.json_format import ParseDict
from google.protobuf.struct_pb2 import Value

from symfonic import Agent, DelegationOutcome, SubAgent, load_team
from symfonic.errors import DelegationError, OverrunError
from symfonic.remote.a2a import a2a_app, a2a_child
from symfonic.remote.a2a.extension import HEADER, URI
from symfonic.remote.a2a.seen import MOST_CHARS
from symfonic.remote.answer import RemoteError
from symfonic.testing import FunctionModel, ScriptedModel, tool_call


@pytest.fixture(scope="module", params=["streaming", "polling"])
def plain(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    folder = tmp_path_factory.mktemp("plain")
    with serving(folder, kind="plain", streaming=request.param == "streaming") as process:
        yield process


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    with serving(tmp_path_factory.mktemp("worker")) as process:
        yield process


async def ask(url: str, task: str, **options: Any) -> str:
    async with a2a_child(url, **options) as child:
        return (await child.run(task)).final_response


@pytest.mark.parametrize(
    ("task", "answer"),
    [
        ("hello", "hello!"),
        ("message", "a message alone"),
        ("status", "said by the status"),
        ("silence", "it ended without a word (TASK_STATE_COMPLETED)"),
    ],
)
async def test_what_a_stranger_says_is_the_answer(plain: Process, task: str, answer: str) -> None:
    assert await ask(plain.url, task) == answer


@pytest.mark.parametrize(
    ("task", "kind", "told"),
    [
        ("fail", RemoteError, "the archive is closed"),
        ("reject", DelegationError, "not on Sundays"),
        ("ask", RemoteError, r"it waits for somebody \(TASK_STATE_INPUT_REQUIRED\).*which year\?"),
    ],
)
async def test_what_a_stranger_makes_of_a_failure_is_told_in_its_words(
    plain: Process, task: str, kind: type[Exception], told: str
) -> None:
    with pytest.raises(kind, match=told):
        await ask(plain.url, task)


async def test_what_a_stranger_says_is_capped(plain: Process) -> None:
    answer = await ask(plain.url, "long")
    assert len(answer) <= MOST_CHARS
    assert "(400000 characters in all)" in answer


async def test_a_stranger_is_sent_the_task_alone(plain: Process) -> None:
    headers = json.loads(await ask(plain.url, "headers"))
    assert HEADER.lower() not in headers


async def test_a_stranger_that_hangs_is_cancelled_when_its_time_is_over(plain: Process) -> None:
    with pytest.raises(OverrunError):
        await ask(plain.url, "hang", timeout=0.7)
    async with sdk_client(plain.url) as client:
        tasks = (await client.list_tasks(ListTasksRequest())).tasks
    assert TaskState.TASK_STATE_CANCELED in [each.status.state for each in tasks]
    assert TaskState.TASK_STATE_WORKING not in [each.status.state for each in tasks]


@pytest.mark.parametrize(("mark", "after"), [(b"TASK_STATE_WORKING", True), (b"text/event-stream", False)])
async def test_a_lost_connection_to_a_stranger_is_followed_up_but_nothing_is_sent_twice(
    mark: bytes, after: bool
) -> None:
    cutting = Cutting(1, mark, after=after)
    async with cutting.way() as way, served_here(lambda _: plain_app(way)) as url:
        cutting.port = int(url.rpartition(":")[2])
        if after:
            assert await ask(way, "hello") == "hello!"
        else:
            with pytest.raises(RemoteError, match="was lost"):
                await ask(way, "hello")
        async with sdk_client(way) as client:
            assert len((await client.list_tasks(ListTasksRequest())).tasks) == 1


async def test_a_stranger_is_a_child_like_any_other(plain: Process) -> None:
    calls = [tool_call("run_agent", name="plain", task=task) for task in ("hello", "fail")]
    lead = Agent(ScriptedModel(calls, "done"), sub_agents=[SubAgent("plain", plain.url, "Knows nothing of us.")])
    first, second = (await lead.run("Go.")).delegations
    assert (first.outcome, first.message, first.depth) == (DelegationOutcome.DELIVERED, "hello!", 1)
    assert second.outcome is DelegationOutcome.CHILD_FAILED
    assert second.message == "Sub-agent 'plain' failed: the archive is closed"


async def test_a_strangers_call_is_a_root_at_depth_0(worker: Process) -> None:
    async with sdk_client(worker.url) as client:
        task = await task_of(client, request({"tool": "where"}))
        where = json.loads(words(task))
        assert (where["depth"], where["parent"], where["root"]) == (0, None, where["run_id"])
        assert task.context_id == where["root"]
        assert dict(task.metadata) == {}
        lineage = {"run_id": "r", "root_run_id": "r", "via": ["r"]}
        unnamed = await task_of(client, request({"tool": "where"}, {"lineage": lineage, "depth": 1}))
        assert json.loads(words(unnamed))["depth"] == 0, "without the header, metadata of ours is just metadata"
        own = await task_of(client, request({"tool": "where"}, context_id="my-conversation"))
        assert own.context_id == "my-conversation"
    async with sdk_client(worker.url, streaming=False) as client:
        assert words(await task_of(client, request({"say": "all at once"}))) == "all at once"


async def test_the_stream_of_a_task_begins_with_it_tells_delegations_and_ends_with_how_it_ended(
    worker: Process,
) -> None:
    calls = {"calls": [{"to": worker.url, "task": {"say": "hello"}}]}
    async with sdk_client(worker.url) as client:
        events = [event async for event in client.send_message(request(calls), context=extended())]
    kinds = [event.WhichOneof("payload") for event in events]
    assert kinds[0] == "task"
    assert kinds[-2:] == ["artifact_update", "status_update"]
    told = [part.text for event in events for part in event.status_update.status.message.parts]
    assert told == ["next: started at depth 1", "next: delivered at depth 1"]
    artifact = events[-2].artifact_update
    assert (artifact.append, artifact.last_chunk) == (False, True)
    last = events[-1].status_update
    assert last.status.state == TaskState.TASK_STATE_COMPLETED
    assert last.metadata[URI]["spent"]["model_calls"] == 3


async def test_the_card_says_what_the_agent_is_and_that_it_knows_our_extension(worker: Process) -> None:
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, worker.url).get_agent_card()
        answered = await http.post(
            worker.url,
            json={"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": "x"}},
            headers={HEADER: f"other, {URI}", "A2A-Version": "1.0"},
        )
    assert card.name == "worker"
    assert card.capabilities.streaming
    assert [each.uri for each in card.capabilities.extensions] == [URI]
    assert not card.security_schemes
    assert answered.headers[HEADER] == URI


async def test_a_message_is_text_and_data_and_one_for_each_task(worker: Process) -> None:
    async with sdk_client(worker.url) as client:
        data = ParseDict({"say": "from data"}, Value())
        message = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(data=data)])
        task = await task_of(client, SendMessageRequest(message=message))
        assert words(task) == "from data"
        with pytest.raises(UnsupportedOperationError, match="one message"):
            await task_of(client, request({"say": "more"}, task_id=task.id))
        file = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(raw=b"x", media_type="image/png")])
        with pytest.raises((InvalidParamsError, ContentTypeNotSupportedError), match="a file"):
            await task_of(client, SendMessageRequest(message=file))


async def test_a_team_is_served_by_its_lead(tmp_path: Path) -> None:
    (tmp_path / "team.toml").write_text('lead = "boss"\n[agents.boss]\nmodel = "offline"\n')
    team = load_team(tmp_path / "team.toml", model=ScriptedModel("the boss speaks"))
    async with served_here(lambda url: a2a_app(team, url=url)) as url:
        assert await ask(url, "Who is there?") == "the boss speaks"
        async with httpx.AsyncClient() as http:
            assert (await A2ACardResolver(http, url).get_agent_card()).name == "boss"


async def test_what_fails_here_is_told_a_stranger_in_words_and_without_secrets() -> None:
    def fail(messages: Any, tools: Any) -> Any:
        raise ValueError("postgres://till:hunter2@bank does not answer")

    till = Agent(FunctionModel(fail), name="till")
    async with served_here(lambda url: a2a_app(till, url=url)) as url, sdk_client(url) as client:
        task = await task_of(client, request("What came in?"))
    assert task.status.state == TaskState.TASK_STATE_FAILED
    assert words(task) == "the model failed: ValueError: postgres://till:***@bank does not answer"


async def test_a_server_below_a_path_is_found_there(tmp_path: Path) -> None:
    agent = Worker(tmp_path / "journal").agent
    async with served_here(lambda url: a2a_app(agent, url=f"{url}/legal/")) as url:
        assert await ask(f"{url}/legal", '{"say": "objection"}') == "objection"
    from starlette.applications import Starlette
    from starlette.routing import Mount

    def mounted(url: str) -> Any:
        return Starlette(routes=[Mount("/deep/legal", a2a_app(agent, url=f"{url}/deep/legal/"))])

    async with served_here(mounted) as url:
        assert await ask(f"{url}/deep/legal/", '{"say": "objection"}') == "objection"
    await asyncio.sleep(0)
