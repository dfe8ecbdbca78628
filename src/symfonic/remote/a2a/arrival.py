"""A message that arrived, read: what it asks for, from whom, and where its run is to stand."""

import asyncio
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from symfonic.errors import EnvelopeError
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.remote.a2a.extension import HEADER, TRACE, URI, found, plain, text_of, theirs
from symfonic.remote.envelope import Envelope, Lineage


@dataclass(slots=True)
class Arrival:
    """A call, and the A2A task that it is.

    ``extended``: whether its sender knows of our extension. ``context_id``: the id of its tree, or what its sender
    chose. ``stored`` is set when the task can be looked up, or never will be; ``begun``: whether the run has.
    """

    envelope: Envelope
    user: str
    extended: bool
    context_id: str
    trace: str | None
    task_id: str = field(default_factory=lambda: str(uuid4()))
    stored: asyncio.Event = field(default_factory=asyncio.Event)
    begun: bool = False

    @property
    def run_id(self) -> str:
        """The id of its run."""
        return self.envelope.lineage.run_id

    @property
    def key(self) -> tuple[str, str]:
        """What one with the same is the same call by: ids are each caller's own."""
        return self.user, self.run_id


def read_arrival(agent: str, params: Any, context: Any) -> Arrival:
    """What a ``SendMessageRequest`` asks of the agent. Raises their InvalidParamsError, naming what is wrong."""
    errors = theirs("a2a.utils.errors")
    try:
        extended = URI in context.requested_extensions
        task = _task(params.message)
        sent = found(plain(params.metadata), agent=agent, task=task) if extended else None
        envelope = _of_a_root(agent, task) if sent is None else Envelope.read(sent)
    except (EnvelopeError, ValueError, RecursionError) as error:
        raise errors.InvalidParamsError(str(error) or "it is nested too deeply") from error
    tree, context_id = envelope.lineage.root_run_id, params.message.context_id
    if sent is not None and context_id not in ("", tree):
        raise errors.InvalidParamsError(f"the context_id must be that of the tree: root_run_id, or none ({HEADER})")
    headers = context.state.get("headers", {})
    return Arrival(envelope, context.user.user_name, extended, context_id or tree, headers.get(TRACE))


def _task(message: Any) -> str:
    if not message.parts:
        raise ValueError("the message has no parts: send the task as text")
    try:
        return text_of(message.parts, between="\n")
    except ValueError as error:
        raise ValueError(f"the message cannot be read: {error}") from error


def _of_a_root(agent: str, task: str) -> Envelope:
    """That of a caller who knows nothing of us."""
    root = RunIdentity.root()
    envelope = Envelope(agent=agent, task=task, lineage=Lineage(run_id=root.run_id, root_run_id=root.root_run_id))
    envelope.text_of()  # too much is refused here
    return envelope
