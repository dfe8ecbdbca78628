"""Agents of agent-framework as children, with a chat client for tests."""

import asyncio
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("agent_framework")

from adapter_kit import Waits, lead, the_record
from agent_framework import (
    Agent,
    AgentResponse,
    ChatContext,
    ChatResponse,
    Content,
    ContextProvider,
    FileCheckpointStorage,
    FunctionInvocationContext,
    FunctionInvocationLayer,
    FunctionTool,
    Message,
    MiddlewareTermination,
    RawAgent,
    WorkflowBuilder,
    chat_middleware,
    function_middleware,
    tool,
    workflow,
)
from agent_framework.exceptions import ChatClientException, UserInputRequiredException
from agent_framework_kit import TOKENS, Remote, Replies, Says, answers, theirs, uses
from pydantic import BaseModel

from symfonic import DelegationOutcome, Limits, Options, SubAgent, delegation
from symfonic.adapters.agent_framework import AgentFrameworkChild, InputNeededError, adopt
from symfonic.capabilities.delegation import ChildPolicy
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.errors import ChildDeclarationError
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import ScriptedChild, check_child_runner


def note() -> str:
    """Note."""
    return "noted"


def calling(function: Any, *more: Any, **settings: Any) -> Any:
    """An agent of theirs that calls a tool of its own, and then says "done"."""
    return theirs(
        [uses(getattr(function, "name", None) or function.__name__)], "done", tools=[function, *more], **settings
    )


async def ask(capability: Any, name: str = "child", task: str = "go") -> str:
    return str(await capability.call("run_agent", {"name": name, "task": task}))


def that_waits(**settings: Any) -> tuple[Any, Waits]:
    waits = Waits()

    async def wait() -> str:
        """Wait."""
        return await waits.run()  # type: ignore[no-any-return]

    return calling(wait, **settings), waits


# What can be a child, and its answer


async def test_the_contract_of_a_child():
    await check_child_runner(answers, make_failing=lambda: theirs(ValueError("no"), again=True))


async def test_it_is_known_where_it_is_declared():
    record = await the_record(answers())
    assert record.delivered, record
    assert record.message == "Hallo"
    assert record.trace.result.result.messages[0].text == "Hallo"

    class Fixed(Remote):
        id = name = description = "fixed"

    for other in (Says(replies=["a"]), Agent, Fixed, note):
        assert adopt("x", other) is None


async def test_an_agent_without_middleware_is_seen_by_its_client():
    record = await the_record(RawAgent(Says(replies=[[uses("note")], "Hallo"]), tools=[note]))
    assert (record.message, record.trace.usage) == ("Hallo", Usage(14, 6, 2, 1))


async def test_agents_that_cannot_be_looked_into_are_children_too():
    for child in (Agent(Unlayered(replies=["Hallo"])), Remote()):
        record = await the_record(child)
        assert record.delivered, record
        assert (record.message, record.trace.usage) == ("Hallo", Usage(7, 3, 1))


class Unlayered(FunctionInvocationLayer, Replies):
    """A client that runs tools and no middleware."""


class City(BaseModel):
    name: str
    inhabitants: int


async def test_a_structured_answer_is_json_and_the_object_is_kept():
    child = theirs('{"name": "Zürich", "inhabitants": 400000}', default_options={"response_format": City})
    record = await the_record(child)
    assert record.message.replace(" ", "") == '{"name":"Zürich","inhabitants":400000}'
    assert record.trace.result.result.value == City(name="Zürich", inhabitants=400_000)


async def test_a_structured_answer_that_does_not_fit_is_a_failure():
    record = await the_record(theirs("Zürich", default_options={"response_format": City}))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.trace.usage == Usage(7, 3, 1)


@pytest.mark.parametrize("contents", [[], [""], [" \n"], [Content.from_text_reasoning(text="I wonder")]])
async def test_an_empty_answer_and_one_that_is_only_thought_are_failures(contents: Any):
    for messages in ([], [Message("assistant", contents)]):
        record = await the_record(Remote(AgentResponse(messages=messages)))
        assert record.outcome is DelegationOutcome.CHILD_FAILED
        assert "wonder" not in record.message


async def test_the_last_message_that_says_something_is_the_answer():
    said = [Message("assistant", ["first"]), Message("assistant", ["second"]), Message("assistant", [" "])]
    assert (await the_record(Remote(AgentResponse(messages=said)))).message == "second"
    child = theirs([Content.from_text("Let me look."), uses("note")], "42", tools=[note])
    assert (await the_record(child)).message == "42"


