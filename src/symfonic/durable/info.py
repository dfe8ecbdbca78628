"""What can be told of a run that is in the database."""

from typing import Any

from symfonic.durable.settings import MOST_RECOVERIES
from symfonic.errors import EnvelopeError
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.text import error_text
from symfonic.remote.answer import Answer

WAITING, RUNNING, CANCELLED, GIVEN_UP = "waiting", "running", "cancelled", "given_up"
LIVE = ("ENQUEUED", "DELAYED", "PENDING")
ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
"""As DBOS calls them."""

GAVE_UP = f"it was given up: {MOST_RECOVERIES + 1} times its worker was gone before it had ended"
"""What is said of a run that was."""

_WORDS = {
    "ENQUEUED": WAITING,
    "DELAYED": WAITING,
    "PENDING": RUNNING,
    "SUCCESS": "finished",
    "ERROR": "failed",
    "CANCELLED": CANCELLED,
    "MAX_RECOVERY_ATTEMPTS_EXCEEDED": GIVEN_UP,
}


@fact
class RunInfo:
    """A run as the database has it.

    ``status``: ``waiting`` in its queue, ``running``, or how it ended: ``finished``, ``refused``, ``failed``,
    ``timed_out``, ``cancelled``, or ``given_up`` since its worker died each time. ``text`` is its answer, or says why
    there is none. ``created`` is in seconds since the epoch, ``executions`` how often it was begun.
    """

    run_id: str
    root_run_id: str
    parent_run_id: str | None
    status: str
    agent: str
    depth: int
    executor_id: str | None
    version: str | None
    created: float
    executions: int
    text: str | None = None

    @property
    def live(self) -> bool:
        """Whether it waits or runs."""
        return self.status in (WAITING, RUNNING)

    @property
    def tree(self) -> str:
        """The name of the durable tree that it belongs to."""
        return self.agent.partition("/")[0]


def info(row: Any) -> RunInfo:
    """What a row of DBOS's says; how a run ended only where the row was read with its outcome."""
    told = row.attributes or {}
    status = _WORDS.get(str(row.status), str(row.status))
    text: str | None = None
    if row.status == "SUCCESS" and row.output is not None:
        status, text = _outcome(row.output)
    elif status == CANCELLED:
        text = "it was cancelled" if row.recovery_attempts else "it was cancelled before a worker took it"
    elif status == GIVEN_UP:
        text = GAVE_UP
    elif row.error is not None:
        text = error_text(row.error) if isinstance(row.error, BaseException) else str(row.error)
    return RunInfo(
        row.workflow_id,
        str(told.get("root", row.workflow_id)),
        told.get("parent"),
        status,
        str(told.get("agent", "?")),
        int(told.get("depth", 0)),
        row.executor_id,
        row.app_version,
        (row.created_at or 0) / 1000,
        row.recovery_attempts or 0,
        text,
    )


def _outcome(output: Any) -> tuple[str, str]:
    try:
        answer = Answer.read(output)
    except EnvelopeError as error:
        return "failed", error_text(error)
    return answer.status, answer.text
