"""What a task takes along to another side, and what comes back from there."""

import asyncio
import time
from dataclasses import fields
from typing import Any

import pytest
from remote_kit import Far, Seen, asks, says, told, tree

import symfonic
from symfonic import Agent, DelegationOutcome, Limits, Options, SubAgent
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.errors import DelegationError, EnvelopeError
from symfonic.remote import crossing
from symfonic.remote.crossing import leaving
from symfonic.remote.envelope import LONGEST_WAY, MOST, MOST_BYTES
from symfonic.remote.reception import Reception
from symfonic.testing import ScriptedModel, tool_call

pytestmark = pytest.mark.usefixtures("sides")

EVERY_LIMIT = Limits(
    max_delegations=9,
    max_fan_out=8,
    max_concurrency=7,
    max_repeats=6,
    max_model_calls=50,
    max_tokens=4000,
    timeout=30,
    max_answer_chars=300,
)


def chain(leaf: Any, length: int, **options: Any) -> Agent:
    """An agent above so many sides, one below the other, the last of which has the leaf."""
    below: Any = Far(Reception({"worker": leaf}), there=f"side {length}")
    for number in range(length - 1, 0, -1):
        middle = asks(("next", "go on"), children={"next": below})
        below = Far(Reception({"worker": middle}), there=f"side {number}")
    return asks(("next", "go"), children={"next": below}, **options)


async def test_at_the_third_level_a_run_knows_its_depth_its_ceiling_its_root_and_its_parent() -> None:
    leaf = Seen()

    result = await chain(leaf, 3, max_depth=3).run("go")

    [first], [run] = result.delegations, leaf.runs
    [second] = first.children
    [third] = second.children
    assert (run.depth, run.max_depth) == (3, 3)
    assert run.identity is not None
    assert run.identity == third.trace.child  # type: ignore[union-attr]
    assert run.identity.root_run_id == result.run_id
    assert run.identity.parent_run_id == second.run_id
    assert [each.depth for each in (first, second, third)] == [1, 2, 3]
    assert {each.root_run_id for each in (first, second)} == {result.run_id}
    assert (first.parent_run_id, second.parent_run_id) == (result.run_id, first.run_id)


async def test_the_ceiling_of_the_root_refuses_on_the_third_side_what_it_would_have_refused_at_home() -> None:
    leaf = Seen()

    result = await chain(leaf, 4, max_depth=3).run("go")

    assert leaf.tasks == []
    record = result.delegations[0].children[0].children[0].children[0]
    assert record.outcome is DelegationOutcome.REFUSED_DEPTH
    assert record.depth == 4


@pytest.mark.parametrize("name", [each.name for each in fields(Limits)])
async def test_every_limit_reaches_the_third_side_and_is_the_lowest_on_the_way(name: str) -> None:
    stated = getattr(EVERY_LIMIT, name)
    leaf = Seen()

    await chain(leaf, 3, max_depth=3, limits=Limits(**{name: stated})).run("go")

    [left] = leaf.left
    spent = {"max_delegations": 3, "max_model_calls": 3, "max_tokens": 30}.get(name, 0)
    assert left is not None
    if name == "timeout":
        assert left.timeout is not None
        assert 25 < left.timeout <= stated
    else:
        assert left == Limits(**{name: stated - spent})


@pytest.mark.parametrize("name", [each.name for each in fields(Limits)])
@pytest.mark.parametrize("factor", [2, 0.5], ids=["looser", "tighter"])
async def test_the_limits_of_a_reception_tighten_those_that_a_call_brings_along_and_loosen_none(
    name: str, factor: float
) -> None:
    stated = getattr(EVERY_LIMIT, name)
    leaf = Seen()
    far = Far(Reception({"worker": leaf}, limits=Limits(**{name: int(stated * factor)})))

    await asks(("far", "go"), children={"far": far}, limits=Limits(**{name: stated})).run("go")

    there = getattr(leaf.left[0], name)
    spent = {"max_delegations": 1, "max_model_calls": 1, "max_tokens": 10}.get(name, 0)
    most = min(stated - spent, int(stated * factor))
    assert most - 2 < there <= most if name == "timeout" else there == most