async def test_what_was_said_before_a_tool_is_no_answer_where_the_run_ends_in_its_result():
    @function_middleware
    async def end(context: FunctionInvocationContext, call_next: Any) -> None:
        context.result = "noted"
        raise MiddlewareTermination

    child = theirs([Content.from_text("Let me look."), uses("note")], "never", tools=[note], middleware=[end])
    record = await the_record(child)
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "look" not in record.message


async def test_an_answer_that_is_still_being_made_is_a_failure():
    response = AgentResponse(messages=[Message("assistant", ["so far"])], continuation_token={"token": "t"})  # type: ignore[typeddict-unknown-key]
    record = await the_record(Remote(response))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "it goes on in the background" in record.message


# Failure and cancellation


async def test_an_exception_is_its_failure_with_its_words_and_the_original():
    error = ValueError("no such town")
    record = await the_record(theirs([uses("note")], error, tools=[note]))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child' failed: no such town"
    assert record.trace.error is error
    assert record.trace.usage == Usage(7, 3, 2, 1)


async def test_an_error_of_theirs_that_stands_for_another_has_its_own_words_alone():
    inner = OSError("refused")
    error = ChatClientException("the service cannot be reached", inner)
    record = await the_record(theirs(error))
    assert record.message == "Sub-agent 'child' failed: the service cannot be reached"
    assert record.trace.error is error
    assert error.__cause__ is inner


async def test_a_timeout_and_a_cancellation_reach_it_and_it_can_be_called_again():
    child, waits = that_waits()
    before = asyncio.all_tasks()
    record = await the_record(child, policy=ChildPolicy(timeout=0.5))
    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert waits.ended.is_set()
    assert record.trace.usage == Usage(7, 3, 1, 1)
    assert asyncio.all_tasks() == before
    assert (await the_record(child)).message == "done"

    child, waits = that_waits()
    run = asyncio.create_task(lead(child).run("go"))
    await waits.began.wait()
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert waits.ended.is_set()
    assert asyncio.all_tasks() == before


# Usage and limits


async def test_its_usage_is_its_own_count_and_failures_are_in_it():
    child = theirs([uses("note", "a"), uses("note", "b")], "done", tools=[note])
    record = await the_record(child)
    own = record.trace.result.result.usage_details
    assert (own["input_token_count"], own["output_token_count"]) == (14, 6)
    assert record.trace.usage == Usage(14, 6, 2, 2)


async def test_what_another_middleware_answers_is_no_model_call_and_counts_as_what_it_tells():
    @chat_middleware
    async def remember(context: ChatContext, call_next: Any) -> None:
        context.result = ChatResponse(messages=[Message("assistant", ["remembered"])])

    record = await the_record(theirs("never", middleware=[remember]))
    assert (record.message, record.trace.usage) == ("remembered", Usage())


async def test_limits_of_the_tree_hold_inside_it():
    for limits, words in ((Limits(max_model_calls=2), "max_model_calls=2"), (Limits(max_tokens=15), "max_tokens=15")):
        child = theirs([uses("note")], [uses("note")], "never", tools=[note])
        capability = delegation([SubAgent("child", child, "Works.")], limits=limits)
        async with capability.run_scope() as run:
            assert words in await ask(capability)
        assert run.usage.model_calls == 2


async def test_an_agent_that_cannot_be_looked_into_is_one_model_call():
    capability = delegation([SubAgent("child", Remote(), "Works.")], limits=Limits(max_model_calls=1))
    async with capability.run_scope() as run:
        assert await ask(capability) == "Hallo"
        assert "max_model_calls=1" in await ask(capability)
    assert run.usage == Usage(7, 3, 1)


# What is visible inside it


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
    child = theirs(both, "seen", tools=[look, look_from_a_thread])
    result = await lead(child).run("go", scope="acme")
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

    record = await the_record(calling(in_a_thread if synchronous else on_the_loop), max_depth=2)
    assert record.delivered, record
    assert [each.outcome for each in records] == [DelegationOutcome.REFUSED_DEPTH]
    assert records[0].depth == 3


# Its conversation


