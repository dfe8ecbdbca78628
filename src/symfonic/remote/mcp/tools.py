"""Other servers' tools, for an agent."""

from collections.abc import Mapping, Sequence
from functools import partial
from threading import RLock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from symfonic.errors import ConfigurationError
from symfonic.kernel.concurrency.threads import run_in_thread
from symfonic.kernel.contracts.tool import Tool
from symfonic.remote.mcp.agents import delegating, who_they_are
from symfonic.remote.mcp.connection import Address, Connection
from symfonic.remote.mcp.reading import described, fitting, result_text
from symfonic.remote.mcp.wire import need_mcp

if TYPE_CHECKING:
    from mcp.types import Tool as Theirs


OPENING = 30.0
"""Seconds that connecting may take, where nobody says otherwise."""


def mcp_tools(
    *,
    command: Sequence[str] = (),
    url: str = "",
    headers: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    prefix: str = "",
    opening: float | None = None,
    timeout: float = 300.0,
) -> "McpTools":
    """The tools of a server: one that a ``command`` starts, or one at a ``url`` (streamable HTTP).

    A process gets ``env`` on top of a few harmless variables, and runs in ``cwd``; ``headers`` go along with every
    request. ``prefix`` is put before every tool's name. ``timeout`` is the seconds that one call may take, ``opening``
    those until the tools are known: 30 unless you say so, and at a ``url`` no more than ``timeout``. Raises
    ConfigurationError if there is no mcp, or not exactly one of ``command`` and ``url``.
    """
    need_mcp()
    if isinstance(command, str) and command:
        raise ConfigurationError("mcp_tools(command=...) must be a list, [program, argument, ...], got a string")
    if bool(command) == bool(url):
        raise ConfigurationError("mcp_tools(...) needs one of command=[program, argument, ...] and url='http://...'")
    if url and not url.startswith(("http://", "https://")):
        raise ConfigurationError("mcp_tools(url=...) must begin with http:// or https://")
    if (url and (env or cwd)) or (command and headers):
        raise ConfigurationError("mcp_tools(...): headers go with a url, env and cwd with a command")
    if opening is None:
        opening = min(OPENING, timeout) if url else OPENING  # a process has to start first
    if min(opening, timeout) <= 0:
        raise ConfigurationError(f"mcp_tools(...): opening and timeout must be seconds > 0, got {opening}, {timeout}")
    return McpTools(Address(tuple(command), url, headers, env, cwd), prefix, opening, timeout)


class McpTools(Sequence[Tool]):
    """The tools of one server, read once: what the server changes later changes nothing.

    ``async with`` connects and closes without blocking the event loop, ``with`` does so in synchronous code. Read
    before that, as by an agent that is built with it, it connects there and then, and blocks meanwhile. Who opens it
    closes it; an agent does so in its ``aclose``.
    """

    def __init__(self, address: Address, prefix: str, opening: float, timeout: float) -> None:
        self._address = address
        self._prefix = prefix
        self._connection = Connection(address, opening, timeout)
        self._lock = RLock()
        self._tools: tuple[Tool, ...] | None = None
        self._closed = False

    @property
    def is_open(self) -> bool:
        """Whether the tools have been read."""
        return self._tools is not None

    def open(self) -> tuple[Tool, ...]:
        """Connect, unless that is done, and return the tools. Blocks.

        Raises RemoteError if there is no connection to be had, ConfigurationError if it was closed.
        """
        with self._lock:
            if self._closed:
                raise ConfigurationError(f"{self!r} is closed: make another")
            if self._tools is None:
                self._tools = tuple(map(self._tool, self._connection.open()))
            return self._tools

    def close(self) -> None:
        """End the connection, and the process that was started for it. Blocks. The tools answer with errors then."""
        self._closed = True
        self._connection.give_up()
        with self._lock:
            self._connection.close()

    async def aclose(self) -> None:
        """The same without blocking the event loop."""
        await run_in_thread(self.close, "mcp_tools")

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        try:
            await run_in_thread(self.open, "mcp_tools")
        except BaseException:  # also one that was cancelled meanwhile, whose thread goes on
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @overload
    def __getitem__(self, place: int) -> Tool: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[Tool, ...]: ...

    def __getitem__(self, place: int | slice) -> Tool | tuple[Tool, ...]:
        return self.open()[place]

    def __len__(self) -> int:
        return len(self.open())

    def __repr__(self) -> str:
        return f"mcp_tools({self._address})"

    def _tool(self, theirs: "Theirs") -> Tool:
        """One of their tools as one of ours; one that runs agents of ours is a delegation."""
        name, description = self._prefix + theirs.name, described(theirs.description)
        agents = who_they_are(theirs)
        if agents:
            return delegating(name, description, theirs, agents, self._connection)
        return Tool(name, description, fitting(theirs.input_schema), partial(self._invoke, theirs.name))

    async def _invoke(self, name: str, arguments: Mapping[str, Any]) -> str:
        return result_text(await self._connection.call(name, arguments, None))
