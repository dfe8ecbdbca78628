"""Turns with agents that do one thing at a time: who waits, who is refused, and when a turn ends."""

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable
from contextvars import Context
from typing import Any

import pytest
import turns_kit

from symfonic import Limits
from symfonic.adapters.turns import turn
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import SymfonicError


class Calls:
    """A child that calls a function in its turn, in a thread; the turn ends with that, or with who waits for it."""

    def __init__(self, function: Callable[[], str], ends_with_thread: bool) -> None:
        self.function, self.ends_with_thread = function, ends_with_thread

    async def run(self, query: str) -> ChildResponse:
        async with turn("child", [self]) as mine:
            await (mine.in_thread if self.ends_with_thread else asyncio.to_thread)(self.function)
        return ChildResponse("done", None)


def in_thread(function: Callable[[], str]) -> Calls:
    return Calls(function, ends_with_thread=True)


def in_task(function: Callable[[], str]) -> Calls:
    return Calls(function, ends_with_thread=False)


BOTH_WAYS = pytest.mark.parametrize("calling", [in_thread, in_task])


@BOTH_WAYS
async def test_one_after_the_other_has_its_turn(calling: Any):
    work = turns_kit.Work()
    child = calling(work.tool)
    await turns_kit.called_twice_at_once_it_takes_one_after_the_other({"ann": child, "bob": child}, work)


@BOTH_WAYS
async def test_those_who_wait_for_a_turn_hold_no_place(calling: Any):
    await turns_kit.those_who_wait_for_a_turn_hold_no_place(calling)


@BOTH_WAYS
async def test_who_has_its_turn_has_its_place_again(calling: Any):
    work, one_place = turns_kit.Work(), Limits(max_concurrency=1)
    two = {"ann": calling(work.tool), "bob": calling(work.tool)}
    await turns_kit.called_twice_at_once_it_takes_one_after_the_other(two, work, one_place)


@BOTH_WAYS
async def test_from_below_itself_it_is_refused(calling: Any):
    assert "does one at a time" in await turns_kit.called_from_below_itself_it_is_refused(calling)


async def test_two_of_different_kinds_that_call_each_other_do_not_wait_for_ever():
    await turns_kit.two_that_call_each_other_do_not_wait_for_ever(in_thread, in_task)


async def test_of_three_in_a_circle_one_is_refused():
    agents, all_there = [object(), object(), object()], asyncio.Barrier(3)

    async def first_one_then_the_other(one: Any, other: Any) -> None:
        async with turn("one", [one]):
            await all_there.wait()
            async with turn("other", [other], "is busy with it"):
                pass

    async with asyncio.timeout(20):
        ended = await asyncio.gather(
            *[first_one_then_the_other(agents[number], agents[number - 1]) for number in range(3)],
            return_exceptions=True,
        )
    [error] = [each for each in ended if each is not None]
    assert isinstance(error, SymfonicError)
    assert str(error) == f"'other' {turns_kit.REFUSED}, and is busy with it"


@pytest.mark.parametrize("busy", [0, 1])
async def test_one_of_several_agents_is_waited_for_only_if_the_others_can_be_had(busy: int):
    agents, there, leave = sorted([object(), object()], key=id), asyncio.Event(), asyncio.Event()

    async def work() -> None:
        async with turn("busy", [agents[busy]]):
            there.set()
            await leave.wait()

    elsewhere = asyncio.create_task(work())
    await there.wait()
    async with asyncio.timeout(20), turn("this", [agents[1 - busy]]):
        with pytest.raises(SymfonicError, match="'both' is in the middle"):
            await turn("both", agents).__aenter__()
    leave.set()
    await elsewhere
    async with turn("both", [*agents, *agents]):  # nothing of what was refused is left
        pass


async def test_who_has_one_of_several_agents_and_waits_for_another_is_not_waited_for_by_that_one():
    first, then = sorted([object(), object()], key=id)

    async def both() -> None:
        async with turn("both", [first, then]):
            pass

    async with asyncio.timeout(20), asyncio.TaskGroup() as group, turn("that one", [then]):
        group.create_task(both(), context=Context())
        await asyncio.sleep(0)  # it has the first, and waits
        with pytest.raises(SymfonicError, match="'this' is in the middle"):
            await turn("this", [first]).__aenter__()


async def test_two_that_want_the_same_agents_named_in_another_order_have_them_one_after_the_other():
    one, other = object(), object()

    async def both(*agents: Any) -> None:
        async with turn("both", agents):
            await asyncio.sleep(0)

    for first in (one, other):
        async with asyncio.timeout(20), asyncio.TaskGroup() as group, turn("first", [first]):
            for agents in ((one, other), (other, one)):
                group.create_task(both(*agents), context=Context())
            await asyncio.sleep(0)  # they wait from now on


async def test_a_turn_in_a_thread_ends_with_it_and_not_with_who_waits_for_it():
    agent, began, leave = object(), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        assert leave.wait(20)

    async def first() -> None:
        async with turn("first", [agent]) as mine:
            await mine.in_thread(work)

    task = asyncio.create_task(first())
    assert await asyncio.to_thread(began.wait, 20)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05), turn("second", [agent]):
            pass
    leave.set()
    async with asyncio.timeout(20), turn("third", [agent]):
        pass


async def test_whatever_ends_a_turn_or_the_wait_for_one_the_next_one_has_it():
    agent = object()

    async def waits() -> None:
        async with turn("waits", [agent]):
            pytest.fail("it never had its turn")

    async def fails() -> None:
        async with turn("first", [agent]):
            cancelled, closed = asyncio.create_task(waits(), context=Context()), waits()
            await asyncio.sleep(0)  # it waits from now on
            Context().run(closed.send, None)
            closed.close()
            cancelled.cancel()
            with pytest.raises(asyncio.CancelledError):
                await cancelled
            raise ValueError("down")

    with pytest.raises(ValueError, match="down"):
        await fails()
    async with asyncio.timeout(20), turn("next", [agent]) as mine:
        with pytest.raises(ValueError, match="up"):
            await mine.in_thread(lambda: (_ for _ in ()).throw(ValueError("up")))
        async with turn("last", [agent]):  # the one around it is over
            pass


async def test_an_agent_is_not_kept_by_its_turns():
    class Theirs:
        __eq__ = None  # they need not be hashed, nor compared

    agent = Theirs()
    async with turn("child", [agent]) as mine:
        await mine.in_thread(lambda: None)
    gone = weakref.ref(agent)
    del agent
    gc.collect()
    assert gone() is None
