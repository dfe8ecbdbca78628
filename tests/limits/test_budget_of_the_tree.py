"""One budget for the whole tree: reserved before a child starts, inherited as what is left, only ever tightened."""

import asyncio
import contextvars
import threading
import time
from collections.abc import Iterator
from types import FrameType

import pytest
from limits_fakes import (
    DELIVERED,
    REFUSED,
    Worker,
    asks,
    at_once,
    bounded,
    child,
    crowd,
    in_threads,
    in_turn,
    reached,
    talking,
    walk,
)

from symfonic import Agent, Limits
from symfonic.errors import LimitReachedError
from symfonic.testing import FunctionModel, ScriptedModel, tool_call

SIXTY_FOUR = [f"task {number}" for number in range(64)]


@pytest.fixture
def restless() -> Iterator[None]:
    """Threads that start meanwhile take turns after every line of what reserves a child."""

    def trace(frame: FrameType, event: str, arg: object) -> object:
        if frame.f_code.co_name != "reserve_child":
            return None
        time.sleep(0)
        return trace

    before = threading.gettrace()
    threading.settrace(trace)  # type: ignore[arg-type]
    yield
    threading.settrace(before)  # type: ignore[arg-type]


async def test_64_delegations_at_once_against_a_budget_of_10_start_exactly_10() -> None:
    worker = crowd(10)  # each waits until ten are running: none of them has given anything back

    with bounded(child(worker), limits=Limits(max_delegations=10)) as delegate:
        records = await at_once(delegate, SIXTY_FOUR)

    assert len(worker.tasks) == 10
    assert [record.outcome for record in records] == [DELIVERED] * 10 + [REFUSED] * 54
    assert {reached(record) for record in records[10:]} == {("max_delegations", 10)}


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("attempt", range(3))
def test_64_delegations_at_once_from_threads_against_a_budget_of_10_start_exactly_10(attempt: int) -> None:
    worker = crowd(10)

    with bounded(child(worker), limits=Limits(max_delegations=10)) as delegate:
        records = in_threads(delegate, SIXTY_FOUR)

    assert len(worker.tasks) == 10
    assert sum(record.delivered for record in records) == 10
    assert {reached(record) for record in records if not record.delivered} == {("max_delegations", 10)}


@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("limits", [Limits(max_fan_out=10), Limits(max_repeats=10)], ids=["fan-out", "repeats"])
def test_what_one_run_may_ask_is_counted_exactly_from_threads_too(limits: Limits) -> None:
    worker = Worker()

    with bounded(child(worker), limits=limits) as delegate:
        records = in_threads(delegate, ["the same task"] * 64)

    assert len(worker.tasks) == sum(record.delivered for record in records) == 10


async def test_64_calls_of_one_models_reply_against_a_budget_of_10_start_exactly_10() -> None:
    worker = Worker()
    lead = Agent(asks("child", SIXTY_FOUR, at_once=True), sub_agents=[child(worker)], limits=Limits(max_delegations=10))

    result = await lead.run("go")

    assert len(worker.tasks) == 10
    assert result.tally.by_outcome == {DELIVERED: 10, REFUSED: 54}
    assert len(result.delegated_to) == 10


async def test_a_budget_of_four_over_three_children_refuses_the_fifth_wherever_it_is_asked_for() -> None:
    leaves = Worker()
    helpers = [
        child(Agent(asks("leaf", [f"{name} {n}" for n in range(3)]), sub_agents=[child(leaves, "leaf")]), name)
        for name in ("one", "two", "three")
    ]
    turns = [tool_call("run_agent", name=name, task="go") for name in ("one", "two", "three")]
    lead = Agent(ScriptedModel(*turns, "done"), sub_agents=helpers, limits=Limits(max_delegations=4))

    result = await lead.run("go")

    records = walk(result.delegations)
    assert [record.outcome for record in records].count(DELIVERED) == 4
    assert leaves.tasks == ["one 0", "one 1", "one 2"]
    refusals = [record for record in records if not record.delivered]
    assert {reached(record) for record in refusals} == {("max_delegations", 4)}
    assert [record.name for record in refusals] == ["two", "three"]


