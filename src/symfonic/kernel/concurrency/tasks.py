"""Tasks that are waited for, whatever happens.

`asyncio.TaskGroup` cancels once and then waits for ever for a task that swallowed it, and one failing task ends its
siblings. Here every task gets its own outcome, and one that swallowed a cancellation is cancelled again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")

_log = logging.getLogger("symfonic.runtime")

FIRST_PAUSE, LONGEST_PAUSE, MOST_ROUNDS = 0.5, 5.0, 20
"""Seconds between cancellations of a task that goes on (doubling), and how many there are before it is left.

A task that cleans up cannot be told from one that swallowed its cancellation: the first pause is what it has for that.
"""


async def run_together(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T | asyncio.CancelledError]:
    """Run every call in a task of its own and return their results in order.

    A call that cancelled itself has the CancelledError for its result. If this is cancelled, every call is
    cancelled and waited for before the cancellation goes on. Raises the first exception that escapes a call,
    once all have ended.
    """
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(call) for call in calls]
    try:
        await _all_done(loop, tasks)
    except asyncio.CancelledError:
        await put_down(tasks)
        raise
    finally:
        for task in tasks:  # none, but where this was closed and cannot wait
            task.cancel()
    failed = [task for task in tasks if not task.cancelled() and task.exception() is not None]
    _log_errors(failed[1:])
    return [_outcome(task) for task in tasks]


class OverrunError(Exception):
    """Work was ended because its ``seconds`` were over."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"not finished within {seconds:g} s")


async def run_within(seconds: float, work: Awaitable[T]) -> T:
    """The result of ``work``, which is cancelled and waited for when its time is over.

    Raises OverrunError then, else what ``work`` raises.
    """
    task = asyncio.get_running_loop().create_task(_awaited(work))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
    except asyncio.CancelledError:
        await put_down([task])
        raise
    if done:
        return task.result()
    await put_down([task])
    raise OverrunError(seconds)


async def finish_within(work: Awaitable[Any], seconds: float) -> bool:
    """Whether ``work`` ended in time; if not it is cancelled, and left after a short grace.

    Raises what ``work`` raises; a cancellation of its own making as a RuntimeError.
    """
    task = asyncio.get_running_loop().create_task(_awaited(work))
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            task.cancel()
            await asyncio.wait({task}, timeout=FIRST_PAUSE)
            _log_errors([task])
            return False
    except asyncio.CancelledError:
        await put_down([task])
        raise
    if task.cancelled():
        raise RuntimeError("it cancelled itself")
    task.result()
    return True


async def put_down(tasks: Iterable["asyncio.Task[Any]"]) -> None:
    """Cancel the tasks, again where one goes on regardless, and wait for them.

    A task that outlasts every round is logged and left: nothing can end it, and waiting for ever would only
    lose the rest as well. Raises CancelledError at the end if this was itself cancelled meanwhile.
    """
    tasks = list(tasks)
    pending = [task for task in tasks if not task.done()]
    cancelled: asyncio.CancelledError | None = None
    loop = asyncio.get_running_loop()
    pause = FIRST_PAUSE
    for _ in range(MOST_ROUNDS):
        if not pending:
            break
        for task in pending:
            task.cancel()
        until = loop.time() + pause
        while pending and (left := until - loop.time()) > 0:
            try:
                await asyncio.wait(pending, timeout=left)
            except asyncio.CancelledError as again:  # some hosts do so all the time; what is below has its pause
                cancelled = again
            pending = [task for task in pending if not task.done()]
        pending = [task for task in pending if not task.done()]
        pause = min(2 * pause, LONGEST_PAUSE)
    _log_errors(tasks)
    if pending:
        _log.error("%s: left %d task(s) that ignore cancellation: %s", _run(), len(pending), pending)
    if cancelled is not None:
        raise cancelled


async def self_cancelled() -> None:
    """Raise the cancellation of this task that was asked for and has not arrived yet, if there is one.

    A child that cancels its own task and returns at once has not delivered: the task is going away.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        await asyncio.sleep(0)


async def _awaited(work: Awaitable[T]) -> T:
    return await work


async def _all_done(loop: asyncio.AbstractEventLoop, tasks: "Sequence[asyncio.Task[Any]]") -> None:
    if not tasks:
        return
    finished = loop.create_future()
    running = len(tasks)

    def count(_: "asyncio.Task[Any]") -> None:
        nonlocal running
        running -= 1
        if not running and not finished.done():
            finished.set_result(None)

    for task in tasks:
        task.add_done_callback(count)
    await finished


def _outcome(task: "asyncio.Task[T]") -> T | asyncio.CancelledError:
    try:
        return task.result()
    except asyncio.CancelledError as cancelled:
        return cancelled


def _log_errors(tasks: "Iterable[asyncio.Task[Any]]") -> None:
    """Log what nobody raises, now; the loop would, whenever the task is collected."""
    for task in tasks:
        if task.done() and not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("%s: a task given up, or with failing siblings, raised %r", _run(), error, exc_info=error)


def started(work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
    """A task that its caller puts down. For a run that is read while it goes on; everything else is waited for."""
    return asyncio.get_running_loop().create_task(work)


def _run() -> str:
    from symfonic.kernel.contracts.run_identity import current_run_identity

    return str(current_run_identity() or "outside any run")
