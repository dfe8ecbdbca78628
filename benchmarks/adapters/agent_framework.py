"""Microsoft Agent Framework: a child handed to its parent with Agent.as_tool."""

from __future__ import annotations

from typing import Any

from agent_framework import (
    Agent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
)
from agent_framework.observability import disable_instrumentation

from common import Adapter, Run, Script, answering, call_id, delegating


class FakeClient(FunctionInvocationLayer, ChatMiddlewareLayer, BaseChatClient):
    """The layers that the framework's own clients have, telemetry left out."""

    def __init__(self, script: Script) -> None:
        super().__init__()
        self.script = script

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **kwargs: Any) -> Any:
        if stream:
            return self._build_response_stream(self.updates(messages))
        return self.respond(messages)

    async def respond(self, messages: Any) -> ChatResponse:
        contents = await self.answer(messages)
        return ChatResponse(messages=[Message(role="assistant", contents=contents)])

    async def updates(self, messages: Any) -> Any:
        yield ChatResponseUpdate(role="assistant", contents=await self.answer(messages))

    async def answer(self, messages: Any) -> list[Content]:
        user = ""
        results = []
        for message in messages:
            for content in message.contents:
                if content.type == "text":
                    if message.role == "user":
                        user = content.text
                elif content.type == "function_result":
                    results.append(content.result)
        reply = await self.script(user, results)
        if isinstance(reply, str):
            return [Content.from_text(reply)]
        return [Content.from_function_call(call_id(), name, arguments={"task": task}) for name, task in reply]


def make(name: str, script: Script, *children: Agent) -> Agent:
    tools = [child.as_tool(description=f"Delegate a task to {child.name}.") for child in children]
    return Agent(FakeClient(script), instructions=f"You are {name}.", name=name, tools=tools or None)


def runner(agent: Agent) -> Run:
    async def run(prompt: str) -> str:
        return (await agent.run(prompt)).text

    return run


class AgentFramework(Adapter):
    title = "agent-framework (MS)"
    venv = "agent-framework"
    distributions = ("agent-framework-core",)
    import_statement = "from agent_framework import Agent, BaseChatClient"
    notes = (
        "Agent.as_tool (which runs the child as a stream of one update); a custom chat client "
        "with the function-calling and middleware layers.",
        "OpenTelemetry instrumentation is on by default; off here (disable_instrumentation()).",
    )

    def prepare(self) -> None:
        disable_instrumentation()

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


ADAPTER = AgentFramework()
