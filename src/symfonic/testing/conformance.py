"""The contract test that every kind of child runs, ours and yours."""

import asyncio
from collections.abc import Callable
from typing import Any

from symfonic.capabilities.delegation.capability import DelegationCapability
from symfonic.capabilities.delegation.contracts import DelegationOutcome, DelegationRecord, PrebuiltChild
from symfonic.kernel.concurrency.tasks import finish_within, run_together
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope

PATIENCE = 10.0
"""Seconds that a child has to answer, and to end after it was cancelled."""


async def check_child_runner(make: Callable[[], Any], *, make_failing: Callable[[], Any] | None = None) -> None:
    """Check that what ``make()`` returns is a child: adopted, answering, bounded, isolated, and cancellable.

    ``make`` returns a new child that answers any task with some text; ``make_failing`` one that raises an
    Exception. Raises ChildDeclarationError if the child cannot be adopted, and AssertionError with a sentence
    for every other part of the contract that it breaks.
    """
    before = asyncio.all_tasks()
    try:
        async with asyncio.timeout(PATIENCE):
            await _answers(make)
            await _answers_at_once(make)
    except TimeoutError as error:
        raise AssertionError(f"a child must answer within {PATIENCE:g} s") from error
    await _is_bounded(make)
    await _is_cancellable(make)
    if make_failing is not None:
        record = await _capability(make_failing()).tools.delegate("child", "fail")
        _must(
            record.outcome is DelegationOutcome.CHILD_FAILED, f"a child that raises must fail as a value, got {record}"
        )
        _must(
            isinstance(record.trace and record.trace.error, Exception), "the original exception must be on the record"
        )
    _must(current_run_identity() is None, "the run's identity must be restored after the child has ended")
    _must(asyncio.all_tasks() <= before, f"the child left tasks behind: {asyncio.all_tasks() - before}")


async def _answers(make: Callable[[], Any]) -> None:
    capability, root = _capability(make()), RunIdentity.root()
    with run_identity_scope(root):
        async with capability.run_scope(depth=0) as run:
            records = [await capability.tools.delegate("child", task) for task in ("say hello", "say it again")]
    for record in records:
        _must(record.delivered, f"a child must answer, also the second time: {record.message}")
        _must(record.depth == 1, f"a child of a root run must be at depth 1, got {record.depth}")
        child = record.trace.child if record.trace else None
        _must(
            child is not None and child.parent_run_id == root.run_id, f"the child's parent must be its caller: {child}"
        )
    _must(run.delegated == ("child", "child"), f"every delivery must be counted once, got {run.delegated}")


async def _answers_at_once(make: Callable[[], Any]) -> None:
    tools = _capability(make()).tools
    records: list[DelegationRecord] = []

    async def one(number: int) -> None:
        records.append(await tools.delegate("child", f"task {number}"))

    async with asyncio.TaskGroup() as group:
        for number in range(4):
            group.create_task(one(number))
    _must(all(record.delivered for record in records), f"one child must serve several calls at once: {records}")
    ids = {record.trace.child.run_id for record in records if record.trace and record.trace.child}
    _must(len(ids) == len(records), "every call must be a run with an id of its own")


async def _is_bounded(make: Callable[[], Any]) -> None:
    record = await _capability(make(), max_depth=0).tools.delegate("child", "never")
    _must(record.outcome is DelegationOutcome.REFUSED_DEPTH, f"at the ceiling a child must be refused, got {record}")


async def _is_cancellable(make: Callable[[], Any]) -> None:
    tools = _capability(make()).tools
    running: list[asyncio.Task[Any] | None] = []
    ended: list[Any] = []

    async def run() -> Any:
        running.append(asyncio.current_task())
        return await tools.delegate("child", "be cancelled")

    async def cancel() -> bool:
        return any(task is not None and task.cancel() for task in running)

    async def both() -> None:
        ended.extend(await run_together([run(), cancel()]))

    _must(await finish_within(both(), PATIENCE), f"a cancelled child must end, and did not in {PATIENCE:g} seconds")
    record, was_cancelled = ended
    _must(
        not was_cancelled or isinstance(record, asyncio.CancelledError),
        f"a cancelled child must let the cancellation pass, and ended with {record} instead",
    )


def _capability(child: Any, max_depth: int = 2) -> DelegationCapability:
    return DelegationCapability.declare([PrebuiltChild("child", child, "The child under test.")], max_depth=max_depth)


def _must(holds: object, otherwise: str) -> None:
    if not holds:
        raise AssertionError(otherwise)