async def test_limits_that_are_beyond_what_is_sent_are_sent_as_the_most_there_is() -> None:
    leaf = Seen()
    huge = Limits(max_tokens=2**70, max_delegations=2**64, timeout=1e300)

    await asks(("far", "go"), children={"far": Far(Reception({"worker": leaf}))}, limits=huge, max_depth=2**60).run("")

    assert leaf.left[0] is not None
    assert leaf.left[0].max_tokens == leaf.left[0].max_delegations == leaf.runs[0].max_depth == MOST


async def test_the_deadline_ends_what_hangs_on_the_other_side_though_nobody_here_ends_it() -> None:
    hanging = Seen(lambda _: asyncio.Event().wait())

    answer = await told(Reception({"worker": hanging}), deadline=time.time() + 0.05)

    assert answer.status == "timed_out"
    assert "timed out after 0.0" in answer.text


async def test_what_arrives_after_its_deadline_does_not_begin() -> None:
    leaf = Seen()

    answer = await told(Reception({"worker": leaf}), deadline=time.time() - 1)

    assert answer.status == "refused"
    assert "the time for the whole task is over (timeout=0" in answer.text
    assert leaf.tasks == []


async def test_what_was_spent_there_and_how_many_were_started_there_is_charged_here_once() -> None:
    deep = asks(
        [("leaf", "a"), ("leaf", "b"), ("nobody", "c")],
        children={"leaf": says("leaf", 100, 50)},
    )
    left: list[Limits] = []

    def look() -> str:
        run = active_run()
        assert run is not None
        assert run.budget is not None
        left.append(run.budget.left())
        return "looked"

    lead = Agent(
        ScriptedModel(tool_call("run_agent", name="far", task="go"), tool_call("look"), "done"),
        tools=[symfonic.tool(look, name="look", description="Looks.")],
        sub_agents=[SubAgent("far", Far(Reception({"worker": deep})), "Far.")],
        limits=Limits(max_tokens=10_000, max_delegations=10, max_model_calls=100),
    )

    result = await lead.run("go")

    assert result.usage.input_tokens + result.usage.output_tokens == 2 * 10 + 2 * 150
    assert result.usage.model_calls == 3 + 2 + 2
    assert left == [Limits(max_tokens=10_000 - 320, max_delegations=10 - 3, max_model_calls=100 - 2 - 4)]


async def test_a_tree_that_crosses_has_the_records_and_the_spending_of_one_that_stays() -> None:
    def middle() -> Agent:
        return asks([("leaf", "a"), ("leaf", "b"), ("nobody", "c")], children={"leaf": says("leaf", 100, 50)})

    at_home = await asks(("middle", "go"), children={"middle": middle()}).run("go")
    away = await asks(("middle", "go"), children={"middle": Far(Reception({"middle": middle()}), "middle")}).run("go")

    assert tree(away.delegations) == tree(at_home.delegations)
    assert away.usage == at_home.usage
    assert away.tally == at_home.tally
    assert away.text == at_home.text


@pytest.mark.parametrize("times", [1, 3])
async def test_what_calls_back_is_charged_once_however_often_it_goes_to_and_fro(times: int) -> None:
    """Near asks far, far asks near, near asks far …: each side counts, and nothing is counted twice."""
    below: Any = Seen()
    agent: Any = says("the end", 100, 50)
    for number in range(times):
        there = "near" if (times - number) % 2 == 0 else "far"
        below = Far(Reception({"worker": agent}), there=there)
        agent = asks(("next", "go"), children={"next": below, "leaf": says()})
    lead = asks(
        ("next", "go"), ("next", "again"), children={"next": below}, max_depth=9, limits=Limits(max_tokens=100_000)
    )

    result = await lead.run("go")

    once = 150 + 20 * (times - 1)
    assert result.usage.input_tokens + result.usage.output_tokens == 30 + 2 * once
    assert result.usage.model_calls == 3 + 2 * (1 + 2 * (times - 1))
    assert result.tally.total == 2 * times


