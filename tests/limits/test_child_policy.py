"""What holds for one child: how many of its runs go on at once, and how far its authority reaches."""

import asyncio
from dataclasses import dataclass, replace

import pytest
from limits_fakes import DELIVERED, Worker, asks, at_once, bounded, child, crowd, in_threads, in_turn

from symfonic import Agent, ChildPolicy, DelegationOutcome, Limits, SubAgent
from symfonic.capabilities.delegation import DelegationCapability, PrebuiltChild

REFUSED_POLICY = DelegationOutcome.REFUSED_POLICY


async def test_a_child_with_one_turn_is_never_run_twice_at_once() -> None:
    worker = Worker()

    with bounded(child(worker, policy=ChildPolicy(max_concurrency=1))) as delegate:
        records = await at_once(delegate, list("abcdef"))

    assert [record.outcome for record in records] == [DELIVERED] * 6
    assert worker.tasks == list("abcdef")
    assert worker.peak == 1


def test_turns_are_counted_across_event_loops_and_threads() -> None:
    worker = crowd(2)

    with bounded(child(worker, policy=ChildPolicy(max_concurrency=2))) as delegate:
        records = in_threads(delegate, [str(number) for number in range(16)])

    assert all(record.delivered for record in records)
    assert worker.peak == 2


async def test_turns_are_counted_across_the_runs_of_an_agent() -> None:
    worker = Worker()
    lead = Agent(
        asks("child", list("ab"), at_once=True), sub_agents=[child(worker, policy=ChildPolicy(max_concurrency=1))]
    )

    results = [await each for each in asyncio.as_completed([lead.run("go") for _ in range(4)])]

    assert all(len(result.delegated_to) == 2 for result in results)
    assert worker.peak == 1


async def test_another_child_does_not_wait_for_this_ones_turn() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def act(query: str) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    policy = ChildPolicy(max_concurrency=1)
    with bounded(child(Worker(act), "slow", policy), child(Worker(), "quick", policy)) as delegate:
        slow = asyncio.create_task(delegate("slow", "go"))  # type: ignore[arg-type]
        await begun.wait()
        quick = await delegate("quick", "go")
        go_on.set()

        assert quick.delivered
        assert (await slow).delivered


async def test_a_turn_is_not_lost_by_one_that_is_cancelled_just_as_it_gets_it() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def act(query: str) -> str:
        begun.set()
        await go_on.wait()
        return "done"

    with bounded(child(Worker(act), policy=ChildPolicy(max_concurrency=1))) as delegate:
        first = asyncio.create_task(delegate("child", "first"))  # type: ignore[arg-type]
        await begun.wait()
        waiting = [asyncio.create_task(delegate("child", "waits")) for _ in range(3)]  # type: ignore[arg-type]
        await asyncio.sleep(0)
        first.add_done_callback(lambda _: [task.cancel() for task in waiting])
        go_on.set()
        await asyncio.wait([first, *waiting])
        async with asyncio.timeout(5):
            records = await at_once(delegate, ["x", "y"])

    assert [record.outcome for record in records] == [DELIVERED] * 2


@pytest.mark.parametrize("how", ["raises", "is cancelled", "is cancelled while it waits", "times out"])
async def test_a_turn_is_given_back_by_a_child_that(how: str) -> None:
    begun, hang = asyncio.Event(), asyncio.Event()

    async def act(query: str) -> str:
        begun.set()
        if query == "raises":
            raise ValueError(query)
        if query in ("is cancelled", "is cancelled while it waits", "times out"):
            await hang.wait()
        return "done"

    policy = ChildPolicy(max_concurrency=1, timeout=0.02 if how == "times out" else None)
    with bounded(child(Worker(act), policy=policy)) as delegate:
        first = asyncio.create_task(delegate("child", how))  # type: ignore[arg-type]
        await begun.wait()
        if how == "is cancelled":
            first.cancel()
        if how == "is cancelled while it waits":
            second = asyncio.create_task(delegate("child", "waits"))  # type: ignore[arg-type]
            await asyncio.sleep(0)
            second.cancel()
            await asyncio.wait([second])
            hang.set()
        await asyncio.wait([first])
        async with asyncio.timeout(5):
            records = await at_once(delegate, ["x", "y"])

    assert [record.outcome for record in records] == [DELIVERED] * 2


async def test_what_a_child_is_asked_by_a_task_that_outlived_it_waits_for_a_turn() -> None:
    go_on, left = asyncio.Event(), []

    async def act(query: str) -> str:
        if query == "leave":
            left.append(asyncio.create_task(later()))
        return "done"

    async def later() -> list:
        await go_on.wait()
        return await at_once(delegate, list("abc"))

    worker = Worker(act)
    with bounded(child(worker, policy=ChildPolicy(max_concurrency=1))) as delegate:
        await delegate("child", "leave")
        go_on.set()
        records = await left[0]

    assert [record.outcome for record in records] == [DELIVERED] * 3
    assert worker.peak == 1


