"""What this library adds to the protocol's messages, under keys of its own in ``_meta``; others never see it."""

from collections.abc import Mapping
from typing import Any

from symfonic.errors import ConfigurationError, EnvelopeError
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.remote.answer import Answer
from symfonic.remote.envelope import Envelope

ENVELOPE, ANSWER, AGENTS = "symfonic/envelope", "symfonic/answer", "symfonic/agents"
"""With a call: where its run stands. With its result: what it spent, and its records. On the tool that runs agents: who
they are, each name with a description."""

LIST, RUN = "list_agents", "run_agent"

_OF_ARGUMENTS = ("agent", "task")


def need_mcp() -> None:
    """Raises ConfigurationError if the protocol's package is not there."""
    try:
        import mcp  # noqa: F401
    except ImportError as error:
        raise ConfigurationError('symfonic.remote.mcp needs mcp: pip install "symfonic-delegation[mcp]"') from error


def sent_along(envelope: Envelope) -> dict[str, Any]:
    """An envelope as ``_meta``: without what the arguments of the call say anyway."""
    return {ENVELOPE: {key: value for key, value in envelope.plain().items() if key not in _OF_ARGUMENTS}}


def arrived(meta: Mapping[str, Any] | None, agent: str, task: str) -> Envelope:
    """The envelope of a call; that of a root where the caller sends none.

    Raises EnvelopeError, naming the field, if what it sends is none, or the task is too large.
    """
    sent = (meta or {}).get(ENVELOPE)
    if sent is None and (meta is None or ENVELOPE not in meta):
        root = RunIdentity.root()
        sent = {"lineage": {"run_id": root.run_id, "root_run_id": root.root_run_id}}
    if not isinstance(sent, Mapping):
        raise EnvelopeError(f"the envelope cannot be read: expected an object, got {type(sent).__name__}")
    return Envelope.read({**sent, "agent": agent, "task": task})


def came_back(meta: Mapping[str, Any] | None) -> Answer:
    """The answer with a result. Raises EnvelopeError if there is none, or it cannot be read."""
    sent = (meta or {}).get(ANSWER)
    if sent is None:
        raise EnvelopeError("the server sent no account of the run with its answer")
    return Answer.read(sent)
