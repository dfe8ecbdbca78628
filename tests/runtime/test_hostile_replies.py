"""A model's reply of wrong types is that model's failure: an error at the root, a value from a child."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from runtime_fakes import Child as Foreign
from runtime_fakes import child, delegates, results

from symfonic import Agent, DelegationOutcome
from symfonic.capabilities.delegation import DelegationCapability, PrebuiltChild
from symfonic.errors import ModelError
from symfonic.kernel.contracts.messages import Message, ToolCall, Usage
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import FunctionModel, ScriptedChild, tool_call


class Raises(Mapping[str, Any]):
    """Arguments that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no item")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("no keys")

    def __len__(self) -> int:
        return 1


class Text(str):
    def isascii(self) -> bool:
        raise RuntimeError("asked")


CALL = ToolCall("1", "run_agent", {"name": "child", "task": "t"})
REPLIES: dict[str, Any] = {
    "tokens as text": ModelReply("hi", (), "7", 0),  # type: ignore[arg-type]
    "tokens as a float": ModelReply("hi", (), 0, 7.5),  # type: ignore[arg-type]
    "no tokens": ModelReply("hi", (), None, 0),  # type: ignore[arg-type]
    "tokens as a truth value": ModelReply("hi", (), True, 0),
    "less than no tokens": ModelReply("hi", (), -7, 0),
    "more tokens than can be printed": ModelReply("hi", (), 10**5000, 0),
    "calls from a generator": ModelReply("hi", (each for each in (CALL,))),  # type: ignore[arg-type]
    "no calls": ModelReply("hi", None),  # type: ignore[arg-type]
    "calls as text": ModelReply("hi", "calls"),  # type: ignore[arg-type]
    "calls as a mapping": ModelReply("hi", {"1": CALL}),  # type: ignore[arg-type]
    "one call": ModelReply("hi", CALL),  # type: ignore[arg-type]
    "a call that is a dictionary": ModelReply("hi", ({"name": "run_agent"},)),  # type: ignore[arg-type]
    "an id that is a number": ModelReply("", (ToolCall(5, "run_agent", {}),)),  # type: ignore[arg-type]
    "an id that is a list": ModelReply("", (ToolCall([], "run_agent", {}),)),  # type: ignore[arg-type]
    "a name that is nothing": ModelReply("", (ToolCall("1", None, {}),)),  # type: ignore[arg-type]
    "arguments that cannot be read": ModelReply("", (ToolCall("1", "run_agent", Raises()),)),
    "text that is nothing": ModelReply(None),  # type: ignore[arg-type]
    "text that is bytes": ModelReply(b"hi"),  # type: ignore[arg-type]
    "no reply": None,
    "a text": "hi",
    "a message": Message("assistant", "hi"),
}


class Replies:
    """A model with one reply, unchecked."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    async def complete(self, messages: Any, tools: Any) -> Any:
        return self.reply


class ThenReplies:
    """A model that delegates first, and then has one reply, unchecked."""

    def __init__(self, reply: Any) -> None:
        self.reply = reply

    async def complete(self, messages: Any, tools: Any) -> Any:
        return self.reply if messages[-1].role == "tool" else ModelReply("", (CALL,), 3, 4)


@pytest.fixture(params=REPLIES)
def reply(request: pytest.FixtureRequest) -> Any:
    return REPLIES[request.param]


def fresh(reply: Any) -> Any:
    """The same reply again; a generator can be gone through once."""
    if isinstance(reply, ModelReply) and isinstance(reply.tool_calls, Iterator):
        return ModelReply(reply.text, (each for each in (CALL,)))  # type: ignore[arg-type]
    return reply


async def test_it_is_a_model_error_at_the_root_that_keeps_records_and_usage(reply: Any) -> None:
    agent = Agent(ThenReplies(fresh(reply)), sub_agents=[child(ScriptedChild("fine"))])
    with pytest.raises(ModelError) as caught:
        await agent.run("go")
    assert isinstance(caught.value.__cause__, Exception)
    assert [record.outcome for record in caught.value.delegations] == [DelegationOutcome.DELIVERED]
    assert caught.value.usage == Usage(3, 4, 2, 1)
    assert caught.value.run_id


async def test_it_is_a_childs_failure_as_a_value_for_the_parent(reply: Any) -> None:
    agent = Agent(FunctionModel(delegates()), sub_agents=[child(Agent(Replies(fresh(reply))))])
    result = await agent.run("go")
    (record,) = result.delegations
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message.startswith("Sub-agent 'child' failed: the model failed: ")
    assert results(result) == [record.message]
    assert record.trace is not None
    assert record.trace.usage == Usage(model_calls=1)
    assert isinstance(record.trace.error, ModelError)
    assert result.usage.model_calls == 3


async def test_it_is_a_value_for_a_program_that_delegates(reply: Any) -> None:
    declared = [PrebuiltChild("child", Agent(Replies(fresh(reply))), "Does it.")]
    record = await DelegationCapability.declare(declared, max_depth=1).tools.delegate("child", "t")
    assert record.outcome is DelegationOutcome.CHILD_FAILED


async def test_a_child_whose_reply_is_of_wrong_types_keeps_the_records_of_its_own_delegations(reply: Any) -> None:
    middle = Agent(ThenReplies(fresh(reply)), sub_agents=[child(ScriptedChild("fine"))])
    result = await Agent(FunctionModel(delegates()), sub_agents=[child(middle)]).run("go")
    assert [record.outcome for record in result.delegations[0].children] == [DelegationOutcome.DELIVERED]
    assert result.usage.input_tokens == 3


async def test_a_list_of_calls_without_ids_is_a_fine_reply() -> None:
    made = [ToolCall(None, "run_agent", CALL.arguments), ToolCall("", "run_agent", CALL.arguments)]  # type: ignore[arg-type]

    def fn(messages: Any, tools: Any) -> Any:
        return "over" if messages[-1].role == "tool" else ModelReply("", made)  # type: ignore[arg-type]

    result = await Agent(FunctionModel(fn), sub_agents=[child(ScriptedChild("fine"))]).run("go")
    assert results(result) == ["fine", "fine"]
    ids = [message.tool_call_id for message in result.messages if message.role == "tool"]
    assert len(set(ids)) == 2
    assert all(isinstance(each, str) for each in ids)


class Surprising(dict[str, Any]):
    """A dictionary whose keys cannot be listed twice."""

    def items(self) -> Any:
        raise RuntimeError("no items")


async def test_arguments_of_a_strange_dictionary_type_end_no_parents_run() -> None:
    reply = ModelReply("", (ToolCall("1", "look", Surprising(a=1)),))
    result = await Agent(FunctionModel(delegates()), sub_agents=[child(Agent(Replies(reply)))]).run("go")
    assert result.delegations[0].outcome is DelegationOutcome.CHILD_FAILED


async def test_an_answer_of_a_foreign_child_in_a_hostile_text_is_text_for_the_model() -> None:
    async def act(query: str) -> Any:
        return Text("hi")

    result = await Agent(FunctionModel(delegates()), sub_agents=[child(Foreign(act))]).run("go")
    assert results(result) == ["hi"]
    assert type(result.delegations[0].message) is str


async def test_a_tool_that_returns_hostile_objects_is_read_as_text_or_as_an_error() -> None:
    async def look() -> Any:
        return {"a": Raises(), "b": Text("hi")}

    def fn(messages: Any, tools: Any) -> Any:
        return "over" if messages[-1].role == "tool" else tool_call("look")

    result = await Agent(FunctionModel(fn), tools=[look]).run("go")
    assert results(result) == ['{"a": "<Raises>", "b": "hi"}']
