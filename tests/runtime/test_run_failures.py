"""Failures are values for whoever called; only a run's own model, or its own endlessness, ends it with an error."""

from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, Kind, answer, calls, child, delegates, raising, results

import symfonic
from symfonic import DelegationOutcome, Options
from symfonic.errors import MaxStepsError, ModelError, RunError, SymfonicError
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, tool_call

FAILED, DELIVERED = DelegationOutcome.CHILD_FAILED, DelegationOutcome.DELIVERED


class HostileError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class MuteError(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


ERRORS = [
    (ValueError("no such city"), "no such city"),
    (TimeoutError(), "TimeoutError"),
    (AssertionError(), "AssertionError"),
    (KeyError("x"), "'x'"),
    (ValueError("  "), "ValueError"),
    (HostileError(), "HostileError"),
    (MuteError(), "MuteError"),
    (ExceptionGroup("two", [ValueError("a"), KeyError("b")]), "two (2 sub-exceptions): ValueError: a; KeyError: 'b'"),
    (OSError("postgres://u:pw@h/db is down"), "postgres://u:***@h/db is down"),
]


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=lambda each: type(each).__name__)
async def test_a_child_that_raises_is_a_value_that_names_child_and_cause(
    error: Exception, text: str, kind: Kind
) -> None:
    result = await kind.agent(delegates(), sub_agents=[child(raising(error))]).run("go")
    [record] = result.delegations
    assert result.text == record.message == f"Sub-agent 'child' failed: {text}"
    assert record.outcome is FAILED
    assert record.trace.error is error


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=lambda each: type(each).__name__)
async def test_a_tool_that_raises_is_a_value_that_names_tool_and_cause(error: Exception, text: str, kind: Kind) -> None:
    async def work() -> str:
        raise error

    result = await kind.agent(calls(tool_call("work")), tools=[kind.tool(work)]).run("go")
    assert result.text == f"Tool 'work' failed: {text}"


@pytest.mark.parametrize(("error", "text"), ERRORS, ids=lambda each: type(each).__name__)
async def test_a_child_whose_model_fails_is_a_value_with_the_original_on_the_record(
    error: Exception, text: str, kind: Kind
) -> None:
    inner = symfonic.Agent(kind.script(error))
    result = await kind.agent(delegates(), sub_agents=[child(inner)]).run("go")
    [record] = result.delegations
    assert result.text == f"Sub-agent 'child' failed: the model failed: {type(error).__name__}: {text}"
    assert isinstance(record.trace.error, ModelError)
    assert record.trace.error.__cause__ is error
    assert record.trace.error.run_id == record.trace.child.run_id


async def test_the_next_delegation_of_the_run_works_and_failures_are_told_apart_by_outcome(kind: Kind) -> None:
    worker = ScriptedChild(ValueError("not now"), "now")
    script = [*[tool_call("run_agent", name="child", task="t")] * 2, "over"]
    result = await symfonic.Agent(kind.script(*script), sub_agents=[child(worker)]).run("go")
    assert results(result) == ["Sub-agent 'child' failed: not now", "now"]
    assert [record.outcome for record in result.delegations] == [FAILED, DELIVERED]
    assert result.delegated_to == ("child",)


async def test_a_model_that_fails_ends_its_run_with_a_clear_error(kind: Kind) -> None:
    with pytest.raises(ModelError, match="the model failed: ConnectionError: unreachable") as caught:
        await symfonic.Agent(kind.script(ConnectionError("unreachable"))).run("go")
    assert isinstance(caught.value.__cause__, ConnectionError)
    assert isinstance(caught.value, RunError)
    assert caught.value.run_id


@pytest.mark.parametrize(
    "reply",
    [
        None,
        "text",
        7,
        {"text": "x"},
        ModelReply(None),
        ModelReply("", ("call",)),
        ModelReply("", (ToolCall("1", None, {}),)),
    ],  # type: ignore[arg-type]
    ids=repr,
)
async def test_a_model_that_returns_no_reply_fails_and_is_told_what_was_expected(reply: Any) -> None:
    class Broken:
        async def complete(self, messages: Any, tools: Any) -> Any:
            return reply

    with pytest.raises(ModelError, match="expected"):
        await symfonic.Agent(Broken()).run("go")


@pytest.mark.parametrize("steps", [1, 3])
async def test_a_run_stops_after_its_steps_with_an_error_that_names_the_limit(steps: int, kind: Kind) -> None:
    asked = []

    def fn(messages: Any, tools: Any) -> Any:
        asked.append(len(messages))
        return tool_call("nothing")

    with pytest.raises(MaxStepsError, match=rf"{steps} model calls .*options\.max_steps"):
        await kind.agent(fn, options=Options(max_steps=steps)).run("go")
    assert len(asked) == steps


async def test_fifty_steps_are_the_default(kind: Kind) -> None:
    asked = []

    def fn(messages: Any, tools: Any) -> Any:
        asked.append(1)
        return tool_call("nothing")

    with pytest.raises(MaxStepsError):
        await kind.agent(fn).run("go")
    assert len(asked) == 50


async def test_an_answer_at_the_last_step_is_an_answer(kind: Kind) -> None:
    agent = symfonic.Agent(kind.script(tool_call("nothing"), "made it"), options=Options(max_steps=2))
    assert (await agent.run("go")).text == "made it"


async def test_a_child_that_never_answers_is_a_value(kind: Kind) -> None:
    inner = kind.agent(lambda messages, tools: tool_call("nothing"), options=Options(max_steps=2))
    result = await kind.agent(delegates(), sub_agents=[child(inner)]).run("go")
    assert result.text.startswith("Sub-agent 'child' failed: stopped after 2 model calls")
    assert isinstance(result.delegations[0].trace.error, MaxStepsError)


