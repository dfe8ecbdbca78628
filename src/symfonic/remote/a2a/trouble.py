"""Errors of the SDK and of HTTP, told in one place."""

from typing import Any

from symfonic.kernel.contracts.text import error_text
from symfonic.remote.a2a.extension import theirs
from symfonic.remote.answer import RemoteError, UnusableError

_BUSY = (502, 503, 504)
_PASSING = (408, 409, 425, 429)
"""Statuses of a refusal that another time may not meet."""


class UntoldError(Exception):
    """An answer has ended, in order, that names no task and does not say how the call stands."""


def _causes(error: BaseException) -> list[BaseException]:
    """The error and what it came from, at most ten of them."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and len(found) < 10:
        found.append(each)
        each = each.__cause__
    return found


def _one_of(error: BaseException, *kinds: Any) -> Any:
    return next((each for each in _causes(error) if isinstance(each, kinds)), None)


def status_of(error: BaseException) -> int | None:
    """The HTTP status that it is about, if there is one."""
    found = _one_of(error, theirs("httpx").HTTPStatusError)
    return int(found.response.status_code) if found is not None else None


def lost(error: BaseException) -> bool:
    """Whether it is not known what became of a message: a connection failed, or has said nothing of it."""
    return _one_of(error, theirs("httpx").TransportError, UntoldError) is not None or status_of(error) in _BUSY


def never_sent(error: BaseException) -> bool:
    """Whether there was not even a connection."""
    httpx = theirs("httpx")
    return _one_of(error, httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) is not None


def unknown_task(error: BaseException) -> bool:
    """Whether the far side knows nothing of the task, as after a restart."""
    return _one_of(error, theirs("a2a.utils.errors").TaskNotFoundError) is not None


def told(error: Exception, url: str) -> RemoteError:
    """The error in our terms, for its place in ``raise ... from error``; an UnusableError where it would come again."""
    httpx, status = theirs("httpx"), status_of(error)
    if status in (401, 403):
        return UnusableError(f"the agent at {url} does not let this caller in ({status}): is auth=... right?")
    if status is not None:
        kind = RemoteError if status >= 500 or status in _PASSING else UnusableError
        return kind(f"the agent at {url} answered with HTTP status {status}")
    if never_sent(error):
        return RemoteError(f"the agent at {url} cannot be reached: {_words(error)}")
    if _one_of(error, httpx.TimeoutException) is not None:
        return RemoteError(f"the agent at {url} was silent for too long: {_words(error)}")
    if isinstance(error, UntoldError):
        return RemoteError(f"the agent at {url} ended its answer without saying how the call stands")
    if lost(error):
        return RemoteError(f"the connection to the agent at {url} was lost: {_words(error)}")
    return _misunderstood(error, url)


def _misunderstood(error: Exception, url: str) -> RemoteError:
    """The same of an answer that came."""
    errors = theirs("a2a.utils.errors")
    if isinstance(error, theirs("a2a.client.errors").A2AClientError):
        return UnusableError(f"the agent at {url} does not speak A2A as expected: {_words(error)}")
    if isinstance(error, errors.A2AError):
        passing = (
            errors.InternalError,
            errors.InvalidAgentResponseError,
            errors.TaskNotFoundError,
        )
        kind = RemoteError if isinstance(error, passing) else UnusableError
        return kind(f"the agent at {url} refused the call: {_words(error)}")
    return RemoteError(f"the agent at {url} answered with what cannot be read: {_words(error)}")


def _words(error: BaseException) -> str:
    text = error_text(_causes(error)[-1])[:500]
    return f"{type(_causes(error)[-1]).__name__}: {text}"
