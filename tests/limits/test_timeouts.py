"""Time: of a tree, of a child's own agent, of a child's policy; told apart from a child's own errors."""

import asyncio
import threading
import time
from contextlib import suppress

import pytest
from limits_fakes import REFUSED, Worker, asks, at_once, bounded, child, hanging, reached, walk

import symfonic
from symfonic import Agent, ChildPolicy, DelegationOutcome, Limits
from symfonic.errors import LimitReachedError, OverrunError
from symfonic.kernel.contracts.events import DelegationFinished, DelegationRefused, DelegationStarted, RunFinished
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, tool_call

TIMED_OUT, FAILED = DelegationOutcome.CHILD_TIMED_OUT, DelegationOutcome.CHILD_FAILED
QUICK = ChildPolicy(timeout=0.02)


@pytest.fixture(autouse=True)
async def no_task_left() -> object:
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not [task.get_coro() for task in left]


async def test_a_child_that_never_returns_ends_at_its_timeout_as_a_value_and_its_finally_runs() -> None:
    worker = hanging()
    with bounded(child(worker, policy=ChildPolicy(timeout=0.1))) as delegate:
        began = time.monotonic()
        record = await delegate("child", "go")
        took = time.monotonic() - began

    assert record.outcome is TIMED_OUT
    assert not record.outcome.refused
    assert record.message == (
        "Sub-agent 'child' timed out after 0.1 s and was cancelled;"
        " what it had started in a thread may still be running"
    )
    assert 0.1 <= took < 1
    assert worker.ended.is_set()
    assert record.trace is not None
    assert isinstance(record.trace.error, OverrunError)
    assert record.trace.retryable
    assert record.trace.child is not None


async def test_the_parent_goes_on_after_a_childs_timeout() -> None:
    lead = Agent(asks("child", ["a", "b"]), sub_agents=[child(hanging(), policy=QUICK)])

    result = await lead.run("go")

    assert result.text == "done"
    assert [record.outcome for record in result.delegations] == [TIMED_OUT, TIMED_OUT]
    assert result.tally.by_outcome == {TIMED_OUT: 2}


async def test_a_policy_bounds_each_delegation_and_not_all_of_them_together() -> None:
    async def act(query: str) -> str:
        await asyncio.sleep(0.03)
        return "done"

    with bounded(child(Worker(act), policy=ChildPolicy(timeout=0.2))) as delegate:
        records = [await delegate("child", str(number)) for number in range(8)]

    assert all(record.delivered for record in records)


@pytest.mark.parametrize("error", [TimeoutError("theirs"), TimeoutError()])
async def test_a_childs_own_timeout_error_is_its_failure(error: Exception) -> None:
    several = (child(ScriptedChild(error), "free"), child(ScriptedChild(error), "timed", ChildPolicy(timeout=30)))
    with bounded(*several, limits=Limits(timeout=30)) as delegate:
        records = [await delegate(name, "go") for name in ("free", "timed")]

    assert [record.outcome for record in records] == [FAILED, FAILED]
    assert [record.trace.error for record in records if record.trace] == [error, error]


async def test_a_childs_own_asyncio_timeout_is_its_failure() -> None:
    async def act(query: str) -> str:
        async with asyncio.timeout(0):
            await asyncio.Event().wait()
        return "never"

    with bounded(child(Worker(act), policy=ChildPolicy(timeout=30)), limits=Limits(timeout=30)) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is FAILED
    assert record.message == "Sub-agent 'child' failed: TimeoutError"


async def test_a_child_that_turns_its_cancellation_into_an_error_has_timed_out_all_the_same() -> None:
    async def act(query: str) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as cancelled:
            raise ValueError("gave up") from cancelled
        return "never"

    with bounded(child(Worker(act), policy=QUICK)) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is TIMED_OUT


async def test_a_child_that_swallows_its_cancellation_and_answers_late_is_not_heard() -> None:
    async def act(query: str) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return "too late"

    with bounded(child(Worker(act), policy=QUICK)) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is TIMED_OUT
    assert "too late" not in record.message


