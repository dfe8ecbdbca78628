"""A tree across processes is one tree: depth, lineage, budget, refusals, cancellation."""

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from a2a.types import ListTasksRequest
from a2a_kit import (
    Process,
    Worker,
    extended,
    program,
    request,
    sdk_client,
    served_here,
    serving,
    task_of,
    through,
    told_by,
    until,
    words,
)
from patience import patience

from symfonic import Agent, AgentResult, DelegationOutcome, LimitReachedError, Limits, SubAgent
from symfonic.kernel.concurrency.tasks import started
from symfonic.remote.a2a import a2a_app, a2a_child
from symfonic.testing import ScriptedModel, tool_call


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Process, Process]]:
    folder = tmp_path_factory.mktemp("three")
    with serving(folder) as first, serving(folder) as second, serving(folder) as third:
        yield first, second, third


def lead(url: str, *tasks: Any, **options: Any) -> Agent:
    calls = [tool_call("run_agent", name="far", task=program(task)) for task in tasks]
    far = SubAgent("far", a2a_child(url), "Works elsewhere.")
    return Agent(ScriptedModel(calls, "done"), name="lead", sub_agents=[far], **options)


def messages(result: AgentResult) -> list[str]:
    return [record.message for record in result.delegations]


async def test_depth_and_lineage_cross_three_processes_as_they_are(three: tuple[Process, ...]) -> None:
    first, second, third = three
    task = through(second.url, third.url, then={"tool": "where"})
    result = await lead(first.url, task, max_depth=3).run("Go.")
    [record] = result.delegations
    assert record.outcome is DelegationOutcome.DELIVERED
    where = told_by(record.message, hops=2)
    assert (where["depth"], where["max_depth"]) == (3, 3)
    assert type(where["depth"]) is type(where["max_depth"]) is int
    assert where["root"] == result.run_id == result.root_run_id
    assert where["pid"] == third.popen.pid
    [below] = record.children
    [lowest] = below.children
    assert (record.depth, below.depth, lowest.depth) == (1, 2, 3)
    assert all(type(each.depth) is int for each in (record, below, lowest))
    assert (record.run_id, below.parent_run_id) == (below.parent_run_id, record.run_id)
    assert (lowest.run_id, lowest.parent_run_id) == (where["run_id"], below.run_id)
    assert result.usage.model_calls == 2 + 2 + 2 + 2


async def test_beyond_the_ceiling_nothing_is_sent_and_the_model_below_reads_why(three: tuple[Process, ...]) -> None:
    first, second, third = three
    task = through(second.url, third.url, then={"tool": "where"})
    result = await lead(first.url, task, max_depth=2).run("Go.")
    [[refused]] = [each.children[0].children for each in result.delegations]
    assert refused.outcome is DelegationOutcome.REFUSED_DEPTH
    assert "maximum sub-agent depth (2) reached" in refused.message


async def test_a_far_side_has_a_ceiling_of_its_own(tmp_path: Path) -> None:
    with serving(tmp_path, max_depth=0) as far:
        [record] = (await lead(far.url, {"tool": "where"}).run("Go.")).delegations
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "maximum sub-agent depth (0) reached" in record.message
    assert far.lines() == []


async def test_who_calls_back_is_held_to_the_depth_and_the_tree_of_the_call_that_reached_it(
    three: tuple[Process, ...], tmp_path: Path
) -> None:
    first = three[0]
    here = Worker(tmp_path / "journal").agent
    async with served_here(lambda url: a2a_app(here, url=url)) as home:
        back = through(home, then={"tool": "where"})
        result = await lead(first.url, back, max_depth=2).run("Go.")
        where = told_by(result.delegations[0].message, hops=1)
        assert (where["depth"], where["pid"], where["root"]) == (2, os.getpid(), result.run_id)
        again = through(home, first.url, then={"tool": "where"})
        deeper = await lead(first.url, again, max_depth=2).run("Go.")
    [record] = deeper.delegations[0].children
    assert record.children[0].outcome is DelegationOutcome.REFUSED_DEPTH


