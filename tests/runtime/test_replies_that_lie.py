"""Replies of models that say one thing when they are checked and another later, and what is kept of them."""

from typing import Any

import pytest

from symfonic import Agent, LimitReachedError, Limits
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.tool import Tool
from symfonic.testing import FunctionModel, ScriptedModel, tool_call


class Evil(str):
    def isascii(self) -> bool:
        return True


async def ok() -> str:
    return "k"


async def test_tokens_are_those_that_were_checked() -> None:
    class Cheap(ModelReply):
        reads = 0

        @property
        def input_tokens(self) -> int:  # type: ignore[override]
            Cheap.reads += 1
            return 0 if Cheap.reads < 2 else -500

    def model(messages: Any, tools: Any) -> Any:
        Cheap.reads = 0
        return Cheap("", (ToolCall("1", "ok", {}),), 0, 100)

    with pytest.raises(LimitReachedError) as reached:
        await Agent(FunctionModel(model), tools=[ok]).run("x", limits=Limits(max_tokens=200))
    assert reached.value.limit == "max_tokens"
    assert (reached.value.usage.input_tokens, reached.value.usage.output_tokens) == (0, 200)


async def test_text_that_claims_to_be_plain_can_be_encoded_all_the_same() -> None:
    bad = "\ud800"
    calls = (ToolCall(Evil(bad), Evil("ok"), {"x": (bad,), bad: [bad]}),)

    def model(messages: Any, tools: Any) -> Any:
        return ModelReply(Evil(bad), calls if len(messages) == 1 else ())

    result = await Agent(FunctionModel(model), tools=[ok]).run("x")
    result.to_json().encode()
    for message in result.messages:
        message.text.encode()
        repr([(call.id, call.name, dict(call.arguments)) for call in message.tool_calls]).encode()  # type: ignore[arg-type]
    assert type(result.text) is str


async def test_neither_a_tool_nor_a_model_nor_an_observer_changes_what_was_said() -> None:
    async def change(arguments: Any) -> str:
        arguments["items"].append("added by the tool")
        arguments["more"] = 1
        return "ok"

    said: dict[str, Any] = {"items": ["a"], "nested": {"b": ("c",)}}
    schema = {"type": "object", "properties": {"items": {}, "nested": {}}}
    refused: list[str] = []

    def model(messages: Any, tools: Any) -> Any:
        if len(messages) == 1:
            return ModelReply("", (ToolCall("1", "change", said),))
        said["items"].append("later")
        said["nested"]["b"] = "later"
        try:
            messages[1].tool_calls[0].arguments["items"] = "never said"
        except TypeError as error:
            refused.append(str(error))
        return ModelReply("done")

    def watch(event: Any) -> None:
        for call in getattr(event, "tool_calls", ()):
            call.arguments["items"].append("seen")

    agent = Agent(FunctionModel(model), tools=[Tool("change", "Change.", schema, change)])
    result = await agent.run("x", observers=(watch,))
    arguments = result.messages[1].tool_calls[0].arguments
    assert arguments == {"items": ["a"], "nested": {"b": ["c"]}}
    assert refused


async def test_a_function_gets_lists_of_its_own() -> None:
    def add(items: Any) -> str:
        items.append("added by the tool")
        return "ok"

    result = await Agent(ScriptedModel(tool_call("add", items=["a"]), "done"), tools=[add]).run("x")
    assert result.messages[1].tool_calls[0].arguments == {"items": ["a"]}
    assert result.messages[2].text == "ok"
