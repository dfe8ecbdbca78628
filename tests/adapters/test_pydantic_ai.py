"""Agents of pydantic-ai as children, with their own models for tests."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from adapter_kit import (
    a_cancellation_reaches_it,
    a_timeout_reaches_it,
    an_agent_of_ours_in_its_tool_stays_under_the_ceiling,
    ask,
    lead,
    that_waits,
    the_record,
)
from pydantic import BaseModel
from pydantic_ai import Agent as Theirs
from pydantic_ai import ApprovalRequired, CallDeferred, DeferredToolRequests, RunContext
from pydantic_ai.agent import WrapperAgent
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai_kit import Tenant, answers, says, that_pauses

from symfonic import Agent, DelegationOutcome, Limits, Options, SubAgent, delegation
from symfonic.adapters.pydantic_ai import PydanticAIChild, adopt
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import ScriptedModel, check_child_runner, tool_call


async def test_the_contract_of_a_child():
    await check_child_runner(answers, make_failing=lambda: Theirs(says(ValueError("no"))))


async def test_it_is_known_where_it_is_declared_and_so_is_what_wraps_it():
    for agent in (answers(), WrapperAgent(answers())):
        record = await the_record(agent)
        assert record.delivered, record
        assert record.message == "Hallo"
        assert record.trace.result.result.output == "Hallo"
        assert agent.name is None
    assert adopt("x", TestModel()) is None
    assert adopt("x", Theirs) is None


class City(BaseModel):
    name: str
    inhabitants: int


@pytest.mark.parametrize(
    ("kind", "output", "text"),
    [
        (City, {"name": "Zürich", "inhabitants": 400_000}, '{"name":"Zürich","inhabitants":400000}'),
        (list[int], [1, 2], "[1,2]"),
        (int, 0, "0"),
        (bool, False, "false"),
    ],
)
async def test_a_structured_answer_is_json_and_the_object_is_kept(kind: Any, output: Any, text: str):
    record = await the_record(Theirs(TestModel(custom_output_args=output), output_type=kind))
    assert record.delivered, record
    assert record.message.replace(" ", "") == text
    assert isinstance(record.trace.result.result.output, City if kind is City else object)


@pytest.mark.parametrize("parts", [[TextPart("")], [TextPart(" \n")], [ThinkingPart("I wonder")], []])
async def test_an_empty_answer_and_one_that_is_only_thought_are_failures(parts: Any):
    child = Theirs(FunctionModel(lambda messages, info: ModelResponse(parts=parts)), retries=0)
    record = await the_record(child)
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "wonder" not in record.message


async def test_none_is_no_answer():
    async def nothing() -> None:
        """Say nothing."""

    child = Theirs(TestModel(), output_type=[nothing])
    record = await the_record(child)
    assert record.message == "Sub-agent 'child' failed: it returned no final response"


async def test_an_exception_is_its_failure_with_its_words_and_the_original():
    error = ValueError("no such town")
    record = await the_record(Theirs(says(error)))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child' failed: no such town"
    assert record.trace.error is error


async def test_that_it_cancelled_itself_is_a_value():
    child = Theirs(says([ToolCallPart("stop", {})], "never"))

    @child.tool
    async def stop(context: RunContext[None]) -> str:
        raise asyncio.CancelledError

    record = await the_record(child)
    assert record.outcome in (DelegationOutcome.CHILD_CANCELLED, DelegationOutcome.CHILD_FAILED)


def calling(function: Any) -> Any:
    """An agent of theirs that calls a tool of its own, and then says "done"."""
    return Theirs(says([ToolCallPart(function.__name__, {})], "done"), tools=[function])


async def test_a_timeout_and_a_cancellation_reach_it():
    record = await a_timeout_reaches_it(*that_waits(calling))
    assert record.trace.usage.model_calls == 1
    await a_cancellation_reaches_it(*that_waits(calling))


async def test_its_usage_is_its_own_count_and_failures_are_in_it():
    child = Theirs(says([ToolCallPart("note", {"text": "a"}), ToolCallPart("note", {"text": "b"})], "done"))
    failing = Theirs(says([ToolCallPart("note", {"text": "a"})], ValueError("down")))
    for agent in (child, failing):

        @agent.tool_plain
        async def note(text: str) -> str:
            return text

    record = await the_record(child)
    own = record.trace.result.result.usage
    assert record.trace.usage == Usage(own.input_tokens, own.output_tokens, own.requests, own.tool_calls)
    assert (own.requests, own.tool_calls) == (2, 2)
    assert own.input_tokens and own.output_tokens  # noqa: PT018 - both are to be counted
    spent = (await the_record(failing)).trace.usage
    assert (spent.tool_calls, spent.input_tokens > 0) == (1, True)


async def test_limits_of_the_tree_hold_inside_it():
    child = Theirs(says([ToolCallPart("note", {})], [ToolCallPart("note", {})], "never"))

    @child.tool_plain
    async def note() -> str:
        return "noted"

    result = await lead(child, options=Options(max_steps=9)).run("go")
    assert result.delegations[0].trace.usage.model_calls == 3
    capability = delegation([SubAgent("child", child, "Works.")], limits=Limits(max_model_calls=2))
    async with capability.run_scope() as run:
        assert "max_model_calls=2" in await ask(capability)
    assert run.usage.model_calls == 2


async def test_depth_lineage_and_scope_are_visible_inside_and_the_scope_is_its_deps():
    seen: list[Any] = []
    child = Theirs(says([ToolCallPart("look", {}), ToolCallPart("look_from_a_thread", {})], "seen"), deps_type=Tenant)

    @child.tool
    async def look(context: RunContext[Tenant]) -> str:
        seen.append((active_run(), context.deps))
        return "ok"

    @child.tool
    def look_from_a_thread(context: RunContext[Tenant]) -> str:
        seen.append((active_run(), context.deps))
        return "ok"

    result = await lead(child).run("go", scope=Tenant("acme"))
    [record] = result.delegations
    assert record.delivered, record
    for run, deps in seen:
        assert (run.depth, run.scope, run.identity) == (1, Tenant("acme"), record.trace.child)
        assert run.identity.parent_run_id == result.run_id
        assert deps == Tenant("acme")
    plain = Theirs(says([ToolCallPart("look", {})], "seen"))
    plain.tool(look)
    seen.clear()
    await lead(plain).run("go", scope=Tenant("acme"))
    assert [deps for _, deps in seen] == [None]  # it asked for none


@pytest.mark.parametrize("synchronous", [False, True])
async def test_a_tool_of_theirs_that_runs_an_agent_of_ours_stays_under_the_ceiling(synchronous: bool):
    await an_agent_of_ours_in_its_tool_stays_under_the_ceiling(calling, synchronous=synchronous)


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [(Tenant("a"), Tenant, True), (Tenant("a"), Tenant | None, True), ({"a": 1}, dict[str, int], True), (1, Any, True),
     (1, str, False), ([1], dict[str, int], False)],
)  # fmt: skip
async def test_which_scopes_are_deps(value: Any, kind: Any, fits: bool):
    seen: list[Any] = []
    agent = Theirs(says([ToolCallPart("look", {})], "seen"), deps_type=kind)

    @agent.tool
    async def look(context: RunContext[Any]) -> str:
        seen.append(context.deps)
        return "ok"

    assert isinstance(adopt("child", agent), PydanticAIChild)
    await lead(agent).run("go", scope=value)
    assert seen == [value if fits else None]


@pytest.mark.parametrize("kinds", [{}, {"output_type": [str, DeferredToolRequests]}])
@pytest.mark.parametrize("signal", [ApprovalRequired, CallDeferred])
async def test_a_pause_inside_it_is_a_signal_where_it_is_named_and_else_its_failure(signal: Any, kinds: Any):
    child = that_pauses(signal({"why": "dear"}), **kinds)
    with pytest.raises(signal) as caught:
        await lead(child, options=Options(pass_through=(ApprovalRequired, CallDeferred))).run("go")
    assert caught.value.metadata["sub_agent"] == "child"
    requests = caught.value.metadata["requests"]
    assert [call.tool_name for call in (*requests.calls, *requests.approvals)] == ["pay"]
    assert list(requests.metadata.values()) == [{"why": "dear"}]

    record = await the_record(child)
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    if kinds:
        assert isinstance(record.trace.error, signal)
        assert 'pay({"amount":7}), which nobody here can give' in record.message
    else:
        assert "DeferredToolRequests" in record.message  # theirs: to let it pause at all, it has to be declared


async def test_delegations_to_one_agent_at_once_do_not_mix():
    both = asyncio.Barrier(2)

    async def reply(messages: list[Any], info: Any) -> ModelResponse:
        await both.wait()
        return ModelResponse(parts=[TextPart(f"{len(messages)}: {messages[0].parts[-1].content}")])

    child = SubAgent("child", Theirs(FunctionModel(reply)), "Works.")
    calls = [tool_call("run_agent", name="child", task=task) for task in ("one", "two")]
    result = await Agent(ScriptedModel(calls, calls, "done"), sub_agents=[child]).run("go")
    assert [record.message for record in result.delegations] == ["1: one", "1: two"] * 2