async def test_a_child_that_swallows_its_cancellation_and_goes_on_is_cancelled_again() -> None:
    swallowed: list[str] = []

    async def act(query: str) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.append(query)
        await asyncio.Event().wait()
        return "never"

    worker = Worker(act)
    with bounded(child(worker, policy=QUICK)) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is TIMED_OUT
    assert swallowed == ["go"]
    assert worker.ended.is_set()


async def test_a_child_in_a_thread_is_left_and_its_late_result_and_error_are_ignored() -> None:
    go_on, ended = threading.Event(), threading.Semaphore(0)

    def stuck(fails: bool) -> str:
        try:
            go_on.wait(10)
            if fails:
                raise ValueError("late")
            return "late"
        finally:
            ended.release()

    async def act(query: str) -> str:
        agent = Agent(
            ScriptedModel(tool_call("stuck", fails=query == "fail"), "done"), tools=[symfonic.tool(stuck, name="stuck")]
        )
        return (await agent.run("go")).text

    with bounded(child(Worker(act), policy=QUICK)) as delegate:
        records = [await delegate("child", task) for task in ("answer", "fail")]
        go_on.set()
        await asyncio.to_thread(lambda: [ended.acquire(timeout=10) for _ in range(2)])

    assert [record.outcome for record in records] == [TIMED_OUT, TIMED_OUT]
    assert all("may still be running" in record.message for record in records)


async def test_a_timed_out_child_has_one_start_and_one_end_among_the_events() -> None:
    events: list = []
    lead = Agent(asks("child", ["a"]), sub_agents=[child(hanging(), policy=QUICK)])

    await lead.run("go", observers=(events.append,))

    told = [event for event in events if isinstance(event, DelegationStarted | DelegationFinished | DelegationRefused)]
    assert [type(event) for event in told] == [DelegationStarted, DelegationFinished]
    assert told[1].outcome == TIMED_OUT.value


async def test_the_timeout_of_a_root_is_an_error_with_what_was_done_until_then() -> None:
    quick = ScriptedChild("here")
    turns = [tool_call("run_agent", name=name, task="go") for name in ("quick", "slow")]
    lead = Agent(
        ScriptedModel(*turns, "done"),
        sub_agents=[child(quick, "quick"), child(hanging(), "slow")],
        limits=Limits(timeout=0.05),
    )
    events: list = []

    with pytest.raises(LimitReachedError) as raised:
        await lead.run("go", observers=(events.append,))

    error = raised.value
    assert (error.limit, error.value) == ("timeout", 0.05)
    assert [record.outcome for record in error.delegations] == [DelegationOutcome.DELIVERED, TIMED_OUT]
    assert reached(error.delegations[1]) == ("timeout", 0.05)
    assert "after 0.05 s" in error.delegations[1].message
    assert error.usage.model_calls == 2
    [ended] = [event for event in events if isinstance(event, RunFinished)]
    assert (ended.status, ended.text) == ("failed", "the limit timeout=0.05 is reached")
    assert error.run_id == ended.where.run_id


async def test_the_deadline_of_the_root_holds_several_levels_down() -> None:
    worker = hanging()
    agent: Agent = Agent(asks("leaf", ["go"]), sub_agents=[child(worker, "leaf")])
    for _ in range(3):
        agent = Agent(asks("next", ["go"]), sub_agents=[child(agent, "next")])

    with pytest.raises(LimitReachedError) as raised:
        await agent.run("go", max_depth=5, limits=Limits(timeout=0.05))

    assert {record.outcome for record in walk(raised.value.delegations)} == {TIMED_OUT}
    assert worker.ended.is_set()