async def test_a_child_inherits_what_is_left_and_not_the_whole() -> None:
    leaf = Worker()
    middle = Agent(asks("leaf", list("abcde")), sub_agents=[child(leaf, "leaf")])
    other = Worker()
    lead = Agent(
        ScriptedModel(*[tool_call("run_agent", name=name, task="go") for name in ("other", "middle")], "done"),
        sub_agents=[child(other, "other"), child(middle, "middle")],
        limits=Limits(max_delegations=4),
    )

    result = await lead.run("go")

    assert leaf.tasks == ["a", "b"]
    assert [record.outcome for record in result.delegations[1].children] == [DELIVERED] * 2 + [REFUSED] * 3


@pytest.mark.parametrize(("own", "expected"), [(2, 2), (100, 3)])
async def test_a_childs_own_limits_only_tighten(own: int, expected: int) -> None:
    leaf = Worker()
    middle = Agent(asks("leaf", list("abcde")), sub_agents=[child(leaf, "leaf")], limits=Limits(max_delegations=own))
    lead = Agent(asks("middle", ["go"]), sub_agents=[child(middle, "middle")], limits=Limits(max_delegations=4))

    result = await lead.run("go")

    assert len(leaf.tasks) == expected
    refused = result.delegations[0].children[expected]
    assert reached(refused) == ("max_delegations", min(own, 4))


async def test_what_a_child_spends_of_its_own_budget_is_spent_of_its_parents() -> None:
    leaf, late = Worker(), Worker()
    middle = Agent(asks("leaf", ["a", "b"]), sub_agents=[child(leaf, "leaf")], limits=Limits(max_delegations=9))
    lead = Agent(
        ScriptedModel(*[tool_call("run_agent", name=name, task="go") for name in ("middle", "late", "late")], "done"),
        sub_agents=[child(middle, "middle"), child(late, "late")],
        limits=Limits(max_delegations=4),
    )

    await lead.run("go")

    assert late.tasks == ["go"]


async def test_a_childs_own_budget_is_its_runs_and_not_its_objects() -> None:
    leaf = Worker()
    middle = Agent(asks("leaf", list("abc")), sub_agents=[child(leaf, "leaf")], limits=Limits(max_delegations=1))
    lead = Agent(asks("middle", ["first", "second"]), sub_agents=[child(middle, "middle")])

    await lead.run("go")

    assert leaf.tasks == ["a", "a"]


async def test_limits_of_a_run_hold_besides_those_of_its_agent() -> None:
    def lead(**more: Limits) -> tuple[Worker, Agent]:
        worker = Worker()
        return worker, Agent(asks("child", list("abcd")), sub_agents=[child(worker)], **more)

    agents, runs, both = lead(limits=Limits(max_delegations=2)), lead(), lead(limits=Limits(max_delegations=3))
    await agents[1].run("go")
    await runs[1].run("go", limits=Limits(max_delegations=1))
    await both[1].run("go", limits=Limits(max_fan_out=2))
    await both[1].run("go", limits=Limits(max_delegations=100))

    assert [len(worker.tasks) for worker, _ in (agents, runs, both)] == [2, 1, 2 + 3]


async def test_two_roots_at_once_do_not_share_a_budget() -> None:
    worker = Worker()
    lead = Agent(asks("child", list("abcd")), sub_agents=[child(worker)], limits=Limits(max_delegations=3))

    results = [await each for each in asyncio.as_completed([lead.run("go"), lead.run("go")])]

    assert [len(result.delegated_to) for result in results] == [3, 3]


async def test_a_task_that_outlives_its_run_still_draws_on_the_budget() -> None:
    worker, go_on = Worker(), asyncio.Event()
    with bounded(child(worker), limits=Limits(max_delegations=2)) as delegate:

        async def later() -> list[bool]:
            await go_on.wait()
            return [record.delivered for record in await in_turn(delegate, ["b", "c", "d"])]

        task = asyncio.create_task(later())
        await delegate("child", "a")
    go_on.set()

    assert await task == [True, False, False]
    assert worker.tasks == ["a", "b"]


