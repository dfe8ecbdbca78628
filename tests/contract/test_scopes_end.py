"""Scopes of runs and identities restore what was there before, however and wherever they are closed."""

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from contextvars import copy_context
from typing import Any, NamedTuple

import pytest
from contract_fakes import collect

from symfonic.capabilities.delegation import DelegationContext
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope


class Kind(NamedTuple):
    """One kind of scope: how it is opened, and how its current value is read."""

    open: Callable[[], AbstractContextManager[Any]]
    current: Callable[[], Any]


KINDS = {
    "run": Kind(lambda: DelegationContext().run_scope(depth=1), DelegationContext().active_run),
    "identity": Kind(lambda: run_identity_scope(RunIdentity.root()), current_run_identity),
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Kind:
    return KINDS[request.param]


def steps(kind: Kind) -> Iterator[Any]:
    """A generator that sits inside a scope."""
    with kind.open() as value:
        while True:
            yield value


async def async_steps(kind: Kind) -> AsyncIterator[Any]:
    with kind.open() as value:
        while True:
            yield value


@pytest.mark.parametrize("error", [ValueError, asyncio.CancelledError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_the_outer_value_is_restored_when_the_block_raises(kind: Kind, error: type[BaseException]) -> None:
    with kind.open() as outer:
        with pytest.raises(error), kind.open():
            raise error
        assert kind.current() is outer
    assert kind.current() is None


def test_scopes_closed_out_of_order_uncover_no_scope_that_is_over(kind: Kind) -> None:
    first, second, third = kind.open(), kind.open(), kind.open()
    one, _, three = first.__enter__(), second.__enter__(), third.__enter__()

    second.__exit__(None, None, None)
    assert kind.current() is three
    third.__exit__(None, None, None)
    assert kind.current() is one
    first.__exit__(None, None, None)
    assert kind.current() is None


def test_a_scope_closed_before_the_one_inside_it_is_not_seen_again(kind: Kind) -> None:
    outer, inner = kind.open(), kind.open()
    outer.__enter__()
    value = inner.__enter__()

    outer.__exit__(None, None, None)
    assert kind.current() is value
    inner.__exit__(None, None, None)
    assert kind.current() is None


def test_a_generators_scope_ends_when_the_generator_is_closed(kind: Kind) -> None:
    with kind.open() as outer:
        inside = steps(kind)
        assert kind.current() is outer
        assert next(inside) is kind.current()
        inside.close()
        assert kind.current() is outer


def test_a_generators_scope_ends_when_the_garbage_collector_closes_it(kind: Kind) -> None:
    with kind.open() as outer:
        held = {"steps": steps(kind)}
        held["itself"] = held  # a cycle, so that only the collector can free it
        next(held["steps"])
        assert kind.current() is not outer
        del held
        collect()
        assert kind.current() is outer
    assert kind.current() is None


def test_a_generators_scope_ends_when_a_thread_closes_it(kind: Kind) -> None:
    with kind.open() as outer:
        inside = steps(kind)
        next(inside)
        thread = threading.Thread(target=inside.close)
        thread.start()
        thread.join()
        assert kind.current() is outer


async def test_a_scope_that_another_task_closes_is_over_for_the_one_that_opened_it(kind: Kind) -> None:
    with kind.open() as outer:
        inside = async_steps(kind)
        await anext(inside)
        assert kind.current() is not outer
        await asyncio.create_task(inside.aclose())
        assert kind.current() is outer
    assert kind.current() is None


async def test_a_scope_that_the_loop_closes_for_the_garbage_collector_is_over(kind: Kind) -> None:
    inside = async_steps(kind)
    with kind.open() as outer:
        await anext(inside)
        del inside
        collect()
        await asyncio.sleep(0)  # the loop's own task closes an abandoned generator
        await asyncio.sleep(0)
        assert kind.current() is outer


async def test_closing_from_another_task_leaves_that_tasks_own_scope_alone(kind: Kind) -> None:
    scope = kind.open()
    scope.__enter__()
    seen = []

    async def close_it() -> None:
        with kind.open() as own:
            scope.__exit__(None, None, None)
            seen.append(kind.current() is own)

    await asyncio.create_task(close_it())
    assert seen == [True]
    assert kind.current() is None


async def test_a_task_started_inside_keeps_seeing_the_scope_after_its_end(kind: Kind) -> None:
    go = asyncio.Event()

    async def look_later() -> Any:
        before = kind.current()
        await go.wait()
        return before, kind.current()

    with kind.open() as value:
        task = asyncio.create_task(look_later())
        await asyncio.sleep(0)
    assert kind.current() is None
    go.set()
    assert await task == (value, value)


async def test_a_detached_tasks_own_scopes_end_back_at_the_one_it_was_started_in(kind: Kind) -> None:
    go = asyncio.Event()

    async def open_later() -> Any:
        await go.wait()
        with kind.open() as own:
            inside = kind.current() is own
        return inside, kind.current()

    with kind.open() as value:
        task = asyncio.create_task(open_later())
    go.set()
    assert await task == (True, value)


def test_a_thread_that_carries_the_context_keeps_seeing_the_scope(kind: Kind) -> None:
    go = threading.Event()
    seen = []

    def look_later() -> None:
        go.wait()
        seen.append(kind.current())

    with kind.open() as value:
        thread = threading.Thread(target=copy_context().run, args=(look_later,))
        thread.start()
    go.set()
    thread.join()
    assert seen == [value]


def test_work_that_a_pools_thread_does_later_is_where_it_was_submitted_though_the_thread_is_the_same(
    kind: Kind,
) -> None:
    with ThreadPoolExecutor(1) as pool:

        def submit() -> tuple[Any, Future[Any]]:
            with kind.open() as value:
                return value, pool.submit(copy_context().run, kind.current)

        value, later = pool.submit(submit).result()
        assert later.result() is value
        assert pool.submit(kind.current).result() is None


async def test_scopes_of_tasks_side_by_side_do_not_mix(kind: Kind) -> None:
    met = asyncio.Barrier(20)

    async def hold() -> bool:
        with kind.open() as own:
            await met.wait()
            mine = kind.current() is own
            await met.wait()
        return mine and kind.current() is None

    assert all(await asyncio.gather(*(hold() for _ in range(20))))


async def test_a_task_that_outlives_its_run_writes_into_no_finished_tally() -> None:
    context = DelegationContext()
    go = asyncio.Event()

    async def deliver_late() -> None:
        await go.wait()
        context.record_delegation("late")

    with context.run_scope(depth=0) as outer:
        with context.run_scope(depth=1) as run:
            context.record_delegation("in time")
            task = asyncio.create_task(deliver_late())
        go.set()
        await task
    assert run.delegated == ("in time",)
    assert outer.delegated == ()


async def test_a_task_started_after_a_scope_was_closed_elsewhere_is_not_in_it(kind: Kind) -> None:
    inside = async_steps(kind)
    await anext(inside)
    await asyncio.create_task(inside.aclose())
    assert kind.current() is None

    async def look() -> Any:
        return kind.current()

    assert await asyncio.create_task(look()) is None


async def test_scopes_closed_elsewhere_do_not_pile_up() -> None:
    context = DelegationContext()
    seen: weakref.WeakSet[Any] = weakref.WeakSet()

    class Scope:
        pass

    async def hold() -> AsyncIterator[None]:
        scope = Scope()
        seen.add(scope)
        with context.run_scope(depth=1, scope=scope):
            del scope
            yield

    for _ in range(5):
        inside = hold()
        await anext(inside)
        await asyncio.create_task(inside.aclose())
    del inside
    assert context.active_run() is None
    collect()
    assert len(seen) == 0