async def test_every_delegation_begins_with_nothing_said():
    child = theirs("first", ValueError("down"), "third")
    capability = delegation([SubAgent("child", child, "Works.")])
    assert await ask(capability, task="one") == "first"
    assert "down" in await ask(capability, task="two")
    assert await ask(capability, task="three") == "third"
    assert child.client.sent == [["one"], ["two"], ["three"]]


async def test_every_delegation_has_a_session_of_its_own():
    seen: list[Any] = []

    class Remembers(ContextProvider):
        async def before_run(self, *, session: Any, state: Any, **_: Any) -> None:
            seen.append((session.session_id, dict(state)))
            state["seen"] = True

    @function_middleware
    async def look(context: FunctionInvocationContext, call_next: Any) -> None:
        seen.append(context.session.session_id)  # type: ignore[union-attr]
        await call_next()

    for providers in ([Remembers("memory")], []):
        child = theirs(*[[uses("note")], "done"] * 2, tools=[note], context_providers=providers, middleware=[look])
        capability = delegation([SubAgent("child", child, "Works.")])
        assert [await ask(capability), await ask(capability)] == ["done", "done"]
    assert [each[1] for each in seen if isinstance(each, tuple)] == [{}, {}]
    assert len({each for each in seen if isinstance(each, str)}) == 4


async def test_called_several_times_at_once_each_has_its_own_conversation_and_count():
    all_of_them = asyncio.Barrier(3)

    async def meet() -> str:
        """Meet."""
        await all_of_them.wait()
        return "met"

    child = theirs(*[[uses("meet")]] * 3, "done", "done", "done", tools=[meet])
    capability = delegation([SubAgent("child", child, "Works.")])
    async with capability.run_scope() as run:
        texts = await asyncio.gather(*[ask(capability, task=task) for task in ("a", "b", "c")])
    assert texts == ["done"] * 3
    assert sorted(child.client.sent) == [["a"], ["a"], ["b"], ["b"], ["c"], ["c"]]
    assert [record.trace.usage for record in run.records] == [Usage(14, 6, 2, 1)] * 3


# What pauses


@tool(approval_mode="always_require")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def that_pays() -> Any:
    return theirs([uses("pay", "call-1", amount=7)], "done", tools=[pay])


async def test_a_needed_approval_is_its_failure_with_words():
    record = await the_record(that_pays())
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert 'it waits for an approval of pay({"amount": 7}), which nobody here can give' in record.message
    assert record.trace.usage == Usage(7, 3, 1)


async def test_a_needed_approval_is_a_signal_where_it_is_named_and_the_run_can_go_on():
    signals = (InputNeededError, UserInputRequiredException)  # an approval is never the second one
    with pytest.raises(InputNeededError) as caught:
        await lead(that_pays(), options=Options(pass_through=signals)).run("go")
    needed = caught.value
    [request] = needed.response.user_input_requests
    answer = Message("user", [request.to_function_approval_response(approved=True)])
    assert (await needed.agent.run(answer, session=needed.session)).text == "done"
    assert needed.agent.client.sent == [["go"], ["go"]]  # type: ignore[attr-defined]


elsewhere = FunctionTool(name="elsewhere", description="Done by somebody else.", input_model={"type": "object"})


async def test_a_call_that_others_are_to_carry_out_is_told_the_same_way():
    for options in (None, Options(pass_through=(UserInputRequiredException,))):
        record = await the_record(theirs([uses("elsewhere", what="it")], tools=[elsewhere]), options=options)
        assert 'it waits for a result from outside of elsewhere({"what": "it"})' in record.message
        assert isinstance(record.trace.error, InputNeededError)


async def test_any_other_needed_input_is_a_signal_of_theirs_where_that_is_named_and_else_its_failure():
    def sign_in() -> str:
        """Sign in."""
        raise UserInputRequiredException([Content.from_oauth_consent_request("https://sign.in")])

    with pytest.raises(UserInputRequiredException) as caught:
        await lead(calling(sign_in), options=Options(pass_through=(UserInputRequiredException,))).run("go")
    [request] = caught.value.contents
    assert request.consent_link == "https://sign.in"
    record = await the_record(calling(sign_in))
    assert "it waits for an answer to oauth_consent_request, which nobody here can give" in record.message


