"""Strands Agents: child agents handed to their parent as tools (Agent.as_tool)."""

from __future__ import annotations

import json
import os
from typing import Any

os.environ.setdefault("OTEL_SDK_DISABLED", "true")

from strands import Agent
from strands.models import Model

from common import (
    Adapter,
    Run,
    Script,
    answering,
    call_id,
    delegating,
    spreading,
)


class FakeModel(Model):
    def __init__(self, script: Script) -> None:
        self.script = script

    def update_config(self, **model_config: Any) -> None:
        pass

    def get_config(self) -> Any:
        return {"model_id": "fake"}

    def structured_output(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("this model has no structured output")

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        user = ""
        results = []
        for message in messages:
            for block in message["content"]:
                if "text" in block:
                    if message["role"] == "user":
                        user = block["text"]
                elif "toolResult" in block:
                    results.append(block["toolResult"]["content"][0]["text"])
        reply = await self.script(user, results)
        yield {"messageStart": {"role": "assistant"}}
        if isinstance(reply, str):
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": reply}}}
            yield {"contentBlockStop": {}}
            yield {"messageStop": {"stopReason": "end_turn"}}
            return
        for target, task in reply:
            start = {"toolUse": {"toolUseId": call_id(), "name": target}}
            yield {"contentBlockStart": {"start": start}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps({"input": task})}}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use"}}


def make(name: str, script: Script, *children: Agent) -> Agent:
    return Agent(
        model=FakeModel(script),
        name=name,
        description=f"Delegate a task to {name}.",
        system_prompt=f"You are {name}.",
        tools=[child.as_tool() for child in children],
        callback_handler=None,
    )


def runner(agent: Agent) -> Run:
    async def run(prompt: str) -> str:
        agent.messages.clear()
        return str(await agent.invoke_async(prompt))

    return run


class Strands(Adapter):
    title = "strands-agents"
    venv = "strands"
    distributions = ("strands-agents",)
    import_statement = "from strands import Agent"
    notes = (
        "Agent.as_tool, no callback handler; an agent keeps its conversation, so the parent's "
        "messages are cleared before every turn.",
        "One agent object refuses to run twice at a time: fan_out uses 16 children, concurrent "
        "builds a parent and a child for every turn (inside the timed part).",
        "OTEL_SDK_DISABLED=true (its spans go nowhere by default).",
    )
    fresh_parent_per_turn = True

    def single(self) -> Run:
        return runner(make("solo", answering()))

    def delegation(self, child_sleep: float = 0.0) -> Run:
        return runner(make("parent", delegating("worker"), make("worker", answering(child_sleep))))

    def fan_out(self, width: int, child_sleep: float) -> Run:
        names = [f"worker{i}" for i in range(width)]
        workers = (make(name, answering(child_sleep)) for name in names)
        return runner(make("parent", spreading(names), *workers))

    def chain(self, agents: int) -> Run:
        agent = make(f"agent{agents - 1}", answering())
        for i in range(agents - 2, -1, -1):
            agent = make(f"agent{i}", delegating(agent.name), agent)
        return runner(agent)

    def build(self, children: int) -> Run:
        kids = (make(f"child{i}", answering()) for i in range(children))
        return runner(make("parent", delegating("child0"), *kids))


ADAPTER = Strands()
