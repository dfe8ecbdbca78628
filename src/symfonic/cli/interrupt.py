"""Ctrl-C, or SIGTERM, while something is on: the first cancels it, the second gives up waiting for it."""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class InterruptedRunError(Exception):
    """The run was cancelled by Ctrl-C."""


SIGINT, SIGTERM = signal.SIGINT, signal.SIGTERM


def run_interruptibly(work: Coroutine[Any, Any, T], signals: tuple[signal.Signals, ...] = (SIGINT,)) -> T:
    """Run ``work`` to its end. At the first SIGINT, or other one of ``signals``, it is cancelled and waited for.

    Raises InterruptedRunError then, and KeyboardInterrupt at a second one, which leaves the loop as it is: to
    close it would be to wait for what will not be cancelled. The signal is heeded also where a shell started the
    process in the background and had it ignored: whoever sends it means it.
    """
    runner = asyncio.Runner()
    loop = runner.get_loop()
    task = loop.create_task(work)
    heard = False

    def interrupt(number: int, frame: FrameType | None) -> None:
        nonlocal heard
        if heard:
            raise KeyboardInterrupt
        heard = True
        loop.call_soon_threadsafe(task.cancel)

    with _heeded(signals, interrupt):
        try:
            result = loop.run_until_complete(task)
            runner.close()
        except (Exception, asyncio.CancelledError) as error:
            runner.close()
            if heard:
                raise InterruptedRunError from error
            raise
    return result


@contextmanager
def _heeded(signals: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # no other thread may ask for signals
        yield
        return
    previous = {each: signal.signal(each, handler) for each in signals}
    try:
        yield
    finally:
        for each, handled in previous.items():
            signal.signal(each, handled)
