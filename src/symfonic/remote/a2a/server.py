"""An agent as an A2A server."""

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from symfonic.errors import ConfigurationError
from symfonic.kernel.concurrency.tasks import finish_within, run_together
from symfonic.kernel.contracts.limits import Limits
from symfonic.remote.a2a.desk import Desk
from symfonic.remote.a2a.extension import LASTING, URI, theirs
from symfonic.remote.a2a.gate import Auth, Gate, unreadable
from symfonic.remote.a2a.work import Answering
from symfonic.remote.brevity import brief
from symfonic.remote.reception import Lasting, Reception, who_answers

LOGGER = "a2a.server.routes.jsonrpc_dispatcher"

CLOSE_SECONDS = 10.0
"""How long the tasks that go on have to end when the server is shut down."""


@dataclass(frozen=True, slots=True)
class _Served:
    """Who is served, and where callers find it. ``lasting`` is the agent, where its runs outlive the server."""

    answering: Answering
    description: str
    url: str
    auth: Auth | None
    lasting: Lasting | None


def a2a_app(
    agent: Any,
    *,
    url: str,
    name: str | None = None,
    description: str | None = None,
    max_depth: int | None = None,
    limits: Limits | None = None,
    auth: Auth | None = None,
) -> Any:
    """An ASGI application (of Starlette) that serves an agent, or a team's lead, over A2A's JSON-RPC.

    ``url`` is where callers reach it; the card, which is public, names it. ``max_depth`` is the deepest depth at which
    it may run, ``limits`` what one call may spend: both only tighten what a caller brings along. ``auth(token)`` tells
    whose bearer token it is; everybody has tasks of their own. Without it, whoever reaches the server may use it.

    A durable agent is started with the application and left with it: what is running at the end goes on at the next
    start. Instead of an agent it may be anything with ``names()`` and ``async answer(envelope) -> Answer``, which is
    asked as it is. Raises ConfigurationError for what cannot be served, and where the A2A SDK is missing.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(f"url must be the address that callers use, such as http://HOST:PORT/, got {url!r}")
    if auth is not None and not callable(auth):
        raise ConfigurationError(f"auth must be a function from a token to its user, got {type(auth).__name__}")
    agent = who_answers(agent)
    answering = _answering(agent, name, max_depth, limits)
    lasting = agent if isinstance(agent, Lasting) else None
    return _application(_Served(answering, description or f"The agent {answering.names()[0]}.", url, auth, lasting))


def _answering(agent: Any, name: str | None, max_depth: int | None, limits: Limits | None) -> Answering:
    if callable(getattr(agent, "answer", None)) and callable(getattr(agent, "names", None)):
        if (name, max_depth, limits) != (None, None, None):
            raise ConfigurationError(f"name, max_depth and limits are those of {type(agent).__name__}: give them to it")
        answering: Answering = agent
        return answering
    return Reception({name or str(getattr(agent, "name", "agent")): agent}, max_depth=max_depth, limits=limits)


def _application(served: _Served) -> Any:
    routing, routes = theirs("starlette.routing"), theirs("a2a.server.routes")
    constants = theirs("a2a.utils.constants")
    card = _card(served)
    desk = Desk(served.answering, card)
    path = urlsplit(served.url).path or "/"
    [rpc] = routes.create_jsonrpc_routes(desk, "/")
    endpoint = _endpoint(rpc.endpoint)
    places = [routing.Route(each, endpoint, methods=["POST"]) for each in dict.fromkeys(("/", path))]
    for prefix in dict.fromkeys(("", path.rstrip("/"))):
        places += routes.create_agent_card_routes(card, card_url=prefix + constants.AGENT_CARD_WELL_KNOWN_PATH)

    gate = theirs("starlette.middleware").Middleware(Gate, auth=served.auth)
    lifetime = _lifetime(desk, served.lasting)
    app = theirs("starlette.applications").Starlette(routes=places, middleware=[gate], lifespan=lifetime)
    app.state.end_calls = partial(_end_calls, desk, served.lasting)
    return app


async def _end_calls(desk: Desk, lasting: Lasting | None) -> None:
    """End the calls that go on; runs that outlive this process are left first, and do not end with their calls."""
    if lasting is not None:
        await lasting.leave()
    await desk.end_calls()


def _lifetime(desk: Desk, lasting: Lasting | None) -> Callable[[Any], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifetime(_: Any) -> AsyncIterator[None]:
        if lasting is not None:
            await lasting.start()
        try:
            yield
        finally:
            ends: list[Coroutine[Any, Any, Any]] = [finish_within(desk.aclose(), CLOSE_SECONDS)]
            if lasting is not None:
                ends.insert(0, lasting.leave())  # first: its runs are not to end with who waits for them
            await run_together(ends)

    return lifetime


def _endpoint(answered: Callable[[Any], Awaitable[Any]]) -> Any:
    """Theirs, which is asked only what it can answer."""
    responses = theirs("starlette.responses")

    async def endpoint(request: Any) -> Any:
        problem = unreadable(await request.body())
        if problem is None:
            with brief(LOGGER):
                return await answered(request)
        code, message = problem
        return responses.JSONResponse({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})

    return endpoint


def _card(served: _Served) -> Any:
    types, [name, *_] = theirs("a2a.types"), served.answering.names()
    extension = types.AgentExtension(
        uri=URI,
        description="Depth, lineage, deadline and budget of the caller's tree; usage and records come back.",
        params={LASTING: served.lasting is not None},
    )
    card = types.AgentCard(
        name=name,
        description=served.description,
        version="1",
        supported_interfaces=[
            types.AgentInterface(url=served.url, protocol_binding="JSONRPC", protocol_version="1.0"),
        ],
        capabilities=types.AgentCapabilities(streaming=True, extensions=[extension]),
        default_input_modes=["text/plain", "application/json"],
        default_output_modes=["text/plain"],
        skills=[types.AgentSkill(id=name, name=name, description=served.description, tags=["agent"])],
    )
    if served.auth is not None:
        bearer = types.HTTPAuthSecurityScheme(scheme="Bearer")
        card.security_schemes["bearer"].CopyFrom(types.SecurityScheme(http_auth_security_scheme=bearer))
        card.security_requirements.add().schemes["bearer"].SetInParent()
    return card
