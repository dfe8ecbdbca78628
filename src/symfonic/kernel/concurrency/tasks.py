"""Tasks that are waited for, whatever happens.

`asyncio.TaskGroup` cancels once and then waits for ever for a task that swallowed it, and one failing task ends its
siblings. Here every task gets its own outcome, and one that swallowed a cancellation is cancelled again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Coroutine, Iterable, Sequence
from contextvars import Context
from typing import Any, TypeVar

from symfonic.errors import OverrunError
from symfonic.kernel.concurrency.awaitables import clocked_code

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
    calls = tuple(calls)
    if not calls:
        return []
    loop = asyncio.get_running_loop()
    group = _Group(loop.create_future(), len(calls))
    tasks = []
    for call in calls:  # no comprehension: its cells would live as long as the tasks
        task = loop.create_task(group.member(call))
        task.add_done_callback(group.ended)
        tasks.append(task)
    try:
        await group.finished
        for task in tasks:
            if not task.done():  # a task factory of the loop's may have made it longer than its call
                await asyncio.wait(tasks)
    except asyncio.CancelledError:
        await put_down(tasks)
        raise
    finally:
        for task, call in zip(tasks, calls, strict=True):
            if not task.done():  # this was closed, and cannot wait
                task.cancel()
            else:
                call.close()  # it may never have begun
    return _outcomes(tasks)


class _Group:
    """What tells when all of some tasks have ended.

    The last one says so itself: a callback would be heard one round of the loop later. A callback stands in for a task
    that never gets to it, being cancelled before its first step or ended by a task factory of the loop's.
    """

    __slots__ = ("_running", "finished")

    def __init__(self, finished: "asyncio.Future[None]", size: int) -> None:
        self.finished = finished
        self._running = size

    async def member(self, call: Coroutine[Any, Any, T]) -> T:
        try:
            return await call
        finally:
            task = asyncio.current_task()
            if task is not None and task.remove_done_callback(self.ended):
                self.ended(task)

    def ended(self, _: "asyncio.Task[Any]") -> None:
        self._running -= 1
        if not self._running and not self.finished.done():
            self.finished.set_result(None)


async def run_within(seconds: float, work: Awaitable[T], late: Exception | None = None) -> T:
    """The result of ``work``, which is cancelled and waited for when its time is over.

    Raises ``late`` then, or an OverrunError, else what ``work`` raises. An answer that came too late, since the work
    blocked the loop and the clock with it, is not heard.
    """
    loop = asyncio.get_running_loop()
    until, ended = loop.time() + seconds, []

    async def clocked() -> T:
        clocked_code.set(True)
        try:
            return await _awaited(work)
        finally:
            ended.append(loop.time())

    task = loop.create_task(clocked())
    try:
        done, _ = await asyncio.wait({task}, timeout=seconds)
        if not done:
            await put_down([task])
    except asyncio.CancelledError:
        await put_down([task])
        raise
    finally:
        _leave(task, work)
    if done and not (ended and ended[0] > until):
        return task.result()
    if done:
        _log_errors([task])
    raise OverrunError(seconds) if late is None else late


async def run_inside(context: Context, work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``, done in this context. Raises what it raises, a cancellation of its own as well."""
    task = asyncio.get_running_loop().create_task(work, context=context)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        await put_down([task])
        raise
    finally:
        _leave(task, work)
    return task.result()


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
    finally:
        _leave(task, work)
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


def cancellation_is_due() -> bool:
    """Whether this task was cancelled and does not know it yet: the next time it waits it will.

    A child that cancels its own task and returns at once has not delivered: the task is going away.
    """
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _leave(task: "asyncio.Task[Any]", work: Awaitable[Any]) -> None:
    """See a task out that has ended, or one that is still there because its waiter was closed and cannot wait."""
    if task.done():
        _close_unbegun(task, work)
    else:
        task.cancel()
        task.add_done_callback(lambda task: _close_unbegun(task, work))


def _close_unbegun(task: "asyncio.Task[Any]", work: Awaitable[Any]) -> None:
    """A task that was cancelled before its first step has not begun its work, which nobody else will await."""
    if task.cancelled() and isinstance(work, Coroutine):
        work.close()


async def _awaited(work: Awaitable[T]) -> T:
    return await work


def _outcomes(tasks: "Sequence[asyncio.Task[T]]") -> list[T | asyncio.CancelledError]:
    """The results; the first exception is raised, and any other one logged."""
    results: list[T | asyncio.CancelledError] = []
    for number, task in enumerate(tasks):
        try:
            results.append(task.result())
        except asyncio.CancelledError as cancelled:
            results.append(cancelled)
        except BaseException:
            _log_errors(tasks[number + 1 :])
            raise
    return results


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