@pytest.mark.parametrize("ids", [("same", "same", "same"), ("", "", ""), ("call_2", "", "call_2"), ("a", "a_2", "a")])
async def test_repeated_call_ids_are_made_unique_and_every_call_is_a_run_of_its_own(
    ids: tuple[str, ...], kind: Kind
) -> None:
    worker = ScriptedChild("1", "2", "3")
    made = [ToolCall(each, "run_agent", {"name": "child", "task": str(n)}) for n, each in enumerate(ids)]

    def fn(messages: Any, tools: Any) -> Any:
        return "over" if messages[-1].role == "tool" else ModelReply(tool_calls=tuple(made))

    result = await kind.agent(fn, sub_agents=[child(worker)]).run("go")
    asked = result.messages[1]
    answered = [message.tool_call_id for message in result.messages if message.role == "tool"]
    assert [call.id for call in asked.tool_calls] == answered
    assert len(set(answered)) == 3
    assert all(answered)
    assert len({record.trace.child.run_id for record in result.delegations}) == 3


async def test_a_wrong_type_from_inside_a_child_is_that_childs_failure_and_it_ran_once() -> None:
    ran = []

    async def act(query: str) -> str:
        ran.append(query)
        return query + 1  # type: ignore[operator]

    result = await NATIVE.agent(delegates(), sub_agents=[child(Child(act))]).run("go")
    assert result.delegations[0].outcome is FAILED
    assert isinstance(result.delegations[0].trace.error, TypeError)
    assert ran == ["the task"]


async def test_an_unknown_child_inside_a_child_is_that_childs_failure() -> None:
    async def act(query: str) -> str:
        inner = NATIVE.agent(answer(), sub_agents=[child(ScriptedChild(), "other")])
        assert inner.engine.delegation is not None
        return str(await inner.engine.delegation.roster.run("missing", "t", depth=2))

    result = await NATIVE.agent(delegates(), sub_agents=[child(Child(act))]).run("go")
    assert result.delegations[0].outcome is FAILED
    assert "'missing'" in result.text


async def test_a_reference_that_resolves_to_no_agent_is_a_value_at_the_delegation() -> None:
    agent = NATIVE.agent(delegates(), sub_agents=[child(symfonic.AgentRef(object))])
    result = await agent.run("go")
    assert result.delegations[0].outcome is FAILED
    assert "must expose an async run(query, ...)" in result.text


async def test_a_reference_is_resolved_once_at_the_first_delegation() -> None:
    resolved = []

    def resolve() -> Any:
        resolved.append(1)
        return NATIVE.agent(answer("spoke"))

    agent = NATIVE.agent(delegates(times=2), sub_agents=[child(symfonic.AgentRef(resolve))])
    assert resolved == []
    assert (await agent.run("go")).text == "spoke\nspoke"
    await agent.run("go")
    assert resolved == [1]


async def test_a_script_that_runs_out_says_so() -> None:
    with pytest.raises(ModelError, match=r"ScriptedModel has 1 replies and was asked for number 2"):
        await symfonic.Agent(ScriptedModel(tool_call("nothing"))).run("go")


async def test_every_run_of_a_script_starts_from_its_first_reply() -> None:
    agent = symfonic.Agent(ScriptedModel([tool_call("a"), tool_call("b")], "over"))
    assert [(await agent.run("go")).text for _ in range(3)] == ["over"] * 3


async def test_a_function_model_may_be_async_and_reads_roles_texts_and_tools() -> None:
    seen: list[Any] = []

    async def fn(messages: Any, tools: Any) -> Any:
        seen.append(([(m.role, m.text) for m in messages], [(t.name, t.description, t.parameters) for t in tools]))
        return tool_call("work") if len(seen) == 1 else "over"

    async def work() -> str:
        """Works."""
        return "worked"

    await symfonic.Agent(FunctionModel(fn), instructions="Be kind.", tools=[work]).run("go")
    roles, offered = seen[1]
    assert roles == [("system", "Be kind."), ("user", "go"), ("assistant", ""), ("tool", "worked")]
    assert [(name, description) for name, description, _ in offered] == [("work", "Works.")]
    assert offered[0][2]["properties"] == {}


async def test_a_model_reads_the_conversation_as_it_was_when_it_was_asked() -> None:
    kept: list[Any] = []

    def fn(messages: Any, tools: Any) -> Any:
        kept.append(messages)
        return "over" if len(kept) == 2 else tool_call("nothing")

    await NATIVE.agent(fn).run("go")
    first, second = kept
    assert (len(first), len(list(first)), first[-1].role, first[0:9][0].text) == (1, 1, "user", "go")
    assert [message.role for message in second] == ["user", "assistant", "tool"]
    assert repr(first) == f"Conversation({[first[0]]!r})"
    with pytest.raises(IndexError):
        first[1]


@pytest.mark.parametrize(
    "error", [SymfonicError("ours"), ModelError("theirs", "id"), StopAsyncIteration("odd"), StopIteration("odder")]
)
async def test_no_exception_of_a_tool_gets_past_its_message(error: Exception) -> None:
    async def act(arguments: Any) -> str:
        raise error

    tool = symfonic.tool(lambda: None, name="plain")
    own = type(tool)("own", "Raises.", {"type": "object", "properties": {}}, act)
    result = await NATIVE.agent(calls(tool_call("own")), tools=[own]).run("go")
    assert result.text.startswith("Tool 'own' failed: ")
