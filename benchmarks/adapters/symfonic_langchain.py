"""The library with a LangChain chat model in every agent; the children are declared as `SubAgent`s."""

from __future__ import annotations

from typing import Any

from adapters.symfonic import Scenarios
from common import Adapter, Delegate, Script
from fake_langchain import ScriptedChatModel, tracing_off
from symfonic import Agent, SubAgent


def run_agent_call(call: Delegate) -> dict[str, Any]:
    return {"name": "run_agent", "args": {"name": call.target, "task": call.task}}


def fake(script: Script) -> ScriptedChatModel:
    return ScriptedChatModel(script=script, shape=run_agent_call)


def make(name: str, script: Script, *children: SubAgent, depth: int | None = None) -> Agent:
    return Agent(fake(script), name=name, instructions=f"You are {name}.", sub_agents=children, max_depth=depth)


class SymfonicLangChain(Scenarios, Adapter):
    title = "symfonic (LangChain model)"
    venv = "symfonic"
    distributions = ("symfonic-delegation", "langchain-core")
    import_statement = "from symfonic import Agent, SubAgent; from langchain_core.language_models import BaseChatModel"
    notes = (
        "Agent(chat model) with SubAgents; the delegation tools are the runtime's own.",
        "max_depth raised for chain; LangSmith tracing explicitly off (its default without an API key).",
    )

    make = staticmethod(make)

    def prepare(self) -> None:
        tracing_off()


ADAPTER = SymfonicLangChain()
