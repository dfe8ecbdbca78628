"""What has been seen of a task on a far side, and the answer in it."""

from typing import Any

from symfonic.kernel.contracts.text import capped
from symfonic.remote.a2a.extension import URI, found, plain, text_of, theirs
from symfonic.remote.a2a.work import STATES
from symfonic.remote.answer import Answer, Status
from symfonic.remote.envelope import Lineage

MOST_CHARS = 128 * 1024
"""Characters of a far side's answer that are read; of what is longer the middle is left out."""

_INTERRUPTED = ("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_AUTH_REQUIRED")
_ENDS: dict[str, Status] = {
    "TASK_STATE_COMPLETED": "finished",
    "TASK_STATE_REJECTED": "refused",
    "TASK_STATE_FAILED": "failed",
    "TASK_STATE_CANCELED": "cancelled",
    "TASK_STATE_INPUT_REQUIRED": "failed",
    "TASK_STATE_AUTH_REQUIRED": "failed",
}


class Seen:
    """A task as its events tell it; ``task_id`` is blank until one is named, and stays what it was then."""

    def __init__(self) -> None:
        self.task_id: str = ""
        self._state = ""
        self._words = ""
        self._said = ""
        self._artifacts: dict[str, str] = {}
        self._metadata: dict[str, Any] = {}

    @property
    def final(self) -> bool:
        """Whether nothing more will come."""
        return self._state in _ENDS

    @property
    def interrupted(self) -> bool:
        """Whether it waits for somebody, who is not here, and has not ended."""
        return self._state in _INTERRUPTED

    def take(self, event: Any) -> None:
        """Take note of a ``StreamResponse``. Raises ValueError for one that cannot be read."""
        kind = event.WhichOneof("payload")
        if kind == "message":  # the whole answer, without a task
            self._state, self._said = "TASK_STATE_COMPLETED", text_of(event.message.parts)
        elif kind == "task":
            self.take_task(event.task)
        elif kind == "status_update":
            self.task_id = self.task_id or event.status_update.task_id
            self._metadata.update(plain(event.status_update.metadata))
            self._status(event.status_update.status)
        elif kind == "artifact_update":
            update = event.artifact_update
            self.task_id = self.task_id or update.task_id
            before = self._artifacts.get(update.artifact.artifact_id, "") if update.append else ""
            self._artifacts[update.artifact.artifact_id] = before + text_of(update.artifact.parts)

    def take_task(self, task: Any) -> None:
        """Take note of a ``Task``. Raises ValueError for one that cannot be read."""
        self.task_id = self.task_id or task.id
        self._artifacts = {each.artifact_id: text_of(each.parts) for each in task.artifacts}
        self._metadata = plain(task.metadata)
        self._status(task.status)

    def answer(self, lineage: Lineage, extended: bool) -> Answer:
        """How it ended; where the far side knows of our extension, as that says. Raises EnvelopeError if it says
        what cannot be read.
        """
        status = _ENDS[self._state]
        text = capped("\n".join(self._artifacts.values()) or self._said or self._words, MOST_CHARS)
        if self.interrupted:
            text = f"it waits for somebody ({self._state}), whom nobody here can be: {text}"
        sent = found(self._metadata, text=text) if extended and URI in self._metadata else None
        if sent is not None:
            answer = Answer.read(sent)
            if STATES[answer.status] == self._state:
                return answer.model_copy(update={"lineage": lineage})
        return Answer(status=status, text=text or f"it ended without a word ({self._state})", lineage=lineage)

    def _status(self, status: Any) -> None:
        self._state = theirs("a2a.types").TaskState.Name(status.state)
        self._words = text_of(status.message.parts)
