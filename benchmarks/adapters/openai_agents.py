"""OpenAI Agents SDK: a child handed to its parent with Agent.as_tool."""

from __future__ import annotations

import json
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from common import Adapter, Run, Script, answering, call_id, delegating


class FakeModel(Model):
    def __init__(self, script: Script) -> None:
        self.script = script

    async def get_response(  # the names are theirs
        self,
        system_instructions: Any,
        input: Any,  # noqa: A002
        *args: Any,
        **kwargs: Any,
    ) -> ModelResponse:
        user = ""
        results = []
        if isinstance(input, str):
            user = input
        else:
            for item in input:
                if item.get("role") == "user":
                    user = item["content"]
                elif item.get("type") == "function_call_output":
                    results.append(item["output"])
        reply = await self.script(user, results)
        output: list[Any]
        if isinstance(reply, str):
            text = ResponseOutputText(annotations=[], text=reply, type="output_text")
            output = [
                ResponseOutputMessage(id="msg", content=[text], role="assistant", status="completed", type="message")
            ]
        else:
            output = [
                ResponseFunctionToolCall(
                    name=target,
                    arguments=json.dumps({"input": task}),
                    call_id=call_id(),
                    type="function_call",
                )
                for target, task in reply
            ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("this model does not stream")


def make(name: str, script: Script, *children: Agent) -> Agent:
    tools = [
        child.as_tool(tool_name=child.name, tool_description=f"Delegate a task to {child.name}.") for child in children
    ]
    return Agent(name=name, instructions=f"You are {name}.", model=FakeModel(script), tools=list(tools))


def runner(agent: Agent) -> Run:
    async def run(prompt: str) -> str:
        return (await Runner.run(agent, prompt)).final_output

    return run


class OpenAIAgents(Adapter):
    title = "openai-agents"
    venv = "openai-agents"
    distributions = ("openai-agents", "openai")
    import_statement = "from agents import Agent, Runner"
    notes = (
        "Agent.as_tool (not a handoff: a handoff does not return to the parent).",
        "Tracing is on by default and exports over the network; off here (set_tracing_disabled(True)).",
    )

    def prepare(self) -> None:
        set_tracing_disabled(True)

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


ADAPTER = OpenAIAgents()
