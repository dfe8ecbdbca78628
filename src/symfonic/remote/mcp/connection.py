"""One server of the protocol, and the way to it."""

import asyncio
import logging
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TextIO

from symfonic.errors import SymfonicError
from symfonic.kernel.concurrency.tasks import run_within
from symfonic.kernel.contracts.text import error_text
from symfonic.remote.answer import RemoteError, UnusableError
from symfonic.remote.brevity import brief

if TYPE_CHECKING:
    from anyio.from_thread import BlockingPortal
    from mcp import Client
    from mcp.types import CallToolResult, Tool

_log = logging.getLogger("symfonic.remote")

MOST_PAGES, MOST_TOOLS, MOST_EVENT_BYTES = 100, 1000, 8 * 1024 * 1024
"""Pages and tools of a server's list that are read, and bytes of one event of its stream."""

_UNSAID = "Server returned an error response"
"""What the SDK says of an HTTP status that it keeps to itself."""

LOGGERS = ("mcp.client.stdio", "mcp.client.streamable_http")

LONGEST_CONNECT = 10.0
"""Seconds until a network connection must stand."""


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """Where a server is: a command that starts one, or a URL. Of ``headers`` and ``env`` nothing is ever shown."""

    command: tuple[str, ...] = ()
    url: str = ""
    headers: Mapping[str, str] | None = None
    env: Mapping[str, str] | None = None
    cwd: str | None = None

    def __str__(self) -> str:
        if self.command:
            return os.path.basename(self.command[0])
        scheme, _, rest = self.url.partition("://")
        host = rest.partition("?")[0].partition("#")[0]
        return f"{scheme}://{host.rpartition('@')[2]}"

    __repr__ = __str__


class Connection:
    """A server, spoken to on an event loop in a thread of its own: one and the same task there opens and closes it.

    So a tool can be called from any loop and any thread, and a server that blocks whoever reads it blocks no agent.
    ``opening`` and ``timeout`` are the seconds for opening and for one call.
    """

    def __init__(self, address: Address, opening: float, timeout: float) -> None:
        self._address = address
        self._opening = opening
        self._timeout = timeout
        self._stack: ExitStack | None = None
        self._portal: BlockingPortal | None = None
        self._client: Client | None = None
        self._given_up = False
        self._scope: Any = None
        self._refusal = 0  # the latest HTTP status that was none of success

    def open(self) -> "list[Tool]":
        """Connect, and return the tools that there are. Blocks. Raises RemoteError if that cannot be done."""
        from anyio.from_thread import start_blocking_portal

        tools: list[Tool] = []
        with ExitStack() as stack:
            portal = stack.enter_context(start_blocking_portal(name=f"symfonic-mcp {self._address}"))
            self._portal = portal
            try:
                stack.enter_context(portal.wrap_async_context_manager(self._connected(tools)))
            except Exception as error:
                failed = self._told(f"no connection to the MCP server {self._address}", error)
                if self._refusal == 404:
                    failed = RemoteError(f"{failed} (404): is the path right? It often is /mcp, as ours is")
                raise failed from error
            self._stack = stack.pop_all()
        return tools

    def give_up(self) -> None:
        """End an `open` that goes on in another thread. Does not wait for it."""
        self._given_up = True
        portal, scope = self._portal, self._scope
        if portal is not None and scope is not None and self._client is None:
            with suppress(RuntimeError):  # it has just ended by itself
                portal.start_task_soon(scope.cancel)

    def close(self) -> None:
        """End the connection, and the process that was started for it. Blocks. Does nothing the second time."""
        stack, self._stack, self._portal, self._client = self._stack, None, None, None
        if stack is None:
            return
        try:
            stack.close()
        except Exception as error:  # it was lost before, and whoever called it then was told
            _log.debug("the connection to %s ended with %s", self._address, _words(error))

    async def call(self, tool: str, arguments: Mapping[str, Any], meta: Mapping[str, Any] | None) -> "CallToolResult":
        """Call a tool. If this is cancelled, the server is told so.

        Raises OverrunError when the time for a call is over, RemoteError for everything else that goes wrong.
        """
        portal = self._portal
        if portal is None:
            raise RemoteError(f"the connection to the MCP server {self._address} is closed")
        try:
            future = portal.start_task_soon(self._called, tool, dict(arguments), dict(meta) if meta else None)
            return await run_within(self._timeout, asyncio.wrap_future(future))
        except SymfonicError:
            raise
        except Exception as error:
            raise self._told(f"the MCP server {self._address}", error) from error

    def _told(self, what: str, error: Exception) -> RemoteError:
        words, status = _words(error), self._refusal
        if words != _UNSAID or not status:
            return RemoteError(f"{what}: {words}")
        if status in (401, 403):
            return UnusableError(f"{what}: it does not let this caller in ({status}): is headers={{...}} right?")
        return RemoteError(f"{what}: it answered with HTTP status {status}")

    async def _note(self, response: Any) -> None:
        if response.status_code >= 300:
            self._refusal = response.status_code

    async def _called(self, tool: str, arguments: dict[str, Any], meta: dict[str, Any] | None) -> "CallToolResult":
        from mcp.types import CallToolRequest, CallToolRequestParams, CallToolResult

        if self._client is None:
            raise RemoteError(f"the connection to the MCP server {self._address} is closed")
        # not Client.call_tool: it holds results against the server's own schemas, and a schema may take for ever
        made: Any = meta
        request = CallToolRequest(params=CallToolRequestParams(name=tool, arguments=arguments, _meta=made))
        return await self._client.session.send_request(request, CallToolResult)

    @asynccontextmanager
    async def _connected(self, tools: "list[Tool]") -> AsyncIterator[None]:
        import anyio
        from mcp import Client

        with brief(*LOGGERS), anyio.CancelScope(deadline=anyio.current_time() + self._opening) as self._scope:
            if self._given_up:
                raise RuntimeError("it was given up")
            async with (
                _transport(self._address, self._timeout + LONGEST_CONNECT, self._note) as transport,
                Client(transport, cache=None) as client,
            ):
                await _list(client, tools)
                self._scope.deadline = float("inf")
                self._client = client
                yield
        if self._scope.cancelled_caught:
            late = f"it was not there within {self._opening:g} s, which opening=... is for"
            raise TimeoutError("it was given up" if self._given_up else late)


