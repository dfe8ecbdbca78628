"""symfonic-core: SymfonicAgent with sub_agents, called through its run_agent tool."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from common import Adapter, Delegate, Run, Script, answering, delegating
from fake_langchain import ScriptedChatModel, tracing_off
from symfonic.agent import FrameworkConfig, SubAgent, SymfonicAgent


def run_agent_call(call: Delegate) -> dict[str, Any]:
    return {"name": "run_agent", "args": {"name": call.target, "task": call.task}}


class Provider:
    """symfonic-core's model provider protocol, always handing out one model."""

    def __init__(self, script: Script) -> None:
        self.model = ScriptedChatModel(script=script, shape=run_agent_call)

    def get_chat_model(self, config: Any) -> ScriptedChatModel:
        return self.model

    def supports_thinking(self) -> bool:
        return False

    def supports_streaming(self) -> bool:
        return False

    def supports_forced_tool_choice(self, config: Any) -> bool:
        return False


def make(script: Script, *subs: SubAgent, depth: int | None = None) -> SymfonicAgent:
    config = FrameworkConfig(lazy_tooling=False)
    if depth is not None:
        agent = dataclasses.replace(config.agent, max_agent_depth=depth)
        config = config.model_copy(update={"agent": agent})
    return SymfonicAgent(Provider(script), config=config, sub_agents=list(subs) or None)


def sub(name: str, agent: SymfonicAgent) -> SubAgent:
    return SubAgent(name=name, agent=agent, description=f"Delegate a task to {name}.")


def runner(agent: SymfonicAgent) -> Run:
    async def run(prompt: str) -> str:
        return (await agent.run(prompt)).final_response

    return run


class SymfonicCore(Adapter):
    title = "symfonic-core"
    venv = "symfonic-core"
    distributions = ("symfonic-core", "langgraph", "langchain-core")
    import_statement = "from symfonic.agent import FrameworkConfig, SubAgent, SymfonicAgent"
    notes = (
        "FrameworkConfig with lazy_tooling off (it warns otherwise), no memory backends, no tenant "
        "scope; max_agent_depth raised for chain (its default is 2).",
        "Its log level raised to ERROR; OpenTelemetry and LangSmith are off by default.",
    )

    def prepare(self) -> None:
        tracing_off()
        logging.getLogger("symfonic").setLevel(logging.ERROR)

    def single(self) -> Run:
        return runner(make(answering()))

    def delegation(self, child_sleep: float = 0.0) -> Run:
        return runner(make(delegating("worker"), sub("worker", make(answering(child_sleep)))))

    def fan_out(self, width: int, child_sleep: float) -> Run:
        worker = sub("worker", make(answering(child_sleep)))
        return runner(make(delegating("worker", width), worker))

    def chain(self, agents: int) -> Run:
        agent = make(answering(), depth=agents)
        for i in range(agents - 2, -1, -1):
            agent = make(delegating(f"agent{i + 1}"), sub(f"agent{i + 1}", agent), depth=agents)
        return runner(agent)

    def build(self, children: int) -> Run:
        kids = [sub(f"child{i}", make(answering())) for i in range(children)]
        return runner(make(delegating("child0"), *kids))


ADAPTER = SymfonicCore()
