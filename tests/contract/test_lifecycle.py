"""Closing the children that the framework built: last first, all of them, in bounded time, once."""

import asyncio
import inspect
from typing import Any

import pytest
from contract_fakes import others_pending

from symfonic.capabilities.delegation import ChildLifecycle


class Owned:
    """Writes down when it is closed, and then does what it is told."""

    def __init__(self, name: str, closed: list[str], does: Any = None) -> None:
        self.name, self._closed, self._does = name, closed, does

    async def aclose(self) -> None:
        self._closed.append(self.name)
        if isinstance(self._does, BaseException):
            raise self._does
        if self._does is not None:
            await self._does()


async def stuck() -> None:
    await asyncio.Event().wait()


async def stubborn() -> None:
    """Swallows one cancellation."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        await asyncio.Event().wait()


async def test_children_are_closed_in_reverse_order() -> None:
    closed: list[str] = []
    await ChildLifecycle([Owned(name, closed) for name in "abc"]).aclose()

    assert closed == ["c", "b", "a"]


async def test_a_second_close_does_nothing() -> None:
    closed: list[str] = []
    lifecycle = ChildLifecycle([Owned("a", closed)])
    await lifecycle.aclose()
    await lifecycle.aclose()

    assert closed == ["a"]


async def test_every_child_is_tried_and_the_errors_are_raised_together() -> None:
    closed: list[str] = []
    first, third = ValueError("first"), KeyError("third")
    lifecycle = ChildLifecycle([Owned("a", closed, first), Owned("b", closed), Owned("c", closed, third)])

    with pytest.raises(ExceptionGroup) as caught:
        await lifecycle.aclose()
    assert closed == ["c", "b", "a"]
    assert caught.value.exceptions == (third, first)
    await lifecycle.aclose()
    assert closed == ["c", "b", "a"]


async def test_a_single_error_comes_in_a_group_too() -> None:
    with pytest.raises(ExceptionGroup):
        await ChildLifecycle([Owned("a", [], ValueError())]).aclose()


@pytest.mark.parametrize("does", [stuck, stubborn])
async def test_a_close_that_overruns_is_named_and_does_not_keep_the_others(does: Any) -> None:
    closed: list[str] = []
    lifecycle = ChildLifecycle([Owned("a", closed), Owned("slow", closed, does)], close_timeout=0.01)

    with pytest.raises(ExceptionGroup) as caught:
        await asyncio.wait_for(lifecycle.aclose(), 2)
    assert closed == ["slow", "a"]
    ((error,)) = caught.value.exceptions
    assert isinstance(error, TimeoutError)
    assert "'slow'" in str(error)
    for task in asyncio.all_tasks() - {asyncio.current_task()}:  # the stubborn one
        task.cancel()
    assert await others_pending() == []


async def test_closing_is_bounded_by_default() -> None:
    assert 0 < inspect.signature(ChildLifecycle).parameters["close_timeout"].default <= 60


async def test_a_child_that_cancels_its_own_close_is_an_error_and_not_a_cancellation() -> None:
    closed: list[str] = []
    lifecycle = ChildLifecycle([Owned("a", closed), Owned("b", closed, asyncio.CancelledError())])

    with pytest.raises(ExceptionGroup):
        await lifecycle.aclose()
    assert closed == ["b", "a"]


async def test_a_cancelled_close_still_tries_the_others_and_is_cancelled() -> None:
    closed: list[str] = []
    closing = asyncio.Event()

    async def wait() -> None:
        closing.set()
        await asyncio.Event().wait()

    lifecycle = ChildLifecycle([Owned("a", closed), Owned("b", closed, wait)])
    task = asyncio.create_task(lifecycle.aclose())
    await closing.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert closed == ["b", "a"]
    assert await others_pending() == []


async def test_owning_nothing_is_normal() -> None:
    await ChildLifecycle(()).aclose()


async def test_it_closes_at_the_end_of_its_block_also_when_the_block_raises() -> None:
    closed: list[str] = []

    async def block(error: Exception | None) -> None:
        async with ChildLifecycle([Owned("a", closed)]) as lifecycle:
            assert isinstance(lifecycle, ChildLifecycle)
            assert closed == []
            if error is not None:
                raise error

    await block(None)
    assert closed == ["a"]
    closed.clear()
    with pytest.raises(ValueError, match="inside"):
        await block(ValueError("inside"))
    assert closed == ["a"]


async def test_a_child_without_a_close_is_left_and_a_synchronous_close_is_called() -> None:
    closed: list[str] = []

    class Sync:
        def close(self) -> None:
            closed.append("sync")

    await ChildLifecycle([Sync(), object()]).aclose()

    assert closed == ["sync"]


async def test_a_child_given_twice_is_closed_once() -> None:
    closed: list[str] = []
    one = Owned("a", closed)
    await ChildLifecycle([one, one]).aclose()

    assert closed == ["a"]


async def test_what_is_owned_does_not_change_with_the_list_that_was_given() -> None:
    closed: list[str] = []
    owned = [Owned("a", closed)]
    lifecycle = ChildLifecycle(owned)
    owned.append(Owned("b", closed))
    await lifecycle.aclose()

    assert closed == ["a"]
