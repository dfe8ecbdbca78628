"""Agents of Google's ADK in a tree: what ends them, what they spend, where they run, and each conversation apart."""

import asyncio
from typing import Any

import pytest

pytest.importorskip("google.adk")

from adapter_kit import (
    a_cancellation_reaches_it,
    a_limit_ends_it,
    a_timeout_reaches_it,
    an_agent_of_ours_in_its_tool_stays_under_the_ceiling,
    ask,
    lead,
    that_waits,
    the_record,
    where_it_runs_is_visible_in_its_tools,
)
from google.adk.agents import ParallelAgent, RunConfig
from google.adk.agents.invocation_context import LlmCallsLimitExceededError
from google.adk.agents.run_config import ToolThreadPoolConfig
from google.adk.apps import App
from google.adk.models import LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, ToolContext
from google.adk.workflow import START, Workflow
from google.genai import types
from google_adk_kit import USAGE, Says, answers, calling, note, says, the_old_workflows, theirs, uses

from symfonic import DelegationOutcome, Limits, SubAgent, delegation
from symfonic.adapters.google_adk import GoogleADKChild
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import ScriptedChild

# What ends it


@the_old_workflows
@pytest.mark.parametrize("around", [None, "parallel", "workflow", "runner"])
async def test_a_timeout_and_a_cancellation_reach_it_and_leave_nothing_behind(around: str | None):
    def wrapped(child: Any) -> Any:
        if around == "parallel":
            return ParallelAgent(name="both", sub_agents=[child, theirs("quick", name="quick")])
        if around == "workflow":
            return Workflow(name="flow", edges=[(START, child)])
        return child if around is None else InMemoryRunner(agent=child)

    child, waits = that_waits(calling)
    record = await a_timeout_reaches_it(wrapped(child), waits, seconds=1)
    calls = 2 if around == "parallel" else 1
    assert record.trace.usage == Usage(7 * calls, 3 * calls, calls, 1)
    child, waits = that_waits(calling)
    await a_cancellation_reaches_it(wrapped(child), waits)


# Usage and limits


async def test_its_usage_is_what_its_events_say_and_failures_are_in_it():
    child = theirs([uses("note", "a"), uses("note", "b")], "done", tools=[note])
    record = await the_record(child)
    told = [each.usage_metadata for each in record.trace.result.result if each.usage_metadata]
    assert record.trace.usage == Usage(7 * len(told), 3 * len(told), 2, 2)
    assert sum(each.total_token_count for each in told) == 20
    failing = await the_record(calling(note, ValueError("down")))
    assert failing.trace.usage == Usage(7, 3, 2, 1)


@pytest.mark.parametrize(("partial", "answered"), [((True, True, False), True), ((True, True), False)])
async def test_pieces_of_a_reply_are_no_answer_and_what_they_report_is_counted_once(partial: Any, answered: bool):
    class Streams(Says):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            for each in partial:
                content = types.Content(role="model", parts=[says("so")])
                yield LlmResponse(content=content, partial=each, usage_metadata=USAGE)

    child = theirs()
    child.model = Streams()
    record = await the_record(child)
    assert record.delivered is answered
    assert record.trace.usage == Usage(7, 3, 1)


async def test_what_a_plugin_answers_in_a_models_place_is_no_call_of_a_model_and_what_it_changes_is_counted():
    class Caches(BasePlugin):
        async def before_model_callback(self, *, callback_context: Any, llm_request: Any) -> Any:
            return LlmResponse(content=types.Content(role="model", parts=[says("cached")]))

    class Rewrites(BasePlugin):
        async def after_model_callback(self, *, callback_context: Any, llm_response: Any) -> Any:
            return LlmResponse(content=types.Content(role="model", parts=[says("other")]))

    record = await the_record(App(name="app", root_agent=theirs(), plugins=[Caches("caches")]))
    assert (record.message, record.trace.usage) == ("cached", Usage())
    record = await the_record(App(name="app", root_agent=answers(), plugins=[Rewrites("rewrites")]))
    assert (record.message, record.trace.usage) == ("other", Usage(7, 3, 1))


@pytest.mark.filterwarnings("ignore:The `plugins` argument is deprecated:DeprecationWarning")
async def test_an_agent_that_is_a_tool_of_the_agent_is_counted_and_limited_too():
    def outer() -> Any:
        inner = theirs([uses("note")], "inner", name="inner", tools=[note])
        return theirs([uses("inner", request="go")], "outer", tools=[AgentTool(inner)])

    record = await the_record(outer())
    assert (record.message, record.trace.usage) == ("outer", Usage(28, 12, 4, 2))
    capability = delegation([SubAgent("child", outer(), "Works.")], limits=Limits(max_model_calls=2))
    async with capability.run_scope() as run:
        assert "max_model_calls=2" in await ask(capability)
    assert run.usage.model_calls == 2


