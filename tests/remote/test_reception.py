"""One run id is one run, however often it arrives; and what cancels whom."""

import asyncio
import logging
import threading
from contextvars import ContextVar
from typing import Any

import pytest
from remote_kit import LINEAGE, SENT, Far, Seen, asks, lineage, says, told

from symfonic import Limits
from symfonic.capabilities.delegation import ChildResponse
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.errors import ChildDeclarationError, ConfigurationError
from symfonic.kernel.contracts.messages import current_tool_call
from symfonic.remote import reception as module
from symfonic.remote.envelope import Envelope
from symfonic.remote.reception import Reception

ENVELOPE = Envelope.read(SENT)


class Gate:
    """A child that is in the middle of its work until it is let go on; ``ended`` says how it ended."""

    def __init__(self, swallows: int = 0) -> None:
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()
        self.swallows = swallows
        self.ended: list[str] = []
        self.times = 0

    async def run(self, query: str) -> ChildResponse:
        self.times += 1
        self.begun.set()
        while True:
            try:
                await self.go_on.wait()
            except asyncio.CancelledError:
                if self.swallows:
                    self.swallows -= 1
                    continue
                self.ended.append("cancelled")
                raise
            self.ended.append("done")
            return ChildResponse("through")


async def test_the_same_run_id_twice_at_once_is_one_run_with_one_answer_for_both() -> None:
    gate = Gate()
    reception = Reception({"worker": gate})
    async with asyncio.TaskGroup() as group:
        first = group.create_task(reception.answer(ENVELOPE))
        await gate.begun.wait()
        second = group.create_task(reception.answer(Envelope.read(SENT)))
        await asyncio.sleep(0)
        gate.go_on.set()

    assert first.result() == second.result()
    assert gate.times == 1


@pytest.mark.usefixtures("sides")
async def test_the_same_run_id_once_more_afterwards_has_the_first_answer() -> None:
    leaf = Seen()
    reception = Reception({"worker": leaf})

    assert await told(reception) == await told(reception, depth=0, max_depth=9)

    assert len(leaf.tasks) == 1


@pytest.mark.parametrize("other", [{"task": "other work"}, {"agent": "other"}])
@pytest.mark.parametrize("when", ["at once", "afterwards"])
async def test_the_run_id_of_another_call_is_refused_and_that_ones_answer_is_not_told(
    other: dict[str, str], when: str
) -> None:
    gate = Gate()
    reception = Reception({"worker": gate, "other": says()})
    if when == "afterwards":
        gate.go_on.set()
    async with asyncio.TaskGroup() as group:
        first = group.create_task(reception.answer(ENVELOPE))
        await (gate.begun.wait() if when == "at once" else asyncio.wait({first}))
        answer = await reception.answer(Envelope.read({**SENT, **other}))
        gate.go_on.set()

    assert first.result().text == "through"
    assert (answer.status, answer.text) == ("refused", "Delegation refused: its run id is that of another call")


async def test_the_same_run_id_from_another_event_loop_is_the_same_run() -> None:
    gate = Gate()
    reception = Reception({"worker": gate})
    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(asyncio.run(reception.answer(ENVELOPE))))
    async with asyncio.TaskGroup() as group:
        first = group.create_task(reception.answer(ENVELOPE))
        await gate.begun.wait()
        thread.start()
        gate.go_on.set()
    await asyncio.to_thread(thread.join, 10)

    assert answers == [first.result()]
    assert gate.times == 1


async def test_what_cancels_the_caller_cancels_the_run_there_and_the_answer_says_so_to_who_asks_again() -> None:
    gate = Gate()
    reception = Reception({"worker": gate})
    lead = asyncio.ensure_future(asks(("far", "go"), children={"far": Far(reception)}).run("go"))
    await gate.begun.wait()

    lead.cancel()
    with pytest.raises(asyncio.CancelledError):
        await lead

    assert gate.ended == ["cancelled"]


async def test_when_the_first_of_two_that_wait_is_cancelled_the_other_is_told_that_the_run_was() -> None:
    gate = Gate()
    reception = Reception({"worker": asks(("gate", "go"), children={"gate": gate})})
    first = asyncio.ensure_future(reception.answer(ENVELOPE))
    await gate.begun.wait()
    second = asyncio.ensure_future(reception.answer(ENVELOPE))
    await asyncio.sleep(0)

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    answer = await second
    assert (answer.status, gate.ended) == ("cancelled", ["cancelled"])
    assert answer.spent.model_calls == 1  # what it had spent by then
    assert answer.delegations == 1
    assert await reception.answer(ENVELOPE) == answer  # and it does not begin once more
    assert gate.times == 1


async def test_when_the_second_of_two_that_wait_is_cancelled_the_run_goes_on_for_the_first() -> None:
    gate = Gate()
    reception = Reception({"worker": gate})
    first = asyncio.ensure_future(reception.answer(ENVELOPE))
    await gate.begun.wait()
    second = asyncio.ensure_future(reception.answer(ENVELOPE))
    await asyncio.sleep(0)

    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await second
    gate.go_on.set()

    assert (await first).text == "through"
    assert (await reception.answer(ENVELOPE)).text == "through"


async def test_a_child_that_swallows_a_cancellation_is_cancelled_again() -> None:
    gate = Gate(swallows=2)
    reception = Reception({"worker": gate})
    first = asyncio.ensure_future(reception.answer(ENVELOPE))
    await gate.begun.wait()

    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert gate.ended == ["cancelled"]
    assert (await reception.answer(ENVELOPE)).status == "cancelled"


