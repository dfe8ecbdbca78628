"""A scope opened inside a run can be deeper than the run, never less deep, and nothing it bounds can be written."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from contextvars import copy_context
from itertools import permutations
from typing import Any

import pytest
from contract_fakes import Child, tools_of

from symfonic.agent.cutover.delegation import delegation_scope
from symfonic.capabilities.delegation import (
    ActiveRun,
    Bounds,
    DelegationCapability,
    DelegationContext,
    DelegationOutcome,
    PrebuiltChild,
)
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope

CONTEXT = DelegationContext()
Opener = Callable[[Any], AbstractAsyncContextManager[ActiveRun | None]]


def capability() -> DelegationCapability:
    return DelegationCapability.declare([PrebuiltChild("child", Child(), "Does it.")], max_depth=9)


@asynccontextmanager
async def by_the_context(depth: Any) -> AsyncIterator[ActiveRun]:
    with CONTEXT.run_scope(depth=depth) as run:
        yield run


OPENERS: dict[str, Opener] = {
    "context": by_the_context,
    "capability": lambda depth: capability().run_scope(depth=depth),
    "root": lambda depth: delegation_scope(capability(), depth),
}


@pytest.fixture(params=OPENERS)
def opener(request: pytest.FixtureRequest) -> Opener:
    return OPENERS[request.param]


class Raises:
    def __int__(self) -> int:
        raise RuntimeError("no number")


LOWER = [0, -5, None, "1", "none", 1.9, float("nan"), Raises()]


@pytest.mark.parametrize("depth", LOWER, ids=lambda depth: "raises" if isinstance(depth, Raises) else repr(depth))
async def test_a_scope_opened_inside_a_run_keeps_its_depth(depth: Any, opener: Opener) -> None:
    with CONTEXT.run_scope(depth=3) as outer:
        async with opener(depth) as run:
            assert run is not None
            assert (run.depth, CONTEXT.current_depth()) == (3, 3)
        assert CONTEXT.active_run() is outer


async def test_a_scope_opened_inside_a_run_may_be_deeper_and_what_was_there_comes_back(opener: Opener) -> None:
    with CONTEXT.run_scope(depth=1):
        async with opener(4):
            assert CONTEXT.current_depth() == 4
            async with opener(2):
                assert CONTEXT.current_depth() == 4
        assert CONTEXT.current_depth() == 1
    assert CONTEXT.current_depth() == 0


async def test_a_scope_opened_inside_a_run_keeps_its_ceiling(opener: Opener) -> None:
    with CONTEXT.run_scope(depth=1, bounds=Bounds(1)):
        async with opener(0) as run:
            assert run is not None
            run.tighten(Bounds(99))
            assert run.max_depth == 1


async def test_a_child_that_opens_a_scope_of_depth_nought_delegates_no_deeper_than_the_ceiling(opener: Opener) -> None:
    depths = []

    async def digs(query: str) -> str:
        depths.append(CONTEXT.current_depth())
        if len(depths) < 20:
            async with opener(0):
                return (await tools.delegate("child", "dig")).message
        return "through"

    tools = tools_of(max_depth=3, child=Child(digs))
    record = await tools.delegate("child", "dig")
    assert depths == [1, 2, 3]
    assert record.message == "Delegation refused: maximum sub-agent depth (3) reached; cannot delegate further."


async def test_a_task_and_a_thread_of_a_run_open_no_scope_less_deep_either() -> None:
    def opened() -> int:
        with CONTEXT.run_scope(depth=0):
            return CONTEXT.current_depth()

    async def in_a_task() -> int:
        return opened()

    with CONTEXT.run_scope(depth=2):
        task = asyncio.create_task(in_a_task())
        thread = asyncio.create_task(asyncio.to_thread(opened))
    assert (await task, await thread) == (2, 2)


# a job that carries the context of a scope that has ended


def test_a_later_job_of_the_same_pool_thread_keeps_the_depth_it_was_made_at() -> None:
    tools = tools_of(max_depth=1, child=Child())
    seen: list[Any] = []

    def later() -> None:
        seen.append(CONTEXT.current_depth())
        seen.append(asyncio.run(tools.delegate("child", "t")).outcome)

    with ThreadPoolExecutor(1) as pool:

        def first() -> Any:
            with CONTEXT.run_scope(depth=1):
                return pool.submit(copy_context().run, later)

        pool.submit(copy_context().run, first).result().result()
    assert seen == [1, DelegationOutcome.REFUSED_DEPTH]


async def test_a_job_handed_on_by_a_task_that_is_gone_keeps_its_depth() -> None:
    jobs = []

    async def opens() -> None:
        with CONTEXT.run_scope(depth=2):
            jobs.append(copy_context())

    await asyncio.create_task(opens())
    assert await asyncio.create_task(_depth(), context=jobs[0]) == 2
    assert jobs[0].run(CONTEXT.current_depth) == 2
    assert CONTEXT.current_depth() == 0


async def _depth() -> int:
    return CONTEXT.current_depth()


def test_a_thread_started_in_an_ended_scope_delegates_below_it() -> None:
    go, seen = threading.Event(), []
    tools = tools_of(max_depth=3, child=Child(lambda query: str(CONTEXT.current_depth())))

    def later() -> None:
        go.wait()
        seen.append(asyncio.run(tools.delegate("child", "t")).message)

    with CONTEXT.run_scope(depth=2):
        thread = threading.Thread(target=copy_context().run, args=(later,))
        thread.start()
    go.set()
    thread.join()
    assert seen == ["3"]


# closed in any order


def _close_in(order: tuple[int, ...]) -> None:
    """Open as many scopes of both kinds, close them in this order, and look after every one."""
    runs = [CONTEXT.run_scope(depth=number) for number in order]
    identities = [run_identity_scope(RunIdentity.root()) for _ in order]
    opened = [(run.__enter__(), identity.__enter__()) for run, identity in zip(runs, identities, strict=True)]
    closed: set[int] = set()
    for number in order:
        runs[number].__exit__(None, None, None)
        identities[number].__exit__(None, None, None)
        closed.add(number)
        innermost = next((pair for at, pair in reversed(list(enumerate(opened))) if at not in closed), (None, None))
        assert (CONTEXT.active_run(), current_run_identity()) == innermost


@pytest.mark.parametrize("order", list(permutations(range(4))), ids=str)
def test_scopes_closed_in_any_order_restore_the_innermost_open_one_in_synchronous_code(order: tuple[int, ...]) -> None:
    _close_in(order)


async def test_scopes_closed_in_any_order_restore_the_innermost_open_one_in_a_task() -> None:
    with CONTEXT.run_scope(depth=0) as outer, run_identity_scope(RunIdentity.root()) as identity:
        for order in permutations(range(4)):
            copy_context().run(_close_in_within, outer, identity, order)
        assert CONTEXT.active_run() is outer


def _close_in_within(outer: ActiveRun, identity: RunIdentity, order: tuple[int, ...]) -> None:
    scopes = [CONTEXT.run_scope(depth=0) for _ in order]
    opened = [scope.__enter__() for scope in scopes]
    for at, number in enumerate(order):
        scopes[number].__exit__(None, None, None)
        left = [run for each, run in enumerate(opened) if each not in order[: at + 1]]
        assert CONTEXT.active_run() is (left[-1] if left else outer)
    assert current_run_identity() is identity


# read-only


@pytest.mark.parametrize("name", ["depth", "max_depth", "budget", "hooks", "delegated", "records", "usage", "is_open"])
def test_what_bounds_a_run_cannot_be_written(name: str) -> None:
    with CONTEXT.run_scope(depth=1) as run:
        before = getattr(run, name)
        with pytest.raises(AttributeError):
            setattr(run, name, None)
        with pytest.raises(AttributeError):
            delattr(run, name)
        assert getattr(run, name) == before


def test_a_run_has_no_attribute_that_is_not_declared() -> None:
    with CONTEXT.run_scope(depth=1) as run, pytest.raises(AttributeError):
        run.ceiling = 9  # type: ignore[attr-defined]
