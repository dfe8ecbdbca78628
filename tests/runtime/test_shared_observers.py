"""Observers that several agents share are told once, and nothing they do changes a run or its tallies."""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, child, delegates

from symfonic import Agent, AgentRef, DelegationOutcome, Options, SubAgent
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.kernel.contracts.events import DelegationFinished, DelegationStarted, RunFinished, RunStarted
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, tool_call

pytestmark = pytest.mark.usefixtures("no_task_left")


class Notes:
    """An observer of either kind that notes what it is told."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def told(self, event: Any) -> None:
        self.events.append(event)

    async def told_later(self, event: Any) -> None:
        await asyncio.sleep(0)
        self.events.append(event)

    def count(self) -> Counter[tuple[str, str]]:
        return Counter((type(event).__name__, event.where.run_id) for event in self.events)


class Unhashable:
    """An asynchronous observer that equals every other one of its kind and has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, notes: Notes) -> None:
        self.notes = notes

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unhashable)

    async def __call__(self, event: Any) -> None:
        self.notes.events.append(event)


OBSERVERS: dict[str, Callable[[Notes], Any]] = {
    "sync": lambda notes: notes.told,
    "async": lambda notes: notes.told_later,
    "unhashable": Unhashable,
    "lambda": lambda notes: lambda event: notes.events.append(event),
}


@pytest.fixture(params=OBSERVERS)
def notes_and_options(request: pytest.FixtureRequest) -> tuple[Notes, Options]:
    notes = Notes()
    return notes, Options(observers=(OBSERVERS[request.param](notes),))


async def test_agents_that_share_options_tell_each_event_once(notes_and_options: tuple[Notes, Options]) -> None:
    notes, options = notes_and_options
    leaf = Agent(ScriptedModel("leaf"), options=options)
    middle = NATIVE.agent(delegates(), sub_agents=[child(leaf)], options=options)
    await NATIVE.agent(delegates(), sub_agents=[child(middle)], options=options).run("go")
    starts = [event for event in notes.events if isinstance(event, RunStarted)]
    assert len(starts) == 3
    assert [event.where.depth for event in starts] == [0, 1, 2]
    once = {"RunStarted", "RunFinished", "DelegationStarted", "DelegationFinished", "ToolStarted", "ToolFinished"}
    assert all(times == 1 for (kind, _), times in notes.count().items() if kind in once)
    assert Counter(type(event).__name__ for event in notes.events)["ModelCalled"] == 5


async def test_an_agent_that_is_its_own_child_tells_each_event_once(notes_and_options: tuple[Notes, Options]) -> None:
    notes, options = notes_and_options
    me = NATIVE.agent(
        delegates("me"), max_depth=4, options=options, sub_agents=[SubAgent("me", AgentRef(lambda: me), "Itself.")]
    )
    await me.run("go")
    depths = [event.where.depth for event in notes.events if isinstance(event, RunStarted)]
    assert depths == [0, 1, 2, 3, 4]
    for kind in (DelegationStarted, DelegationFinished, RunFinished):
        runs = [event.where.run_id for event in notes.events if isinstance(event, kind)]
        assert len(runs) == len(set(runs)) == (5 if kind is RunFinished else 4)


async def test_an_observer_given_to_the_agent_and_to_the_run_is_told_once(
    notes_and_options: tuple[Notes, Options],
) -> None:
    notes, options = notes_and_options
    await Agent(ScriptedModel("done"), options=options).run("go", observers=options.observers)
    assert set(notes.count().values()) == {1}


async def test_a_run_beside_another_one_is_told_of_all_the_same(notes_and_options: tuple[Notes, Options]) -> None:
    notes, options = notes_and_options
    agent = Agent(ScriptedModel("done"), options=options)
    await asyncio.gather(agent.run("a"), agent.run("b"))
    assert sorted(event.task for event in notes.events if isinstance(event, RunStarted)) == ["a", "b"]