async def test_what_a_child_answers_that_swallowed_its_cancellation_is_told_to_who_asks_again() -> None:
    gate = Gate(swallows=1)
    reception = Reception({"worker": gate})
    first = asyncio.ensure_future(reception.answer(ENVELOPE))
    await gate.begun.wait()

    first.cancel()
    await asyncio.sleep(0)
    gate.go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await first

    assert gate.ended == ["done"]
    assert (await reception.answer(ENVELOPE)).text == "through"


class Unstoppable(BaseException):
    """What an engine ends a run with."""


async def test_what_is_no_exception_ends_the_run_and_the_answer_to_others_says_so() -> None:
    async def end(query: str) -> str:
        raise Unstoppable

    reception = Reception({"worker": Seen(end)})

    with pytest.raises(Unstoppable):
        await reception.answer(ENVELOPE)

    assert (await reception.answer(ENVELOPE)).status == "cancelled"


async def test_no_more_answers_are_kept_than_are_remembered_also_while_an_early_one_is_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "REMEMBERED", 3)
    gate, leaf = Gate(), Seen()
    reception = Reception({"worker": gate, "leaf": leaf})
    early = asyncio.ensure_future(reception.answer(ENVELOPE))
    await gate.begun.wait()

    def number(n: int) -> Envelope:
        return Envelope.read({**SENT, "agent": "leaf", "lineage": lineage(run_id=str(n))})

    for n in range(10):
        await reception.answer(number(n))
    for _ in range(10):
        await reception.answer(number(9))
    assert len(leaf.tasks) == 10
    assert len(reception._ended) == 3
    gate.go_on.set()
    assert (await early).text == "through"
    assert reception._running == {}
    assert (await reception.answer(ENVELOPE)).text == "through"
    assert gate.times == 1


theirs: ContextVar[str] = ContextVar("what_a_server_keeps", default="nothing")


async def test_what_a_server_keeps_in_the_context_is_there_and_nothing_of_a_run_of_ours() -> None:
    seen: list[Any] = []

    async def look(query: str) -> str:
        run = active_run()
        assert run is not None
        seen.append((theirs.get(), run.depth, current_tool_call.get()))
        return "looked"

    reception = Reception({"worker": Seen(look)})

    async def serve(query: str) -> str:
        theirs.set("the request")
        return (await reception.answer(ENVELOPE)).text

    await asks(("server", "go"), children={"server": Seen(serve)}).run("go")

    assert seen == [("the request", 1, None)]


async def test_observers_of_a_call_are_told_what_happens_in_it_and_below() -> None:
    seen: list[Any] = []
    reception = Reception({"worker": asks(("leaf", "go"), children={"leaf": says()})})

    await reception.answer(ENVELOPE, (seen.append,))

    runs = [each.where for each in seen if type(each).__name__ == "RunStarted"]
    assert [(each.agent, each.depth) for each in runs] == [("worker", 1), ("leaf", 2)]
    assert runs[0].run_id == "run"
    assert {each.root_run_id for each in runs} == {"root"}


async def test_a_child_without_an_answer_or_with_a_hostile_one_is_a_failure_and_nothing_escapes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Hostile:
        @property
        def final_response(self) -> str:
            raise RuntimeError("do not look at me \ud800")

    caplog.set_level(logging.WARNING)
    for what in (Hostile(), None, 3, "", object()):

        async def answer(query: str, what: Any = what) -> Any:
            return what

        class Child:
            run = staticmethod(answer)

        said = await Reception({"worker": Child()}).answer(ENVELOPE)
        assert said.status == "failed", what
        said.text_of()
    assert not caplog.records


async def test_what_cannot_be_an_agent_or_a_ceiling_is_refused_when_the_reception_is_made() -> None:
    with pytest.raises(ChildDeclarationError):
        Reception({"worker": object()})
    with pytest.raises(ChildDeclarationError):
        Reception({"a name": says(), "A-NAME": says()})
    with pytest.raises(ConfigurationError):
        Reception({"worker": says()}, max_depth=-1)
    assert Reception({"one": says(), "two": says()}).names() == ("one", "two")


@pytest.mark.parametrize("depth", [0, 1, 2, 3])
async def test_a_call_is_refused_where_it_is_deeper_than_the_lowest_ceiling(depth: int) -> None:
    reception = Reception({"worker": Seen()}, max_depth=2)
    for stated, ceiling in ((None, 2), (1, 1), (9, 2)):
        sent = {**SENT, "depth": depth, "max_depth": stated, "lineage": {**LINEAGE, "run_id": f"{depth} {stated}"}}
        answer = await reception.answer(Envelope.read(sent))
        assert answer.status == ("finished" if depth <= ceiling else "refused")
        assert depth <= ceiling or f"maximum sub-agent depth ({ceiling}) reached" in answer.text


async def test_without_any_ceiling_the_default_holds_and_what_an_agent_states_itself_holds_below_it() -> None:
    leaf = Seen()
    refused = await Reception({"worker": leaf}).answer(Envelope.read({**SENT, "depth": 3}))
    below = asks(("leaf", "go"), children={"leaf": leaf}, max_depth=1)
    answer = await Reception({"worker": below}).answer(Envelope.read({**SENT, "max_depth": 9}))

    assert refused.status == "refused"
    assert "maximum sub-agent depth (1) reached" in answer.text
    assert leaf.tasks == []


async def test_what_one_call_may_spend_is_for_each_call_anew() -> None:
    reception = Reception({"worker": says("done", 60, 40)}, limits=Limits(max_model_calls=1))

    answers = [await reception.answer(Envelope.read({**SENT, "lineage": lineage(run_id=str(n))})) for n in range(3)]

    assert [each.status for each in answers] == ["finished"] * 3