async def test_code_that_carries_no_context_is_outside_the_tree_and_its_budget() -> None:
    worker = Worker()
    with bounded(child(worker), limits=Limits(max_delegations=0)) as delegate:
        inside = await delegate("child", "a")
        outside = await asyncio.create_task(delegate("child", "b"), context=contextvars.Context())  # type: ignore[arg-type]

    assert (inside.outcome, outside.outcome) == (REFUSED, DELIVERED)


async def test_a_reservation_is_not_given_back_by_a_child_that_fails_or_is_cancelled() -> None:
    begun = asyncio.Event()

    async def act(query: str) -> str:
        if query == "hang":
            begun.set()
            await asyncio.Event().wait()
        raise ValueError("no")

    worker = Worker(act)
    with bounded(child(worker), limits=Limits(max_delegations=2)) as delegate:
        failed = await delegate("child", "fail")
        task = asyncio.create_task(delegate("child", "hang"))  # type: ignore[arg-type]
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])
        refused = await delegate("child", "once more")

    assert not failed.outcome.refused
    assert refused.outcome is REFUSED


async def test_what_is_refused_for_another_reason_costs_nothing() -> None:
    worker = Worker()
    with bounded(child(worker), limits=Limits(max_delegations=1, max_fan_out=1, max_repeats=1)) as delegate:
        unknown = await in_turn(delegate, ["a"] * 5, name="nobody")
        delivered = await delegate("child", "a")
        refused = await in_turn(delegate, ["b"] * 5)

    assert not any(record.delivered for record in unknown)
    assert delivered.delivered
    assert {reached(record) for record in refused} == {("max_delegations", 1)}


async def test_max_repeats_knows_children_and_tasks_apart_and_runs_too() -> None:
    one, two = Worker(), Worker()
    with bounded(child(one, "one"), child(two, "two"), limits=Limits(max_repeats=1)) as delegate:
        records = [await delegate(name, task) for name in ("one", "two") for task in ("a", "b", "a")]
    leaf = Worker()
    middle = Agent(asks("leaf", ["a"]), sub_agents=[child(leaf, "leaf")])
    lead = Agent(asks("middle", ["x", "y"]), sub_agents=[child(middle, "middle")], limits=Limits(max_repeats=1))

    result = await lead.run("go")

    assert [record.delivered for record in records] == [True, True, False] * 2
    assert leaf.tasks == ["a", "a"]  # asked by two runs, once by each
    assert all(record.delivered for record in walk(result.delegations))


async def test_the_overshoot_of_tokens_is_at_most_the_calls_in_flight() -> None:
    together, answer = asyncio.Barrier(4), asyncio.Event()

    async def reply(messages: object, tools: object) -> str:
        await together.wait()
        await answer.wait()
        return "done"

    said: list[str] = []
    talker = talking(100, 0, said)
    slow = Agent(FunctionModel(reply))
    with bounded(child(slow, "slow"), child(talker), limits=Limits(max_tokens=100)) as delegate:
        in_flight = [asyncio.create_task(delegate("slow", str(number))) for number in range(3)]  # type: ignore[arg-type]
        await together.wait()  # three model calls are under way
        spending = await delegate("child", "spend it all")
        refused = await delegate("child", "more")
        answer.set()
        ended = [await task for task in in_flight]

    assert spending.delivered
    assert reached(refused) == ("max_tokens", 100)
    assert all(record.delivered for record in ended)  # what was in flight is not cut off
    assert said == ["spend it all"]


async def test_a_child_without_a_model_call_left_fails_with_the_limit_and_is_not_worth_a_retry() -> None:
    lead = Agent(asks("child", ["a"]), sub_agents=[child(talking())], limits=Limits(max_model_calls=1))

    with pytest.raises(LimitReachedError) as raised:
        await lead.run("go")

    [record] = raised.value.delegations
    assert record.outcome is REFUSED
    assert reached(record) == ("max_model_calls", 1)
    assert not record.trace.retryable
