"""deepagents: children declared as subagents, called through its ``task`` tool."""

from __future__ import annotations

from typing import Any

from deepagents import create_deep_agent

from common import Adapter, Delegate, Run, Script, answering, delegating
from fake_langchain import ScriptedChatModel, tracing_off


def task_call(call: Delegate) -> dict[str, Any]:
    return {
        "name": "task",
        "args": {"description": call.task, "subagent_type": call.target},
    }


def fake(script: Script) -> ScriptedChatModel:
    return ScriptedChatModel(script=script, shape=task_call)


def spec(name: str, script: Script) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"Delegate a task to {name}.",
        "system_prompt": f"You are {name}.",
        "model": fake(script),
        "tools": [],
    }


def make(name: str, script: Script, *subagents: Any) -> Any:
    return create_deep_agent(fake(script), system_prompt=f"You are {name}.", subagents=list(subagents), name=name)


def runner(agent: Any) -> Run:
    async def run(prompt: str) -> str:
        state = await agent.ainvoke({"messages": [{"role": "user", "content": prompt}]})
        return state["messages"][-1].text

    return run


class DeepAgents(Adapter):
    title = "deepagents `task`"
    venv = "langchain"
    distributions = ("deepagents", "langgraph", "langchain-core")
    import_statement = "from deepagents import create_deep_agent"
    notes = (
        "Declarative subagents, default middleware (todo, filesystem, summarization) kept.",
        "chain: nested deep agents as compiled subagents.",
        "LangSmith tracing explicitly off (its default without an API key).",
    )

    def prepare(self) -> None:
        tracing_off()

    def single(self) -> Run:
        return runner(make("solo", answering()))

    def delegation(self, child_sleep: float = 0.0) -> Run:
        return runner(make("parent", delegating("worker"), spec("worker", answering(child_sleep))))

    def fan_out(self, width: int, child_sleep: float) -> Run:
        worker = spec("worker", answering(child_sleep))
        return runner(make("parent", delegating("worker", width), worker))

    def chain(self, agents: int) -> Run:
        agent = make(f"agent{agents - 1}", answering())
        for i in range(agents - 2, -1, -1):
            child = {
                "name": f"agent{i + 1}",
                "description": f"Delegate a task to agent{i + 1}.",
                "runnable": agent,
            }
            agent = make(f"agent{i}", delegating(f"agent{i + 1}"), child)
        return runner(agent)

    def build(self, children: int) -> Run:
        kids = [spec(f"child{i}", answering()) for i in range(children)]
        return runner(make("parent", delegating("child0"), *kids))


ADAPTER = DeepAgents()
