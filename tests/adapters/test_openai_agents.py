"""Agents of openai-agents as children, in their own runner with a model for tests."""

import gc
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("agents.run")

from adapter_kit import (
    a_cancellation_reaches_it,
    a_timeout_reaches_it,
    an_agent_of_ours_in_its_tool_stays_under_the_ceiling,
    ask,
    lead,
    that_waits,
    the_record,
)
from agents import Agent as Theirs
from agents import (
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    MaxTurnsExceeded,
    RunContextWrapper,
    Runner,
    function_tool,
    handoff,
    input_guardrail,
    output_guardrail,
)
from agents.realtime import RealtimeAgent
from openai.types.responses import ResponseReasoningItem
from openai.types.responses.response_reasoning_item import Summary
from openai_agents_kit import Says, Tenant, answers, calls, message, says
from pydantic import BaseModel

from symfonic import ConfigurationError, DelegationOutcome, Limits, Options, SubAgent, delegation
from symfonic.adapters.openai_agents import ApprovalNeededError, OpenAIAgentsChild, adopt
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import check_child_runner


@pytest.mark.filterwarnings("ignore:coroutine 'run_single_turn' was never awaited")
async def test_the_contract_of_a_child():
    await check_child_runner(answers, make_failing=lambda: says(ValueError("no")))
    gc.collect()  # their runner, cancelled just before its first turn, leaves that turn behind: collect it here


class Kind(Theirs[Any]):
    """A class of somebody's own."""


async def test_it_is_known_where_it_is_declared_and_so_is_a_subclass():
    for agent in (answers(), Kind("mine", model=Says("Hallo"))):
        record = await the_record(agent)
        assert record.delivered, record
        assert record.message == "Hallo"
        assert record.trace.result.result.final_output == "Hallo"


def test_what_is_not_theirs_is_not_adopted(monkeypatch: pytest.MonkeyPatch):
    for other in (Theirs, RealtimeAgent("spoken"), Says(), object()):
        assert adopt("x", other) is None
    mine = ModuleType("agents")  # a package of the user's own
    for module in (mine, None):
        monkeypatch.setitem(sys.modules, "agents", module)
        assert adopt("x", answers()) is None
    mine.Agent = type("Agent", (), {"__module__": "agents"})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "agents", mine)
    assert adopt("x", mine.Agent()) is None


