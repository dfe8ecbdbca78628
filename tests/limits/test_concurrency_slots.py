"""How many children run at once: the limit holds, nesting never waits for itself, and no place is ever lost."""

import asyncio
import contextvars
import gc
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from limits_fakes import (
    DELIVERED,
    REFUSED,
    Worker,
    asks,
    at_once,
    bounded,
    calls,
    child,
    crowd,
    in_threads,
    reached,
    walk,
)

import symfonic
from symfonic import Agent, AgentRef, ChildPolicy, Limits, SubAgent
from symfonic.capabilities.delegation import DelegationCapability, PrebuiltChild
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import FunctionModel

ONE = Limits(max_concurrency=1)
TREES = st.recursive(st.just(()), lambda below: st.lists(below, min_size=1, max_size=3).map(tuple), max_leaves=12)


async def in_time(work: object) -> object:
    """What would wait for itself fails instead of hanging."""
    async with asyncio.timeout(10):
        return await work  # type: ignore[misc]


class Watched:
    """Counts the leaves and branches that are doing something of their own at the same time."""

    def __init__(self) -> None:
        self.busy = self.peak = 0

    async def work(self) -> None:
        self.busy += 1
        self.peak = max(self.peak, self.busy)
        for _ in range(3):
            await asyncio.sleep(0)
        self.busy -= 1


def tree_of(shape: tuple, watched: Watched) -> Worker:
    """A foreign child that works, has its own children do so at once, and works again."""
    below = [PrebuiltChild(f"c{number}", tree_of(inner, watched), "Works.") for number, inner in enumerate(shape)]
    tools = DelegationCapability.declare(below, max_depth=20).tools

    async def act(query: str) -> str:
        await watched.work()
        async with asyncio.TaskGroup() as group:
            for each in below:
                group.create_task(tools.delegate(each.name, "go"))
        await watched.work()
        return "done"

    return Worker(act)


def size_of(shape: tuple) -> int:
    return 1 + sum(map(size_of, shape))


async def test_a_tree_six_deep_runs_one_at_a_time() -> None:
    agent: Agent = Agent(asks("leaf", ["go"]), sub_agents=[child(Worker(), "leaf")])
    for _ in range(5):
        agent = Agent(asks("next", ["go"]), sub_agents=[child(agent, "next")])

    result = await in_time(agent.run("go", max_depth=6, limits=ONE))

    assert [record.depth for record in walk(result.delegations)] == [1, 2, 3, 4, 5, 6]
    assert all(record.delivered for record in walk(result.delegations))


@settings(max_examples=60)
@given(shape=TREES, most=st.integers(1, 4))
def test_no_tree_waits_for_itself_and_none_runs_more_at_once_than_it_may(shape: tuple, most: int) -> None:
    watched = Watched()
    root = bounded(child(tree_of(shape, watched)), limits=Limits(max_concurrency=most))

    async def bounded_run() -> object:
        with root as delegate:
            return await in_time(delegate("child", "go"))

    record = asyncio.run(bounded_run())

    assert len(walk([record])) == size_of(shape)
    assert all(each.delivered for each in walk([record]))
    assert watched.peak <= most


@settings(max_examples=30)
@given(inner=st.integers(1, 3), outer=st.integers(1, 3), width=st.integers(1, 6))
def test_limits_on_several_levels_hold_together(inner: int, outer: int, width: int) -> None:
    leaf = Worker()
    tasks = [str(number) for number in range(width)]
    middle = Agent(
        asks("leaf", tasks, at_once=True), sub_agents=[child(leaf, "leaf")], limits=Limits(max_concurrency=inner)
    )
    lead = Agent(asks("middle", ["a", "b"], at_once=True), sub_agents=[child(middle, "middle")])

    result = asyncio.run(in_time(lead.run("go", limits=Limits(max_concurrency=outer))))  # type: ignore[arg-type]

    assert [record.outcome for record in walk(result.delegations)] == [DELIVERED] * (2 + 2 * width)
    assert leaf.peak <= min(2 * inner, outer)


