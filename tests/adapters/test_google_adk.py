"""Agents of Google's ADK as children, with a model for tests."""

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("google.adk")

from adapter_kit import Waits, lead, the_record
from google.adk.agents import BaseAgent, LoopAgent, ParallelAgent, RunConfig, SequentialAgent
from google.adk.agents.invocation_context import LlmCallsLimitExceededError
from google.adk.agents.run_config import ToolThreadPoolConfig
from google.adk.apps import App
from google.adk.events import Event, RequestInput
from google.adk.models import LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import AgentTool, FunctionTool, LongRunningFunctionTool, ToolContext, exit_loop
from google.adk.workflow import START, JoinNode, Workflow
from google.genai import types
from google_adk_kit import USAGE, Says, answers, says, theirs, thinks, uses
from pydantic import BaseModel

from symfonic import DelegationOutcome, Limits, Options, SubAgent, delegation
from symfonic.adapters.google_adk import GoogleADKChild, InputNeededError, adopt
from symfonic.capabilities.delegation import ChildPolicy
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.errors import ChildDeclarationError
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import ScriptedChild, check_child_runner

the_old_workflows = pytest.mark.filterwarnings("ignore:.*Agent is deprecated in favor of Workflow:DeprecationWarning")


async def note() -> str:
    """Note."""
    return "noted"


def calling(tool: Any, *then: Any, name: str = "", **settings: Any) -> Any:
    """An agent of theirs that calls a tool of its own, and then says "done"."""
    called = name or getattr(tool, "name", "") or tool.__name__
    return theirs([uses(called)], *(then or ["done"]), tools=[tool], **settings)


async def ask(capability: Any, name: str = "child", task: str = "go") -> str:
    return str(await capability.call("run_agent", {"name": name, "task": task}))


# What is a child


async def test_the_contract_of_a_child():
    await check_child_runner(answers, make_failing=lambda: theirs(ValueError("no"), again=True))


class Echoes(BaseAgent):
    """An agent of somebody's own."""

    async def _run_async_impl(self, ctx: Any) -> Any:
        yield Event(author=self.name, message=f"echo {ctx.user_content.parts[0].text}")


def in_capitals(node_input: str) -> str:
    return str(node_input).upper()


@pytest.mark.parametrize(
    ("child", "answer"),
    [
        (answers, "Hallo"),
        (lambda: Echoes(name="echoes"), "echo go"),
        (lambda: Workflow(name="flow", edges=[(START, in_capitals)]), "GO"),
        (lambda: App(name="app", root_agent=answers()), "Hallo"),
        (lambda: InMemoryRunner(agent=answers()), "Hallo"),
    ],
    ids=["agent", "own agent", "workflow", "app", "runner"],
)
async def test_whatever_theirs_can_run_is_known_where_it_is_declared(child: Any, answer: str):
    record = await the_record(child())
    assert record.delivered, record
    assert record.message == answer
    assert isinstance(record.trace.result.result[-1], Event)


def test_what_is_no_agent_of_theirs_is_not_adopted():
    for other in (Says(), type(answers()), types.Part(text="a part"), object()):
        assert adopt("x", other) is None


