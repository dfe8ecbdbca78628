"""Agents of this library behind another server: running one of them is a delegation like any other."""

from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any

from symfonic.capabilities.delegation.contracts import RosterEntry
from symfonic.capabilities.delegation.roster import DelegationRoster
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.capabilities.delegation.tools import DelegationTools
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.tool import Route, Tool
from symfonic.remote.crossing import leaving
from symfonic.remote.mcp.connection import Connection
from symfonic.remote.mcp.reading import described, fitting
from symfonic.remote.mcp.wire import AGENTS, RUN, came_back, sent_along

if TYPE_CHECKING:
    from mcp.types import Tool as Theirs

MOST_AGENTS = 100


def who_they_are(theirs: "Theirs") -> dict[str, str]:
    """The agents that a tool of a server runs, each with a description; none where it is no such tool."""
    told = (theirs.meta or {}).get(AGENTS)
    if theirs.name != RUN or not isinstance(told, Mapping) or len(told) > MOST_AGENTS:
        return {}
    agents = {name: described(text) for name, text in told.items() if isinstance(text, str)}
    try:
        DelegationRoster(RosterEntry(name, text, _Remote(name, None)) for name, text in agents.items())
    except ConfigurationError:  # names that nobody could call: it is a tool like others
        return {}
    return agents


def delegating(
    name: str, description: str, theirs: "Theirs", agents: Mapping[str, str], connection: Connection
) -> Tool:
    """The tool that delegates to them."""
    entries = [RosterEntry(each, text, _Remote(each, connection)) for each, text in agents.items()]
    tools = DelegationTools(roster=DelegationRoster(entries), depth=None)

    def invoke(arguments: Mapping[str, Any]) -> Awaitable[str]:
        return tools.run_agent(arguments["name"], arguments["task"])

    routes = tuple(Route(each, text) for each, text in agents.items())
    return Tool(name, description, fitting(theirs.input_schema), invoke, routes)


class _Remote:
    """One of their agents. Where its run stands goes along, what it spent and its records come back."""

    def __init__(self, name: str, connection: Connection | None) -> None:
        self._name = name
        self._connection = connection

    async def run(self, query: str) -> ChildResponse:
        """Run it. Raises what `Out.returned` raises, and what `Connection.call` does."""
        assert self._connection is not None  # noqa: S101 - those without one are only looked at
        with leaving(self._name, query) as out:
            task = {"name": self._name, "task": query}
            result = await self._connection.call(RUN, task, sent_along(out.envelope))
            return out.returned(came_back(result.meta))
