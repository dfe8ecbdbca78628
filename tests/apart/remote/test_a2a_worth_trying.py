"""Whether the same call might end otherwise, as the record says it: not where the far side cannot be used."""

from typing import Any

import pytest
from a2a_far_side import Far
from a2a_kit import served_here
from starlette.responses import JSONResponse, RedirectResponse, Response

from symfonic import Agent, ChildPolicy, DelegationOutcome, SubAgent
from symfonic.errors import EnvelopeError
from symfonic.remote.a2a import a2a_child
from symfonic.remote.answer import RemoteError
from symfonic.testing import ScriptedModel, tool_call

DONE = {"message": {"messageId": "r", "role": "ROLE_AGENT", "parts": [{"text": "done"}]}}
ELSEWHERE = {"url": "http://127.0.0.1:1", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}


def error(code: int) -> Response:
    return JSONResponse({"jsonrpc": "2.0", "id": "1", "error": {"code": code, "message": "no"}})


def card(**fields: Any) -> Response:
    return JSONResponse({"name": "far", "version": "1", "capabilities": {}, **fields})


UNUSABLE: dict[str, Far] = {
    "401": Far(Response(status_code=401)),
    "403": Far(Response(status_code=403)),
    "404": Far(Response(status_code=404)),
    "405": Far(Response(status_code=405)),
    "a redirection": Far(RedirectResponse("http://127.0.0.1:1/")),
    "a page": Far(Response("<html>", media_type="text/html")),
    "a stream of garbage": Far(b"data: {no json\n\n"),
    "no such method": Far(error(-32601)),
    "wrong parameters": Far(error(-32602)),
    "a card that is not there": Far(DONE, card=Response(status_code=404)),
    "a card that nobody may see": Far(DONE, card=Response(status_code=401)),
    "a card that is a page": Far(DONE, card=Response("<html>")),
    "a card that is a list": Far(DONE, card=JSONResponse([1, 2])),
    "a card of nothing": Far(DONE, card=card()),
    "a card of another protocol": Far(DONE, card=card(supportedInterfaces=[{**ELSEWHERE, "protocolBinding": "GRPC"}])),
    "a card that sends callers elsewhere": Far(DONE, card=card(supportedInterfaces=[ELSEWHERE])),
}
PASSING: dict[str, Far] = {
    "429": Far(Response(status_code=429)),
    "500": Far(Response(status_code=500)),
    "503": Far(Response(status_code=503)),
    "an internal error": Far(error(-32603)),
    "a stream of nothing": Far(b""),
}


async def record_of(far: Far, task: str = "work", **policy: Any) -> Any:
    async with served_here(far.app) as url:
        child = SubAgent("far", a2a_child(url, auth="token", timeout=20), "Far.", policy=ChildPolicy(**policy))
        lead = Agent(ScriptedModel(tool_call("run_agent", name="far", task=task), "over"), sub_agents=[child])
        [record] = (await lead.run("Go.")).delegations
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert isinstance(record.trace.error, RemoteError | EnvelopeError), record.trace.error
    return record


@pytest.mark.parametrize("far", UNUSABLE.values(), ids=UNUSABLE)
async def test_what_cannot_be_used_is_not_worth_trying_again(far: Far) -> None:
    record = await record_of(far, retries=2)
    assert not record.trace.retryable, record.message
    assert len(far.messages) <= 1, "and is not"


async def test_where_there_is_no_card_it_is_said_where_it_was_looked_for() -> None:
    record = await record_of(UNUSABLE["a card that is not there"])
    assert "there is no agent's card at http://127.0.0.1:" in record.message
    assert "/.well-known/agent-card.json (404): is http://127.0.0.1:" in record.message


async def test_what_is_too_large_to_be_sent_is_not_worth_trying_again() -> None:
    far = Far(DONE)
    record = await record_of(far, "x" * 300_000)
    assert not record.trace.retryable, record.message
    assert "of at most 262144" in record.message
    assert not far.messages


@pytest.mark.parametrize("far", PASSING.values(), ids=PASSING)
async def test_what_may_pass_is_worth_trying_again(far: Far) -> None:
    record = await record_of(far)
    assert record.trace.retryable, record.message
    assert len(far.messages) == 1
