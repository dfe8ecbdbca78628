"""One delegation in progress: from its place among the caller's records to its closing record and event."""

import asyncio
import time
from inspect import iscoroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.admission import spent_message
from symfonic.capabilities.delegation.contracts import (
    NO_RUN,
    ChildRun,
    DelegationOutcome,
    DelegationRecord,
    DelegationTrace,
    Timing,
)
from symfonic.capabilities.delegation.errors import ConfigurationError, DelegationError
from symfonic.capabilities.delegation.lineage import current_identity
from symfonic.capabilities.delegation.names import spelled
from symfonic.errors import LimitReachedError, OverrunError
from symfonic.kernel.concurrency.awaitables import is_awaitable
from symfonic.kernel.contracts.messages import current_tool_call, total
from symfonic.kernel.contracts.text import capped, encodable, error_text, task_text

if TYPE_CHECKING:
    from symfonic.kernel.contracts.run_identity import RunIdentity

RunIds: TypeAlias = tuple[str, str, str | None]

_MAY_END_OTHERWISE = (DelegationOutcome.CHILD_FAILED, DelegationOutcome.CHILD_TIMED_OUT)


class Call:
    """What `DelegationTools.delegate` knows of one delegation."""

    __slots__ = (
        "_began",
        "_clock",
        "_ids",
        "_misfit",
        "_place",
        "_runs",
        "_text",
        "_words",
        "caller",
        "ceiling",
        "depth",
        "name",
        "task",
    )

    def __init__(self, name: Any, task: Any) -> None:
        self.name: str = name if type(name) is str else spelled(name)
        self.task: str = task if type(task) is str else task_text(task)
        self.depth: int = 1
        self.ceiling: int = 0
        self.caller: ActiveRun | None = active_run()
        self._place = self.caller.reserve() if self.caller is not None else []
        self._runs: list[ActiveRun] = []
        self._text = ""
        self._misfit: TypeError | None = None
        self._ids: RunIds = ("", "", None)
        self._words: tuple[BaseException, str] | None = None
        self._began = time.time()
        self._clock = time.perf_counter()

    def opened(self, run: ActiveRun) -> None:
        """An attempt begins: what bounds this delegation bounds everything below it."""
        self._runs.append(run)
        run.lower_ceiling(self.ceiling)
        if self.caller is None or not self.caller.observers:
            return
        if len(self._runs) == 1:
            self.caller.tell("DelegationStarted", self.name, self.task, run.identity)
        else:
            why = self._words[1] if self._words else ""
            self.caller.tell("DelegationRetried", self.name, self._runs[-2].identity, run.identity, why)

    def refused(self, outcome: DelegationOutcome, message: str, error: BaseException | None = None) -> DelegationRecord:
        """The child never starts."""
        if outcome is DelegationOutcome.REFUSED_POLICY:  # a hook's words are as long as it likes
            message = self._cap(message)
        return self._end(outcome, encodable(message), error)

    def returned(self, response: Any) -> None:
        """An attempt ended with a response; it is read here, where the child's own code is still the child's."""
        self._text, self._ids = _final_text(response), _run_ids(response)

    def raised(self, error: BaseException) -> None:
        """An attempt ended with an error; its text is made here, for the same reason."""
        self._words = (error, error_text(error))

    def answered(self, response: Any) -> DelegationRecord:
        """The child has returned: an answer, or none; where that is for a programmer to mend, the error says how."""
        if self._text:
            return self._end(DelegationOutcome.DELIVERED, self._cap(self._text), None, response)
        message = f"Sub-agent {self.name!r} failed: it returned no final response"
        self._misfit = _not_a_response(response)
        return self._end(DelegationOutcome.CHILD_FAILED, encodable(message), self._misfit, response)

    def failed(self, error: BaseException) -> DelegationRecord:
        """The child, or what leads to it, raised."""
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            error = self._overdue() or error
        if isinstance(error, LimitReachedError) and not self._runs:
            return self.refused(DelegationOutcome.REFUSED_BUDGET, spent_message(error), error)
        if isinstance(error, OverrunError) or (isinstance(error, LimitReachedError) and error.limit == "timeout"):
            return self._end(DelegationOutcome.CHILD_TIMED_OUT, encodable(_timed_out(self.name, error)), error)
        if isinstance(error, asyncio.CancelledError | GeneratorExit):
            message = f"Sub-agent {self.name!r} was cancelled"
            return self._end(DelegationOutcome.CHILD_CANCELLED, encodable(message), error)
        words = self._words[1] if self._words and self._words[0] is error else error_text(error)
        message = f"Sub-agent {self.name!r} failed: {self._cap(words)}"
        return self._end(DelegationOutcome.CHILD_FAILED, encodable(message), error)

    def _overdue(self) -> LimitReachedError | None:
        """The deadline that has ended this: the run that states it cancels all of its tree when it is over."""
        budget = self.caller.budget if self.caller else None
        return None if budget is None else budget.overdue()

    def lets_through(self, error: Exception) -> bool:
        """Whether this is no failure, but a signal for whoever started the tree."""
        return self.caller is not None and isinstance(error, self.caller.pass_through)

    def _cap(self, text: str) -> str:
        budget = self.caller.budget if self.caller is not None else None
        return text if budget is None else capped(text, budget.answer_cap())

    def _end(
        self,
        outcome: DelegationOutcome,
        message: str,
        error: BaseException | None = None,
        response: Any = None,
    ) -> DelegationRecord:
        """Write the record, into the caller's run too, and tell the observers."""
        timing = Timing(self._began, time.perf_counter() - self._clock)
        final = isinstance(error, LimitReachedError | ConfigurationError | DelegationError)
        retryable = outcome in _MAY_END_OTHERWISE and not final
        retryable = retryable and (error is None or error is not self._misfit)
        trace = DelegationTrace(
            self._caller_identity(),
            self.task,
            timing,
            current_tool_call.get(),
            retryable,
            error,
            response,
            self._child_run(),
        )
        record = DelegationRecord(self.name, outcome, self.depth, message, *self._ids, trace)
        if self.caller is not None:
            self.caller.fill(self._place, record)
        if self.caller is not None and self.caller.observers:
            if self._runs:
                self.caller.tell("DelegationFinished", self.name, trace.child, outcome.value, message, timing.duration)
            else:
                self.caller.tell("DelegationRefused", self.name, self.task, outcome.value, message)
        return record

    def _child_run(self) -> ChildRun:
        """The child's run; of several attempts the last one's identity, and what all of them spent and asked."""
        runs = self._runs
        if not runs:
            return NO_RUN
        if len(runs) == 1:
            return ChildRun(runs[0].identity, runs[0].usage, runs[0].records)
        return ChildRun(
            runs[-1].identity,
            total([run.usage for run in runs]),
            tuple(record for run in runs for record in run.records),
        )

    def _caller_identity(self) -> "RunIdentity | None":
        if self.caller is not None and self.caller.identity is not None:
            return self.caller.identity
        try:
            return current_identity()
        except Exception:  # the look-up is reported as the delegation's failure where it matters
            return None


def _final_text(response: Any) -> str:
    final = getattr(response, "final_response", None)
    if type(final) is str:
        return encodable(final.strip())
    if is_awaitable(final):
        if iscoroutine(final):
            final.close()
        raise TypeError(f"its final_response is a {type(final).__name__}: it must be a value")
    return encodable(task_text(final).strip()) if final else ""


def _timed_out(name: str, error: BaseException) -> str:
    seconds = error.seconds if isinstance(error, OverrunError) else getattr(error, "value", 0)
    return (
        f"Sub-agent {name!r} timed out after {seconds:g} s and was cancelled;"
        " what it had started in a thread may still be running"
    )


def _not_a_response(response: Any) -> TypeError | None:
    if hasattr(response, "final_response"):
        return None
    return TypeError(f"its run returned {type(response).__name__}, expected an object with a final_response")


def _run_ids(response: Any) -> RunIds:
    run_id, root_run_id = getattr(response, "run_id", None), getattr(response, "root_run_id", None)
    parent_run_id = getattr(response, "parent_run_id", None)
    return _id(run_id) or "", _id(root_run_id) or "", _id(parent_run_id)


def _id(value: Any) -> str | None:
    if type(value) is str and value and value.isascii():
        return value
    return encodable(str(value)) if value else None