def test_an_agent_in_a_package_of_ones_own_called_agents_needs_nothing_of_theirs():
    program = (
        "import sys, types\n"
        "mine = sys.modules['agents'] = types.ModuleType('agents')\n"
        "async def run(self, query): return types.SimpleNamespace(final_response=query)\n"
        "mine.Agent = type('Agent', (), {'__module__': 'agents', 'run': run})\n"
        "from symfonic import Agent, SubAgent\n"
        "from symfonic.testing import ScriptedModel, tool_call\n"
        "script = ScriptedModel(tool_call('run_agent', name='child', task='mine'), 'done')\n"
        "result = Agent(script, sub_agents=[SubAgent('child', mine.Agent(), 'Works.')]).run_sync('go')\n"
        "print(result.delegations[0].message, 'openai' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "mine False\n"


class City(BaseModel):
    name: str
    inhabitants: int


@pytest.mark.parametrize(
    ("kind", "said", "text"),
    [
        (City, '{"name":"Zürich","inhabitants":400000}', '{"name":"Zürich","inhabitants":400000}'),
        (list[int], '{"response":[1,2]}', "[1,2]"),
        (int, '{"response":0}', "0"),
        (bool, '{"response":false}', "false"),
    ],
)
async def test_a_structured_answer_is_json_and_the_object_is_kept(kind: Any, said: str, text: str):
    record = await the_record(says(said, output_type=kind))
    assert record.delivered, record
    assert record.message.replace(" ", "") == text
    assert isinstance(record.trace.result.result.final_output, City if kind is City else object)


def thought(text: str) -> Any:
    return ResponseReasoningItem(id="r", type="reasoning", summary=[Summary(type="summary_text", text=text)])


@pytest.mark.parametrize("items", [[message("")], [message(" \n")], [thought("I wonder"), message("")]])
async def test_an_empty_answer_and_one_that_is_only_thought_are_failures(items: Any):
    record = await the_record(says(items))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child' failed: it returned no final response"


@function_tool
def nothing() -> str:
    """Say nothing."""
    return ""


async def test_an_earlier_message_is_the_answer_where_the_last_is_empty_and_the_run_ends_in_no_tool():
    assert (await the_record(says([message("here it is"), message("")]))).message == "here it is"
    ends_in_tool = says(
        [message("let me see"), calls("nothing")], tools=[nothing], tool_use_behavior="stop_on_first_tool"
    )
    record = await the_record(ends_in_tool)
    assert record.message == "Sub-agent 'child' failed: it returned no final response"


async def test_an_exception_is_its_failure_with_its_words_and_the_original():
    error = ValueError("no such town")
    record = await the_record(says(error))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child' failed: no such town"
    assert record.trace.error is error


async def test_too_many_turns_are_its_failure_and_its_options_are_its_own():
    agent = says([calls("nothing")], [calls("nothing", call_id="2")], "never", tools=[nothing])
    record = await the_record(OpenAIAgentsChild(agent, max_turns=2))
    assert record.message == "Sub-agent 'child' failed: Max turns (2) exceeded"
    assert isinstance(record.trace.error, MaxTurnsExceeded)
    assert record.trace.usage == Usage(14, 6, 2, 2)
    with pytest.raises(ConfigurationError, match="itself gives context, hooks"):
        OpenAIAgentsChild(agent, context=1, hooks=None)


@pytest.mark.parametrize("info", [None, {"why": "sums"}])
async def test_a_guardrail_is_named_with_what_it_found(info: Any):
    @input_guardrail
    async def no_sums(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(info, tripwire_triggered=True)

    @output_guardrail
    async def no_names(context: Any, agent: Any, given: Any) -> GuardrailFunctionOutput:
        return GuardrailFunctionOutput(info, tripwire_triggered=True)

    told = "" if info is None else ': {"why": "sums"}'
    record = await the_record(says("never", input_guardrails=[no_sums]))
    assert record.message == f"Sub-agent 'child' failed: its input guardrail 'no_sums' refused{told}"
    assert isinstance(record.trace.error, InputGuardrailTripwireTriggered)
    record = await the_record(says("never", output_guardrails=[no_names]))
    assert record.message == f"Sub-agent 'child' failed: its output guardrail 'no_names' refused{told}"


def calling(function: Any) -> Any:
    """An agent of theirs that calls a tool of its own, and then says "done"."""
    return says([calls(function.__name__)], "done", tools=[function_tool(function)])


async def test_a_timeout_and_a_cancellation_reach_it():
    record = await a_timeout_reaches_it(*that_waits(calling))
    assert record.trace.usage == Usage(7, 3, 1, 1)
    await a_cancellation_reaches_it(*that_waits(calling))


async def test_its_usage_is_its_own_count_and_failures_are_in_it():
    @function_tool
    async def note(text: str) -> str:
        return text

    notes = [calls("note", {"text": "a"}), calls("note", {"text": "b"})]
    record = await the_record(says(notes, "done", tools=[note]))
    own = record.trace.result.result.context_wrapper.usage
    assert (own.requests, own.input_tokens, own.output_tokens) == (2, 14, 6)
    assert record.trace.usage == Usage(own.input_tokens, own.output_tokens, own.requests, 2)
    assert (await the_record(says(notes, ValueError("down"), tools=[note]))).trace.usage == Usage(7, 3, 1, 2)


async def test_agents_below_it_in_their_own_way_stay_its_own_and_are_in_its_count():
    for below in ({"handoffs": [handoff(says("", "handed", tools=[nothing]), tool_name_override="give")]},
                  {"tools": [says("asked").as_tool("give", "Gives.")]}):  # fmt: skip
        given = [calls("give", {"input": "go"} if "tools" in below else "{}")]
        record = await the_record(says(given, "went on", **below))
        assert record.message == ("went on" if "tools" in below else "handed")
        assert record.children == ()
        own = record.trace.result.result.context_wrapper.usage
        assert record.trace.usage.model_calls == own.requests == (3 if "tools" in below else 2)
        assert record.trace.usage.input_tokens == own.input_tokens


async def test_limits_of_the_tree_hold_inside_it():
    child = says([calls("nothing")], [calls("nothing", call_id="2")], "never", tools=[nothing])
    capability = delegation([SubAgent("child", child, "Works.")], limits=Limits(max_model_calls=2))
    async with capability.run_scope() as run:
        assert "max_model_calls=2" in await ask(capability)
    assert run.usage == Usage(14, 6, 2, 2)


@pytest.mark.parametrize("wrapped", [False, True])
async def test_depth_lineage_and_scope_are_visible_inside_and_the_scope_is_its_context(wrapped: bool):
    seen: list[Any] = []

    @function_tool
    async def look(context: RunContextWrapper[Tenant]) -> str:
        seen.append((active_run(), context.context))
        return "ok"

    @function_tool
    def look_from_a_thread(context: RunContextWrapper[Tenant]) -> str:
        seen.append((active_run(), context.context))
        return "ok"

    child = says([calls("look"), calls("look_from_a_thread")], "seen", tools=[look, look_from_a_thread])
    scope: Any = RunContextWrapper(Tenant("acme")) if wrapped else Tenant("acme")
    result = await lead(child).run("go", scope=scope)
    [record] = result.delegations
    assert record.delivered, record
    assert len(seen) == 2
    for run, context in seen:
        assert (run.depth, run.scope, run.identity) == (1, scope, record.trace.child)
        assert run.identity.parent_run_id == result.run_id
        assert context == Tenant("acme")


@pytest.mark.parametrize("synchronous", [False, True])
async def test_a_tool_of_theirs_that_runs_an_agent_of_ours_stays_under_the_ceiling(synchronous: bool):
    await an_agent_of_ours_in_its_tool_stays_under_the_ceiling(calling, synchronous=synchronous)


# What pauses


def that_pays() -> Any:
    @function_tool(needs_approval=True)
    async def pay(amount: int) -> str:
        return f"paid {amount}"

    return says([calls("pay", {"amount": 7})], "went on", tools=[pay])


async def test_an_approval_that_it_waits_for_is_a_signal_where_it_is_named_and_else_its_failure():
    record = await the_record(that_pays())
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert 'it waits for an approval of pay({"amount": 7}), which nobody here can give' in record.message

    child = that_pays()
    with pytest.raises(ApprovalNeededError) as caught:
        await lead(child, options=Options(pass_through=(ApprovalNeededError,))).run("go")
    state = caught.value.result.to_state()
    state.approve(caught.value.result.interruptions[0])
    assert (await Runner.run(child, state)).final_output == "went on"


async def test_a_signal_that_one_of_its_tools_raises_keeps_its_identity():
    class StopError(Exception):
        """A signal of somebody's."""

    signal = StopError("stop")

    @function_tool(failure_error_function=None)
    async def stop() -> str:
        raise signal

    child = says([calls("stop")], "never", tools=[stop])
    with pytest.raises(StopError) as caught:
        await lead(child, options=Options(pass_through=(StopError,))).run("go")
    assert caught.value is signal
    record = await the_record(child)
    assert record.message == "Sub-agent 'child' failed: Error running tool stop: stop"
