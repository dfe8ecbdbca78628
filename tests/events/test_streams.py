"""``agent.stream``: events as they happen, the result afterwards, and nothing left when it is over."""

import asyncio
import gc
import logging
from typing import Any

import pytest
from events_kit import Gate, Watcher, asks, boss, chain, check_pairs, child, hanging, kinds, leaf

from symfonic import Agent, ConfigurationError, Limits, SymfonicError
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.errors import ModelError
from symfonic.kernel.contracts.events import DelegationStarted, ModelCalled, RunFinished, RunStarted
from symfonic.kernel.contracts.run_identity import current_run_identity
from symfonic.testing import FunctionModel, ScriptedModel, tool_call

pytestmark = pytest.mark.usefixtures("no_task_left")


def nowhere() -> bool:
    """Whether this code runs outside every run."""
    return active_run() is None and current_run_identity() is None


async def read_through(stream: Any, into: list[Any]) -> None:
    async with stream as events:
        await collect(events, into)


async def collect(events: Any, into: list[Any]) -> None:
    async for event in events:
        into.append(event)


async def test_a_stream_yields_what_an_observer_is_told_and_then_has_the_result() -> None:
    seen = Watcher()
    async with chain("top", "middle", "bottom").stream("go", observers=(seen,)) as events:
        got = [event async for event in events]
        assert events.result.text == "done"
    assert got == seen.events
    assert events.result.tally.total == 2
    assert events.result.usage == got[-1].usage
    check_pairs(got)
    assert nowhere()


async def test_events_come_while_the_run_goes_on_the_childrens_too() -> None:
    gate = Gate()
    async with boss(child("leaf", Agent(gate))).stream("go") as events:
        async for event in events:
            if isinstance(event, ModelCalled) and event.where.depth == 1:
                break
        assert not gate.ended
        gate.open.set()
        rest = [event async for event in events]
    assert kinds(rest)[-1] == "RunFinished"
    assert gate.ended == "answered"


async def test_breaking_out_early_cancels_the_run_and_waits_for_it() -> None:
    gate = Gate()
    async with boss(child("leaf", Agent(gate))).stream("go") as events:
        async for event in events:
            if isinstance(event, ModelCalled) and event.where.depth == 1:
                break
        await gate.reached.wait()
    assert gate.ended == "cancelled"
    assert nowhere()
    with pytest.raises(SymfonicError, match="no result: it was ended when its events were left"):
        _ = events.result


async def test_an_exception_in_the_block_ends_the_run_and_goes_on() -> None:
    gate = Gate()

    async def leave() -> None:
        async with Agent(gate).stream("go"):
            await gate.reached.wait()
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await leave()
    assert gate.ended == "cancelled"
    assert nowhere()


async def test_a_block_that_reads_nothing_ends_the_run() -> None:
    async with Agent(hanging()).stream("go"):
        pass
    assert nowhere()


async def test_cancelling_the_reader_ends_the_run_and_cancels_the_reader() -> None:
    gate = Gate()

    task = asyncio.ensure_future(read_through(Agent(gate).stream("go"), []))
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.ended == "cancelled"


async def test_what_the_run_raises_is_raised_where_its_events_end() -> None:
    def raising(messages: Any, tools: Any) -> str:
        raise ValueError("no")

    got: list[Any] = []
    stream = Agent(FunctionModel(raising)).stream("go")
    with pytest.raises(ModelError, match="the model failed: ValueError: no"):
        await read_through(stream, got)
    assert kinds(got)[-1] == "RunFinished"
    with pytest.raises(ModelError):
        _ = stream.result


async def test_an_error_that_nobody_reads_is_logged_not_lost(caplog: pytest.LogCaptureFixture) -> None:
    failed = asyncio.Event()

    def raising(messages: Any, tools: Any) -> str:
        failed.set()
        raise ValueError("unread")

    caplog.set_level(logging.WARNING)
    async with Agent(FunctionModel(raising)).stream("go") as events:
        async for event in events:
            if isinstance(event, RunFinished):
                break
        await asyncio.sleep(0)
    del events
    gc.collect()
    await asyncio.sleep(0)
    assert "unread" in caplog.text
    assert "never retrieved" not in caplog.text


async def test_a_run_that_cancels_itself_cancels_its_reader() -> None:
    def raising(messages: Any, tools: Any) -> str:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await read_through(Agent(FunctionModel(raising)).stream("go"), [])


async def test_arguments_of_run_are_arguments_of_stream() -> None:
    agent = boss(child("leaf", leaf()))
    async with agent.stream("go", max_depth=0, limits=Limits(max_tokens=9), scope="s") as events:
        assert "DelegationRefused" in kinds([event async for event in events])
    assert events.result.delegations[0].outcome == "refused_depth"
    with pytest.raises((ConfigurationError, TypeError), match="colour"):
        await read_through(agent.stream("go", colour="red"), [])


async def test_a_stream_inside_a_run_is_part_of_its_tree() -> None:
    inner = boss(child("leaf", leaf()), name="inner")
    places: list[Any] = []

    async def look() -> str:
        before = active_run()
        async with inner.stream("look") as events:
            async for event in events:
                places.append(event.where)
                assert active_run() is before
        return events.result.text

    seen = Watcher()
    result = await Agent(ScriptedModel(tool_call("look"), "done"), tools=[look]).run("go", observers=(seen,))
    check_pairs(seen.events)
    assert {place.root_run_id for place in places} == {result.run_id}
    assert {place.depth for place in places} == {1, 2}
    assert (places[0].parent_run_id, places[0].tool_call_id) == (result.run_id, "call_1_1")
    assert result.usage.model_calls == 5


