"""Ctrl-C, while a run is on: the first cancels the tree, the second ends the process's patience."""

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Interrupted(Exception):
    """The run was cancelled by Ctrl-C."""


def run_interruptibly(work: Coroutine[Any, Any, T], cancelling: Callable[[], None]) -> T:
    """Run ``work`` to its end. At the first SIGINT ``cancelling`` is told, and ``work`` is cancelled and waited for.

    Raises Interrupted then, and KeyboardInterrupt at a second SIGINT. The signal is heeded also where a shell
    started the process in the background and had it ignored: whoever sends it means it.
    """
    with asyncio.Runner() as runner:
        loop = runner.get_loop()
        task = loop.create_task(work)
        heard = False

        def interrupt(number: int, frame: FrameType | None) -> None:
            nonlocal heard
            if heard:
                raise KeyboardInterrupt
            heard = True
            cancelling()
            loop.call_soon_threadsafe(task.cancel)

        ours = threading.current_thread() is threading.main_thread()
        previous = signal.signal(signal.SIGINT, interrupt) if ours else None
        try:
            return runner.run(_outcome(task))
        except asyncio.CancelledError:
            if heard:
                raise Interrupted from None
            raise
        finally:
            if ours:
                signal.signal(signal.SIGINT, previous)


async def _outcome(task: "asyncio.Task[T]") -> T:
    with suppress(BaseException):
        await asyncio.wait([task])
    return task.result()
