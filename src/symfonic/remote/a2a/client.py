"""An agent of another process, reached over A2A, as a child."""

import asyncio
import logging
import math
import time
from collections.abc import Coroutine
from typing import Any
from urllib.parse import urlsplit

from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import ChildDeclarationError, ConfigurationError, OverrunError, SymfonicError
from symfonic.kernel.concurrency.tasks import put_down, run_within, started
from symfonic.kernel.contracts.closing import Closing
from symfonic.kernel.contracts.text import error_text
from symfonic.remote.a2a.connection import Bearer, Connection
from symfonic.remote.a2a.exchange import Exchange
from symfonic.remote.a2a.extension import check_installed
from symfonic.remote.a2a.trouble import told
from symfonic.remote.answer import Answer
from symfonic.remote.crossing import leaving
from symfonic.remote.envelope import Envelope

TIMEOUT = 600.0
"""Seconds that a call may take, where nobody says otherwise."""

CANCEL_SECONDS, GRACE_SECONDS = 5.0, 2.0
"""How long the far side has to end a task that nobody waits for any more, and how much later than this side it ends
one whose time is over by itself."""

_log = logging.getLogger("symfonic.remote")


def a2a_child(url: str, *, auth: Bearer = None, timeout: float = TIMEOUT, name: str | None = None) -> "A2AChild":
    """A runner for the agent whose card is below ``url``: put it into a `SubAgent`.

    ``auth`` is a bearer token or a function, sync or async, that returns one; it is not sent to another host than that
    of ``url``. ``timeout``: the seconds that one call may take. ``name`` is what error messages call it. Nothing is
    connected to before the first call. Raises ChildDeclarationError for what is no address, ConfigurationError for
    another mistake and where the A2A SDK is missing.
    """
    return A2AChild(url, auth=auth, timeout=timeout, name=name)


def adopt(name: str, url: Any) -> "A2AChild":
    """The runner for a child that is declared by its address."""
    return A2AChild(str(url), name=name)


class A2AChild(Closing):
    """An agent of another process. Its run is the child's run: same id, same depth, and what is left of the budget.

    A far side that knows nothing of us is sent the task alone, and what it says is the answer. The whole `Answer` is
    kept as the response's ``result``. It may be used in any number of event loops; `aclose` closes the connections of
    the running one, and a loop that ends closes its own.
    """

    __slots__ = ("_connection", "_name", "_timeout", "url")

    def __init__(self, url: str, *, auth: Bearer = None, timeout: float = TIMEOUT, name: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ChildDeclarationError(f"the address of an agent must be http(s)://HOST/..., got {url!r}")
        if parts.username is not None or parts.password is not None:
            raise ChildDeclarationError(f"the address of the agent at {parts.hostname} must hold no password: use auth")
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout < math.inf:
            raise ConfigurationError(f"timeout must be a number of seconds > 0, got {timeout!r}")
        check_installed()
        self.url: str = url.rstrip("/")
        self._name = name or parts.hostname
        self._timeout = timeout
        self._connection = Connection(self.url, auth)

    async def run(self, query: str) -> ChildResponse:
        """Send the task and return the answer. If this is cancelled, so is the task on the far side.

        Raises DelegationError if the far side refuses, RemoteError if it fails or cannot be reached, LimitReachedError
        if nothing is left to spend, EnvelopeError if the task is too large or the answer cannot be read, OverrunError
        if its time is over.
        """
        with leaving(self._name, query) as out:
            exchange = Exchange(self._connection, self._timed(out.envelope))
            try:
                answer = await run_within(self._timeout, self._answer(exchange))
            except (asyncio.CancelledError, OverrunError):
                exchange.settle(out)
                raise
            return out.returned(answer)

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        await self._connection.aclose()

    def __repr__(self) -> str:
        return f"A2AChild({self.url!r})"

    def _timed(self, envelope: Envelope) -> Envelope:
        """The same with an end: a far side whose caller is gone must not go on for ever."""
        latest = time.time() + self._timeout + GRACE_SECONDS
        deadline = latest if envelope.deadline is None else min(latest, envelope.deadline)
        return envelope.model_copy(update={"deadline": deadline})

    async def _answer(self, exchange: Exchange) -> Answer:
        work = started(exchange.answer())  # not cancelled with this: what it has begun must be ended there first
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            if exchange.sent:
                await _see_through(self._end(exchange))
            await put_down([work])
            raise
        try:
            answer = work.result()
        except SymfonicError:
            raise
        except Exception as error:
            raise told(error, self.url) from error
        if exchange.must_be_ended:
            await self._end(exchange)
        return answer

    async def _end(self, exchange: Exchange) -> None:
        try:
            async with asyncio.timeout(CANCEL_SECONDS):
                await exchange.end()
        except Exception as error:  # its deadline ends it
            _log.warning("a task at %s was not cancelled in time: %s", self.url, error_text(error))


async def _see_through(work: Coroutine[Any, Any, None]) -> None:
    """Wait for work that has a timeout of its own, however often this is cancelled meanwhile."""
    task = started(work)
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:  # the caller raises one
            continue
