"""Runs inside hosts that cancel in their own way: anyio's scopes, many cancellations at once, a closed coroutine."""

import asyncio
import gc
from collections.abc import Coroutine, Generator
from contextlib import suppress
from types import coroutine
from typing import Any

import anyio
import pytest
from runtime_fakes import NATIVE, Child, calls, child, delegates

from symfonic import Agent, Options
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.kernel.contracts.events import DelegationFinished, RunFinished
from symfonic.kernel.contracts.run_identity import current_run_identity
from symfonic.testing import tool_call

pytestmark = pytest.mark.usefixtures("no_task_left")


class Careful:
    """A tool, or a child, that waits to be cancelled and then cleans up until it is told that it may end."""

    def __init__(self, shield: str = "none") -> None:
        self.started, self.cleaning, self.may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.log: list[str] = []
        self.shield = shield

    async def wait(self) -> str:
        self.started.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self.cleaning.set()
            try:
                await getattr(self, f"_clean_up_{self.shield}")()
            except asyncio.CancelledError:
                self.log.append("cut off")
                raise
            self.log.append("cleaned")
        return "never"

    async def act(self, query: str) -> str:
        return await self.wait()

    async def _clean_up_none(self) -> None:
        await self.may_end.wait()

    async def _clean_up_anyio(self) -> None:
        with anyio.CancelScope(shield=True):
            await self.may_end.wait()

    async def _clean_up_asyncio(self) -> None:
        work = asyncio.ensure_future(self.may_end.wait())
        while not work.done():
            with suppress(asyncio.CancelledError):
                await asyncio.shield(work)


def tree(leaf: Careful, levels: int = 1) -> Agent:
    """The leaf as a foreign child, this many levels down."""
    bottom = NATIVE.agent(delegates(), sub_agents=[child(Child(leaf.act))], max_depth=9)
    for _ in range(levels - 1):
        bottom = NATIVE.agent(delegates(), sub_agents=[child(bottom)], max_depth=9)
    return bottom


def nothing_is_current() -> bool:
    return current_run_identity() is None and DelegationContext().active_run() is None


async def end_when_cleaning(leaf: Careful) -> None:
    await leaf.cleaning.wait()
    leaf.may_end.set()


@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("shield", ["none", "anyio", "asyncio"])
async def test_a_cleanup_completes_after_one_cancellation(shield: str, levels: int) -> None:
    leaf = Careful(shield)
    async with asyncio.timeout(5):
        task = asyncio.create_task(tree(leaf, levels).run("go"))
        await leaf.started.wait()
        task.cancel()
        await end_when_cleaning(leaf)
        with pytest.raises(asyncio.CancelledError):
            await task
    assert leaf.log == ["cleaned"]


@pytest.mark.parametrize("levels", [1, 3])
@pytest.mark.parametrize("shield", ["anyio", "asyncio"])
async def test_a_shielded_cleanup_completes_inside_an_anyio_scope_that_is_cancelled(shield: str, levels: int) -> None:
    leaf = Careful(shield)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as group:
            with anyio.CancelScope() as scope:
                group.start_soon(end_when_cleaning, leaf)
                group.start_soon(_cancel_when_started, leaf, scope)
                await tree(leaf, levels).run("go")
            assert scope.cancelled_caught
            assert leaf.log == ["cleaned"]
            assert nothing_is_current()


async def _cancel_when_started(leaf: Careful, scope: anyio.CancelScope) -> None:
    await leaf.started.wait()
    scope.cancel()


async def test_an_anyio_deadline_ends_the_run_and_leaves_nothing_behind() -> None:
    leaf = Careful()
    leaf.may_end.set()
    with anyio.move_on_after(0.01) as scope:
        await tree(leaf, 2).run("go")
    assert scope.cancelled_caught
    assert leaf.log[-1:] != ["cut off"]
    assert nothing_is_current()


async def test_an_anyio_deadline_that_fails_raises_a_timeout() -> None:
    leaf = Careful()
    leaf.may_end.set()
    with pytest.raises(TimeoutError), anyio.fail_after(0.01):
        await tree(leaf, 2).run("go")
    assert nothing_is_current()


async def test_an_anyio_task_group_that_fails_ends_the_run_beside_it() -> None:
    leaf = Careful()
    leaf.may_end.set()

    async def fails() -> None:
        await leaf.started.wait()
        raise ValueError("its sibling failed")

    async def both() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(tree(leaf, 2).run, "go")
            group.start_soon(fails)

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert [type(each) for each in caught.value.exceptions] == [ValueError]