@pytest.mark.parametrize("room", [0, 1])
async def test_delegations_that_went_to_and_fro_are_counted_once_against_the_limit(room: int) -> None:
    home = Reception({"home": asks(("leaf", "go"), children={"leaf": says()})})
    far = Far(Reception({"worker": asks(("home", "go"), children={"home": Far(home, "home", "near")})}))
    lead = asks(("far", "go"), ("leaf", "go"), children={"far": far, "leaf": says()}, max_depth=5)

    result = await lead.run("go", limits=Limits(max_delegations=3 + room))

    [came_back] = result.delegations[0].children
    assert [each.name for each in came_back.children] == ["leaf"]
    assert [each.delivered for each in result.delegations] == [True, bool(room)]


async def test_crossings_at_the_same_time_are_each_charged_and_keep_their_order() -> None:
    far = Reception({"worker": asks(("leaf", "go"), children={"leaf": says("leaf", 5, 5)})})
    here = {f"far{number}": Far(far) for number in range(5)}

    result = await asks([(name, name) for name in here], children=here, limits=Limits(max_tokens=10_000)).run("go")

    assert [each.name for each in result.delegations] == list(here)
    assert all(len(each.children) == 1 for each in result.delegations)
    assert result.usage.input_tokens + result.usage.output_tokens == 20 + 5 * 30
    assert len({each.run_id for each in result.delegations}) == 5


async def test_what_is_too_large_to_be_sent_is_not_sent() -> None:
    far = Far(Reception({"worker": says()}))

    [record] = (await asks(("far", "x" * MOST_BYTES), children={"far": far}).run("go")).delegations

    assert far.sent == []
    assert isinstance(record.trace and record.trace.error, EnvelopeError)


async def test_observers_here_are_told_of_the_call_and_those_of_the_agent_there_of_what_happens_in_it() -> None:
    here: list[Any] = []
    there: list[Any] = []
    far = Far(Reception({"worker": says(options=Options(observers=(there.append,)))}))

    await asks(("far", "go"), children={"far": far}, options=Options(observers=(here.append,))).run("go")

    kinds = [type(each).__name__ for each in here]
    assert kinds.count("DelegationStarted") == kinds.count("DelegationFinished") == 1
    assert "RunStarted" in [type(each).__name__ for each in there]
    started = next(each for each in here if type(each).__name__ == "DelegationStarted")
    assert {each.where.run_id for each in there} == {started.child.run_id}
    assert {each.where.depth for each in there} == {1}


async def test_a_task_that_leaves_outside_any_run_is_a_root_there() -> None:
    leaf = Seen()

    response = await Far(Reception({"worker": leaf})).run("go")

    [run] = leaf.runs
    assert response.final_response == "seen"
    assert run.depth == 0
    assert run.identity is not None
    assert run.identity.root_run_id == run.identity.run_id == response.run_id


async def test_a_call_that_is_made_inside_a_run_is_one_below_it_and_only_the_rosters_is_the_child_itself() -> None:
    leaf = Seen()
    far = Far(Reception({"worker": leaf}))

    async def twice(query: str) -> str:
        await far.run("first")
        await far.run("second")
        return "done"

    [record] = (await asks(("twice", "go"), children={"twice": Seen(twice)}).run("go")).delegations

    first, second = (run.identity for run in leaf.runs)
    assert [run.depth for run in leaf.runs] == [1, 2]
    assert first == (record.trace and record.trace.child)
    assert first is not None
    assert second is not None
    assert second.parent_run_id == first.run_id


async def test_a_task_that_has_been_sent_on_too_often_is_not_sent_again() -> None:
    crossing.way_here.set(tuple(map(str, range(LONGEST_WAY))))
    with pytest.raises(DelegationError, match="64 times"), leaving("worker", "go"):
        pass


async def test_a_lone_surrogate_in_a_task_is_replaced_and_ids_that_cannot_be_sent_are_named() -> None:
    leaf = Seen()
    await Far(Reception({"worker": leaf})).run("half \ud83d")
    assert leaf.tasks == ["half \ufffd"]

    lead = asks(("far", "go"), children={"far": Far(Reception({"worker": leaf}))})
    [record] = (await lead.run("go", root_run_id="a\nb")).delegations
    assert isinstance(record.trace and record.trace.error, EnvelopeError)
    assert "lineage.root_run_id" in record.message
