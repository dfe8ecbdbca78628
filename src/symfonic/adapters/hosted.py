"""What adapters bind for a host."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.tool import Tool


class Hosted(Protocol):
    """What `symfonic.delegation(...)` returns."""

    def host_tools(self) -> Sequence[Tool]:
        """The tools to bind."""
        ...

    async def call(self, name: str, arguments: Mapping[str, object] | str | None) -> str:
        """Carry out a call; the text is what the host's model is to read."""
        ...


def tools_of(capability: Hosted) -> Sequence[Tool]:
    """The tools to bind. Raises ConfigurationError for anything but what `symfonic.delegation(...)` returns."""
    if not callable(getattr(capability, "host_tools", None)):
        told = f"expected symfonic.delegation([SubAgent(name, agent, description), ...]), got {capability!r}"
        raise ConfigurationError(told[:500])
    return capability.host_tools()
