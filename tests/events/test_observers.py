"""Who watches a run can never change it: observers that raise, are slow or hang, sync and async, from any thread."""

import asyncio
import logging
from functools import partial
from typing import Any

import pytest
from events_kit import Gate, LateWatcher, Watcher, asks, boss, check_pairs, child, leaf

from symfonic import Agent, ConfigurationError, Options
from symfonic.kernel.concurrency import relay
from symfonic.kernel.contracts.events import Event, ModelCalled, RunFinished, RunStarted
from symfonic.testing import ScriptedModel, tool_call

pytestmark = pytest.mark.usefixtures("no_task_left")


class Broken:
    """Raises what it is given, at every event."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.told = 0

    def __call__(self, event: Event) -> None:
        self.told += 1
        raise self.error


class BrokenLater(Broken):
    async def __call__(self, event: Event) -> None:  # type: ignore[override]
        self.told += 1
        raise self.error


def watched_boss(*observers: Any) -> Agent:
    return boss(child("leaf", leaf("42")), options=Options(observers=observers))


@pytest.mark.parametrize(
    "error", [ValueError("no"), asyncio.CancelledError(), SystemError(), StopIteration()], ids=repr
)
@pytest.mark.parametrize("kind", [Broken, BrokenLater])
@pytest.mark.parametrize("given", ["options", "run"])
async def test_an_observer_that_raises_is_logged_and_changes_nothing(
    kind: type[Broken], error: BaseException, given: str, caplog: pytest.LogCaptureFixture
) -> None:
    broken, seen = kind(error), Watcher()
    agent = watched_boss(broken) if given == "options" else watched_boss()
    result = await agent.run("go", observers=(seen,) if given == "options" else (broken, seen))

    assert (result.text, result.delegated_to, len(result.delegations)) == ("done", ("leaf",), 1)
    assert broken.told == len(seen.events) == 14, "it hears of every event all the same, and so does the next one"
    assert sum("an observer raised on RunStarted of run" in record.message for record in caplog.records) == 2
    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_a_process_that_is_told_to_end_ends(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyboardInterrupt):
        await leaf().run("go", observers=(Broken(KeyboardInterrupt()),))


@pytest.mark.parametrize("given", ["options", "run"])
async def test_an_asynchronous_observer_is_told_everything_in_order_before_the_run_returns(given: str) -> None:
    late, seen = LateWatcher(), Watcher()
    agent = watched_boss(late) if given == "options" else watched_boss()
    await agent.run("go", observers=(seen,) if given == "options" else (late, seen))

    assert late.events == seen.events


async def test_any_kind_of_asynchronous_callable_is_awaited() -> None:
    heard: list[str] = []

    async def note(who: str, event: Event) -> None:
        heard.append(who)

    class Method:
        async def note(self, event: Event) -> None:
            heard.append("method")

    await leaf().run("go", observers=(partial(note, "partial"), Method().note))
    assert sorted(heard) == ["method"] * 4 + ["partial"] * 4


async def test_an_observer_that_cannot_be_hashed_is_told_as_well() -> None:
    class Unhashable(LateWatcher):
        __hash__ = None  # type: ignore[assignment]

    seen = Unhashable()
    await leaf().run("go", observers=(seen,))
    assert len(seen.events) == 4


async def test_a_function_that_returns_a_coroutine_is_told_off(caplog: pytest.LogCaptureFixture) -> None:
    async def note(event: Event) -> None: ...

    result = await leaf().run("go", observers=(lambda event: note(event),))
    assert result.text == "done"
    assert "must be an async function" in caplog.text


async def test_a_slow_asynchronous_observer_holds_up_no_event_of_the_run() -> None:
    may_go, gate = asyncio.Event(), Gate()
    order: list[str] = []

    async def slow(event: Event) -> None:
        await may_go.wait()
        order.append(type(event).__name__)

    task = asyncio.ensure_future(boss(child("leaf", Agent(gate))).run("go", observers=(slow,)))
    await gate.reached.wait()  # the run got this far while the observer has not even taken the first event
    assert order == []
    may_go.set()
    gate.open.set()
    await task
    assert len(order) == 14


async def test_observers_that_hang_together_delay_the_end_by_one_drain(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(relay, "DRAIN_SECONDS", 0.2)
    ended: list[str] = []

    async def hang(name: str, event: Event) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(name)

    began = asyncio.get_running_loop().time()
    result = await leaf("42").run("go", observers=tuple(partial(hang, name) for name in "abc"))
    assert result.text == "42"
    assert asyncio.get_running_loop().time() - began < 0.55
    assert sorted(ended) == ["a", "b", "c"]
    assert caplog.text.count("did not take every event in 0.2 s") == 3


async def test_cancelling_a_run_while_its_observers_drain_leaves_no_task() -> None:
    hanging = asyncio.Event()

    async def hang(event: Event) -> None:
        if isinstance(event, RunFinished):
            hanging.set()
        await asyncio.Event().wait() if hanging.is_set() else None

    task = asyncio.ensure_future(leaf().run("go", observers=(hang, partial(hang))))
    await hanging.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_observer_that_cancels_its_own_task_is_given_up_with_a_word(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def quit_at_once(event: Event) -> None:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)

    result = await leaf("42").run("go", observers=(quit_at_once,))
    assert result.text == "42"
    assert "did not take every event" in caplog.text


async def test_a_run_that_is_closed_by_hand_takes_its_observers_along() -> None:
    gate, late = Gate(), LateWatcher()
    run = leaf_of(gate).run("go", observers=(late,))
    run.send(None)  # to the model, which waits
    run.close()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert gate.ended == ""


def leaf_of(model: Any) -> Agent:
    return Agent(model, name="leaf")


async def test_an_asynchronous_observer_hears_in_its_own_loop_of_what_happens_in_threads() -> None:
    inner, loops, seen = leaf(name="inner"), set(), Watcher()

    def look() -> str:
        return asyncio.run(inner.run("look")).text

    async def note(event: Event) -> None:
        loops.add(asyncio.get_running_loop())
        seen(event)

    await Agent(ScriptedModel(tool_call("look"), "done"), tools=[look]).run("go", observers=(note,))
    check_pairs(seen.events)
    assert loops == {asyncio.get_running_loop()}
    assert [event.where.agent for event in seen.of(RunStarted)] == ["agent", "inner"]


def test_observers_work_from_synchronous_code_too() -> None:
    seen, late = Watcher(), LateWatcher()
    watched_boss(seen, late).run_sync("go")
    assert seen.events == late.events
    assert len(seen.events) == 14


async def test_an_observer_cannot_reach_into_the_run_through_its_events() -> None:
    def meddle(event: Event) -> None:
        event.where.depth = 7  # type: ignore[misc]

    seen = Watcher()
    result = await watched_boss(meddle, seen).run("go")
    assert result.text == "done"
    assert {event.where.depth for event in seen.events} == {0, 1}


async def test_what_an_observer_delegates_or_runs_is_no_part_of_the_run_it_watches() -> None:
    other = leaf("other")
    roots: list[str] = []

    async def run_another(event: Event) -> None:
        if isinstance(event, ModelCalled):
            result = await other.run("look")
            roots.append(result.root_run_id)

    result = await leaf().run("go", observers=(run_another,))
    assert result.usage.model_calls == 1
    assert result.run_id not in roots
    assert len(roots) == 1


@pytest.mark.parametrize("observers", [[print], print, (print, None), "print", ("x",)], ids=repr)
async def test_what_is_no_tuple_of_callables_is_refused_by_name(observers: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"Options\.observers must be a tuple of callables"):
        Options(observers=observers)
    agent = leaf()
    with pytest.raises(ConfigurationError, match=r"^observers must be a tuple of callables"):
        await agent.run("go", observers=observers)
    with pytest.raises(ConfigurationError, match=r"^observers must be a tuple of callables"):
        agent.stream("go", observers=observers)


async def test_an_observer_sees_a_run_the_same_however_many_others_look_on() -> None:
    alone, first, second = Watcher(), Watcher(), LateWatcher()
    agent = boss(child("leaf", leaf()), ask=[asks("leaf"), asks("nobody")])
    await agent.run("go", observers=(alone,))
    await agent.run("go", observers=(first, Broken(ValueError("no")), second))
    assert alone.kinds == first.kinds == second.kinds


@pytest.fixture(autouse=True)
def loud(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "symfonic")
