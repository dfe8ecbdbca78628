"""Connections to one far side: a client for each event loop, what its card says, and who is calling."""

import asyncio
import re
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from symfonic.errors import ConfigurationError
from symfonic.kernel.concurrency.awaitables import is_awaitable
from symfonic.remote.a2a.extension import HEADER, LASTING, TRACE, URI, theirs
from symfonic.remote.a2a.trouble import status_of
from symfonic.remote.answer import RemoteError, UnusableError
from symfonic.remote.envelope import MOST_BYTES

Bearer: TypeAlias = str | Callable[[], str | Awaitable[str]] | None
"""A bearer token, or a function, sync or async, that returns the one that is valid now."""

CONNECT_SECONDS, SILENT_SECONDS = 10.0, 60.0
"""How long a connection may take, and how long nothing may come on one; servers of the SDK say something every 15 s."""

IDLE_SECONDS = 2.0
"""How long a connection is kept for the next call: less than servers keep it."""

BINDINGS = ("JSONRPC", "HTTP+JSON")

MOST_RECEIVED = 64 * MOST_BYTES
"""Bytes of one response, whatever is in it."""


_TOKEN = re.compile(r"[!-~]+")


@dataclass(frozen=True, slots=True)
class Line:
    """A client of one event loop. ``extended``: whether the far side knows of our extension; ``lasting``: whether its
    runs outlive it.
    """

    client: Any
    http: Any
    extended: bool
    lasting: bool
    lifetime: AsyncGenerator[None, None]


class Connection:
    """The clients of one address, made when first asked for; each ends with its loop, or when this is closed.

    Raises ConfigurationError for an ``auth`` that is neither a token nor a function.
    """

    def __init__(self, url: str, auth: Bearer) -> None:
        if auth is not None and not callable(auth) and not _is_token(auth):
            raise ConfigurationError(_no_token(url))
        self._url = url
        self._auth = auth
        self._lines: dict[asyncio.AbstractEventLoop, Line] = {}
        self._lock = threading.Lock()

    async def line(self) -> Line:
        """This loop's client. Raises UnusableError for a card that cannot be used, and what the SDK raises."""
        loop = asyncio.get_running_loop()
        known = self._lines.get(loop)
        if known is not None and not known.http.is_closed:
            return known
        made = await self._opened()
        with self._lock:  # loops run in threads of their own
            for ended in [each for each in self._lines if each.is_closed()]:
                del self._lines[ended]
            first = self._lines.setdefault(loop, made)
            if first.http.is_closed:
                first = self._lines[loop] = made
        if first is not made:  # two calls at once asked for the first one
            await made.lifetime.aclose()
        return first

    async def headers(self, extended: bool, trace: str | None) -> dict[str, str]:
        """What every request says besides its body. Raises ConfigurationError for a token that is none."""
        said = {HEADER: URI} if extended else {}
        if trace is not None:
            said[TRACE] = trace
        token = await self._token()
        if token is None:
            return said
        if not _is_token(token):
            raise ConfigurationError(_no_token(self._url))
        return {**said, "Authorization": f"Bearer {token}"}

    async def _token(self) -> Any:
        try:
            token: Any = self._auth() if callable(self._auth) else self._auth
            if is_awaitable(token):
                async with asyncio.timeout(CONNECT_SECONDS):
                    token = await token
        except Exception as error:
            raise ConfigurationError(f"auth for {self._url} raised {type(error).__name__}") from error
        return token

    async def aclose(self) -> None:
        """Close this loop's client; those of loops that have ended went with them."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await line.lifetime.aclose()

    async def _opened(self) -> Line:
        http = _http_client()
        lifetime = _open_until_the_loop_ends(http)
        await anext(lifetime)
        resolver = theirs("a2a.client").A2ACardResolver(http, self._url)
        try:
            card = await resolver.get_agent_card(http_kwargs={"headers": await self.headers(False, None)})
            client = self._client_for(card, http)
        except BaseException as error:
            await lifetime.aclose()
            if status_of(error) == 404:
                told = f"there is no agent's card at {resolver.base_url}/{resolver.agent_card_path} (404)"
                raise UnusableError(f"{told}: is {self._url} the agent's address?") from error
            raise
        ours = [each for each in card.capabilities.extensions if each.uri == URI]
        lasting = any(each.params.fields[LASTING].bool_value for each in ours)
        return Line(client, http, bool(ours), lasting, lifetime)

    def _client_for(self, card: Any, http: Any) -> Any:
        config = theirs("a2a.client").ClientConfig(
            httpx_client=http, polling=True, supported_protocol_bindings=list(BINDINGS)
        )
        usable = [each.url for each in card.supported_interfaces if each.protocol_binding in BINDINGS]
        elsewhere = {url for url in usable if _origin(url) != _origin(self._url)}
        if elsewhere and self._auth is not None:  # a card must not decide who gets the token
            told = f"the card of the agent at {self._url} sends its callers to {', '.join(sorted(elsewhere)[:3])}"
            raise UnusableError(f"{told}, where the token does not go: give that address instead")
        if not usable:
            raise UnusableError(f"the card of the agent at {self._url} offers neither {' nor '.join(BINDINGS)}")
        return theirs("a2a.client").ClientFactory(config).create(card)


def _is_token(given: Any) -> bool:
    return isinstance(given, str) and _TOKEN.fullmatch(given) is not None


def _no_token(url: str) -> str:
    """What is said of a token that is none; it is not shown."""
    return f"auth for {url} must be a token, printable ASCII without blanks, or a function that returns one"


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _http_client() -> Any:
    httpx = theirs("httpx")
    return httpx.AsyncClient(
        timeout=httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS),
        # what waits for a connection holds one itself; and one that is used again must not be closing over there
        limits=httpx.Limits(max_connections=None, max_keepalive_connections=20, keepalive_expiry=IDLE_SECONDS),
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [_bounded]},
    )


async def _bounded(response: Any) -> None:
    """Let no more of a response be read than somebody may send. Raises UnusableError for what hides its size."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise UnusableError("the response is compressed, which was not asked for")
    response.stream = _counted(response.stream)


def _counted(stream: Any) -> Any:
    from httpx import AsyncByteStream

    class Counted(AsyncByteStream):
        async def __aiter__(self) -> AsyncGenerator[bytes, None]:
            seen = 0
            async for chunk in stream:
                seen += len(chunk)
                if seen > MOST_RECEIVED:
                    raise RemoteError(f"the response is larger than {MOST_RECEIVED} bytes")
                yield chunk

        async def aclose(self) -> None:
            await stream.aclose()

    return Counted()


async def _open_until_the_loop_ends(http: Any) -> AsyncGenerator[None, None]:
    """Closes the client: a started async generator is what every loop ends before itself, or once it is garbage."""
    try:
        yield
    finally:
        await http.aclose()