def test_nothing_is_imported_for_an_object_of_another_package_of_google():
    program = (
        "import sys, types\n"
        "Message = type('Message', (), {'__module__': 'google.protobuf.message'})\n"
        "from symfonic import SubAgent, Agent, ConfigurationError\n"
        "from symfonic.testing import ScriptedModel\n"
        "try: Agent(ScriptedModel('x'), sub_agents=[SubAgent('m', Message(), 'M.')])\n"
        "except ConfigurationError as error: print('refused', 'google.adk' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "refused False\n"


def test_what_theirs_would_not_run_is_refused_where_it_is_declared():
    class Named(BasePlugin):
        pass

    twice = App(name="app", root_agent=answers(), plugins=[Named("one"), Named("one")])
    single = theirs("Hallo", mode="single_turn")
    for child, words in ((single, "'odd'.*'single_turn'.*Workflow"), (twice, "'odd'.*'one' already registered")):
        with pytest.raises(ChildDeclarationError, match=words):
            lead_of(child)
    flow = Workflow(name="flow", edges=[(START, theirs("Hallo", mode="single_turn"))])
    assert lead_of(flow)


def lead_of(child: Any) -> Any:
    return delegation([SubAgent("odd", child, "Works.")])


# The answer


class City(BaseModel):
    name: str
    inhabitants: int


async def test_a_structured_answer_is_json_and_the_object_is_kept():
    text = '{"name": "Zürich", "inhabitants": 400000}'
    record = await the_record(theirs(text, output_schema=City))
    assert record.message == text
    flow = Workflow(name="flow", edges=[(START, theirs(text, output_schema=City))])
    record = await the_record(flow)
    assert record.message == text
    assert record.trace.result.result[-1].output == {"name": "Zürich", "inhabitants": 400000}


async def test_the_result_that_a_task_agent_hands_in_is_its_answer():
    child = theirs([says("I finish."), uses("finish_task", result="42 of them")], mode="task")
    assert (await the_record(child)).message == '{"result": "42 of them"}'


@pytest.mark.parametrize("parts", [[says("")], [says(" \n")], [thinks("I wonder")], []])
@pytest.mark.parametrize("stopped", [None, types.FinishReason.STOP])
async def test_an_empty_answer_and_one_that_is_only_thought_are_failures(parts: Any, stopped: Any):
    reply = LlmResponse(content=types.Content(role="model", parts=parts), finish_reason=stopped)
    record = await the_record(theirs(reply))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "wonder" not in record.message
    assert ("no final response" if stopped is None else "MODEL_RETURNED_NO_CONTENT") in record.message


async def test_the_text_of_several_parts_is_the_answer_without_the_thoughts():
    record = await the_record(theirs([thinks("I wonder"), says("one"), says(""), says(" two")]))
    assert record.message == "one two"


@pytest.mark.parametrize("stopped", [None, types.FinishReason.STOP])
async def test_what_was_said_beside_a_call_is_the_answer_where_nothing_is_said_after_it(stopped: Any):
    empty = LlmResponse(content=types.Content(role="model", parts=[]), finish_reason=stopped)
    record = await the_record(theirs([says("It is 4."), uses("note")], empty, tools=[note]))
    assert record.message == "It is 4."


async def test_a_run_that_ends_in_a_tools_response_has_no_answer_unless_that_is_meant_to_be_shown():
    def stop(tool_context: ToolContext) -> str:
        """Stop."""
        tool_context._invocation_context.end_invocation = True
        return "stopped"

    def show(tool_context: ToolContext) -> str:
        """Show."""
        tool_context.actions.skip_summarization = True
        return "shown"

    record = await the_record(theirs([says("I stop."), uses("stop")], tools=[stop]))
    assert record.outcome is DelegationOutcome.CHILD_FAILED, record
    assert record.message == "Sub-agent 'child' failed: it returned no final response"
    assert (await the_record(theirs([says("I show."), uses("show")], tools=[show]))).message == "shown"


async def test_a_model_that_reports_an_error_is_a_failure_with_its_words_unless_something_is_said_after_it():
    blocked = LlmResponse(error_code="SAFETY", error_message="not this")
    record = await the_record(theirs(blocked))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child' failed: its model gave no answer (SAFETY): not this"
    flow = Workflow(name="flow", edges=[(START, theirs(blocked), theirs("Hallo", name="second"))])
    assert (await the_record(flow)).message == "Hallo"


@the_old_workflows
async def test_of_agents_in_sequence_the_last_answers_and_of_agents_in_parallel_all_do():
    def two(**settings: Any) -> Any:
        return [theirs("from b", name="b", **settings), theirs("from a", name="a", **settings)]

    assert (await the_record(SequentialAgent(name="both", sub_agents=two()))).message == "from a"
    assert (await the_record(ParallelAgent(name="both", sub_agents=two()))).message == "from a\n\nfrom b"
    merged = SequentialAgent(
        name="all", sub_agents=[ParallelAgent(name="both", sub_agents=two()), theirs("merged", name="merger")]
    )
    assert (await the_record(merged)).message == "merged"
    join = JoinNode(name="join")
    ann, bob = two()
    flow = Workflow(name="flow", edges=[(START, ann, join), (START, bob, join)])
    assert json.loads((await the_record(flow)).message) == {"a": "from a", "b": "from b"}


@the_old_workflows
async def test_what_helps_an_agent_in_parallel_is_no_answer():
    helper = theirs("help", name="helper", mode="single_turn", description="Helps.")
    ann = theirs([uses("helper", request="go")], "from ann", name="ann", sub_agents=[helper])
    both = ParallelAgent(name="both", sub_agents=[ann, theirs("from bob", name="bob")])
    record = await the_record(Workflow(name="flow", edges=[(START, both)]))
    assert "help" in [each.content.parts[0].text for each in record.trace.result.result]
    assert record.message == "from ann\n\nfrom bob"


@the_old_workflows
async def test_a_loop_that_a_tool_ends_answers_with_what_was_said_last():
    checks = theirs([says("This will do."), uses("exit_loop")], name="checker", tools=[exit_loop])
    loop = LoopAgent(name="loop", sub_agents=[theirs("a draft", name="writer"), checks])
    assert (await the_record(loop)).message == "a draft"


async def test_an_agent_that_is_transferred_to_answers():
    child = theirs([uses("transfer_to_agent", agent_name="b")], sub_agents=[theirs("from b", name="b")])
    assert (await the_record(child)).message == "from b"


# Failures and cancellation


async def test_an_exception_is_its_failure_with_its_words_and_the_original():
    async def break_it() -> str:
        """Break."""
        raise error

    error = ValueError("no such town")
    flow = Workflow(name="flow", edges=[(START, theirs(error))])
    for child in (theirs(error), calling(break_it), flow, App(name="app", root_agent=theirs(error))):
        record = await the_record(child)
        assert record.outcome is DelegationOutcome.CHILD_FAILED
        assert record.message == "Sub-agent 'child' failed: no such town"
        assert record.trace.error is error


async def test_that_it_cancelled_itself_is_a_value():
    async def stop() -> str:
        """Stop."""
        raise asyncio.CancelledError

    record = await the_record(calling(stop))
    assert record.outcome in (DelegationOutcome.CHILD_CANCELLED, DelegationOutcome.CHILD_FAILED)


def that_waits() -> tuple[Any, Waits]:
    waits = Waits()

    async def wait() -> str:
        """Wait."""
        return await waits.run()  # type: ignore[no-any-return]

    return calling(wait), waits


@the_old_workflows
@pytest.mark.parametrize("around", [None, "parallel", "workflow", "runner"])
async def test_a_timeout_and_a_cancellation_reach_it_and_leave_nothing_behind(around: str | None):
    def wrapped(child: Any) -> Any:
        if around == "parallel":
            return ParallelAgent(name="both", sub_agents=[child, theirs("quick", name="quick")])
        if around == "workflow":
            return Workflow(name="flow", edges=[(START, child)])
        return child if around is None else InMemoryRunner(agent=child)

    before = asyncio.all_tasks()
    child, waits = that_waits()
    record = await the_record(wrapped(child), policy=ChildPolicy(timeout=1))
    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert waits.ended.is_set()
    calls = 2 if around == "parallel" else 1
    assert record.trace.usage == Usage(7 * calls, 3 * calls, calls, 1)
    assert asyncio.all_tasks() == before

    child, waits = that_waits()
    run = asyncio.create_task(lead(wrapped(child)).run("go"))
    await waits.began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert waits.ended.is_set()
    assert asyncio.all_tasks() == before


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


@pytest.mark.parametrize("limits", [Limits(max_model_calls=2), Limits(max_tokens=15)])
async def test_limits_of_the_tree_hold_inside_it(limits: Limits):
    child = theirs([uses("note")], [uses("note")], "never", tools=[note])
    capability = delegation([SubAgent("child", child, "Works.")], limits=limits)
    async with capability.run_scope() as run:
        text = await ask(capability)
    assert "max_model_calls=2" in text or "max_tokens=15" in text
    assert "plugin" not in text
    assert run.usage.model_calls == 2


async def test_the_run_config_is_theirs():
    child = GoogleADKChild("child", calling(note), run_config=RunConfig(max_llm_calls=1))
    record = await the_record(child)
    assert isinstance(record.trace.error, LlmCallsLimitExceededError)


# Depth, scope and lineage


async def test_depth_lineage_and_scope_are_visible_inside_also_in_the_threads_of_its_tools():
    seen: list[Any] = []

    async def look() -> str:
        """Look."""
        seen.append(active_run())
        return "ok"

    def look_from_a_thread() -> str:
        """Look."""
        seen.append(active_run())
        return "ok"

    both = [uses("look", "a"), uses("look_from_a_thread", "b")]
    agent = theirs(both, "seen", tools=[look, look_from_a_thread])
    threads = RunConfig(tool_thread_pool_config=ToolThreadPoolConfig())
    result = await lead(GoogleADKChild("child", agent, run_config=threads)).run("go", scope="acme")
    [record] = result.delegations
    assert record.delivered, record
    assert len(seen) == 2
    for run in seen:
        assert (run.depth, run.scope, run.identity) == (1, "acme", record.trace.child)
        assert run.identity.parent_run_id == result.run_id


@pytest.mark.parametrize("synchronous", [False, True])
async def test_a_tool_of_theirs_that_runs_an_agent_of_ours_stays_under_the_ceiling(synchronous: bool):
    inner = lead(ScriptedChild("too deep"))
    records: list[Any] = []

    def in_a_thread() -> str:
        """Ask."""
        result = inner.run_sync("go")
        records.extend(result.delegations)
        return result.text

    async def on_the_loop() -> str:
        """Ask."""
        result = await inner.run("go")
        records.extend(result.delegations)
        return result.text

    threads = RunConfig(tool_thread_pool_config=ToolThreadPoolConfig())
    agent = GoogleADKChild("child", calling(in_a_thread if synchronous else on_the_loop), run_config=threads)
    record = await the_record(agent, max_depth=2)
    assert record.delivered, record
    assert [each.outcome for each in records] == [DelegationOutcome.REFUSED_DEPTH]
    assert records[0].depth == 3


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


# What pauses


async def pay(amount: int = 7) -> str:
    """Pay."""
    return f"paid {amount}"


async def wait_for_it() -> None:
    """Wait."""


def asks_how_much(node_input: str) -> Any:
    yield RequestInput(message="How much?")


@pytest.mark.parametrize(
    ("child", "words"),
    [
        (lambda: calling(FunctionTool(pay, require_confirmation=True)), "a confirmation of pay({})"),
        (lambda: calling(LongRunningFunctionTool(wait_for_it)), "a result of wait_for_it({})"),
        (lambda: Workflow(name="flow", edges=[(START, asks_how_much)]), "an answer to How much?"),
    ],
    ids=["confirmation", "long running", "input"],
)
async def test_a_pause_inside_it_is_a_signal_where_it_is_named_and_else_its_failure(child: Any, words: str):
    record = await the_record(child())
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert f"it waits for {words}, which nobody here can give" in record.message
    assert isinstance(record.trace.error, InputNeededError)
    with pytest.raises(InputNeededError) as caught:
        await lead(child(), options=Options(pass_through=(InputNeededError,))).run("go")
    assert len(caught.value.calls) == 1


async def test_a_paused_run_can_be_gone_on_with():
    child = calling(FunctionTool(pay, require_confirmation=True), "It is paid.")
    limits, options = Limits(max_model_calls=2), Options(pass_through=(InputNeededError,))
    with pytest.raises(InputNeededError) as caught:
        await lead(child, limits=limits, options=options).run("go")
    paused, [call] = caught.value, caught.value.calls
    response = types.FunctionResponse(id=call.id, name=call.name, response={"confirmed": True})
    events = [
        each
        async for each in paused.runner.run_async(
            user_id=paused.user_id,
            session_id=paused.session_id,
            new_message=types.Content(role="user", parts=[types.Part(function_response=response)]),
        )
    ]
    assert events[-1].content.parts[0].text == "It is paid."


async def test_a_tool_that_takes_long_and_has_answered_is_no_pause():
    async def order() -> dict[str, str]:
        """Order."""
        return {"status": "ordered"}

    assert (await the_record(calling(LongRunningFunctionTool(order)))).message == "done"


async def test_credentials_that_it_waits_for_are_not_told():
    call = types.FunctionCall(name="adk_request_credential", args={"authConfig": {"secret": "s3cret"}})
    assert str(InputNeededError([call], InMemoryRunner(agent=answers()), "me", "s")) == (
        "it waits for credentials, which nobody here can give"
    )


async def test_an_exception_of_a_tool_that_is_a_signal_passes_through():
    class NeedsApprovalError(Exception):
        pass

    signal = NeedsApprovalError("pay?")

    async def raise_it() -> str:
        """Raise."""
        raise signal

    with pytest.raises(NeedsApprovalError) as caught:
        await lead(calling(raise_it), options=Options(pass_through=(NeedsApprovalError,))).run("go")
    assert caught.value is signal