@dataclass(frozen=True)
class Rights:
    """A scope that knows what is less than itself."""

    names: frozenset[str]

    def covers(self, other: "Rights") -> bool:
        return other.names <= self.names


ALL = Rights(frozenset({"read", "write"}))
READ = Rights(frozenset({"read"}))


async def test_a_child_is_given_the_scope_that_its_policy_makes_of_its_parents() -> None:
    narrow, plain = Worker(), Worker()
    several = (child(narrow, "narrow", ChildPolicy(scope=lambda scope: READ)), child(plain, "plain"))

    with bounded(*several, scope=ALL) as delegate:
        records = [await delegate(name, "go") for name in ("narrow", "plain")]

    assert all(record.delivered for record in records)
    assert (narrow.scopes, plain.scopes) == ([READ], [ALL])


async def test_a_narrowed_scope_is_what_the_childs_own_children_inherit() -> None:
    leaf = Worker()
    middle = Agent(asks("leaf", ["go"]), sub_agents=[child(leaf, "leaf")])
    lead = Agent(asks("middle", ["go"]), sub_agents=[child(middle, "middle", ChildPolicy(scope=lambda scope: READ))])

    await lead.run("go", scope=ALL)

    assert leaf.scopes == [READ]


async def test_a_child_is_never_given_more_than_its_parent_has() -> None:
    worker = Worker()

    with bounded(child(worker, policy=ChildPolicy(scope=lambda scope: ALL)), scope=READ) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is REFUSED_POLICY
    assert record.outcome.refused
    assert record.message == "Delegation refused: the sub-agent would be given more authority than its caller has"
    assert worker.tasks == []


async def test_a_scope_that_does_not_say_what_it_covers_is_narrowed_unchecked() -> None:
    worker = Worker()

    with bounded(
        child(worker, policy=ChildPolicy(scope=lambda scope: {**scope, "role": "guest"})), scope={"role": "boss"}
    ) as delegate:
        record = await delegate("child", "go")

    assert record.delivered
    assert worker.scopes == [{"role": "guest"}]


async def test_no_scope_at_all_is_refused_since_the_child_would_have_its_parents() -> None:
    worker = Worker()
    nothing = child(worker, policy=ChildPolicy(scope=lambda scope: None))

    with bounded(nothing, scope="everything") as delegate:
        refused = await delegate("child", "go")
    with bounded(nothing) as delegate:
        delivered = await delegate("child", "go")

    assert refused.outcome is REFUSED_POLICY
    assert delivered.delivered
    assert worker.scopes == [None]


@pytest.mark.parametrize("broken", ["the function", "covers"])
async def test_a_scope_that_cannot_be_made_or_compared_is_refused(broken: str) -> None:
    class Unruly:
        def covers(self, other: object) -> bool:
            raise ValueError("do not ask me")

    def fn(scope: object) -> object:
        if broken == "the function":
            raise ValueError("do not ask me")
        return scope

    worker = Worker()
    with bounded(child(worker, policy=ChildPolicy(scope=fn)), scope=Unruly()) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is REFUSED_POLICY
    assert record.message == "Delegation refused: the sub-agent's scope could not be made: do not ask me"
    assert record.trace is not None
    assert isinstance(record.trace.error, ValueError)
    assert worker.tasks == []


async def test_a_refused_scope_costs_nothing_of_the_budget() -> None:
    several = (child(Worker(), "greedy", ChildPolicy(scope=lambda scope: ALL)), child(Worker()))

    with bounded(*several, scope=READ, limits=Limits(max_delegations=1)) as delegate:
        refused = await in_turn(delegate, ["a", "b", "c"], "greedy")
        delivered = await delegate("child", "go")

    assert {record.outcome for record in refused} == {REFUSED_POLICY}
    assert delivered.delivered


async def test_a_policy_holds_for_a_prebuilt_child_and_outside_every_run_too() -> None:
    worker = Worker()
    policy = ChildPolicy(max_concurrency=1, timeout=30, scope=lambda scope: READ)
    tools = DelegationCapability.declare([PrebuiltChild("child", worker, "Does it.", policy=policy)], max_depth=2).tools

    records = await at_once(tools.delegate, list("abc"))

    assert [record.outcome for record in records] == [DELIVERED] * 3
    assert worker.peak == 1
    assert worker.scopes == [READ] * 3


def test_one_policy_may_serve_several_children() -> None:
    policy = ChildPolicy(max_concurrency=1)
    declared = [SubAgent(name, Worker(), "Does it.", policy=policy) for name in ("one", "two")]

    assert [each.policy for each in declared] == [policy, replace(policy)]
