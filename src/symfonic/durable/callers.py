"""Runs that callers in other processes have named: each is kept as that caller's, whatever ids another may claim."""

import json
from collections.abc import Callable
from hashlib import sha256

from symfonic.capabilities.delegation.admission import Refused
from symfonic.durable.runs import AnotherCallError, Runs
from symfonic.remote.answer import Answer
from symfonic.remote.envelope import Envelope


async def through(runs: Runs, envelope: Envelope, caller: str, left: Callable[[], bool]) -> Answer:
    """As `Runs.through`, for a caller's run, in whose ids the answer is told.

    Raises Refused if the caller's run of that id was one of another agent or task.
    """
    ids = envelope.lineage
    run_id = kept_as(caller, ids.run_id)
    lineage = ids.model_copy(update={"run_id": run_id, "via": (*ids.via[:-1], run_id)})
    try:
        answer = await runs.through(envelope.model_copy(update={"lineage": lineage}), left)
    except AnotherCallError as error:
        raise Refused(str(error)) from None
    told = json.dumps(answer.records).replace(run_id, json.dumps(ids.run_id)[1:-1])  # no text has it by chance
    return answer.model_copy(update={"lineage": ids, "records": tuple(json.loads(told))})


def kept_as(caller: str, run_id: str) -> str:
    """The id that a caller's run has here: neither another caller's nor one of this side's own has it."""
    return f"served-{sha256(json.dumps([caller, run_id]).encode()).hexdigest()[:32]}"
