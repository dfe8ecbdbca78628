"""A spent budget is a value, and the one error is that of a root that cannot go on."""

import pickle

import pytest
from limits_fakes import DELIVERED, REFUSED, Worker, asks, bounded, child, reached, talking, walk

from symfonic import Agent, DelegationOutcome, Limits
from symfonic.errors import LimitReachedError, RunError, SymfonicError
from symfonic.kernel.contracts.events import DelegationFinished, DelegationRefused, DelegationStarted
from symfonic.testing import FunctionModel, tool_call

REFUSALS = {
    "max_delegations": (Limits(max_delegations=1), "no more sub-agents may be started for the whole task"),
    "max_fan_out": (Limits(max_fan_out=1), "you may start no more sub-agents"),
    "max_repeats": (
        Limits(max_repeats=1),
        "this sub-agent was given this very task before and may not be given it again",
    ),
    "max_model_calls": (Limits(max_model_calls=1), "the model calls of the whole task are spent"),
    "max_tokens": (Limits(max_tokens=1500), "the tokens of the whole task are spent"),
}


@pytest.mark.parametrize("limit", REFUSALS)
async def test_a_refusal_names_the_limit_and_its_number_and_tells_the_model_to_finish(limit: str) -> None:
    limits, why = REFUSALS[limit]
    number = getattr(limits, limit)
    with bounded(child(talking(2000)), limits=limits) as delegate:
        first = await delegate("child", "a")
        record = await delegate("child", "a")

    assert first.delivered
    assert record.outcome is REFUSED
    assert record.outcome.refused
    assert record.message == (
        f"Delegation refused: {why} ({limit}={number}). Do not ask again; finish with what you have."
    )
    assert reached(record) == (limit, number)
    assert (record.name, record.depth) == ("child", 1)


async def test_large_numbers_are_written_in_full() -> None:
    limits = Limits(max_tokens=2_000_000)
    with bounded(child(talking(2_000_000)), limits=limits) as delegate:
        await delegate("child", "a")
        record = await delegate("child", "b")

    assert "(max_tokens=2000000)" in record.message


async def test_a_refusal_has_a_trace_without_a_child_and_is_never_worth_a_retry() -> None:
    with bounded(child(Worker()), limits=Limits(max_delegations=0)) as delegate:
        record = await delegate("child", "a")

    trace = record.trace
    assert trace is not None
    assert (trace.task, trace.child, trace.retryable, trace.records) == ("a", None, False, ())
    assert trace.usage.model_calls == 0
    assert (record.run_id, record.root_run_id, record.parent_run_id) == ("", "", None)


async def test_the_parents_model_reads_the_refusal_and_finishes_with_what_it_has() -> None:
    read: list[str] = []

    def fn(messages: list, tools: object) -> object:
        read.extend(message.text for message in messages[-1:] if message.role == "tool")
        return "Here is what I have." if len(read) == 2 else tool_call("run_agent", name="child", task=f"part {read}")

    lead = Agent(FunctionModel(fn), sub_agents=[child(Worker())], limits=Limits(max_delegations=1))

    result = await lead.run("go")

    assert result.text == "Here is what I have."
    assert [record.outcome for record in result.delegations] == [DELIVERED, REFUSED]
    assert read == [record.message for record in result.delegations]
    assert result.delegated_to == ("child",)
    assert (result.tally.total, result.tally.by_child) == (2, {"child": 2})


async def test_the_same_refused_call_five_times_is_five_values_and_no_child_run() -> None:
    worker = Worker()
    lead = Agent(asks("child", ["a"] * 6), sub_agents=[child(worker)], limits=Limits(max_repeats=1))

    result = await lead.run("go")

    assert worker.tasks == ["a"]
    assert [record.outcome for record in result.delegations] == [DELIVERED] + [REFUSED] * 5
    assert result.text == "done"


