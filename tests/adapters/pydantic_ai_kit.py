"""Agents of pydantic-ai for tests, with models that reply by a script."""

from dataclasses import dataclass
from typing import Any

from pydantic_ai import Agent as Theirs
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

from symfonic.adapters.pydantic_ai import as_pydantic_ai_toolset


@dataclass
class Tenant:
    name: str


def says(*replies: Any) -> FunctionModel:
    """A model of theirs that replies in order: text, lists of parts, or what it raises; every run from the first."""

    async def reply(messages: list[Any], info: Any) -> ModelResponse:
        said = replies[sum(isinstance(each, ModelResponse) for each in messages)]
        if isinstance(said, BaseException):
            raise said
        return ModelResponse(parts=[TextPart(said)] if isinstance(said, str) else said)

    return FunctionModel(reply)


def asks(name: str, task: str = "go", call_id: str = "") -> ToolCallPart:
    return ToolCallPart("run_agent", {"name": name, "task": task}, **({"tool_call_id": call_id} if call_id else {}))


def answers(text: str = "Hallo") -> Any:
    return Theirs(TestModel(custom_output_text=text))


def theirs(capability: Any, *replies: Any, **settings: Any) -> Any:
    return Theirs(says(*replies), toolsets=[as_pydantic_ai_toolset(capability)], **settings)


def tool_texts(result: Any) -> list[str]:
    parts = [part for message in result.all_messages() for part in message.parts]
    return [part.content for part in parts if isinstance(part, ToolReturnPart)]


def that_pauses(signal: Exception, **settings: Any) -> Any:
    child = Theirs(says([ToolCallPart("pay", {"amount": 7})], "paid"), **settings)

    @child.tool_plain
    async def pay(amount: int) -> str:
        raise signal

    return child
