"""What the SDKs log of malformed messages: a line each, since who sends them must not fill a log with tracebacks."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from symfonic.kernel.contracts.text import error_text

LONGEST = 500
"""Characters of such a line."""

_SAID_AGAIN = ("Failed to validate base JSON-RPC request", "Failed to parse request params")
_MALFORMED = ("Failed to parse JSONRPC message from server", "Error parsing SSE message", "Error parsing JSON response")
"""The words of theirs that come with a traceback, and are, or are not, followed by another line about the same."""

_brief: ContextVar[bool] = ContextVar("symfonic_brief", default=False)


@contextmanager
def brief(*loggers: str) -> Iterator[None]:
    """Let these loggers be brief about what is malformed, as far as it is about this block and what it starts."""
    for name in loggers:
        logging.getLogger(name).addFilter(_in_a_line)
    before = _brief.set(True)
    try:
        yield
    finally:
        _brief.reset(before)


def _in_a_line(record: logging.LogRecord) -> bool:
    if not _brief.get():
        return True
    if record.msg in _SAID_AGAIN:
        return False
    text = record.getMessage()
    if record.msg in _MALFORMED and record.exc_info:
        error = record.exc_info[1]
        text = text if error is None else f"{text}: {error_text(error)}"
        record.exc_info = record.exc_text = None
    if record.exc_info is None:
        record.msg, record.args = " ".join(text.split())[:LONGEST], ()
    return True
