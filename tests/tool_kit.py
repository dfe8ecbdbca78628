"""Specs, a delegation and a tool of LangChain for the tests of tools."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from langchain_core.tools import BaseTool

from symfonic.capabilities.delegation.contracts import DelegationToolSpec, RosterEntry
from symfonic.capabilities.delegation.depth import DepthPolicy
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.capabilities.delegation.tools import DelegationTools


@dataclass
class Answer:
    final_response: str


class Echo:
    def __init__(self) -> None:
        self.tasks: list[str] = []

    async def run(self, query: str) -> Answer:
        self.tasks.append(query)
        return Answer(f"did {query}" if query.strip() else "did nothing")


def delegation() -> tuple[DelegationTools, Echo]:
    child = Echo()
    entries = [RosterEntry("écrivain", "Writes {text} %s.", child), RosterEntry("coder", "Codes.", Echo())]
    return DelegationTools(roster=DelegationRoster(entries), depth=DepthPolicy(2)), child


def spec(coroutine: Callable[..., Any], *parameters: str, name: str = "work") -> DelegationToolSpec:
    return DelegationToolSpec(name, "Works.", coroutine, parameters)


def call(tool_name: str, **arguments: Any) -> dict[str, Any]:
    return {"name": tool_name, "args": arguments, "id": "call_1", "type": "tool_call"}


async def work(name: str, task: Any, note: str = "none") -> Any:
    return [name, task, note]


class SearchTool(BaseTool):
    name: str = "searching"
    description: str = "Search things."

    def _run(self, query: str, limit: int = 3) -> str:
        return f"{query}/{limit}"