async def _list(client: "Client", tools: "list[Tool]") -> None:
    """Take down the tools, page by page, from a server that may go on for ever."""
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return
        if len(tools) > MOST_TOOLS:
            break
    raise RemoteError(f"its list of tools goes on after {len(tools)} of them")


@asynccontextmanager
async def _transport(address: Address, silence: float, note: Callable[[Any], Awaitable[None]]) -> AsyncIterator[Any]:
    """What a client of theirs is given to speak through: it enters it, and leaves it.

    ``silence`` is how many seconds an HTTP server may send nothing at all; ``note`` is told of every response.
    """
    if address.command:
        from mcp import StdioServerParameters, stdio_client

        command, *arguments = address.command
        env = None if address.env is None else dict(address.env)
        with _error_stream() as errors:
            yield stdio_client(
                StdioServerParameters(command=command, args=arguments, env=env, cwd=address.cwd), errlog=errors
            )
        return
    import httpx2
    from mcp.client.streamable_http import streamable_http_client

    waits = httpx2.Timeout(LONGEST_CONNECT, read=silence)
    headers, hooks = dict(address.headers or {}), {"response": [note]}
    async with httpx2.AsyncClient(headers=headers, timeout=waits, event_hooks=hooks) as http:
        larger: dict[str, Any] = {"max_sse_event_size": MOST_EVENT_BYTES}  # of mcp 2.3; ours may be larger than theirs
        yield streamable_http_client(address.url, http_client=http, **larger)


@contextmanager
def _error_stream() -> Iterator[TextIO]:
    """Where a server's own messages go: standard error, if that is a file that a process can have."""
    try:
        sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        with open(os.devnull, "w") as nowhere:
            yield nowhere
    else:
        yield sys.stderr


def _words(error: BaseException) -> str:
    """What went wrong, of several things at once the first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = error_text(error)
    return text if type(error).__name__ in text or not isinstance(error, OSError) else f"{type(error).__name__}: {text}"