async def test_a_child_may_have_less_time_than_the_tree_and_never_more() -> None:
    hasty = Agent(asks("leaf", ["go"]), sub_agents=[child(hanging(), "leaf")], limits=Limits(timeout=0.02))
    lead = Agent(asks("hasty", ["go"]), sub_agents=[child(hasty, "hasty")], limits=Limits(timeout=20))
    patient = Agent(asks("leaf", ["go"]), sub_agents=[child(hanging(), "leaf")], limits=Limits(timeout=20))
    late = Agent(asks("patient", ["go"]), sub_agents=[child(patient, "patient")], limits=Limits(timeout=0.02))

    result = await lead.run("go")
    with pytest.raises(LimitReachedError) as raised:
        await late.run("go")

    [record] = result.delegations
    assert record.outcome is TIMED_OUT
    assert reached(record) == ("timeout", 0.02)
    assert [each.outcome for each in record.children] == [TIMED_OUT]
    assert raised.value.value == 0.02


async def test_a_model_that_swallows_the_cancellation_cannot_hold_up_a_root() -> None:
    swallowed: list[str] = []

    async def reply(messages: object, tools: object) -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.append("once")
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(LimitReachedError, match="timeout"):
        await Agent(FunctionModel(reply)).run("go", limits=Limits(timeout=0.02))

    assert swallowed == ["once"]


async def test_once_the_time_is_over_nothing_is_started() -> None:
    worker = Worker()
    with bounded(child(worker), limits=Limits(timeout=0.001)) as delegate:
        time.sleep(0.005)  # noqa: ASYNC251 - the time is to be over
        record = await delegate("child", "go")

    assert record.outcome is REFUSED
    assert reached(record) == ("timeout", 0.001)
    assert record.message.startswith("Delegation refused: the time for the whole task is over (timeout=0.001)")
    assert worker.tasks == []


async def test_one_that_waits_for_a_place_until_the_time_is_over_is_refused_and_never_started() -> None:
    holder, waited = hanging(), Worker()
    events: list = []
    limits = Limits(timeout=0.05, max_concurrency=1)
    lead = Agent(
        ScriptedModel([tool_call("run_agent", name=name, task="go") for name in ("holder", "waits")]),
        sub_agents=[child(holder, "holder"), child(waited, "waits")],
        limits=limits,
    )

    with pytest.raises(LimitReachedError) as raised:
        await lead.run("go", observers=(events.append,))

    assert [record.outcome for record in raised.value.delegations] == [TIMED_OUT, REFUSED]
    assert reached(raised.value.delegations[1]) == ("timeout", 0.05)
    assert waited.tasks == []
    assert [event.name for event in events if isinstance(event, DelegationRefused)] == ["waits"]


async def test_waiting_for_a_childs_turn_is_not_its_time() -> None:
    async def act(query: str) -> str:
        await asyncio.sleep(0.12)
        return "done"

    with bounded(child(Worker(act), policy=ChildPolicy(timeout=0.2, max_concurrency=1))) as delegate:
        records = await at_once(delegate, ["a", "b", "c"])  # the third has waited longer than it may run

    assert [record.outcome for record in records] == [DelegationOutcome.DELIVERED] * 3


async def test_a_child_that_cancels_itself_has_not_timed_out() -> None:
    async def act(query: str) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        return "at once"

    records: list = []
    policies = (None, ChildPolicy(timeout=30))
    for policy in policies:
        lead = Agent(asks("child", ["a"]), sub_agents=[child(Worker(act), policy=policy)], limits=Limits(timeout=30))
        records.extend((await lead.run("go")).delegations)

    assert [record.outcome for record in records] == [DelegationOutcome.CHILD_CANCELLED] * 2


async def test_a_cancelled_parent_is_cancelled_whatever_time_its_child_had() -> None:
    begun = asyncio.Event()

    async def act(query: str) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    worker = Worker(act)
    several = child(worker, policy=ChildPolicy(timeout=30))
    with bounded(several, limits=Limits(timeout=30)) as delegate:
        task = asyncio.create_task(delegate("child", "go"))  # type: ignore[arg-type]
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])

    assert task.cancelled()
    assert worker.ended.is_set()
