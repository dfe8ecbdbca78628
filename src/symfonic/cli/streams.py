"""Where the command line writes, such that no text, encoding or reader that went away can crash it."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import TextIOWrapper
from typing import TextIO

_ALLOWED = "\n\t"


def never_fail_to_encode() -> None:
    """From now on the standard streams replace what their encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")


class Out:
    """A text stream that goes quiet once nobody reads it any more."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream  # None where the process was started with the stream closed

    def line(self, text: str) -> None:
        """Write one line (or text of several) and flush. Raises OSError for anything but a lost reader."""
        if self._stream is None:
            return
        if self._stream.isatty():
            text = printable(text)
        try:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        except BrokenPipeError:
            self._abandon()

    def _abandon(self) -> None:
        """What is still buffered would raise again when the interpreter ends: let it go nowhere."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with open(os.devnull, "wb") as nowhere:
                os.dup2(nowhere.fileno(), stream.fileno())


def printable(text: str) -> str:
    """``text`` with control characters other than line breaks and tabs escaped: it is for reading, not for steering."""
    if text.isprintable():
        return text
    return "".join(c if c in _ALLOWED or not _controls(c) else c.encode("unicode_escape").decode() for c in text)


def short(text: str, limit: int = 72) -> str:
    """``text`` on one line, cut where it is long."""
    line = " ".join(printable(text[: 4 * limit]).split())
    return line if len(line) <= limit and len(text) <= 4 * limit else f"{line[: limit - 1]}…"


def _controls(char: str) -> bool:
    return ord(char) < 32 or 127 <= ord(char) < 160


@contextmanager
def answers_only() -> Iterator[Out]:
    """Standard output for what was asked for alone: what tools print inside the block goes to standard error."""
    out = Out(sys.stdout)
    with redirect_stdout(sys.stderr):
        yield out
