"""Our extension of A2A: what a call of ours carries besides its text, and how the SDK is reached.

The envelope, less the task and the agent's name, is in the request's metadata under `URI`, and counts where the header
`HEADER` names it. The answer, less its text, is in the task's metadata under the same key.
"""

import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.text import to_text
from symfonic.remote.answer import Answer
from symfonic.remote.envelope import Envelope

URI = "urn:symfonic:delegation:1"
HEADER, TRACE = "A2A-Extensions", "traceparent"

LASTING = "lasting"
"""The parameter of our extension by which a card says that runs outlive the server."""

_TRACE = re.compile(r"[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}")
_HERE = {"agent", "task", "text"}
_traces: dict[str, str] = {}


def check_installed() -> None:
    """Raises ConfigurationError if there is no A2A SDK; nothing is imported to tell."""
    if find_spec("a2a") is None:
        told = "agents beyond this process over A2A need the A2A SDK: pip install 'symfonic-delegation[a2a]'"
        raise ConfigurationError(told)


@cache
def theirs(module: str) -> Any:
    """A module of the SDK or of what comes with it: Any, since its types are not there where it is not installed.

    Raises ConfigurationError if it cannot be imported.
    """
    check_installed()
    try:
        return import_module(module)
    except ImportError as error:
        told = f"the A2A SDK lacks a part, {error}: pip install 'symfonic-delegation[a2a]'"
        raise ConfigurationError(told) from error


def plain(struct: Any) -> dict[str, Any]:
    """Their metadata as plain values; whole numbers may be floats. Raises ValueError for what no JSON can say."""
    json_format = theirs("google.protobuf.json_format")
    try:
        said: dict[str, Any] = json_format.MessageToDict(struct)
    except json_format.SerializeToJsonError as error:
        raise ValueError(str(error)) from error
    return said


def carried(message: Envelope | Answer) -> dict[str, Any]:
    """Metadata with an envelope or an answer: what the protocol itself has a place for is left out."""
    return {URI: {key: value for key, value in message.plain().items() if key not in _HERE}}


def found(metadata: Mapping[str, Any], **added: str) -> Any:
    """What is in metadata under our key, with what the protocol itself had a place for; None where it is not there."""
    said = metadata.get(URI)
    return {**said, **added} if isinstance(said, Mapping) else said


def text_of(parts: Any, between: str = "") -> str:
    """The text of a message's or an artifact's parts, data as JSON.

    Raises ValueError for parts that are files.
    """
    texts: list[str] = []
    for part in parts:
        kind = part.WhichOneof("content")
        if kind == "data":
            texts.append(to_text(theirs("google.protobuf.json_format").MessageToDict(part.data)))
        elif kind in ("raw", "url"):
            raise ValueError(f"a part of it is a file ({kind}), and only text and data are understood")
        else:
            texts.append(part.text)
    return between.join(texts)


@contextmanager
def traced(run_id: str, trace: str | None) -> Iterator[None]:
    """Let what a run sends out name the trace that it came with, for as long as the run goes on."""
    known = trace is not None and _TRACE.fullmatch(trace) is not None and run_id not in _traces
    if known and trace is not None:
        _traces[run_id] = trace
    try:
        yield
    finally:
        if known:
            _traces.pop(run_id, None)


def trace_of(way: tuple[str, ...]) -> str | None:
    """The ``traceparent`` to send along: the current span of OpenTelemetry, else what came with a run on the way."""
    if "opentelemetry" in sys.modules:
        span: dict[str, str] = {}
        import_module("opentelemetry.propagate").inject(span)
        if TRACE in span:
            return span[TRACE]
    return next((_traces[each] for each in reversed(way) if each in _traces), None)
