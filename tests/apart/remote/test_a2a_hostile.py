"""Whatever arrives is answered: with a task that has ended, or with an error that says what is wrong."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from a2a_kit import served_here
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from symfonic import Agent
from symfonic.kernel.contracts.run_identity import new_run_id
from symfonic.remote.a2a import a2a_app, gate
from symfonic.remote.a2a.extension import HEADER, URI
from symfonic.remote.a2a.gate import MOST_BODY
from symfonic.testing import FunctionModel

CLEAR = (-32700, -32600, -32601, -32602, -32001, -32004)
"""JSON-RPC's codes for what is wrong with a request, and A2A's for what is not there or not done here."""

ENDED = ("TASK_STATE_COMPLETED", "TASK_STATE_REJECTED", "TASK_STATE_FAILED")

numbers = st.one_of(
    st.integers(), st.floats(allow_nan=True), st.just(10**400), st.sampled_from([-1, 0, 1, 2**53, 2**64])
)
texts = st.one_of(st.text(), st.sampled_from(["\ud800", "\x00", "a" * 600, "", " ", "1", "null"]))
anything = st.recursive(
    st.one_of(st.none(), st.booleans(), numbers, texts),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)


def sane() -> dict[str, Any]:
    run_id = new_run_id()
    return {
        "lineage": {"run_id": run_id, "root_run_id": f"root-{run_id}", "parent_run_id": None, "via": [run_id]},
        "depth": 1,
        "max_depth": 2,
        "deadline": 4e9,
        "left": {"max_delegations": 3, "max_tokens": 10, "max_concurrency": 1, "max_answer_chars": 100},
    }


FIELDS = [("lineage",), ("depth",), ("max_depth",), ("deadline",), ("left",)]
FIELDS += [("lineage", each) for each in ("run_id", "root_run_id", "parent_run_id", "via")]
FIELDS += [("left", each) for each in ("max_delegations", "max_fan_out", "max_concurrency", "max_repeats")]
FIELDS += [("left", each) for each in ("max_model_calls", "max_tokens", "max_answer_chars")]


def rpc(params: Any, method: str = "SendMessage") -> bytes:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return json.dumps(body).encode()


def message(metadata: Any, /, **fields: Any) -> dict[str, Any]:
    said = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]} | fields
    return {"message": said, "metadata": metadata}


class Caller:
    def __init__(self, http: httpx.AsyncClient) -> None:
        self.http = http

    async def says(self, body: bytes, **headers: str) -> dict[str, Any]:
        sent = {"content-type": "application/json", "A2A-Version": "1.0", HEADER: URI} | headers
        response = await self.http.post("/", content=body, headers=sent)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def is_answered_clearly(self, body: bytes) -> str:
        answer = await self.says(body)
        if "error" in answer:
            assert answer["error"]["code"] in CLEAR, answer
            assert answer["error"]["message"]
            return str(answer["error"]["code"])
        if "tasks" in answer["result"]:  # some values are taken for no parameters, and all of them are listed
            return "listed"
        state = answer["result"]["task"]["status"]["state"]
        assert state in ENDED, answer
        return str(state)


@pytest_asyncio.fixture
async def caller() -> AsyncIterator[Caller]:
    agent = Agent(FunctionModel(lambda messages, tools: "hello"), name="greeter")
    async with (
        served_here(lambda url: a2a_app(agent, url=url)) as url,
        httpx.AsyncClient(base_url=url, timeout=20) as http,
    ):
        yield Caller(http)


quick = settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("field", FIELDS, ids=".".join)
async def test_any_value_in_any_field_of_our_metadata_is_answered_clearly(
    caller: Caller, field: tuple[str, ...]
) -> None:
    loop = asyncio.get_running_loop()
    found: list[str] = []

    @quick
    @given(anything)
    def each(value: Any) -> None:
        sent = sane()
        place = sent
        for key in field[:-1]:
            place = place[key]
        place[field[-1]] = value
        coming = caller.is_answered_clearly(rpc(message({URI: sent})))
        found.append(asyncio.run_coroutine_threadsafe(coming, loop).result(20))

    await asyncio.to_thread(each)
    assert "-32602" in found, "some of them are wrong, and are said to be"


async def test_any_metadata_and_any_parameters_are_answered_clearly(caller: Caller) -> None:
    loop = asyncio.get_running_loop()

    def answered(body: bytes) -> None:
        asyncio.run_coroutine_threadsafe(caller.is_answered_clearly(body), loop).result(20)

    @quick
    @given(anything)
    def each(value: Any) -> None:
        for metadata in (value, {URI: value}, {URI: {**sane(), "agent": value, "task": value, "else": value}}):
            answered(rpc(message(metadata)))
        for fields in ({"contextId": value}, {"taskId": value}, {"parts": value}, {"parts": [{"data": value}]}):
            answered(rpc(message({URI: sane()}, **fields)))
        answered(rpc(message({URI: sane()}, metadata={"x": value}, extensions=value)))
        answered(rpc(value))
        for method in ("GetTask", "CancelTask", "ListTasks"):
            answered(rpc(value, method) if not isinstance(value, dict) else rpc({"id": value}, method))

    await asyncio.to_thread(each)


async def test_a_sane_call_is_answered_and_its_fields_are_named_where_they_are_not(caller: Caller) -> None:
    assert await caller.is_answered_clearly(rpc(message({URI: sane()}))) == "TASK_STATE_COMPLETED"
    wrong = await caller.says(rpc(message({URI: {**sane(), "depth": "three", "deadline": -1}})))
    assert "depth: " in wrong["error"]["message"]
    assert "deadline: " in wrong["error"]["message"]
    unknown = await caller.says(rpc(message({URI: {**sane(), "limits": {"max_delegations": 0}}})))
    assert unknown["error"]["code"] == -32602
    assert "there is no field 'limits'" in unknown["error"]["message"]
    elsewhere = await caller.says(rpc(message({URI: sane()}, contextId="another-tree")))
    assert "context_id must be that of the tree" in elsewhere["error"]["message"]


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"\xff", -32700),
        (b"", -32700),
        (b"[" * 100_000, -32602),
        (b'{"a":' * 100_000, -32602),
        (b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "GetTask", "params": {"id": "x"}}', -32700),
        (rpc(message({URI: float("nan")})), -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"metadata": {"x": 1e999}}}', -32700),
        (rpc(message({"x": json.loads("[" * 90 + "]" * 90)})), -32602),
        (rpc(message({URI: {**sane(), "else": "x" * 300_000}})), -32602),
        (rpc(message({URI: sane()}, parts=[{"text": "x" * 300_000}])), -32602),
        (rpc(message({}, parts=[{"text": "x" * 300_000}])), -32602),
    ],
    ids=range(11),
)
async def test_bodies_that_break_things_are_answered_clearly(caller: Caller, body: bytes, code: int) -> None:
    answer = await caller.says(body, **{HEADER: URI})
    assert answer["error"]["code"] == code, answer


MALFORMED = {
    "no object": b"5",
    "a list": b"[]",
    "a list of requests": b"[" + rpc(message({})) + b"]",
    "nothing in it": b"{}",
    "another version": b'{"jsonrpc": "1.0", "id": 1, "method": "SendMessage", "params": {}}',
    "an id that is none": b'{"jsonrpc": "2.0", "id": [1], "method": "SendMessage", "params": {}}',
    "a method that is none": b'{"jsonrpc": "2.0", "id": 1, "method": 5, "params": {}}',
    "no such method": rpc({}, "Send\nMessage" + "x" * 5000),
    "parameters that are none": rpc("x"),
    "a message that is none": rpc({"message": "x" * 5000}),
    "parts that are none": rpc(message({}, parts=5)),
    "a role that is none": rpc(message({}, role=[])),
    "metadata that is none": rpc(message("\n".join("xxxxx"))),
    "our metadata, wrong": rpc(message({URI: {**sane(), "depth": "deep" * 5000}})),
    "a task that is none": rpc({"id": {}}, "GetTask"),
    "a page that is none": rpc({"pageToken": "\n?", "pageSize": -5}, "ListTasks"),
    "no JSON": b"{",
}


@pytest.mark.parametrize("body", MALFORMED.values(), ids=MALFORMED)
async def test_what_is_malformed_is_a_line_in_the_log_at_most(
    caller: Caller, caplog: pytest.LogCaptureFixture, body: bytes
) -> None:
    caplog.set_level("INFO", "a2a")
    caplog.set_level("INFO", "symfonic")
    assert "error" in await caller.says(body)
    written = [each for each in caplog.records if not each.name.startswith("http")]
    assert len(written) <= 1, caplog.text
    assert len(caplog.text) < 2000
    assert not any(each.exc_info or "\n" in each.getMessage() for each in written)


@pytest.mark.parametrize("kind", [None, "text/plain", "application/x-www-form-urlencoded", "application/jsonish"])
async def test_what_a_page_in_a_browser_can_send_unasked_is_refused(caller: Caller, kind: str | None) -> None:
    request = caller.http.build_request("POST", "/", content=rpc(message({})))
    if kind is not None:
        request.headers["content-type"] = kind
    response = await caller.http.send(request)
    assert response.status_code == 415


async def test_a_run_id_that_was_used_for_another_task_is_refused(caller: Caller) -> None:
    sent = sane()
    assert await caller.is_answered_clearly(rpc(message({URI: sent}))) == "TASK_STATE_COMPLETED"
    other = await caller.says(rpc(message({URI: sent}, parts=[{"text": "something else"}])))
    assert other["error"]["message"] == "the run_id is that of a run with another task"


async def test_a_body_that_is_too_large_or_does_not_come_is_not_waited_for(
    caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = {"content-type": "application/json"}
    large = await caller.http.post("/", content=b" " * (MOST_BODY + 1), headers=headers)
    assert (large.status_code, large.text) == (413, f"a request may have {MOST_BODY} bytes")
    monkeypatch.setattr(gate, "BODY_SECONDS", 0.2)

    async def slowly() -> AsyncIterator[bytes]:
        yield b"{"
        await asyncio.sleep(1)

    late = await caller.http.post("/", content=slowly(), headers=headers)
    assert late.status_code == 408
