"""Agents of Strands for tests, with a model that replies by a script."""

import asyncio
import json
from typing import Any

from strands import Agent as Theirs
from strands.models import Model

from symfonic.adapters.strands import as_strands_tools

TOKENS = {"inputTokens": 7, "outputTokens": 3, "totalTokens": 10}


class Says(Model):
    """Replies in order: text, lists of content blocks, or what it raises. Keeps what it was sent."""

    def __init__(self, *replies: Any, again: bool = False) -> None:
        self.replies = list(replies)
        self.again = again
        self.sent: list[list[str]] = []

    def update_config(self, **model_config: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {}

    def structured_output(self, *args: Any, **settings: Any) -> Any:
        raise AssertionError("structured answers come as a tool call of theirs")

    async def stream(self, messages: Any, *args: Any, **settings: Any) -> Any:
        self.sent.append([block["text"] for each in messages for block in each["content"] if "text" in block])
        said = self.replies[0] if self.again else self.replies.pop(0)
        await asyncio.sleep(0)
        if isinstance(said, BaseException):
            raise said
        blocks = [{"text": said}] if isinstance(said, str) else said
        yield {"messageStart": {"role": "assistant"}}
        for block in blocks:
            for event in _events(block):
                yield event
        used = any("toolUse" in block for block in blocks)
        yield {"messageStop": {"stopReason": "tool_use" if used else "end_turn"}}
        yield {"metadata": {"usage": dict(TOKENS), "metrics": {"latencyMs": 1}}}


def _events(block: dict[str, Any]) -> Any:
    start: dict[str, Any] = {}
    if "toolUse" in block:
        use = block["toolUse"]
        start = {"toolUse": {"name": use["name"], "toolUseId": use["toolUseId"]}}
        delta: dict[str, Any] = {"toolUse": {"input": json.dumps(use["input"])}}
    elif "thought" in block:
        delta = {"reasoningContent": {"text": block["thought"]}}
    else:
        delta = {"text": block["text"]}
    yield {"contentBlockStart": {"start": start}}
    yield {"contentBlockDelta": {"delta": delta}}
    yield {"contentBlockStop": {}}


def uses(tool: str, call_id: str = "call-1", /, **arguments: Any) -> dict[str, Any]:
    return {"toolUse": {"name": tool, "toolUseId": call_id, "input": arguments}}


def asks(name: str, task: str = "go", call_id: str = "call-1") -> dict[str, Any]:
    return uses("run_agent", call_id, name=name, task=task)


def theirs(*replies: Any, again: bool = False, **settings: Any) -> Any:
    return Theirs(model=Says(*replies, again=again), callback_handler=None, **settings)


def answers(text: str = "Hallo") -> Any:
    return theirs(text, again=True)


def host(capability: Any, *replies: Any, **settings: Any) -> Any:
    return theirs(*replies, tools=as_strands_tools(capability), **settings)


def tool_texts(agent: Any) -> list[str]:
    blocks = [block for message in agent.messages for block in message["content"]]
    return [block["toolResult"]["content"][0]["text"] for block in blocks if "toolResult" in block]
