"""The stream of events: a start and an end for whatever begins, in order, each saying where and when."""

import asyncio
import threading
import time
from typing import Any

import pytest
import stamina
from events_kit import Gate, LateWatcher, Watcher, asks, boss, chain, check_pairs, child, hanging, kinds, leaf

from symfonic import Agent, AgentRef, ChildPolicy, DelegationOutcome, Limits, Options, SymfonicError, Veto
from symfonic.cli.tree import DelegationTree
from symfonic.errors import LimitReachedError, MaxStepsError, ModelError
from symfonic.kernel.contracts import events as events_module
from symfonic.kernel.contracts.events import (
    DelegationFinished,
    DelegationRefused,
    DelegationRetried,
    DelegationStarted,
    ModelAnswered,
    ModelCalled,
    RunFinished,
    RunStarted,
    ToolFinished,
    ToolStarted,
)
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, tool_call

pytestmark = pytest.mark.usefixtures("no_task_left")


async def test_a_run_that_delegates_tells_everything_in_order() -> None:
    seen = Watcher()
    result = await boss(child("leaf", leaf("42"))).run("go", observers=(seen,))

    assert seen.kinds == [
        "RunStarted",
        "ModelCalled",
        "ModelAnswered",
        "ToolStarted",
        "DelegationStarted",
        "RunStarted",
        "ModelCalled",
        "ModelAnswered",
        "RunFinished",
        "DelegationFinished",
        "ToolFinished",
        "ModelCalled",
        "ModelAnswered",
        "RunFinished",
    ]
    check_pairs(seen.events)
    assert [event.task for event in seen.of(RunStarted)] == ["go", "t"]
    assert [(event.status, event.text) for event in seen.of(RunFinished)] == [("finished", "42"), ("finished", "done")]
    assert seen.of(RunFinished)[-1].usage == result.usage


async def test_every_event_says_where_in_the_tree_it_happened() -> None:
    seen = Watcher()
    result = await chain("top", "middle", "bottom").run("go", observers=(seen,))
    top, middle, bottom = (event.where for event in seen.of(RunStarted))

    assert [each.agent for each in (top, middle, bottom)] == ["top", "middle", "bottom"]
    assert [each.depth for each in (top, middle, bottom)] == [0, 1, 2]
    assert [each.parent_run_id for each in (top, middle, bottom)] == [None, top.run_id, middle.run_id]
    assert {event.where.root_run_id for event in seen.events} == {result.run_id}
    assert [each.tool_call_id for each in (top, middle, bottom)] == [None, "call_1_1", "call_1_1"]
    for event in seen.of(ToolStarted) + seen.of(DelegationStarted):
        assert event.where.tool_call_id == "call_1_1"
    assert [event.child.run_id for event in seen.of(DelegationStarted)] == [middle.run_id, bottom.run_id]


async def test_every_event_says_when_and_time_does_not_run_backwards() -> None:
    seen = Watcher()
    began = (time.monotonic(), time.time())
    await chain("top", "middle", "bottom").run("go", observers=(seen,))

    times = [event.monotonic for event in seen.events]
    assert times == sorted(times)
    assert began[0] <= times[0]
    assert times[-1] <= time.monotonic()
    assert all(began[1] - 1 <= event.wall <= time.time() + 1 for event in seen.events)


async def test_a_child_is_named_as_it_was_declared_whatever_the_agent_calls_itself() -> None:
    seen = Watcher()
    await boss(child("archive", Agent(ScriptedModel("done")))).run("go", observers=(seen,))

    assert [event.where.agent for event in seen.of(RunStarted)] == ["boss", "archive"]


def fails() -> FunctionModel:
    def raising(messages: Any, tools: Any) -> str:
        raise ValueError("no")

    return FunctionModel(raising)


def cancels_itself() -> FunctionModel:
    def raising(messages: Any, tools: Any) -> str:
        raise asyncio.CancelledError

    return FunctionModel(raising)


