"""A child that answers piece by piece is drained by one rule, and closed on every way out."""

import asyncio
from typing import Any

import pytest

from symfonic import Agent, AgentRef, DelegationOutcome, SubAgent
from symfonic.capabilities.delegation import DelegationCapability, PrebuiltChild
from symfonic.testing import ScriptedModel, tool_call


class Response:
    def __init__(self, text: str) -> None:
        self.final_response = text


class Asynchronous:
    def __init__(self, *pieces: Any) -> None:
        self.pieces, self.closed = pieces, 0

    async def run(self, query: str) -> Any:
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed += 1


class Synchronous(Asynchronous):
    def run(self, query: str) -> Any:  # type: ignore[override]
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed += 1


class AgentShaped(Asynchronous):
    async def run(self, prompt: str) -> Any:
        try:
            for piece in self.pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
        finally:
            self.closed += 1


KINDS = [Asynchronous, Synchronous, AgentShaped]


def tools(child: Any) -> Any:
    return DelegationCapability.declare([PrebuiltChild("child", child, "Answers.")], max_depth=2).tools


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("pieces", "answer"),
    [
        (("Hel", "lo ", "world"), "Hello world"),
        (("thinking", Response("the answer"), "afterthought"), "the answer"),
        ((Response("first"), Response("last")), "last"),
        (({"step": 1}, {"step": 2}), '{"step": 2}'),
    ],
)
async def test_text_is_joined_a_response_wins_and_of_other_values_the_last_is_the_answer(
    kind: Any, pieces: tuple[Any, ...], answer: str
) -> None:
    child = kind(*pieces)
    record = await tools(child).delegate("child", "go")
    assert (record.outcome, record.message) == (DelegationOutcome.DELIVERED, answer)
    assert child.closed == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pieces", [(), ("", "  ")])
async def test_no_pieces_and_blank_ones_are_no_final_response(kind: Any, pieces: tuple[str, ...]) -> None:
    child = kind(*pieces)
    record = await tools(child).delegate("child", "go")
    assert record.message == "Sub-agent 'child' failed: it returned no final response"
    assert child.closed == 1


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_after_some_pieces_is_the_childs_failure_and_closes_it(kind: Any) -> None:
    child = kind("Hel", ValueError("lost the thread"))
    record = await tools(child).delegate("child", "go")
    assert (record.outcome, record.message) == (
        DelegationOutcome.CHILD_FAILED,
        "Sub-agent 'child' failed: lost the thread",
    )
    assert child.closed == 1


async def test_a_cancelled_generator_is_closed_before_the_cancellation_goes_on() -> None:
    started, closed = asyncio.Event(), asyncio.Event()

    class Hangs:
        async def run(self, query: str) -> Any:
            try:
                yield "piece"
                started.set()
                await asyncio.Event().wait()
                yield "never"
            finally:
                closed.set()

    task = asyncio.ensure_future(tools(Hangs()).delegate("child", "go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed.is_set()


async def test_a_generator_is_a_child_like_any_other_also_behind_a_reference() -> None:
    lead = Agent(
        ScriptedModel([tool_call("run_agent", name=name, task="go") for name in ("direct", "named")], "done"),
        sub_agents=[
            SubAgent("direct", Asynchronous("a", "b"), "Answers."),
            SubAgent("named", AgentRef(lambda: Asynchronous("c", "d")), "Answers."),
        ],
    )
    result = await lead.run("go")
    assert [record.message for record in result.delegations] == ["ab", "cd"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("pieces", "answer"),
    [
        (("Hello", None), "Hello"),
        ((None, {"step": 1}, None), '{"step": 1}'),
        ((Response("the answer"), Response("")), "the answer"),
    ],
)
async def test_a_piece_that_says_nothing_does_not_take_the_answer_away(
    kind: Any, pieces: tuple[Any, ...], answer: str
) -> None:
    assert (await tools(kind(*pieces)).delegate("child", "go")).message == answer


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("piece", [None, {}, 0, False])
async def test_an_empty_piece_alone_is_no_final_response_by_the_rule_of_every_child(kind: Any, piece: Any) -> None:
    record = await tools(kind(piece)).delegate("child", "go")
    assert record.message == "Sub-agent 'child' failed: it returned no final response"


async def test_a_generator_that_never_waits_lets_others_have_their_turn_and_can_be_ended() -> None:
    class Endless:
        async def run(self, query: str) -> Any:
            while True:
                yield "piece"

    task = asyncio.ensure_future(tools(Endless()).delegate("child", "go"))
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_generator_that_ignores_its_end_does_not_swallow_the_cancellation() -> None:
    class Ignores:
        def run(self, query: str) -> Any:
            try:
                while True:
                    yield "piece"
            except GeneratorExit:
                yield "one more"

    task = asyncio.ensure_future(tools(Ignores()).delegate("child", "go"))
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
