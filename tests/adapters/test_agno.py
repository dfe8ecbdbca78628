"""Agents and teams of agno as children, with a model of theirs that replies by a script."""

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from adapter_kit import (
    a_cancellation_reaches_it,
    a_timeout_reaches_it,
    an_agent_of_ours_in_its_tool_stays_under_the_ceiling,
    lead,
    that_waits,
    the_record,
)

pytest.importorskip("agno")

from agno.agent import Agent as Theirs
from agno.db.in_memory import InMemoryDb
from agno.exceptions import InputCheckError
from agno.metrics import MessageMetrics
from agno.models.base import Model
from agno.models.response import ModelResponse
from agno.run import RunContext
from agno.team import Team
from agno.tools import tool
from pydantic import BaseModel

from symfonic import DelegationOutcome, Limits, SubAgent, delegation
from symfonic.adapters.agno import AgnoChild, adopt
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import check_child_runner


@dataclass
class Says(Model):
    """Replies in order: text, lists of (tool, arguments), or what it raises; every run from the first."""

    id: str = "scripted"
    replies: tuple[Any, ...] = ()
    seen: list[list[Any]] = field(default_factory=list)

    def invoke(self, messages: list[Any], **_: Any) -> ModelResponse:
        self.seen.append([each.content for each in messages])
        asked = max(number for number, each in enumerate(messages) if each.role == "user")
        said = self.replies[sum(each.role == "assistant" for each in messages[asked:])]
        if isinstance(said, BaseException):
            raise said
        usage = MessageMetrics(input_tokens=10, output_tokens=3, total_tokens=13)
        if isinstance(said, str):
            return ModelResponse(role="assistant", content=said, response_usage=usage)
        calls = [
            {"id": f"call-{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
            for number, (name, given) in enumerate(said)
        ]
        return ModelResponse(role="assistant", tool_calls=calls, response_usage=usage)

    async def ainvoke(self, messages: list[Any], **_: Any) -> ModelResponse:
        return self.invoke(messages)

    def invoke_stream(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the adapter does not stream")

    def ainvoke_stream(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("the adapter does not stream")

    def _parse_provider_response(self, response: Any, **_: Any) -> ModelResponse:
        return response  # type: ignore[no-any-return]

    def _parse_provider_response_delta(self, response: Any) -> ModelResponse:
        return response  # type: ignore[no-any-return]


def theirs(*replies: Any, **settings: Any) -> Theirs:
    return Theirs(model=Says(replies=replies), telemetry=False, **settings)


def team(*replies: Any, members: Any, **settings: Any) -> Team:
    return Team(members=list(members), model=Says(replies=replies), telemetry=False, **settings)


def note(text: str) -> str:
    """Note something."""
    return text


ASKS_HELPER = [("delegate_task_to_member", {"member_id": "helper", "task": "help"})]


async def test_the_contract_of_a_child():
    await check_child_runner(lambda: theirs("Hallo"), make_failing=lambda: theirs(ValueError("no")))
    await check_child_runner(lambda: team("Hallo", members=[theirs("x", name="helper")]))


async def test_agents_and_teams_are_known_where_they_are_declared():
    for agent in (theirs("Hallo"), team("Hallo", members=[theirs("x", name="helper")]), theirs("Hallo", stream=True)):
        record = await the_record(agent)
        assert record.delivered, record
        assert record.message == "Hallo"
        assert record.trace.result.result.content == "Hallo"
        assert isinstance(adopt("x", agent), AgnoChild)
    assert adopt("x", Says()) is None
    assert adopt("x", Theirs) is None


class City(BaseModel):
    name: str
    inhabitants: int


async def test_a_structured_answer_is_json_and_the_object_is_kept():
    text = '{"name":"Zürich","inhabitants":400000}'
    member = theirs("x", name="helper")
    for agent in (theirs(text, output_schema=City), team(text, members=[member], output_schema=City)):
        record = await the_record(agent)
        assert record.delivered, record
        assert record.message.replace(" ", "") == text
        assert record.trace.result.result.content == City(name="Zürich", inhabitants=400_000)


@pytest.mark.parametrize("text", ["", " \n"])
async def test_an_empty_answer_is_a_failure(text: str):
    record = await the_record(theirs(text))
    assert record.message == "Sub-agent 'child' failed: it returned no final response"


async def test_a_run_that_ended_in_an_error_is_its_failure_with_the_text():
    for agent in (theirs(ValueError("no such town")), team(ValueError("no such town"), members=[theirs("x")])):
        record = await the_record(agent)
        assert record.outcome is DelegationOutcome.CHILD_FAILED
        assert record.message == "Sub-agent 'child' failed: its run ended in an error: no such town"
        assert isinstance(record.trace.error, Exception)
    blank = await the_record(theirs(TimeoutError()))
    assert blank.message == "Sub-agent 'child' failed: its run ended in an error without words"


async def test_what_it_raises_is_its_failure_and_the_original():
    class Task(BaseModel):
        town: str

    record = await the_record(theirs("never", input_schema=Task))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert isinstance(record.trace.error, ValueError)
    assert record.trace.usage == Usage()


async def test_a_guardrail_of_theirs_that_stops_it_is_its_failure():
    def check(run_input: Any) -> None:
        raise InputCheckError("not about towns")

    record = await the_record(theirs("never", pre_hooks=[check]))
    assert record.message == "Sub-agent 'child' failed: its run ended in an error: not about towns"
    assert record.trace.usage == Usage()


async def test_a_tool_that_failed_is_for_its_model_and_no_failure():
    async def fail() -> str:
        """Fail."""
        raise ValueError("wet paper")

    record = await the_record(theirs([("fail", {})], "done anyway", tools=[fail]))
    assert record.message == "done anyway"


async def test_a_pause_is_a_failure_that_says_what_it_waits_for():
    @tool(requires_confirmation=True)
    def pay(amount: int) -> str:
        """Pay."""
        return "paid"

    record = await the_record(theirs([("pay", {"amount": 3})], "never", tools=[pay], db=InMemoryDb()))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert 'a confirmation of pay({"amount": 3})' in record.message


async def test_that_its_run_was_cancelled_by_way_of_theirs_is_a_value():
    async def stop(run_context: RunContext) -> str:
        """Stop."""
        await child.acancel_run(run_context.run_id)
        return "stopping"

    child = theirs([("stop", {})], "never", tools=[stop])
    record = await the_record(child)
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "CANCELLED" in record.message


@pytest.mark.parametrize("kind", ["agent", "member", "all members", "team in a team"])
async def test_a_timeout_and_a_cancellation_reach_it(kind: str):
    def calling(function: Any) -> Any:
        child: Any = theirs([(function.__name__, {})], "never", tools=[function], name="helper")
        if kind == "all members":
            asks_all = [("delegate_task_to_members", {"task": "help"})]
            child = team(asks_all, "never", members=[child], delegate_to_all_members=True)
        elif kind != "agent":
            child = team(ASKS_HELPER, "never", members=[child], name="inner")
        if kind == "team in a team":
            asks_inner = [("delegate_task_to_member", {"member_id": "inner", "task": "help"})]
            child = team(asks_inner, "never", members=[child])
        return child

    child, waits = that_waits(calling)
    await a_timeout_reaches_it(child, waits)
    await a_cancellation_reaches_it(child, waits)


async def test_its_usage_is_its_own_count_and_failures_are_in_it():
    child = theirs([("note", {"text": "a"}), ("note", {"text": "b"})], "done", tools=[note])
    record = await the_record(child)
    own = record.trace.result.result.metrics
    assert (own.input_tokens, own.output_tokens) == (20, 6)
    assert record.trace.usage == Usage(own.input_tokens, own.output_tokens, model_calls=2, tool_calls=2)
    failing = theirs([("note", {"text": "a"})], ValueError("down"), tools=[note])
    assert (await the_record(failing)).trace.usage == Usage(10, 3, model_calls=2, tool_calls=1)


async def test_members_of_a_team_and_teams_in_teams_are_counted_once():
    def helper() -> Any:
        return theirs([("note", {"text": "a"})], "helped", tools=[note], name="helper")

    record = await the_record(team(ASKS_HELPER, "done", members=[helper()]))
    assert record.message == "done"
    assert record.trace.usage == Usage(40, 12, model_calls=4, tool_calls=2)
    inner = team(ASKS_HELPER, "done", members=[helper()], name="inner")
    asks_inner = [("delegate_task_to_member", {"member_id": "inner", "task": "help"})]
    record = await the_record(team(asks_inner, "all done", members=[inner]))
    assert record.trace.usage == Usage(60, 18, model_calls=6, tool_calls=3)


async def test_what_it_spent_is_gone_for_the_tree():
    child = theirs([("note", {"text": "a"})], "done", tools=[note])
    capability = delegation([SubAgent("child", child, "Works.")], limits=Limits(max_model_calls=2))
    async with capability.run_scope() as run:
        answers = [await capability.call("run_agent", {"name": "child", "task": "go"}) for _ in range(2)]
    assert answers[0] == "done"
    assert "max_model_calls=2" in answers[1]
    assert (run.usage.model_calls, len(child.model.seen)) == (2, 2)


@pytest.mark.parametrize("kind", ["async", "sync", "member"])
async def test_depth_lineage_and_scope_are_visible_inside(kind: str):
    seen: list[Any] = []

    def look() -> str:
        """Look."""
        run = active_run()
        seen.append((run.depth, run.scope, run.identity) if run else None)
        return "ok"

    async def look_async() -> str:
        """Look."""
        return look()

    child: Any = theirs([("look_async", {}), ("look", {})], "seen", tools=[look, look_async], name="helper")
    if kind == "member":
        child = team(ASKS_HELPER, "seen", members=[child])
    result = await lead(child).run("go", scope="acme")
    [record] = result.delegations
    assert record.message == "seen"
    assert record.trace.child.parent_run_id == result.run_id
    assert seen == [(1, "acme", record.trace.child)] * 2


@pytest.mark.parametrize("kind", ["async", "sync", "member"])
async def test_a_tool_of_theirs_that_runs_an_agent_of_ours_stays_under_the_ceiling(kind: str):
    def calling(function: Any) -> Any:
        child = theirs([(function.__name__, {})], "asked", tools=[function], name="helper")
        return team(ASKS_HELPER, "asked", members=[child]) if kind == "member" else child

    await an_agent_of_ours_in_its_tool_stays_under_the_ceiling(calling, synchronous=kind == "sync")


async def test_each_delegation_is_a_session_of_its_own_unless_one_is_named():
    child = theirs("Hallo", db=InMemoryDb(), add_history_to_context=True)
    sessions = [(await the_record(child)).trace.result.result.session_id for _ in range(2)]
    assert len(set(sessions)) == 2
    assert child.session_id is None
    assert child.model.seen == [["go"]] * 2
    for scope in ({"session_id": "s-1", "user_id": "ada"},) * 2:
        result = await lead(child).run("go", scope=scope)
    output = result.delegations[0].trace.result.result
    assert (output.session_id, output.user_id) == ("s-1", "ada")
    assert child.model.seen[2:] == [["go"], ["go", "Hallo", "go"]]
    assert result.delegations[0].trace.usage.model_calls == 1  # what it remembers was counted before
    own = theirs("Hallo", session_id="mine")
    assert (await the_record(own)).trace.result.result.session_id == "mine"


async def test_several_delegations_at_once_do_not_wait_for_each_other_or_mix():
    arrived: list[str] = []
    all_there = asyncio.Event()

    async def meet(run_context: RunContext) -> str:
        """Meet the others."""
        arrived.append(run_context.run_id)
        if len(arrived) == 3:
            all_there.set()
        await all_there.wait()
        return run_context.run_id

    child = theirs([("meet", {})], "met", tools=[meet])
    capability = delegation([SubAgent("child", child, "Works.")])
    async with capability.run_scope() as run, asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(capability.call("run_agent", {"name": "child", "task": f"task {number}"}))
    outputs = [record.trace.result.result for record in run.records]
    for number, output in enumerate(outputs):
        told = [each.content for each in output.messages]
        assert told == [f"task {number}", None, output.run_id, "met"]
    assert {record.trace.usage.model_calls for record in run.records} == {2}