async def test_an_anyio_scope_inside_a_child_is_the_childs_own_affair() -> None:
    async def act(query: str) -> str:
        with anyio.move_on_after(0) as scope:
            await asyncio.get_running_loop().create_future()
        return f"moved on: {scope.cancelled_caught}"

    result = await NATIVE.agent(delegates(), sub_agents=[child(Child(act))]).run("go")
    assert result.text == "moved on: True"
    assert result.delegated_to == ("child",)


async def test_an_anyio_task_group_inside_a_child_runs_agents_at_its_depth() -> None:
    texts: list[str] = []

    async def act(query: str) -> str:
        async def below() -> None:
            run = DelegationContext().active_run()
            assert run is not None
            texts.append(f"depth {run.depth}")

        async with anyio.create_task_group() as group:
            for _ in range(3):
                group.start_soon(below)
        return "done"

    await NATIVE.agent(delegates(), sub_agents=[child(Child(act))]).run("go")
    assert texts == ["depth 1"] * 3


@pytest.mark.parametrize("levels", [1, 3])
async def test_a_run_that_is_cancelled_all_the_time_waits_for_what_is_below(levels: int) -> None:
    leaf = Careful("asyncio")
    async with asyncio.timeout(5):
        task = asyncio.create_task(tree(leaf, levels).run("go"))
        await leaf.started.wait()
        for _ in range(200):
            task.cancel()
            await asyncio.sleep(0)
        assert not task.done()
        leaf.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert leaf.log == ["cleaned"]


async def test_many_cancellations_of_the_run_are_one_for_an_unshielded_cleanup_below() -> None:
    leaf = Careful()
    async with asyncio.timeout(5):
        task = asyncio.create_task(tree(leaf).run("go"))
        await leaf.started.wait()
        for _ in range(50):
            task.cancel()
            await asyncio.sleep(0)
        assert leaf.cleaning.is_set()
        leaf.may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert leaf.log == ["cleaned"]


async def test_a_tools_cleanup_completes_beside_a_sibling_that_has_ended() -> None:
    leaf, quick = Careful(), asyncio.Event()

    async def fine() -> str:
        quick.set()
        return "fine"

    agent = NATIVE.agent(calls(tool_call("wait"), tool_call("fine")), tools=[leaf.wait, fine])
    async with asyncio.timeout(5):
        task = asyncio.create_task(agent.run("go"))
        await leaf.started.wait()
        await quick.wait()
        task.cancel()
        await end_when_cleaning(leaf)
        with pytest.raises(asyncio.CancelledError):
            await task
    assert leaf.log == ["cleaned"]


# a coroutine that its host closes instead of cancelling it


@coroutine
def half_way(run: Coroutine[Any, Any, Any], reached: asyncio.Event) -> Generator[Any, Any, None]:
    """Take the run as far as its first wait, and close it once ``reached`` is set."""
    run.send(None)
    yield from reached.wait().__await__()
    run.close()


@pytest.mark.parametrize("levels", [1, 3])
async def test_a_run_whose_coroutine_is_closed_leaves_no_task_running_on(levels: int) -> None:
    leaf = Careful()
    leaf.may_end.set()
    before = asyncio.all_tasks()
    await half_way(tree(leaf, levels).run("go"), leaf.started)
    left = asyncio.all_tasks() - before
    async with asyncio.timeout(5):
        await asyncio.gather(*left, return_exceptions=True)
    assert leaf.log == ["cleaned"]
    assert nothing_is_current()


async def test_closing_a_run_ends_its_own_delegations_on_the_record() -> None:
    leaf, events = Careful(), []
    leaf.may_end.set()
    agent = NATIVE.agent(delegates(), sub_agents=[child(Child(leaf.act))], options=Options(observers=(events.append,)))
    before = asyncio.all_tasks()
    await half_way(agent.run("go"), leaf.started)
    async with asyncio.timeout(5):
        await asyncio.gather(*(asyncio.all_tasks() - before), return_exceptions=True)
    assert [event.status for event in events if isinstance(event, RunFinished)] == ["cancelled"]
    assert [event.outcome for event in events if isinstance(event, DelegationFinished)] == ["child_cancelled"]


async def test_a_run_that_was_never_started_can_be_closed() -> None:
    run = tree(Careful()).run("go")
    run.close()
    del run
    gc.collect()
    assert nothing_is_current()
