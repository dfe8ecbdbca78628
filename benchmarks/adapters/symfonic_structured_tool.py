"""LangChain's model and LangChain's tools: the delegation tools are bound as ``StructuredTool``s and called as such.

What ``floor_langchain_core`` does by hand (``BaseChatModel.ainvoke``, ``StructuredTool.ainvoke``), done by the library.
"""

from __future__ import annotations

from adapters.symfonic import Scenarios
from adapters.symfonic_langchain import fake
from common import Adapter, Script
from fake_langchain import tracing_off
from symfonic import Agent, SubAgent
from symfonic.agent.cutover.delegation import bind_contributed_tool, delegation_for_children


def make(name: str, script: Script, *children: SubAgent, depth: int | None = None) -> Agent:
    delegation = delegation_for_children(children, max_depth=depth)
    specs = delegation.tool_specs() if delegation else ()
    tools = [bind_contributed_tool(spec) for spec in specs]
    return Agent(fake(script), name=name, instructions=f"You are {name}.", tools=tools, max_depth=depth)


class SymfonicStructuredTool(Scenarios, Adapter):
    title = "symfonic (LangChain model, StructuredTool)"
    venv = "symfonic"
    distributions = ("symfonic-delegation", "langchain-core")
    import_statement = (
        "from symfonic import Agent, SubAgent; from langchain_core.language_models import BaseChatModel; "
        "from langchain_core.tools import StructuredTool"
    )
    notes = (
        "Agent(chat model); run_agent and list_agents bound by bind_contributed_tool, and passed as tools.",
        "max_depth raised for chain; LangSmith tracing explicitly off (its default without an API key).",
    )

    make = staticmethod(make)

    def prepare(self) -> None:
        tracing_off()


ADAPTER = SymfonicStructuredTool()