OUTCOMES: dict[str, tuple[Any, ChildPolicy | None, str | None]] = {
    "delivered": (ScriptedModel("ok"), None, "finished"),
    "child_failed": (fails(), None, "failed"),
    "child_timed_out": (hanging(), ChildPolicy(timeout=0.02), "cancelled"),
    "child_cancelled": (cancels_itself(), None, "cancelled"),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_a_childs_run_ends_as_its_delegation_does(outcome: str) -> None:
    model, policy, status = OUTCOMES[outcome]
    seen = Watcher()
    agent = boss(child("worker", Agent(model), policy=policy))
    [record] = (await agent.run("go", observers=(seen,))).delegations

    check_pairs(seen.events)
    assert record.outcome == outcome
    [finished] = seen.of(DelegationFinished)
    assert (finished.name, finished.outcome, finished.message) == ("worker", outcome, record.message)
    assert finished.child == record.trace.child
    assert finished.duration == record.trace.timing.duration
    assert seen.of(RunFinished)[0].status == status
    assert seen.of(RunFinished)[0].where.depth == 1
    assert seen.of(RunFinished)[1].status == "finished"


@pytest.mark.parametrize(
    ("outcome", "parts", "name"),
    [
        ("refused_depth", {"max_depth": 0}, "worker"),
        ("unknown_child", {}, "nobody"),
        ("refused_budget", {"limits": Limits(max_delegations=0)}, "worker"),
        ("refused_policy", {"options": Options(on_delegate=lambda request: Veto("not today"))}, "worker"),
    ],
)
async def test_a_refusal_has_an_event_of_its_own_and_no_start(outcome: str, parts: Any, name: str) -> None:
    seen = Watcher()
    agent = boss(child("worker", leaf()), ask=[asks(name, "dig")], **parts)
    [record] = (await agent.run("go", observers=(seen,))).delegations

    [refused] = seen.of(DelegationRefused)
    assert (refused.name, refused.task, refused.outcome, refused.message) == (name, "dig", outcome, record.message)
    assert (refused.where.agent, refused.where.tool_call_id) == ("boss", "call_1_1")
    assert not seen.of(DelegationStarted) + seen.of(DelegationFinished)
    assert len(seen.of(RunStarted)) == 1


async def test_a_failed_attempt_and_the_next_are_told_apart() -> None:
    seen = Watcher()
    flaky = ScriptedChild(ValueError("first"), ValueError("second"), "third time lucky")
    agent = boss(child("flaky", flaky, policy=ChildPolicy(retries=2)))
    with stamina.set_testing(True, attempts=3, cap=True):
        [record] = (await agent.run("go", observers=(seen,))).delegations

    [started] = seen.of(DelegationStarted)
    first, second = seen.of(DelegationRetried)
    [finished] = seen.of(DelegationFinished)
    assert record.delivered
    assert [started.child, first.child] == [first.failed, second.failed]
    assert second.child == finished.child == record.trace.child
    assert (first.name, first.message, second.message) == ("flaky", "first", "second")
    assert len({started.child.run_id, first.child.run_id, second.child.run_id}) == 3


async def test_a_model_call_that_fails_is_told_with_the_reason() -> None:
    seen = Watcher()
    with pytest.raises(ModelError):
        await Agent(fails()).run("go", observers=(seen,))

    assert seen.kinds == ["RunStarted", "ModelCalled", "ModelAnswered", "RunFinished"]
    assert seen.of(ModelAnswered)[0].error == "ValueError: no"
    assert seen.of(RunFinished)[0].status == "failed"
    assert "no" in seen.of(RunFinished)[0].text


async def test_a_run_cancelled_from_outside_ends_as_cancelled_on_every_level() -> None:
    seen, gate = Watcher(), Gate()
    agent = boss(child("middle", boss(child("bottom", Agent(gate)))))
    task = asyncio.ensure_future(agent.run("go", observers=(seen,)))
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    check_pairs(seen.events)
    assert gate.ended == "cancelled"
    assert [(event.where.depth, event.status) for event in seen.of(RunFinished)] == [
        (2, "cancelled"),
        (1, "cancelled"),
        (0, "cancelled"),
    ]
    assert {event.outcome for event in seen.of(DelegationFinished)} == {"child_cancelled"}
    assert seen.of(ModelAnswered)[-1].error == "cancelled"
    assert [event.failed for event in seen.of(ToolFinished)] == [True, True]


@pytest.mark.parametrize(
    ("agent", "error"),
    [
        (boss(child("leaf", leaf()), options=Options(max_steps=1)), MaxStepsError),
        (boss(child("leaf", leaf()), limits=Limits(max_model_calls=1)), LimitReachedError),
        (Agent(hanging(), limits=Limits(timeout=0.02)), LimitReachedError),
    ],
    ids=["max_steps", "max_model_calls", "timeout"],
)
async def test_a_run_that_has_to_stop_ends_as_failed(agent: Agent, error: type[SymfonicError]) -> None:
    seen = Watcher()
    with pytest.raises(error) as raised:
        await agent.run("go", observers=(seen,))

    check_pairs(seen.events)
    assert seen.events[-1].where.depth == 0
    last = seen.of(RunFinished)[-1]
    assert (last.status, last.text) == ("failed", str(raised.value))
    assert last.usage == raised.value.usage  # type: ignore[attr-defined]


async def test_a_tool_is_told_with_its_arguments_and_what_came_of_it() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    seen = Watcher()
    calls = [tool_call("add", a=1, b=2), tool_call("nothing"), tool_call("add", a="x", b=1)]
    await Agent(ScriptedModel(calls, "done"), tools=[add]).run("go", observers=(seen,))

    assert sorted((event.where.tool_call_id, event.name) for event in seen.of(ToolStarted)) == [
        ("call_1_1", "add"),
        ("call_1_2", "nothing"),
        ("call_1_3", "add"),
    ]
    ended = {event.where.tool_call_id: event for event in seen.of(ToolFinished)}
    assert (ended["call_1_1"].text, ended["call_1_1"].failed) == ("3", False)
    assert [ended[key].failed for key in ("call_1_2", "call_1_3")] == [True, True]


async def test_model_calls_are_told_with_their_length_and_what_the_model_wants() -> None:
    seen = Watcher()
    await boss(child("leaf", leaf())).run("go", observers=(seen,))

    assert [(event.where.depth, event.messages) for event in seen.of(ModelCalled)] == [(0, 1), (1, 1), (0, 3)]
    assert [call.name for call in seen.of(ModelAnswered)[0].tool_calls] == ["run_agent"]
    assert seen.of(ModelAnswered)[-1].text == "done"


async def test_two_roots_at_once_do_not_mix() -> None:
    first, second = Watcher(), Watcher()
    agent = chain("top", "middle", "bottom")
    results = await asyncio.gather(agent.run("1", observers=(first,)), agent.run("2", observers=(second,)))

    for seen, result in zip((first, second), results, strict=True):
        check_pairs(seen.events)
        assert {event.where.root_run_id for event in seen.events} == {result.root_run_id}
        assert len(seen.of(RunStarted)) == 3


async def test_an_observer_given_to_one_call_hears_of_that_call_alone() -> None:
    seen = Watcher()
    agent = chain("top", "bottom")
    await agent.run("before")
    result = await agent.run("watched", observers=(seen,))
    await agent.run("after")

    assert {event.where.root_run_id for event in seen.events} == {result.run_id}
    assert seen.of(RunStarted)[0].task == "watched"


async def test_a_childs_own_observer_hears_of_the_child_and_what_is_below_alone() -> None:
    above, own = Watcher(), Watcher()
    bottom = leaf()
    middle = boss(child("bottom", bottom), options=Options(observers=(own,)))
    await boss(child("middle", middle), child("other", leaf())).run("go", observers=(above,))

    assert {event.where.depth for event in own.events} == {1, 2}
    assert {event.where.agent for event in own.events} == {"middle", "bottom"}
    check_pairs(own.events)
    assert len(above.of(RunStarted)) == 4


@pytest.mark.parametrize("watcher", [Watcher, LateWatcher])
async def test_an_observer_met_again_in_a_cycle_is_told_once(watcher: type[Watcher]) -> None:
    seen = watcher()
    agent: Agent = Agent(
        ScriptedModel(asks("self"), "done"),
        sub_agents=[child("self", AgentRef(lambda: agent))],
        options=Options(observers=(seen,)),
        max_depth=2,
    )
    await agent.run("go")
    check_pairs(seen.events)
    assert len(seen.of(RunStarted)) == 3


async def test_a_run_in_a_thread_of_a_tool_is_told_under_the_run_that_it_is_part_of() -> None:
    inner = leaf("deep", name="inner")

    def look() -> str:
        return inner.run_sync("look").text

    seen = Watcher()
    result = await Agent(ScriptedModel(tool_call("look"), "done"), tools=[look], name="top").run(
        "go", observers=(seen,)
    )
    check_pairs(seen.events)
    [top, below] = [event.where for event in seen.of(RunStarted)]
    assert (below.agent, below.depth, below.parent_run_id) == ("inner", 1, result.run_id)
    assert below.tool_call_id == "call_1_1"
    assert top.root_run_id == below.root_run_id


async def test_a_delegation_made_in_another_loop_is_told_all_the_same() -> None:
    inner = leaf("deep", name="inner")
    threads: set[int] = set()
    seen = Watcher()

    class Foreign:
        async def run(self, query: str) -> Any:
            return await asyncio.to_thread(lambda: asyncio.run(inner.run(query)))

    def note(event: Any) -> None:
        threads.add(threading.get_ident())

    await boss(child("foreign", Foreign())).run("go", observers=(seen, note))
    check_pairs(seen.events)
    assert len(threads) == 2
    assert [event.where.agent for event in seen.of(RunStarted)] == ["boss", "inner"]
    assert seen.of(RunStarted)[1].where.parent_run_id == seen.of(DelegationStarted)[0].child.run_id


async def test_a_foreign_child_is_told_by_its_delegation_alone() -> None:
    seen = Watcher()
    await boss(child("scripted", ScriptedChild("hi"))).run("go", observers=(seen,))

    assert [event.where.agent for event in seen.of(RunStarted)] == ["boss"]
    assert [event.message for event in seen.of(DelegationFinished)] == ["hi"]


async def test_parallel_siblings_each_have_their_own_tool_call() -> None:
    seen = Watcher()
    names = [f"c{number}" for number in range(8)]
    await boss(*(child(name, leaf()) for name in names)).run("go", observers=(seen,))

    check_pairs(seen.events)
    assert {event.name: event.where.tool_call_id for event in seen.of(DelegationFinished)} == {
        name: f"call_1_{number}" for number, name in enumerate(names, 1)
    }
    assert len({event.where.tool_call_id for event in seen.of(RunStarted)}) == 9


async def test_with_nobody_watching_no_event_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def place(*parts: Any) -> None:
        made.append(parts)

    monkeypatch.setattr(events_module, "Where", place)
    result = await chain("top", "middle", "bottom").run("go")
    assert result.tally.by_outcome == {DelegationOutcome.DELIVERED: 2}
    assert made == []
    await leaf().run("go", observers=(lambda event: None,))
    assert len(made) == 4, "which shows that the place of every event is worked out there"


def test_the_outcomes_of_the_tests_and_of_the_library_are_the_same() -> None:
    refusals = {"refused_depth", "unknown_child", "refused_budget", "refused_policy"}
    assert {*OUTCOMES, *refusals} == {outcome.value for outcome in DelegationOutcome}
    assert kinds([]) == []


async def test_the_tree_that_the_command_line_shows_has_one_delegation_for_all_attempts() -> None:
    tree, seen = DelegationTree(), Watcher()
    flaky = ScriptedChild(ValueError("first"), "second time lucky")
    with stamina.set_testing(True, attempts=2, cap=True):
        await boss(child("flaky", flaky, policy=ChildPolicy(retries=1))).run("go", observers=(seen,))
    for event in seen.events:
        tree.note(event)
    assert tree.summary() == "1 delivered"
