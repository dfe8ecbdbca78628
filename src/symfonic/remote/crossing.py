"""Calls that are out: what a run sends along, what it remembers meanwhile, and what it takes back."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context

from symfonic.capabilities.delegation.active_run import ActiveRun, RunScope, active_run
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import DelegationError, EnvelopeError, LimitReachedError, OverrunError
from symfonic.kernel.contracts.messages import NO_USAGE, Usage
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.remote.answer import Answer, RemoteError
from symfonic.remote.envelope import LONGEST_WAY, MOST, Envelope, Left, Lineage, checked

way_here: ContextVar[tuple[str, ...]] = ContextVar("symfonic_way_here", default=())
"""The runs that left a process on the way to this code, oldest first."""

caller_here: ContextVar[str | None] = ContextVar("symfonic_caller_here", default=None)
"""Who had this done from another process, as far as this side asks; None where nobody did."""


class UnsendableError(EnvelopeError, DelegationError):
    """A call cannot leave the process: tried again, it could not either."""


class Out:
    """One call that is out. ``context`` is where it set out: what comes back from there runs inside it.

    So a far side that calls back is held to the depth and the budget of the call that reached it, whatever it claims.
    ``counted`` are the delegations that came back so.
    """

    __slots__ = ("_began", "_delegated", "_run", "_spent", "context", "counted", "envelope")

    def __init__(self, envelope: Envelope, run: ActiveRun) -> None:
        self.envelope: Envelope = envelope
        self.context: Context = copy_context()
        self.counted: int = 0
        self._spent: Usage = NO_USAGE
        self._delegated: int = 0
        self._run = run
        self._began = time.monotonic()

    @property
    def depth(self) -> int:
        """How deep its run is."""
        return self._run.depth

    def saw(self, answer: Answer) -> None:
        """What this very call came to where it arrived on this side, whatever its answer says when it has come back."""
        self._spent += answer.spent.usage()
        self._delegated += answer.delegations

    def returned(self, answer: Answer) -> ChildResponse:
        """Take back what came: its spending, its records, and the answer in it.

        Raises DelegationError if the far side refused, RemoteError if it failed, OverrunError if its time there was
        over, LimitReachedError if that of the whole tree was, and EnvelopeError if its records are none.
        """
        self.charge(answer.spent.usage(), answer.delegations)
        for record in answer.record_tree():
            self._run.fill(self._run.reserve(), record)
        if answer.status == "finished":
            ids, told = answer.lineage, answer.model_copy(update={"records": ()})  # they are in the run's
            return ChildResponse(answer.text, told, ids.run_id, ids.root_run_id, ids.parent_run_id)
        raise self._problem(answer)

    def charge(self, told: Usage = NO_USAGE, delegations: int = 0) -> None:
        """Take the spending, once, less that of what called back, which was counted as it happened."""
        spent, delegations = _most(told, self._spent), max(delegations, self._delegated)
        self._run.charge(_most(spent - self._run.usage, NO_USAGE), max(0, delegations - self.counted))
        self.counted = max(self.counted, delegations)

    def _problem(self, answer: Answer) -> Exception:
        if answer.status == "refused":
            return DelegationError(answer.text)
        told = RemoteError(answer.text)
        if answer.status != "timed_out":
            return told
        left, took = self.envelope.left_seconds(), float(f"{time.monotonic() - self._began:.2g}")
        late = LimitReachedError("timeout", took) if left is not None and left <= 0 else OverrunError(took)
        late.__cause__ = told
        return late


_out: dict[str, Out] = {}


@contextmanager
def leaving(agent: str, task: str) -> Iterator[Out]:
    """Let a task leave the process as a run: the one that a roster opened for it, or else one below the current one.

    Raises LimitReachedError if nothing is left to spend, UnsendableError if the task is too large or the run's
    ids cannot be sent, and DelegationError if the task has been sent on too often.
    """
    run = active_run()
    identity = run.identity if run is not None else None
    if run is not None and identity is not None and run.adopt(run.depth, identity.parent_run_id):
        with _noted(_sealed(agent, task, run, identity), run) as out:
            yield out
        return
    identity = RunIdentity.root() if identity is None else identity.child()
    with (
        RunScope(depth=0 if run is None else run.depth + 1, agent=agent, identity=identity) as new,
        _noted(_sealed(agent, task, new, identity), new) as out,
    ):
        yield out


def own(envelope: Envelope) -> Out | None:
    """The very call that this is, or claims to be, where it set out from here."""
    return _out.get(envelope.lineage.run_id)


def home(lineage: Lineage) -> Out | None:
    """The call that is out from here and led to another one: the nearest on its way, or the deepest of its tree.

    Of a tree whose root is elsewhere only the way counts: what comes from there need not have been here before.
    """
    for crossing in reversed(lineage.via):
        if crossing != lineage.run_id and crossing in _out:
            return _out[crossing]
    if lineage.run_id in _out:
        return None
    sent = [each for each in list(_out.values()) if each.envelope.lineage.root_run_id == lineage.root_run_id]
    of_tree = [each for each in sent if len(each.envelope.lineage.via) == 1]
    return max(of_tree, key=lambda each: each.depth, default=None)


@contextmanager
def _noted(envelope: Envelope, run: ActiveRun) -> Iterator[Out]:
    key = envelope.lineage.run_id
    out = _out[key] = Out(envelope, run)
    try:
        yield out
    finally:
        out.charge()  # no answer may have come
        if _out.get(key) is out:  # a run that is gone through again is out under the same id
            del _out[key]


def _sealed(agent: str, task: str, run: ActiveRun, identity: RunIdentity) -> Envelope:
    budget, way = run.budget, way_here.get()
    left = Left()
    deadline: float | None = None
    if budget is not None:
        limits = budget.left()
        left = Left(**{name: _sendable(getattr(limits, name)) for name in Left.model_fields})
        deadline = None if limits.timeout is None else min(time.time() + limits.timeout, MOST)
    if len(way) == LONGEST_WAY:
        raise DelegationError(f"the task has left a process {LONGEST_WAY} times on its way here, which is the most")
    lineage = {
        "run_id": identity.run_id,
        "root_run_id": identity.root_run_id,
        "parent_run_id": identity.parent_run_id,
        "via": (*way, identity.run_id),
    }
    fields = {
        "agent": agent,
        "task": task,
        "lineage": lineage,
        "depth": run.depth,
        "max_depth": _sendable(run.max_depth),
        "deadline": deadline,
        "left": left,
    }
    try:
        envelope = checked(Envelope, fields)
        envelope.text_of()  # too much is refused here
    except EnvelopeError as error:
        raise UnsendableError(str(error)) from error
    return envelope


def _sendable(limit: int | None) -> int | None:
    return None if limit is None else min(limit, MOST)


def _most(one: Usage, other: Usage) -> Usage:
    """The larger of each count."""
    return Usage(
        max(one.input_tokens, other.input_tokens),
        max(one.output_tokens, other.output_tokens),
        max(one.model_calls, other.model_calls),
        max(one.tool_calls, other.tool_calls),
    )
