"""One tool set out of the caller's tools and those that capabilities contribute."""

from collections.abc import Iterable, Sequence
from typing import Any

from symfonic.errors import ConfigurationError

CALLERS = "a tool passed to Agent(tools=[...])"


def merge_capability_tools(tools: Sequence[Any], contributed: Iterable[tuple[Any, Any]]) -> list[Any]:
    """The caller's tools, then the contributed ones, in order; neither argument is changed.

    ``contributed`` holds (capability, tool) pairs; a capability is its name, or has one.
    Raises ConfigurationError if two tools share a name, naming where both come from.
    """
    merged: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for tool in tools:
        if tool.name in merged:
            raise ConfigurationError(f"two tools passed to Agent(tools=[...]) are named {tool.name!r}")
        merged[tool.name], sources[tool.name] = tool, CALLERS
    for capability, tool in contributed:
        name = capability if isinstance(capability, str) else capability.name
        if tool.name in merged:
            raise ConfigurationError(
                f"{name} contributed a tool named {tool.name!r}, which is already registered by {sources[tool.name]}"
            )
        merged[tool.name], sources[tool.name] = tool, name
    return list(merged.values())
