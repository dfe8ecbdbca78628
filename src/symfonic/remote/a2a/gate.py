"""What every request to a server passes first: who asks, and whether there is anything in it to be read."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

from symfonic.kernel.concurrency.awaitables import is_awaitable
from symfonic.remote.a2a.extension import HEADER, URI, theirs
from symfonic.remote.envelope import MOST_BYTES

Auth: TypeAlias = Callable[[str], "str | Awaitable[str | None] | None"]
"""``auth(token)``, sync and quick or async: the name of the user whose bearer token it is, or None."""

MOST_BODY = 8 * MOST_BYTES
"""Bytes of a request: JSON may write a character in six."""

AUTH_SECONDS, BODY_SECONDS = 10.0, 30.0

_Message: TypeAlias = MutableMapping[str, Any]
_Receive: TypeAlias = Callable[[], Awaitable[_Message]]
_Send: TypeAlias = Callable[[_Message], Awaitable[None]]
_App: TypeAlias = Callable[[_Message, _Receive, _Send], Awaitable[None]]

_log = logging.getLogger("symfonic.remote")


class Gate:
    """ASGI middleware. The card is public; everything else is for those whom ``auth`` knows, where there is one."""

    def __init__(self, app: _App, auth: Auth | None) -> None:
        self._app = app
        self._auth = auth
        self._card: str = theirs("a2a.utils.constants").AGENT_CARD_WELL_KNOWN_PATH

    async def __call__(self, scope: _Message, receive: _Receive, send: _Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refusal = await self._refusal(scope, headers)
        if refusal is not None:
            await _refuse(send, *refusal)
            return
        extended = URI in (each.strip() for each in headers.get(HEADER.lower(), "").split(","))
        await self._app(scope, _bounded(receive), _naming(send) if extended else send)

    async def _refusal(self, scope: _Message, headers: dict[str, str]) -> tuple[int, str] | None:
        """Why a request is not let in, or None; the scope is told whose it is."""
        if scope["method"] in ("GET", "HEAD") and scope["path"].endswith(self._card):
            return None
        if self._auth is not None:
            user = await self._user(self._auth, headers.get("authorization", ""))
            if user is None:
                return 401, "who asks is not known: send a valid token, as Authorization: Bearer ..."
            scope["user"] = theirs("starlette.authentication").SimpleUser(user)
        # a page in somebody's browser can send other types to a server on the same machine, unasked
        if headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            return 415, "expected a content-type of application/json"
        return None

    async def _user(self, auth: Auth, given: str) -> str | None:
        kind, _, token = given.partition(" ")
        if kind.lower() != "bearer" or not token.strip():
            return None
        try:
            async with asyncio.timeout(AUTH_SECONDS):
                name: Any = auth(token.strip())
                if is_awaitable(name):
                    name = await name
        except Exception:  # whoever cannot be looked up is not known
            _log.exception("the hook auth raised: the request is refused")
            return None
        return name if isinstance(name, str) and name else None


def unreadable(body: bytes) -> tuple[int, str] | None:
    """The code and the words of a JSON-RPC error for a body that the SDK could not answer, or None."""
    try:
        value = json.loads(body.decode(), parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        return -32602, "the request is nested too deeply"
    except ValueError as error:
        return -32700, f"the request is no JSON: {type(error).__name__}"
    return None


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _bounded(receive: _Receive) -> _Receive:
    """Raises their HTTPException for a body that is too large, or does not come."""
    problem = theirs("starlette.exceptions").HTTPException
    seen, complete = 0, False

    async def received() -> _Message:
        nonlocal seen, complete
        if complete:  # what comes now is that the caller has gone, whenever that is
            return await receive()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                message = await receive()
        except TimeoutError as error:
            raise problem(408, "the request did not come") from error
        seen += len(message.get("body", b""))
        complete = not message.get("more_body", False)
        if seen > MOST_BODY:
            raise problem(413, f"a request may have {MOST_BODY} bytes")
        return message

    return received


def _naming(send: _Send) -> _Send:
    """Say that our extension is in force."""

    async def sent(message: _Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", ()), (HEADER.lower().encode(), URI.encode())]
        await send(message)

    return sent


async def _refuse(send: _Send, status: int, told: str) -> None:
    body = json.dumps({"error": told}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