@pytest.mark.parametrize("limits", [{"max_model_calls": 2}, {"max_tokens": 15}])
async def test_limits_of_the_tree_hold_inside_it(limits: dict[str, int]):
    child = theirs([uses("note")], [uses("note")], "never", tools=[note])
    assert "plugin" not in await a_limit_ends_it(child, **limits)


async def test_the_run_config_is_theirs():
    child = GoogleADKChild("child", calling(note), run_config=RunConfig(max_llm_calls=1))
    record = await the_record(child)
    assert isinstance(record.trace.error, LlmCallsLimitExceededError)


# Depth, scope and lineage


def with_threads(agent: Any) -> GoogleADKChild:
    return GoogleADKChild("child", agent, run_config=RunConfig(tool_thread_pool_config=ToolThreadPoolConfig()))


async def test_depth_lineage_and_scope_are_visible_inside_also_in_the_threads_of_its_tools():
    def calling_all(*functions: Any) -> Any:
        calls = [uses(each.__name__, each.__name__) for each in functions]
        return with_threads(theirs(calls, "seen", tools=list(functions)))

    await where_it_runs_is_visible_in_its_tools(calling_all)


@pytest.mark.parametrize("synchronous", [False, True])
async def test_a_tool_of_theirs_that_runs_an_agent_of_ours_stays_under_the_ceiling(synchronous: bool):
    def calling_one(function: Any) -> Any:
        return with_threads(calling(function))

    await an_agent_of_ours_in_its_tool_stays_under_the_ceiling(calling_one, synchronous=synchronous)


async def test_a_synchronous_tool_of_theirs_on_the_loop_is_told_why_it_cannot_run_an_agent_of_ours():
    def ask_it() -> str:
        """Ask."""
        return lead(ScriptedChild("never")).run_sync("go").text

    record = await the_record(calling(ask_it))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "an event loop is running in this thread" in record.message


# Its conversation


async def test_no_delegation_sees_the_conversation_or_the_state_of_another():
    def remember(tool_context: ToolContext) -> str:
        """Remember."""
        remembered.append(tool_context.state.get("user:seen"))
        tool_context.state["user:seen"] = "something"
        return "yes"

    remembered: list[Any] = []
    call = [uses("remember")]
    child = theirs(call, "first", call, ValueError("down"), call, "third", tools=[remember])
    capability = delegation([SubAgent("child", child, "Works.")])
    assert await ask(capability, task="one") == "first"
    assert "down" in await ask(capability, task="two")
    assert await ask(capability, task="three") == "third"
    assert [each[0] for each in child.model.sent] == ["one", "one", "two", "two", "three", "three"]
    assert all(len(each) == 1 for each in child.model.sent)
    assert remembered == [None] * 3


async def test_delegations_at_once_run_at_once_and_do_not_mix():
    both = asyncio.Barrier(2)

    async def meet(tool_context: ToolContext) -> str:
        """Meet."""
        tool_context.state["task"] = task = tool_context.user_content.parts[0].text
        await both.wait()
        assert tool_context.state["task"] == task
        return task

    class Repeats(Says):
        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
            asked, last = llm_request.contents[0].parts[0].text, llm_request.contents[-1].parts[0]
            part = says(f"met for {asked}") if last.function_response else uses("meet", f"call-{asked}")
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    child = theirs(tools=[meet])
    child.model = Repeats()
    capability = delegation([SubAgent("child", child, "Works.")])
    assert await asyncio.gather(ask(capability, task="one"), ask(capability, task="two")) == [
        "met for one",
        "met for two",
    ]


async def test_a_runner_has_new_sessions_in_its_own_service_or_that_of_the_scope():
    runner = InMemoryRunner(agent=theirs("a", "b", "c", "d"), app_name="app")
    plugins = list(runner.plugin_manager.plugins)
    capability = delegation([SubAgent("child", runner, "Works.")])
    for scope in (
        None,
        {"user_id": "ann"},
        {"user_id": "ann", "session_id": "s"},
        {"user_id": "ann", "session_id": "s"},
    ):
        async with capability.run_scope(scope=scope):
            await ask(capability)
    assert runner.agent.model.sent == [["go"], ["go"], ["go"], ["go", "c", "go"]]
    sessions = (await runner.session_service.list_sessions(app_name="app", user_id="ann")).sessions
    assert len(sessions) == 2
    assert "s" in {each.id for each in sessions}
    assert runner.plugin_manager.plugins == plugins
    assert runner.auto_create_session is False
