"""What holds for a child holds on whatever way it is reached: in process, durable, over A2A, over MCP."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from conformance_kit import ELSEWHERE, EVERY_WAY, Far, Place, carried_out, reached
from patience import patience
from plan_kit import OWN_CEILING, until

from symfonic import AgentResult, DelegationOutcome, DelegationRecord
from symfonic.kernel.concurrency.tasks import started

pytest_plugins = ["durable_fixtures"]


@pytest.fixture(scope="module", params=EVERY_WAY)
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("far")
    on_server = request.param == "durable on PostgreSQL"
    database = request.getfixturevalue("server").new_database() if on_server else str(folder / "tree.db")
    with carried_out(request.param, folder, database) as there:
        yield there


@pytest.fixture
async def far(place: Place) -> AsyncIterator[Far]:
    async with reached(place) as found:
        yield found


def tree(records: tuple[DelegationRecord, ...]) -> list[Any]:
    """Who was asked, what came of it, and the same of those below."""
    return [(each.name, each.outcome.value, each.depth, *tree(each.children)) for each in records]


def told(result: AgentResult) -> list[str]:
    """What the tools of the lead have answered, in the order they were called."""
    return [message.text for message in result.messages if message.role == "tool"]


def calls_below(levels: int) -> dict[str, Any]:
    """A task that goes down so many levels."""
    return {"calls": [calls_below(levels - 1)]} if levels else {"say": "the bottom"}


async def test_what_was_done_there_comes_back_as_a_tree_of_records(far: Far) -> None:
    below = {"calls": [{"say": "12 lines", "tokens": 7}, {"fail": "no paper"}]}
    result = await far.caller(below, {"fail": "no ink"}).run("Go.")
    assert tree(result.delegations) == [
        ("far", "delivered", 1, ("below", "delivered", 2), ("below", "child_failed", 2)),
        ("far", "child_failed", 1),
    ]
    answered, failed = result.delegations
    words = ["12 lines", "Sub-agent 'below' failed: the model failed: OSError: no paper"]
    assert [each.message for each in answered.children] == words
    assert json.loads(answered.message) == words
    assert failed.message == "Sub-agent 'far' failed: the model failed: OSError: no ink"
    assert (result.usage.model_calls, result.usage.input_tokens) == (2 + (2 + 1 + 1) + 1, 7)


async def test_a_child_that_says_nothing_is_told_of_once_however_far_it_was(far: Far) -> None:
    result = await far.caller({"say": ""}, {"calls": [{"say": ""}]}).run("Go.")
    silent = "Sub-agent {!r} failed: it returned no final response"
    one, other = result.delegations
    assert one.message == silent.format("far")
    assert [each.message for each in other.children] == [silent.format("below")] == json.loads(other.message)


async def test_all_levels_know_whose_they_are_and_how_deep(far: Far) -> None:
    result = await far.caller({"tool": "where"}, {"calls": [{"tool": "where"}]}).run("Go.")
    near, middle, [deepest] = map(json.loads, told(result))
    levels = [near, middle, json.loads(deepest)]
    assert [each["depth"] for each in levels] == [0, 1, 2]
    one, other = result.delegations
    [below] = other.children
    assert all(type(each) is int for each in [*(each["depth"] for each in levels), one.depth, below.depth])
    assert {each["root"] for each in levels} == {result.run_id}
    assert {each.root_run_id for each in (one, other, below)} == {result.run_id}
    assert [each["run_id"] for each in levels] == [result.run_id, one.run_id, below.run_id]
    assert [each["parent"] for each in levels] == [None, result.run_id, other.run_id]
    assert [each.parent_run_id for each in (one, other, below)] == [result.run_id, result.run_id, other.run_id]


async def test_it_is_carried_out_in_the_process_at_the_end_of_the_way(far: Far) -> None:
    result = await far.caller({"tool": "where"}).run("Go.")
    near, there = (json.loads(each)["pid"] for each in told(result))
    assert (near, there) == (os.getpid(), far.place.pid)
    assert (near == there) == (far.place.way == "in process")


async def test_refusals_are_values_that_the_far_model_reads(far: Far) -> None:
    result = await far.caller({"calls": [{"child": "nobody", "say": "x"}, {"say": "y"}]}, max_depth=1).run("Go.")
    assert tree(result.delegations) == [
        ("far", "delivered", 1, ("nobody", "refused_depth", 2), ("below", "refused_depth", 2)),
    ]
    [record] = result.delegations
    assert all("maximum sub-agent depth (1) reached" in each for each in json.loads(record.message))
    [record] = (await far.caller({"calls": [{"child": "nobody", "say": "x"}]}).run("Go.")).delegations
    [unknown] = record.children
    assert (unknown.name, unknown.outcome) == ("nobody", DelegationOutcome.UNKNOWN_CHILD)
    assert json.loads(record.message) == [unknown.message]
    assert unknown.message.startswith("Unknown sub-agent 'nobody'. Available:\n  - below: Is this agent again.")


@pytest.mark.parametrize("ceiling", [2, 4])
async def test_the_ceiling_of_the_caller_holds_in_there_whatever_the_child_would_allow(far: Far, ceiling: int) -> None:
    assert ceiling < OWN_CEILING
    records = (await far.caller(calls_below(OWN_CEILING), max_depth=ceiling).run("Go.")).delegations
    outcomes = []
    while records:
        [record] = records
        outcomes.append((record.depth, record.outcome.value))
        records = record.children
    assert outcomes == [*((depth, "delivered") for depth in range(1, ceiling + 1)), (ceiling + 1, "refused_depth")]
    assert f"maximum sub-agent depth ({ceiling}) reached" in record.message


@pytest.mark.parametrize("place", ELSEWHERE, indirect=True, scope="module")
async def test_one_run_id_is_carried_out_once_however_often_it_is_sent(far: Far) -> None:
    first = started(far.sent("once", {"tool": "count"}))
    await until(lambda: far.did("counted"))
    second = started(far.sent("once", {"tool": "count"}))
    far.go()
    assert [await first, await second, await far.sent("once", {"tool": "count"})] == ["counted"] * 3
    assert [each["run_id"] for each in far.did("counted")] == ["once"]
    assert await far.sent("another", {"tool": "count"}) == "counted"
    assert [each["run_id"] for each in far.did("counted")] == ["once", "another"]


async def test_who_is_cancelled_here_is_cancelled_there_within_two_seconds(far: Far) -> None:
    run = started(far.caller({"calls": [{"tool": "hang"}]}).run("Go."))
    await until(lambda: far.did("began"))
    at = time.monotonic()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert time.monotonic() - at < 2 * patience()
    await until(lambda: far.did("ended"))
    [began], [ended] = far.did("began"), far.did("ended")
    assert (began["depth"], began["run_id"], began["pid"]) == (2, ended["run_id"], far.place.pid)
    assert ended["at"] - at < 2 * patience()