ERRORS = [ValueError("no"), asyncio.CancelledError(), ExceptionGroup("several", [ValueError("no")]), StopIteration()]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_an_observer_that_raises_changes_nothing_and_is_logged_with_the_runs_id(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def raises(event: Any) -> None:
        raise error

    agent = NATIVE.agent(delegates(), sub_agents=[child(ScriptedChild("fine"))], options=Options(observers=(raises,)))
    with caplog.at_level(logging.ERROR, "symfonic"):
        result = await agent.run("go")
    assert (result.text, result.delegated_to) == ("fine", ("child",))
    assert [record.outcome for record in result.delegations] == [DelegationOutcome.DELIVERED]
    assert len(caplog.messages) >= 8
    assert all(result.run_id in message for message in caplog.messages)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
async def test_an_asynchronous_observer_that_raises_is_told_of_the_rest_all_the_same(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    told = []

    async def raises(event: Any) -> None:
        told.append(type(event).__name__)
        raise error

    agent = NATIVE.agent(delegates(), sub_agents=[child(ScriptedChild("fine"))], options=Options(observers=(raises,)))
    with caplog.at_level(logging.ERROR, "symfonic"):
        result = await agent.run("go")
    assert (result.text, result.delegated_to) == ("fine", ("child",))
    assert told[0] == "RunStarted"
    assert told[-1] == "RunFinished"
    assert len(caplog.messages) == len(told)
    assert all(result.run_id in message for message in caplog.messages)


async def test_an_observer_that_cancels_the_runs_task_is_a_host_like_any_other() -> None:
    def cancels(event: Any) -> None:
        if isinstance(event, DelegationFinished):
            held[0].cancel()

    agent = NATIVE.agent(delegates(), sub_agents=[child(ScriptedChild("fine"))], options=Options(observers=(cancels,)))
    held = [asyncio.create_task(agent.run("go"))]
    with pytest.raises(asyncio.CancelledError):
        await held[0]


async def test_a_synchronous_observer_that_returns_a_coroutine_is_told_that_it_must_be_async(
    caplog: pytest.LogCaptureFixture,
) -> None:
    notes = Notes()
    options = Options(observers=(lambda event: notes.told_later(event),))
    with caplog.at_level(logging.ERROR, "symfonic"):
        assert (await Agent(ScriptedModel("done"), options=options).run("go")).text == "done"
    assert notes.events == []
    assert all("must be an async function" in message for message in caplog.messages)


# who is counted, and when


async def test_a_delivery_after_its_opener_has_closed_counts_in_no_tally() -> None:
    """A foreign child leaves behind a run that adopted its scope, and returns."""
    go, kept = asyncio.Event(), []

    async def fn(messages: Any, tools: Any) -> Any:
        if messages[-1].role == "tool":
            return "over"
        await go.wait()
        return tool_call("run_agent", name="leaf", task="t")

    inner = Agent(FunctionModel(fn), sub_agents=[SubAgent("leaf", ScriptedChild("leaf"), "A leaf.")])

    class Leaves:
        async def run(
            self, query: str, *, agent_depth: Any = None, root_run_id: Any = None, parent_run_id: Any = None
        ) -> Any:
            lineage = {"agent_depth": agent_depth, "root_run_id": root_run_id, "parent_run_id": parent_run_id}
            kept.append(asyncio.create_task(inner.engine.run(query, **lineage)))
            await asyncio.sleep(0)
            return type("Response", (), {"final_response": "gone"})()

    outer = await NATIVE.agent(delegates(), sub_agents=[child(Leaves())]).run("go")
    go.set()
    late = await kept[0]
    assert outer.delegated_to == ("child",)
    assert late.messages[-2].text == "leaf"
    assert (late.delegated_to, late.delegations, outer.delegations[0].children) == ((), (), ())


async def test_a_detached_tasks_delivery_counts_neither_in_the_run_nor_in_the_facade() -> None:
    go, kept = asyncio.Event(), []

    async def act(query: str) -> str:
        async def later() -> Any:
            await go.wait()
            return await agent.engine.delegation.tools.delegate("leaf", "t")  # type: ignore[union-attr]

        kept.append((asyncio.create_task(later()), DelegationContext().active_run()))
        return "done"

    agent = NATIVE.agent(
        delegates(), sub_agents=[child(Child(act)), SubAgent("leaf", ScriptedChild("leaf"), "A leaf.")]
    )
    result = await agent.run("go")
    go.set()
    task, run = kept[0]
    record = await task
    assert (record.outcome, record.depth) == (DelegationOutcome.DELIVERED, 2)
    assert result.delegated_to == ("child",)
    assert run.delegated == ()
