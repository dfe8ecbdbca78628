"""Agents of openai-agents for tests, with a model that replies by a script."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from agents import Agent as Theirs
from agents import set_tracing_disabled
from agents.items import ModelResponse, ToolCallOutputItem
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from symfonic.adapters.openai_agents import as_openai_agents_tools

set_tracing_disabled(True)


@dataclass
class Tenant:
    name: str


class Says(Model):
    """Replies in order: text, lists of items, or what it raises; every run from the first."""

    def __init__(self, *replies: Any) -> None:
        self._replies = replies
        self.offered: list[Any] = []

    async def get_response(self, system_instructions: Any, input: Any, *_: Any, **its: Any) -> ModelResponse:  # noqa: A002
        self.offered[:] = its["tools"]
        items = [] if isinstance(input, str) else input
        made = [item.get("role") != "user" and item.get("type") != "function_call_output" for item in items]
        turns = sum(each and not before for before, each in zip([False, *made], made, strict=False))
        reply = self._replies[turns]
        if isinstance(reply, BaseException):
            raise reply
        return ModelResponse(
            [message(reply)] if isinstance(reply, str) else reply,
            Usage(requests=1, input_tokens=7, output_tokens=3, total_tokens=10),
            None,
        )

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise AssertionError("the adapter does not stream")


def message(text: str) -> Any:
    part = ResponseOutputText(text=text, type="output_text", annotations=[])
    return ResponseOutputMessage(id="m", type="message", role="assistant", status="completed", content=[part])


def calls(name: str, arguments: Any = None, call_id: str = "") -> Any:
    text = arguments if isinstance(arguments, str) else json.dumps(arguments or {})
    return ResponseFunctionToolCall(
        type="function_call", name=name, arguments=text, call_id=call_id or f"{name} {text}", id="c"
    )


def asks(name: str, task: str = "go", call_id: str = "") -> Any:
    return calls("run_agent", {"name": name, "task": task}, call_id)


def says(*replies: Any, **settings: Any) -> Any:
    return Theirs("theirs", model=Says(*replies), **settings)


def answers(text: str = "Hallo") -> Any:
    return says(text)


def host(capability: Any, *replies: Any, **settings: Any) -> Any:
    return says(*replies, tools=as_openai_agents_tools(capability), **settings)


def tool_texts(result: Any) -> list[str]:
    return [item.output for item in result.new_items if isinstance(item, ToolCallOutputItem)]