async def test_an_agent_run_in_a_childs_tool_takes_over_the_childs_place() -> None:
    leaf = Worker()
    inner = Agent(asks("leaf", ["a", "b"]), sub_agents=[child(leaf, "leaf")])

    async def ask() -> str:
        return (await inner.run("go")).text

    def ask_in_a_thread() -> str:
        return inner.run_sync("go").text

    for tool in (ask, ask_in_a_thread):
        middle = Agent(calls("ask"), tools=[symfonic.tool(tool, name="ask", description="Asks.")])
        lead = Agent(asks("middle", ["go", "go again"]), sub_agents=[child(middle, "middle")])
        result = await in_time(lead.run("go", max_depth=5, limits=ONE))
        assert [record.outcome for record in result.delegations] == [DELIVERED] * 2

    assert leaf.tasks == ["a", "b"] * 4
    assert leaf.peak == 1


async def test_a_foreign_child_that_delegates_from_a_thread_waits_for_no_one() -> None:
    leaf = Worker()

    async def act(query: str) -> str:
        records = await asyncio.to_thread(in_threads, delegate, ["a", "b", "c"], "leaf")
        return " ".join(record.message for record in records)

    with bounded(child(Worker(act)), child(leaf, "leaf"), limits=ONE) as delegate:
        record = await in_time(delegate("child", "go"))

    assert record.message == "done done done"
    assert leaf.peak == 1


def test_the_limit_holds_across_event_loops_and_threads() -> None:
    worker = crowd(3)

    with bounded(child(worker), limits=Limits(max_concurrency=3)) as delegate:
        records = in_threads(delegate, [str(number) for number in range(20)])

    assert all(record.delivered for record in records)
    assert worker.peak == 3


async def still_free(delegate: object, most: int) -> None:
    """Every place is there: so many run at once."""
    probe = crowd(most)
    probes[0] = probe
    records = await in_time(at_once(delegate, [str(n) for n in range(most)], "probe"))  # type: ignore[arg-type]
    assert [record.outcome for record in records] == [DELIVERED] * most
    assert probe.peak == most


probes: dict[int, Worker] = {}


class Probe:
    async def run(self, query: str) -> object:
        return await probes[0].run(query)


@pytest.mark.parametrize("most", [1, 2])
async def test_no_place_is_lost_by_a_child_that_raises_or_answers_nothing(most: int) -> None:
    async def act(query: str) -> str:
        if query == "raise":
            raise ValueError(query)
        return ""

    with bounded(child(Worker(act)), child(Probe(), "probe"), limits=Limits(max_concurrency=most)) as delegate:
        for _ in range(3):
            await at_once(delegate, ["raise", "nothing", "raise"])

        await still_free(delegate, most)


async def test_no_place_is_lost_by_a_child_that_is_cancelled_while_it_runs() -> None:
    begun = asyncio.Event()

    async def act(query: str) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    with bounded(child(Worker(act)), child(Probe(), "probe"), limits=Limits(max_concurrency=2)) as delegate:
        task = asyncio.create_task(delegate("child", "a"))  # type: ignore[arg-type]
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])

        await still_free(delegate, 2)


@pytest.mark.parametrize("when", ["before it has one", "just as it gets one"])
async def test_no_place_is_lost_by_a_delegation_that_is_cancelled_while_it_waits_for_one(when: str) -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def act(query: str) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    worker = Worker(act)
    with bounded(child(worker), child(Probe(), "probe"), limits=ONE) as delegate:
        first = asyncio.create_task(delegate("child", "first"))  # type: ignore[arg-type]
        await begun.wait()
        waiting = [asyncio.create_task(delegate("child", f"waiting {n}")) for n in range(3)]  # type: ignore[arg-type]
        await asyncio.sleep(0)
        if when == "just as it gets one":
            go_on.set()
            first.add_done_callback(lambda _: [task.cancel() for task in waiting])
        else:
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            go_on.set()
        await asyncio.wait([first, *waiting])

        assert first.result().delivered
        await still_free(delegate, 1)
    assert when == "just as it gets one" or worker.tasks == ["first"]


async def test_a_cancelled_wait_lets_the_next_one_in() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def act(query: str) -> str:
        begun.set()
        await go_on.wait()
        return query

    with bounded(child(Worker(act)), limits=ONE) as delegate:
        first, second, third = (asyncio.create_task(delegate("child", task)) for task in ("1", "2", "3"))  # type: ignore[arg-type]
        await begun.wait()
        second.cancel()
        go_on.set()

        assert [(await in_time(task)).message for task in (first, third)] == ["1", "3"]
        assert second.cancelled()


