"""A far side written with nothing of the SDK, which says what it is told to, however wrong that is."""

import json
from collections.abc import Iterator
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from symfonic.remote.a2a.extension import URI


class Far:
    """It says ``sent`` to a message and, one after the other, ``looked`` to who asks how its task stands.

    What it says is a result, the bytes of a stream, or a whole response; a ``card`` may be one as well.
    """

    def __init__(
        self, sent: Any, *looked: Any, card: Response | None = None, ours: bool = False, streaming: bool = True
    ) -> None:
        self.messages: list[dict[str, Any]] = []
        self._sent = sent
        self._looked: Iterator[Any] = iter(looked)
        self._card = card
        self._can = {"streaming": streaming, "extensions": [{"uri": URI}] if ours else []}
        self._url = ""

    def app(self, url: str) -> Starlette:
        self._url = url
        card = Route("/.well-known/agent-card.json", self._described)
        return Starlette(routes=[card, Route("/", self._answer, methods=["POST"])])

    async def _described(self, request: Request) -> Response:
        if self._card is not None:
            return self._card
        place = {"url": self._url, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return JSONResponse({"name": "far", "supportedInterfaces": [place], "version": "1", "capabilities": self._can})

    async def _answer(self, request: Request) -> Response:
        asked = json.loads(await request.body())
        if asked["method"] == "GetTask":
            return JSONResponse({"jsonrpc": "2.0", "id": asked["id"], "result": next(self._looked)})
        self.messages.append(asked["params"])
        if isinstance(self._sent, Response):
            return self._sent
        if isinstance(self._sent, bytes):
            return Response(self._sent, media_type="text/event-stream")
        said = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": self._sent})
        if not self._can["streaming"]:
            return Response(said, media_type="application/json")
        return Response(f"data: {said}\n\n", media_type="text/event-stream")