async def test_what_is_left_of_the_budget_crosses_and_is_charged_once(three: tuple[Process, ...]) -> None:
    first, second, _ = three
    twice = {"calls": [{"to": second.url, "task": {"say": str(number), "tokens": 7}} for number in (1, 2)]}
    limits = Limits(max_delegations=4, max_tokens=1000, timeout=60)
    result = await lead(first.url, twice, {"tool": "where"}, limits=limits).run("Go.")
    assert [record.delivered for record in result.delegations] == [True, True], messages(result)
    where = json.loads(messages(result)[1])
    assert where["delegations"] in (0, 1, 2)  # they run at once
    assert 0 < where["timeout"] < 60
    assert result.usage.input_tokens == 14
    assert result.tally.by_outcome[DelegationOutcome.DELIVERED] == 4
    spent = await lead(first.url, twice, limits=Limits(max_delegations=2)).run("Go.")
    outcomes = [each.outcome for each in spent.delegations[0].children]
    assert sorted(outcomes) == [DelegationOutcome.DELIVERED, DelegationOutcome.REFUSED_BUDGET]
    charged = lead(first.url, {"say": "a", "tokens": 60}, {"say": "b", "tokens": 60}, limits=Limits(max_tokens=100))
    with pytest.raises(LimitReachedError) as reached:
        await charged.run("Go.")
    assert reached.value.usage.input_tokens == 120, "what was in flight is counted, each once"


async def test_a_cancelled_root_ends_three_processes_in_two_seconds(three: tuple[Process, ...]) -> None:
    first, second, third = three
    before = third.did("ended")
    task = through(second.url, third.url, then={"tool": "hang"})
    run = started(lead(first.url, task, max_depth=3).run("Go."))
    await until(lambda: third.did("began") > before)
    cancelled = time.monotonic()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert third.did("ended") == before + 1
    assert time.monotonic() - cancelled < 2 * patience()
    assert len(third.lines()) == 2 * (before + 1), "and nothing starts afterwards"


async def test_a_far_side_that_takes_its_time_to_end_is_waited_for(three: tuple[Process, ...]) -> None:
    first, second, _ = three
    began, ended = second.did("began"), second.did("ended")
    run = started(lead(first.url, through(second.url, then={"tool": "linger"})).run("Go."))
    await until(lambda: second.did("began") > began)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert second.did("ended") == ended + 1


async def test_the_time_of_a_tree_ends_it_everywhere_and_is_a_timeout(three: tuple[Process, ...]) -> None:
    first, second, _ = three
    before = second.did("ended")
    hang = through(second.url, then={"tool": "hang"})
    child = SubAgent("far", a2a_child(first.url, timeout=1.0), "Works elsewhere.")
    model = ScriptedModel(tool_call("run_agent", name="far", task=program(hang)), "done")
    [record] = (await Agent(model, sub_agents=[child]).run("Go.")).delegations
    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
    await until(lambda: second.did("ended") > before)


async def test_what_a_child_has_spent_until_its_time_was_over_is_charged_and_told(three: tuple[Process, ...]) -> None:
    first, second, _ = three
    task = {"calls": [{"to": second.url, "task": {"tool": "hang"}}]}
    child = SubAgent("far", a2a_child(first.url, timeout=1.5), "Works elsewhere.")
    model = ScriptedModel(tool_call("run_agent", name="far", task=program(task)), "done")
    result = await Agent(model, sub_agents=[child]).run("Go.")
    assert (result.usage.model_calls, result.usage.tool_calls) == (2 + 1 + 1, 1 + 1 + 1)
    [below] = result.delegations[0].children
    assert below.outcome is DelegationOutcome.CHILD_CANCELLED


async def test_siblings_on_one_server_are_not_taken_for_each_others_children(three: tuple[Process, ...]) -> None:
    first, second, _ = three
    before = second.did("began")
    hang = {"calls": [{"to": second.url, "task": {"tool": "hang"}, "timeout": 3}]}
    run = started(lead(first.url, hang, max_depth=2).run("Go."))
    await until(lambda: second.did("began") > before)
    record = second.lines()[-1]
    assert record["depth"] == 2
    async with sdk_client(first.url) as client:
        lineage = {"run_id": "sibling", "root_run_id": await root_of(client), "via": ["sibling"]}
        task = await task_of(client, request({"tool": "where"}, {"lineage": lineage, "depth": 1}), extended())
    assert json.loads(words(task))["depth"] == 1
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run


async def root_of(client: Any) -> str:
    """The id of the tree that the latest task belongs to, which is the task's context."""
    tasks = (await client.list_tasks(ListTasksRequest())).tasks
    return str(tasks[0].context_id)


async def test_children_of_one_call_run_at_once(three: tuple[Process, ...]) -> None:
    first = three[0]
    agent = lead(first.url, *({"say": str(number)} for number in range(8)))
    assert sorted(messages(await agent.run("Go."))) == [str(number) for number in range(8)]


def test_one_child_serves_many_event_loops_and_leaves_nothing_open(three: tuple[Process, ...]) -> None:
    child = a2a_child(three[0].url)
    for _ in range(3):
        model = ScriptedModel(tool_call("run_agent", name="far", task='{"say": "hello"}'), "done")
        again = Agent(model, sub_agents=[SubAgent("far", child, "Works elsewhere.")])
        assert messages(again.run_sync("Go.")) == ["hello"]