async def test_a_place_is_not_taken_back_by_a_run_that_has_ended() -> None:
    """A child leaves a task behind that delegates; the child is over by the time that delegation is."""
    begun, go_on = asyncio.Event(), asyncio.Event()
    left: list[asyncio.Task] = []

    async def slow(query: str) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    async def leave(query: str) -> str:
        left.append(asyncio.create_task(delegate("slow", "go")))  # type: ignore[arg-type]
        await begun.wait()
        return "left"

    several = (child(Worker(leave)), child(Worker(slow), "slow"), child(Probe(), "probe"))
    with bounded(*several, limits=ONE) as delegate:
        record = await in_time(delegate("child", "go"))
        go_on.set()
        await in_time(left[0])

        assert (record.message, left[0].result().message) == ("left", "done")
        await still_free(delegate, 1)


def test_no_place_is_lost_where_an_event_loop_is_closed_under_a_waiting_delegation() -> None:
    begun, go_on, worker_over = threading.Event(), threading.Event(), threading.Event()

    async def act(query: str) -> str:
        begun.set()
        await asyncio.to_thread(go_on.wait)
        return "done"

    several = (child(Worker(act)), child(Probe(), "probe"))
    with bounded(*several, limits=ONE) as delegate:

        def hold() -> None:
            asyncio.run(delegate("child", "holds the place"))  # type: ignore[arg-type]
            worker_over.set()

        threading.Thread(target=contextvars.copy_context().run, args=(hold,)).start()
        assert begun.wait(10)
        loop = asyncio.new_event_loop()
        waiting = loop.create_task(delegate("probe", "waits"))  # type: ignore[arg-type]
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()
        go_on.set()
        assert worker_over.wait(10)

        asyncio.run(still_free(delegate, 1))
        assert not waiting.done()
        waiting._log_destroy_pending = False  # type: ignore[attr-defined]
        del waiting
        gc.collect()
        asyncio.run(still_free(delegate, 1))


async def test_a_place_is_given_first_come_first_served() -> None:
    worker = Worker()
    with bounded(child(worker), limits=ONE) as delegate:
        await at_once(delegate, list("abcdefgh"))

    assert worker.tasks == list("abcdefgh")


async def test_one_that_waited_for_a_place_is_refused_if_there_is_nothing_left_to_spend_by_then() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def reply(messages: object, tools: object) -> ModelReply:
        begun.set()
        await go_on.wait()
        return ModelReply("done", (), 10, 0)

    late = Worker()
    limits = Limits(max_concurrency=1, max_tokens=10)
    with bounded(child(Agent(FunctionModel(reply)), "spender"), child(late, "late"), limits=limits) as delegate:
        spending = asyncio.create_task(delegate("spender", "go"))  # type: ignore[arg-type]
        await begun.wait()
        waiting = asyncio.create_task(delegate("late", "go"))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        go_on.set()
        records = [await in_time(task) for task in (spending, waiting)]

    assert [record.outcome for record in records] == [DELIVERED, REFUSED]
    assert reached(records[1]) == ("max_tokens", 10)
    assert late.tasks == []


@pytest.mark.parametrize("tree", [None, 1, 2])
async def test_a_childs_own_limit_and_that_of_the_tree_do_not_wait_for_each_other(tree: int | None) -> None:
    """The child has one turn, and delegates while its sisters wait for theirs with every place of the tree taken."""
    leaf = Worker()
    middle = Agent(asks("leaf", ["go"]), sub_agents=[child(leaf, "leaf")])
    only_one = SubAgent("middle", middle, "Does it.", policy=ChildPolicy(max_concurrency=1))
    lead = Agent(asks("middle", list("abcd"), at_once=True), sub_agents=[only_one])

    result = await in_time(lead.run("go", limits=Limits(max_concurrency=tree)))

    assert [record.outcome for record in result.delegations] == [DELIVERED] * 4
    assert leaf.peak == 1


async def test_a_child_that_delegates_to_itself_does_not_wait_for_its_own_turn() -> None:
    policy = ChildPolicy(max_concurrency=1)
    again: Agent = Agent(
        asks("self", ["once more"]),
        sub_agents=[SubAgent("self", AgentRef(lambda: again), "Looks closer.", policy=policy)],
    )

    result = await in_time(again.run("go", max_depth=4, limits=ONE))

    delivered = [record for record in walk(result.delegations) if record.delivered]
    assert [record.depth for record in delivered] == [1, 2, 3, 4]