async def test_a_signal_that_a_tool_of_theirs_raises_passes_through_and_another_error_is_the_tools_result():
    class StopError(Exception):
        pass

    def stop() -> str:
        """StopError."""
        raise StopError("here")

    def fail() -> str:
        """Fail."""
        raise ValueError("down")

    with pytest.raises(StopError, match="here"):
        await lead(calling(stop), options=Options(pass_through=(StopError,))).run("go")
    assert (await the_record(calling(fail), options=Options(pass_through=(StopError,)))).message == "done"
    assert (await the_record(calling(stop))).message == "done"


# Workflows


def in_a_row(*agents: Any, **settings: Any) -> Any:
    builder = WorkflowBuilder(start_executor=agents[0], **settings)
    for one, following in pairwise(agents):
        builder.add_edge(one, following)
    return builder.build().as_agent()


experimental = pytest.mark.filterwarnings("ignore:.FUNCTIONAL_WORKFLOWS. workflow is experimental")


@experimental
def test_one_instance_of_a_workflow_is_refused_and_told_what_to_give():
    @workflow
    async def written(text: str) -> str:
        return text

    one = in_a_row(answers())
    for child in (one, one.workflow, written, written.build(), written.build().as_agent()):
        with pytest.raises(ChildDeclarationError, match=r"'team' is a .*AgentFrameworkChild\(lambda: build\(\)"):
            SubAgent("team", child, "Works.")


async def test_a_workflow_that_is_built_for_each_delegation_is_a_child():
    writer = theirs([uses("note")], "draft", [uses("note")], "draft 2", tools=[note], name="writer")
    editor = theirs("final", "final 2", name="editor")
    child = AgentFrameworkChild(lambda: in_a_row(writer, editor, output_from=[editor]))
    capability = delegation([SubAgent("team", child, "Writes.")], limits=Limits(max_model_calls=5))
    async with capability.run_scope() as run:
        assert await ask(capability, "team", "one") == "final"
        assert run.usage == Usage(21, 9, 3, 1)
        assert "max_model_calls=5" in await ask(capability, "team", "two")
    assert run.usage == Usage(35, 15, 5, 2)
    assert writer.client.sent[2] == ["two"]
    assert editor.client.sent[0] == ["one", "draft"]


async def test_all_that_a_workflow_puts_out_is_its_answer():
    child = AgentFrameworkChild(lambda: in_a_row(theirs("draft", name="writer"), theirs("final", name="editor")))
    record = await the_record(child)
    assert record.message == "draft\n\nfinal"
    assert record.trace.usage == Usage(14, 6, 2)


async def test_a_failure_a_pause_and_a_cancellation_in_a_workflow_are_those_of_the_child():
    error = ValueError("down")
    record = await the_record(AgentFrameworkChild(lambda: in_a_row(theirs(error))))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.trace.error is error
    record = await the_record(AgentFrameworkChild(lambda: in_a_row(that_pays())))
    assert "it waits for an approval of pay" in record.message

    inner, waits = that_waits()
    before = asyncio.all_tasks()
    run = asyncio.create_task(lead(AgentFrameworkChild(lambda: in_a_row(inner))).run("go"))
    await waits.began.wait()
    run.cancel()
    with suppress(asyncio.CancelledError):
        await run
    assert run.cancelled()
    assert waits.ended.is_set()
    assert asyncio.all_tasks() == before


async def test_the_tokens_of_an_agent_with_middleware_of_its_own_in_a_workflow_are_those_that_the_workflow_tells():
    @chat_middleware
    async def its_own(context: ChatContext, call_next: Any) -> None:
        await call_next()

    child = AgentFrameworkChild(lambda: in_a_row(theirs("done", middleware=[its_own])))
    assert (await the_record(child)).trace.usage == Usage(TOKENS["input_token_count"], TOKENS["output_token_count"], 1)


async def test_a_workflow_that_saves_itself_saves_itself_also_below_us(tmp_path: Any):
    saved = FileCheckpointStorage(tmp_path)
    child = AgentFrameworkChild(lambda: in_a_row(answers(), name="row", checkpoint_storage=saved))
    assert (await the_record(child)).delivered
    assert await saved.list_checkpoints(workflow_name="row")


@experimental
async def test_a_functional_workflow_is_a_child_as_well():
    @workflow
    async def written(text: str) -> str:
        return f"{text}: {(await answers().run(text)).text}"

    record = await the_record(AgentFrameworkChild(lambda: written.build().as_agent()))
    assert record.delivered, record
    assert record.message == "go: Hallo"
