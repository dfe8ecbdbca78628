"""A child that fails is tried again, as often as its policy says; what trying again cannot mend is not."""

import asyncio
from collections.abc import Iterator

import pytest
import stamina
from limits_fakes import DELIVERED, REFUSED, Worker, asks, bounded, child, in_turn, reached, talking, walk

from symfonic import Agent, ChildPolicy, ConfigurationError, DelegationOutcome, Limits, Veto
from symfonic.capabilities.delegation import DelegationContext
from symfonic.errors import LimitReachedError
from symfonic.kernel.contracts.events import DelegationFinished, DelegationStarted
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope
from symfonic.testing import FunctionModel, ScriptedChild

FAILED = DelegationOutcome.CHILD_FAILED
TWICE_MORE = ChildPolicy(retries=2)


@pytest.fixture(autouse=True)
def no_waiting() -> Iterator[None]:
    """Pauses of no length, and as many attempts as are asked for."""
    with stamina.set_testing(True, attempts=100, cap=True):
        yield


async def test_a_child_that_recovers_delivers() -> None:
    runner = ScriptedChild(ConnectionError("one"), ConnectionError("two"), "three")

    with bounded(child(runner, policy=TWICE_MORE)) as delegate:
        record = await delegate("child", "go")

    assert (record.outcome, record.message) == (DELIVERED, "three")
    assert [call.query for call in runner.calls] == ["go"] * 3


async def test_a_child_that_keeps_failing_fails_with_its_last_error() -> None:
    errors = [ConnectionError(word) for word in ("one", "two", "three", "four")]
    runner = ScriptedChild(*errors)

    with bounded(child(runner, policy=TWICE_MORE)) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is FAILED
    assert record.message == "Sub-agent 'child' failed: three"
    assert record.trace is not None
    assert record.trace.error is errors[2]
    assert len(runner.calls) == 3


async def test_without_retries_a_child_is_tried_once() -> None:
    runner = ScriptedChild(ConnectionError("no"))

    with bounded(child(runner), child(runner, "other", ChildPolicy(retries=0))) as delegate:
        records = [await delegate(name, "go") for name in ("child", "other")]

    assert [record.outcome for record in records] == [FAILED, FAILED]
    assert len(runner.calls) == 2


async def test_each_attempt_has_its_own_scope_and_run_id_at_the_same_depth() -> None:
    seen: list[tuple] = []

    async def act(query: str) -> str:
        run, identity = DelegationContext().active_run(), current_run_identity()
        assert run is not None
        assert identity is not None
        seen.append((run, run.depth, identity.run_id, identity.root_run_id, identity.parent_run_id))
        assert not run.records
        await delegate("leaf", "go")
        if len(seen) < 3:
            raise ValueError("again")
        return "done"

    several = (child(Worker(act), policy=TWICE_MORE), child(Worker(), "leaf"))
    with run_identity_scope(RunIdentity.root()), bounded(*several) as delegate:
        record = await delegate("child", "go")

    assert record.delivered
    assert len({id(each[0]) for each in seen}) == len({each[2] for each in seen}) == 3
    assert {each[1] for each in seen} == {1}
    assert len({each[3:] for each in seen}) == 1
    assert not any(each[0].is_open for each in seen)
    assert record.trace is not None
    assert record.trace.child is not None
    assert record.trace.child.run_id == seen[-1][2]
    assert [each.name for each in record.children] == ["leaf"] * 3


async def test_the_usage_of_every_attempt_counts_once() -> None:
    asked: list[str] = []
    attempts: list[int] = []
    talker = talking(10, 1, asked)

    async def act(query: str) -> str:
        attempts.append(1)
        await talker.run("think")
        if len(attempts) < 3:
            raise ValueError("again")
        return "done"

    lead = Agent(asks("child", ["go"]), sub_agents=[child(Worker(act), policy=TWICE_MORE)])

    result = await lead.run("go")

    [record] = result.delegations
    assert record.trace is not None
    assert (record.trace.usage.input_tokens, record.trace.usage.output_tokens) == (30, 3)
    assert (result.usage.input_tokens, result.usage.model_calls) == (30, 3 + 2)
    assert len(asked) == 3


async def test_an_agent_is_tried_again_with_its_own_bounds_each_time() -> None:
    replies: list[str] = []

    def fn(messages: list, tools: object) -> str:
        replies.append(messages[-1].text)
        if len(replies) < 3:
            raise OSError("no connection")
        return "connected"

    flaky = Agent(FunctionModel(fn), limits=Limits(max_model_calls=1))
    lead = Agent(asks("flaky", ["go"]), sub_agents=[child(flaky, "flaky", TWICE_MORE)])

    result = await lead.run("go")

    assert result.delegations[0].message == "connected"
    assert replies == ["go"] * 3
    assert result.usage.model_calls == 2 + 3


