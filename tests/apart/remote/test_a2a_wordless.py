"""Far sides whose answer ends without saying how the call stands."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from a2a_far_side import Far
from a2a_kit import Worker, served_here, until

from symfonic.kernel.concurrency.tasks import started
from symfonic.remote.a2a import a2a_app, a2a_child, exchange
from symfonic.remote.a2a.exchange import MOST_LOST
from symfonic.remote.a2a.extension import URI
from symfonic.remote.answer import RemoteError

WORKING = {"status": {"state": "TASK_STATE_WORKING"}}
NAMED = {"id": "t", "contextId": "c"}
DONE = {"status": {"state": "TASK_STATE_COMPLETED"}, "artifacts": [{"artifactId": "a", "parts": [{"text": "done"}]}]}

WORDLESS: dict[str, Any] = {
    "an empty stream": b"",
    "heartbeats alone": b": ping\n\n" * 3,
    "an event of nothing": {},
    "an event of a kind that nobody knows": {"rumour": {"taskId": "t"}},
    "a status of no task": {"statusUpdate": WORKING},
    "an artifact of no task": {"artifactUpdate": {"artifact": {"artifactId": "a", "parts": [{"text": "half"}]}}},
    "a task without an id": {"task": WORKING},
}


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "FIRST_PAUSE", 0.01)


async def ask(far: Far, told: str = "") -> str:
    """What it answers, or the error that has ``told`` in it."""
    async with served_here(far.app) as url, a2a_child(url, timeout=20) as child:
        if not told:
            return (await child.run("work")).final_response
        with pytest.raises(RemoteError, match=told) as raised:
            await child.run("work")
        return str(raised.value)


@pytest.mark.parametrize("sent", WORDLESS.values(), ids=WORDLESS)
async def test_a_stranger_that_says_nothing_is_not_sent_the_message_twice(sent: Any) -> None:
    far = Far(sent)
    await ask(far, "ended its answer without saying how the call stands")
    assert len(far.messages) == 1


@pytest.mark.parametrize("sent", [{}, {"task": {}}, {"task": WORKING}], ids=["nothing", "no task", "no id"])
async def test_a_stranger_that_does_not_stream_and_says_nothing_is_not_sent_the_message_twice(sent: Any) -> None:
    far = Far(sent, streaming=False)
    await ask(far, "ended its answer without saying|neither task nor message")
    assert len(far.messages) == 1


@pytest.mark.parametrize("sent", WORDLESS.values(), ids=WORDLESS)
async def test_one_of_ours_that_says_nothing_is_sent_the_same_call_as_often_as_a_connection_may_be_lost(
    sent: Any,
) -> None:
    far = Far(sent, ours=True)
    await ask(far, "ended its answer without saying how the call stands")
    assert len(far.messages) == 1 + MOST_LOST
    assert len({each["metadata"][URI]["lineage"]["run_id"] for each in far.messages}) == 1
    assert len({each["message"]["messageId"] for each in far.messages}) == 1


@pytest.mark.parametrize("ours", [False, True], ids=["a stranger", "ours"])
@pytest.mark.parametrize("then", [{}, WORKING, {**NAMED, **WORKING}], ids=["nothing", "no id", "working"])
async def test_a_task_that_has_been_named_is_asked_after_and_not_sent_again(ours: bool, then: Any) -> None:
    submitted = {**NAMED, "status": {"state": "TASK_STATE_SUBMITTED"}}
    far = Far({"task": submitted}, then, then, {**NAMED, **DONE}, ours=ours)
    assert await ask(far) == "done"
    assert len(far.messages) == 1


class Muted:
    """An application, the first streams of which are ended in order before anything of them has come through."""

    def __init__(self, app: Any, times: int) -> None:
        self._app = app
        self.left = times

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST" or not self.left:
            await self._app(scope, receive, send)
            return
        said = asyncio.Event()

        async def unheard(message: Any) -> None:
            if message.get("body"):
                said.set()

        work = started(self._app(scope, receive, unheard))
        await asyncio.wait({work, waiting := started(said.wait())}, return_when=asyncio.FIRST_COMPLETED)
        for task in (work, waiting):
            task.cancel()
        await asyncio.wait({work, waiting})
        self.left -= 1
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
        await send({"type": "http.response.body", "body": b""})


async def test_a_call_of_ours_that_was_answered_with_nothing_attaches_to_its_run(tmp_path: Path) -> None:
    worker = Worker(tmp_path / "journal")
    muted: list[Muted] = []

    def made(url: str) -> Muted:
        muted.append(Muted(a2a_app(worker.agent, url=url), 3))
        return muted[0]

    async with served_here(made) as url, a2a_child(url, timeout=20) as child:
        run = started(child.run('{"tool": "count"}'))
        await until(lambda: muted[0].left == 0)
        (tmp_path / "journal.go").touch()
        assert (await run).final_response == "counted"
    assert len((tmp_path / "journal").read_text().splitlines()) == 1
