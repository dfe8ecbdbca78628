"""Delegation as plain function schemas and a dispatch function, for a loop of one's own over any model's API."""

from collections.abc import Mapping
from typing import Any

from symfonic.adapters.hosted import Hosted, tools_of


class OpenAIFunctions:
    """What to send to the model, and what to call with what it sends back."""

    def __init__(self, capability: Hosted) -> None:
        self._capability = capability
        self._tools = tools_of(capability)

    def tools(self, *, flat: bool = False) -> list[dict[str, Any]]:
        """The schemas for ``tools=[...]`` of chat completions; ``flat`` is the spelling of the Responses API."""
        functions = [
            {"name": each.name, "description": each.description, "parameters": dict(each.parameters)}
            for each in self._tools
        ]
        if flat:
            return [{"type": "function", **function} for function in functions]
        return [{"type": "function", "function": function} for function in functions]

    async def call(self, name: str, arguments: Mapping[str, Any] | str | None) -> str:
        """Carry out a function call of the model's; what is returned is the content of its tool message.

        Arguments may be the JSON text as it came. What goes wrong is told in the text; only a cancellation, and what
        `Options.pass_through` names, is raised.
        """
        return await self._capability.call(name, arguments)


def as_openai_functions(capability: Hosted) -> OpenAIFunctions:
    """The delegation tools of `symfonic.delegation(...)` as function schemas and a dispatch function."""
    return OpenAIFunctions(capability)