async def test_all_attempts_are_one_delegation_with_one_start_and_one_end() -> None:
    events: list = []
    runner = ScriptedChild(ValueError("one"), ValueError("two"), "three")
    lead = Agent(asks("child", ["go"]), sub_agents=[child(runner, policy=TWICE_MORE)], limits=Limits(max_delegations=1))

    result = await lead.run("go", observers=(events.append,))

    told = [event for event in events if isinstance(event, DelegationStarted | DelegationFinished)]
    assert [type(event) for event in told] == [DelegationStarted, DelegationFinished]
    assert told[1].outcome == DELIVERED.value
    assert (result.tally.total, result.delegated_to) == (1, ("child",))


async def test_the_timeout_of_a_policy_is_for_all_attempts_together() -> None:
    attempts: list[str] = []

    async def act(query: str) -> str:
        attempts.append(query)
        if len(attempts) < 3:
            raise ValueError("again")
        await asyncio.Event().wait()
        return "never"

    with bounded(child(Worker(act), policy=ChildPolicy(retries=10, timeout=0.05))) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert len(attempts) == 3


async def test_a_cancellation_is_not_tried_again() -> None:
    begun = asyncio.Event()
    runner = ScriptedChild(asyncio.CancelledError())

    async def act(query: str) -> str:
        begun.set()
        await asyncio.Event().wait()
        return "never"

    hanging = Worker(act)
    with bounded(child(runner, "itself", TWICE_MORE), child(hanging, policy=TWICE_MORE)) as delegate:
        with pytest.raises(asyncio.CancelledError):
            await delegate("itself", "go")
        task = asyncio.create_task(delegate("child", "go"))  # type: ignore[arg-type]
        await begun.wait()
        task.cancel()
        await asyncio.wait([task])

    assert len(runner.calls) == 1
    assert hanging.tasks == ["go"]


@pytest.mark.parametrize(
    "error", [LimitReachedError("max_tokens", 5), ConfigurationError("declared wrongly")], ids=["limit", "declaration"]
)
async def test_a_spent_limit_and_a_broken_declaration_are_not_tried_again(error: Exception) -> None:
    runner = ScriptedChild(error)

    with bounded(child(runner, policy=TWICE_MORE)) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is FAILED
    assert record.trace is not None
    assert record.trace.error is error
    assert not record.trace.retryable
    assert len(runner.calls) == 1


async def test_a_childs_own_spent_limit_is_not_tried_again() -> None:
    asked: list[str] = []
    poor = Agent(
        FunctionModel(lambda messages, tools: asked.append(messages[-1].text) or "done"), limits=Limits(max_tokens=0)
    )
    lead = Agent(asks("child", ["a", "b"]), sub_agents=[child(poor, policy=TWICE_MORE)])

    result = await lead.run("go")

    assert [reached(record) for record in result.delegations] == [("max_tokens", 0)] * 2
    assert asked == []
    assert result.usage.model_calls == 3


async def test_a_refusal_is_not_tried_again() -> None:
    asked: list[str] = []

    def veto(request: object) -> Veto:
        asked.append("hook")
        return Veto("no")

    runner = ScriptedChild()
    with bounded(child(runner, policy=TWICE_MORE), hooks=(veto,)) as delegate:
        vetoed = await delegate("child", "go")
    with bounded(child(runner, policy=TWICE_MORE), limits=Limits(max_delegations=0)) as delegate:
        spent = await delegate("child", "go")

    assert (vetoed.outcome, spent.outcome) == (DelegationOutcome.REFUSED_POLICY, REFUSED)
    assert asked == ["hook"]
    assert runner.calls == []


async def test_a_refusal_further_down_is_a_value_and_makes_nothing_try_again() -> None:
    middle = Agent(asks("leaf", ["a", "b"]), sub_agents=[child(Worker(), "leaf")])
    lead = Agent(
        asks("middle", ["go"]), sub_agents=[child(middle, "middle", TWICE_MORE)], limits=Limits(max_delegations=2)
    )

    result = await lead.run("go")

    assert [record.outcome for record in walk(result.delegations)] == [DELIVERED, DELIVERED, REFUSED]


async def test_an_answer_is_never_asked_for_again_also_when_it_is_blank() -> None:
    runner = ScriptedChild("", "something")

    with bounded(child(runner, policy=TWICE_MORE)) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is FAILED
    assert len(runner.calls) == 1


async def test_attempts_hold_one_turn_and_one_place_and_give_them_back() -> None:
    runner = ScriptedChild(*[ValueError("again")] * 2, "done")
    policy = ChildPolicy(retries=2, max_concurrency=1)
    with bounded(child(runner, policy=policy), limits=Limits(max_concurrency=1)) as delegate:
        async with asyncio.timeout(5):
            records = await in_turn(delegate, ["a", "b", "c"])

    assert [record.outcome for record in records] == [DELIVERED] * 3
    assert [call.query for call in runner.calls] == ["a", "a", "a", "b", "c"]


async def test_a_foreign_error_that_is_no_exception_passes_through_untried() -> None:
    class Pause(BaseException):
        """What a host pauses with."""

    runner = ScriptedChild(Pause())
    with bounded(child(runner, policy=TWICE_MORE)) as delegate, pytest.raises(Pause):
        await delegate("child", "go")

    assert len(runner.calls) == 1
