"""Agents of Google's ADK as children: which can be one, how they fail, and what pauses."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("google.adk")

from adapter_kit import lead, the_record
from google.adk.agents import BaseAgent
from google.adk.apps import App
from google.adk.events import Event, RequestInput
from google.adk.plugins import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.tools import FunctionTool, LongRunningFunctionTool
from google.adk.workflow import START, Workflow
from google.genai import types
from google_adk_kit import Says, answers, calling, theirs

from symfonic import DelegationOutcome, Limits, Options, SubAgent, delegation
from symfonic.adapters.google_adk import InputNeededError, adopt
from symfonic.errors import ChildDeclarationError
from symfonic.testing import check_child_runner

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


# How it fails


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
