"""langchain-core alone: a chat model and StructuredTools in a loop written by hand."""

from __future__ import annotations

import asyncio

from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langchain_core.tools import StructuredTool

from common import Adapter, Run, Script, answering, delegating
from fake_langchain import ScriptedChatModel, tracing_off


class Agent:
    def __init__(self, name: str, script: Script, *children: Agent) -> None:
        self.name = name
        self.system = f"You are {name}."
        tools = [child.as_tool() for child in children]
        self.tools = {tool.name: tool for tool in tools}
        self.model = ScriptedChatModel(script=script).bind_tools(tools)

    def as_tool(self) -> StructuredTool:
        async def delegate(task: str) -> str:
            return await self.run(task)

        return StructuredTool.from_function(
            coroutine=delegate, name=self.name, description=f"Delegate a task to {self.name}."
        )

    async def run(self, prompt: str) -> str:
        messages: list[BaseMessage] = [SystemMessage(self.system), HumanMessage(prompt)]
        while True:
            reply = await self.model.ainvoke(messages)
            messages.append(reply)
            calls = reply.tool_calls
            if not calls:
                return reply.text
            if len(calls) == 1:
                messages.append(await self.tools[calls[0]["name"]].ainvoke(calls[0]))
            else:
                messages += await asyncio.gather(*(self.tools[call["name"]].ainvoke(call) for call in calls))


class LangChainCoreFloor(Adapter):
    title = "floor (langchain-core)"
    venv = "langchain-core"
    distributions = ("langchain-core",)
    import_statement = (
        "from langchain_core.language_models import BaseChatModel; from langchain_core.tools import StructuredTool"
    )
    notes = ("Hand loop: BaseChatModel.ainvoke + StructuredTool.ainvoke, nothing else.",)

    def prepare(self) -> None:
        tracing_off()

    def single(self) -> Run:
        return Agent("solo", answering()).run

    def delegation(self, child_sleep: float = 0.0) -> Run:
        return Agent("parent", delegating("worker"), Agent("worker", answering(child_sleep))).run

    def fan_out(self, width: int, child_sleep: float) -> Run:
        worker = Agent("worker", answering(child_sleep))
        return Agent("parent", delegating("worker", width), worker).run

    def chain(self, agents: int) -> Run:
        agent = Agent(f"agent{agents - 1}", answering())
        for i in range(agents - 2, -1, -1):
            agent = Agent(f"agent{i}", delegating(agent.name), agent)
        return agent.run

    def build(self, children: int) -> Run:
        kids = (Agent(f"child{i}", answering()) for i in range(children))
        return Agent("parent", delegating("child0"), *kids).run


ADAPTER = LangChainCoreFloor()
