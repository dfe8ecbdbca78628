"""AG2 (the 1.x ``ag2`` package): a child handed to its parent with Agent.as_tool."""

from __future__ import annotations

import json
from typing import Any

from ag2 import Agent, TextInput
from ag2.config import LLMClient, ModelConfig
from ag2.events import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ToolCallEvent,
    ToolCallsEvent,
    ToolResultsEvent,
)

from common import Adapter, Run, Script, answering, call_id, delegating


class FakeClient(LLMClient):
    def __init__(self, script: Script) -> None:
        self.script = script

    async def __call__(self, messages: Any, context: Any, **kwargs: Any) -> ModelResponse:
        user = ""
        results = []
        for message in messages:
            if isinstance(message, ToolResultsEvent):
                results += [texts(result.result.parts) for result in message.results]
            elif isinstance(message, ModelRequest):
                user = texts(message.parts)
        reply = await self.script(user, results)
        if isinstance(reply, str):
            answer = ModelMessage(reply)
            await context.send(answer)
            return ModelResponse(answer)
        calls = [
            ToolCallEvent(target, id=call_id(), arguments=json.dumps({"objective": task})) for target, task in reply
        ]
        return ModelResponse(tool_calls=ToolCallsEvent(calls))


def texts(parts: Any) -> str:
    return "".join(part.content for part in parts if isinstance(part, TextInput))


class FakeConfig(ModelConfig):
    provider = None
    model = "fake"

    def __init__(self, script: Script) -> None:
        self.script = script

    def copy(self) -> FakeConfig:
        return self

    def create(self) -> FakeClient:
        return FakeClient(self.script)


def make(name: str, script: Script, *children: Agent) -> Agent:
    tools = [child.as_tool(name=child.name, description=f"Delegate a task to {child.name}.") for child in children]
    return Agent(name, f"You are {name}.", config=FakeConfig(script), tools=tools)


def runner(agent: Agent) -> Run:
    async def run(prompt: str) -> str:
        return (await agent.ask(prompt)).body

    return run


class AG2(Adapter):
    title = "ag2"
    venv = "ag2"
    distributions = ("ag2",)
    import_statement = "from ag2 import Agent"
    notes = ("Agent.as_tool, a new in-memory stream for every turn.", "No telemetry by default.")

    def single(self) -> Run:
        return runner(make("solo", answering()))

    def delegation(self, child_sleep: float = 0.0) -> Run:
        return runner(make("parent", delegating("worker"), make("worker", answering(child_sleep))))

    def fan_out(self, width: int, child_sleep: float) -> Run:
        worker = make("worker", answering(child_sleep))
        return runner(make("parent", delegating("worker", width), worker))

    def chain(self, agents: int) -> Run:
        agent = make(f"agent{agents - 1}", answering())
        for i in range(agents - 2, -1, -1):
            agent = make(f"agent{i}", delegating(agent.name), agent)
        return runner(agent)

    def build(self, children: int) -> Run:
        kids = (make(f"child{i}", answering()) for i in range(children))
        return runner(make("parent", delegating("child0"), *kids))


ADAPTER = AG2()
