"""The tools of one agent, until they are compiled."""

from collections.abc import Iterable

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.tool import Tool
from symfonic.kernel.runtime.plan import Plan, compile_tool

_NO_TOOLS = Plan(())


class ToolRegistry:
    """Collects tools by name and freezes when it is compiled."""

    def __init__(self, tools: Iterable[Tool] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._frozen = False
        for tool in tools:
            self.register(tool)

    def register(self, tool: Tool) -> None:
        """Add a tool. Raises ConfigurationError if its name is taken, or if the registry was compiled."""
        if self._frozen:
            raise ConfigurationError(
                f"cannot register the tool {tool.name!r}: this agent was compiled with {self.names() or 'no tools'};"
                " build a new Agent with it in tools=[...] (or the child in sub_agents=[...])"
            )
        if tool.name in self._tools:
            raise ConfigurationError(f"two tools are named {tool.name!r}")
        self._tools[tool.name] = tool

    def names(self) -> tuple[str, ...]:
        """The registered names, in order."""
        return tuple(self._tools)

    def compile(self) -> Plan:
        """Freeze, and return the plan that runs execute."""
        self._frozen = True
        return Plan(tuple([compile_tool(tool) for tool in self._tools.values()])) if self._tools else _NO_TOOLS