async def test_a_stream_left_inside_a_run_leaves_the_run_alone() -> None:
    gate = Gate()
    inner = Agent(gate)

    async def look() -> str:
        here = current_run_identity()
        async with inner.stream("look"):
            await gate.reached.wait()
        assert current_run_identity() is here
        return "left"

    result = await Agent(ScriptedModel(tool_call("look"), "done"), tools=[look]).run("go")
    assert result.text == "done"
    assert [message.text for message in result.messages if message.role == "tool"] == ["left"]
    assert gate.ended == "cancelled"
    assert result.usage.model_calls == 3, "the call that was cancelled counts"


async def test_cancelling_the_outer_run_ends_the_stream_inside_it() -> None:
    gate = Gate()
    inner = Agent(gate)

    async def look() -> str:
        async with inner.stream("look") as events:
            async for _ in events:
                pass
        return "unreachable"

    task = asyncio.ensure_future(Agent(ScriptedModel(tool_call("look"), "done"), tools=[look]).run("go"))
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert gate.ended == "cancelled"


async def reading(agent: Agent) -> Any:
    """A generator over a stream, as a web handler has one."""
    async with agent.stream("go") as events:
        async for event in events:
            yield event


async def test_a_generator_over_a_stream_ends_the_run_when_it_is_closed() -> None:
    gate = Gate()
    generator = reading(Agent(gate))
    assert isinstance(await anext(generator), RunStarted)
    await gate.reached.wait()
    await generator.aclose()
    assert gate.ended == "cancelled"
    assert nowhere()


async def test_a_generator_over_a_stream_ends_the_run_when_it_is_collected() -> None:
    gate = Gate()
    generator = reading(Agent(gate))
    await anext(generator)
    await gate.reached.wait()
    del generator
    gc.collect()
    for _ in range(100):
        if gate.ended:
            break
        await asyncio.sleep(0)
    assert gate.ended == "cancelled"
    assert nowhere()
    await asyncio.sleep(0)


async def test_a_generator_over_a_stream_that_is_drained_ends_as_it_should() -> None:
    got = [event async for event in reading(chain("top", "bottom"))]
    check_pairs(got)


async def test_two_streams_at_once_do_not_mix_and_one_may_be_left() -> None:
    gate = Gate()
    agent = boss(child("leaf", leaf()))
    async with agent.stream("1") as first, Agent(gate).stream("2") as left, agent.stream("3") as third:
        got: list[list[Any]] = [[], []]
        async with asyncio.TaskGroup() as group:
            group.create_task(collect(first, got[0]))
            group.create_task(collect(third, got[1]))
        assert isinstance(await anext(left), RunStarted)
    for events, stream in zip(got, (first, third), strict=True):
        check_pairs(events)
        assert {event.where.root_run_id for event in events} == {stream.result.run_id}
    assert [events[0].task for events in got] == ["1", "3"]
    assert not gate.open.is_set()


async def test_a_reader_that_is_slow_gets_every_event() -> None:
    got = []
    async with chain("top", "middle", "bottom").stream("go") as events:
        async for event in events:
            await asyncio.sleep(0)
            got.append(event)
    check_pairs(got)
    assert sum(isinstance(event, DelegationStarted) for event in got) == 2


async def test_events_of_a_thread_with_a_loop_of_its_own_reach_the_reader() -> None:
    inner = leaf(name="inner")

    def look() -> str:
        return asyncio.run(inner.run("look")).text

    async with Agent(ScriptedModel(tool_call("look"), "done"), tools=[look]).stream("go") as events:
        got = [event async for event in events]
    check_pairs(got)
    assert [event.where.agent for event in got if isinstance(event, RunStarted)] == ["agent", "inner"]


async def test_misuse_is_told_in_words() -> None:
    stream = leaf().stream("go")
    with pytest.raises(SymfonicError, match=r"open the stream first: async with agent\.stream"):
        await anext(stream)
    with pytest.raises(SymfonicError, match="not ended yet"):
        _ = stream.result
    async with stream as events:
        with pytest.raises(SymfonicError, match="not ended yet: read its events to the end first"):
            _ = events.result
        assert len([event async for event in events]) == 4
        assert [event async for event in events] == [], "at the end it stays at the end"
    with pytest.raises(SymfonicError, match="closed: read its events inside the async with block"):
        await anext(events)
    with pytest.raises(SymfonicError, match="is of one run: open another"):
        async with stream:
            pass


async def test_a_second_reader_at_the_same_time_is_refused() -> None:
    gate = Gate()
    async with Agent(gate).stream("go") as events:
        await anext(events)
        await anext(events)
        first = asyncio.ensure_future(anext(events))
        await gate.reached.wait()
        await asyncio.sleep(0)
        with pytest.raises(SymfonicError, match="being read already"):
            await anext(events)
        gate.open.set()
        assert kinds([await first]) == ["ModelAnswered"]
        assert kinds([event async for event in events]) == ["RunFinished"]


async def test_a_reader_that_gave_up_waiting_loses_nothing() -> None:
    gate = Gate()
    async with Agent(gate).stream("go") as events:
        await anext(events)
        await anext(events)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(events), 0.01)
        gate.open.set()
        assert kinds([event async for event in events]) == ["ModelAnswered", "RunFinished"]


async def test_a_stream_of_an_agent_without_children_has_its_four_events() -> None:
    async with leaf().stream("go") as events:
        assert kinds([event async for event in events]) == ["RunStarted", "ModelCalled", "ModelAnswered", "RunFinished"]
    assert asks("x").name == "run_agent"