async def test_a_refusal_has_an_event_of_its_own_and_no_start() -> None:
    events: list = []
    lead = Agent(asks("child", ["a", "b"]), sub_agents=[child(Worker())], limits=Limits(max_delegations=1))

    await lead.run("go", observers=(events.append,))

    told = [event for event in events if isinstance(event, DelegationStarted | DelegationFinished | DelegationRefused)]
    assert [type(event) for event in told] == [DelegationStarted, DelegationFinished, DelegationRefused]
    assert told[-1].outcome == REFUSED.value
    assert "max_delegations=1" in told[-1].message


async def test_depth_and_name_are_judged_before_the_budget() -> None:
    spent = Limits(max_delegations=0)
    with bounded(child(Worker()), limits=spent) as delegate:
        unknown = await delegate("nobody", "a")
    lead = Agent(asks("child", ["a"]), sub_agents=[child(Worker())], max_depth=0, limits=spent)

    result = await lead.run("go")

    assert unknown.outcome is DelegationOutcome.UNKNOWN_CHILD
    assert [record.outcome for record in result.delegations] == [DelegationOutcome.REFUSED_DEPTH]


async def test_a_root_that_has_no_model_call_left_raises_with_its_records_and_usage() -> None:
    leaf = child(talking(10, 5), "leaf")
    middle = child(Agent(asks("leaf", ["a"]), sub_agents=[leaf]), "middle")
    lead = Agent(asks("middle", ["x", "y"]), sub_agents=[middle], limits=Limits(max_model_calls=4))

    with pytest.raises(LimitReachedError) as raised:
        await lead.run("go")

    error = raised.value
    assert (error.limit, error.value) == ("max_model_calls", 4)
    assert str(error) == "the limit max_model_calls=4 is reached"
    assert [record.name for record in walk(error.delegations)] == ["middle", "leaf"]
    assert (error.usage.model_calls, error.usage.input_tokens, error.usage.output_tokens) == (4, 10, 5)
    assert error.run_id == error.delegations[0].trace.caller.run_id
    assert isinstance(error, RunError | SymfonicError)


async def test_a_child_that_has_no_model_call_left_is_a_value_for_its_parent() -> None:
    middle = child(Agent(asks("leaf", list("abc")), sub_agents=[child(talking(), "leaf")]), "middle")
    own = Agent(asks("leaf", list("abc")), sub_agents=[child(talking(), "leaf")], limits=Limits(max_model_calls=3))
    lead = Agent(asks("own", ["x"]), sub_agents=[middle, child(own, "own")])

    result = await lead.run("go")

    [record] = result.delegations
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'own' failed: the limit max_model_calls=3 is reached"
    assert reached(record) == ("max_model_calls", 3)
    assert record.trace is not None
    assert not record.trace.retryable
    assert [each.outcome for each in record.children] == [DELIVERED, REFUSED] or len(record.children) == 1
    assert result.text == "done"


async def test_no_tokens_at_all_means_no_model_call_at_all() -> None:
    asked: list[str] = []

    with pytest.raises(LimitReachedError, match="max_tokens=0"):
        await talking(said=asked).run("go", limits=Limits(max_tokens=0))

    assert asked == []


async def test_the_call_that_overspends_is_delivered_and_the_next_is_not_made() -> None:
    asked: list[str] = []
    agent = talking(1_000, 1_000, asked)

    result = await agent.run("go", limits=Limits(max_tokens=10))

    assert result.text == "done"
    assert result.usage.input_tokens == 1_000


def test_the_error_survives_pickling() -> None:
    error = pickle.loads(pickle.dumps(LimitReachedError("max_tokens", 10, "run")))

    assert (error.limit, error.value, error.run_id, str(error)) == (
        "max_tokens",
        10,
        "run",
        "the limit max_tokens=10 is reached",
    )


async def test_a_limit_below_the_root_leaves_the_root_running() -> None:
    greedy = Agent(asks("leaf", list("abc")), sub_agents=[child(Worker(), "leaf")], limits=Limits(max_delegations=1))
    lead = Agent(asks("greedy", ["x", "y"]), sub_agents=[child(greedy, "greedy")])

    result = await lead.run("go")

    assert [record.outcome for record in result.delegations] == [DELIVERED, DELIVERED]
    assert result.tally.by_outcome == {DELIVERED: 4, REFUSED: 4}
