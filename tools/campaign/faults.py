"""What children do wrong."""

import asyncio
import contextvars
import threading
from typing import Any

from tools.campaign.trees import Act, Node
from tools.campaign.world import CONTEXT, World

from symfonic.capabilities.delegation.errors import UnknownChildError
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.run_identity import current_run_identity

ANSWER = "an answer of more than sixty characters, so that a limit of its length shows: {}"


class WordlessError(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


async def meet(world: World, node: Node, act: Act) -> str:
    """Meet the fault of a node: return its answer, raise, or take one's time over it. Rubbish is the caller's."""
    world.hit(act.fault, node)
    if act.fault == "raise":
        raise _error(act.flavour)
    if act.fault == "group":
        raise _group(act.flavour)
    if act.fault == "hang":
        await world.hang(node)
    if act.fault == "cancel":
        await _cancel_self(act.flavour)
    if act.fault == "swallow":
        await _swallow(world, node, act.flavour)
    if act.fault == "thread":
        return await _in_thread(act.flavour, world, node)
    if act.flavour % 3:
        await asyncio.sleep(0)
    return ANSWER.format(node.name)


def _error(flavour: int) -> Exception:
    errors = (
        ValueError("no"),
        RuntimeError(""),
        TimeoutError("its own"),
        UnknownChildError("elsewhere"),
        WordlessError(),
        KeyError("key"),
        StopAsyncIteration(),
        OSError("https://name:secret@host.invalid/ is gone"),
    )
    return errors[flavour % len(errors)]


def _group(flavour: int) -> BaseException:
    if flavour % 8 == 0:
        return BaseExceptionGroup("some were cancelled", [asyncio.CancelledError(), ValueError("no")])
    return ExceptionGroup("several", [ValueError("one"), ExceptionGroup("inner", [TimeoutError("two"), KeyError(3)])])


async def _cancel_self(flavour: int) -> None:
    if flavour % 3 == 0:
        raise asyncio.CancelledError
    task = asyncio.current_task()
    if task is not None:
        task.cancel()
    if flavour % 3 == 1:
        await asyncio.sleep(0)  # else it answers, and the cancellation is still to arrive


async def _swallow(world: World, node: Node, flavour: int) -> None:
    """Go on after one cancellation; a foreign child may even go on waiting for the next."""
    try:
        await world.hang(node)
    except asyncio.CancelledError:
        if node.kind == "foreign" and flavour % 2:
            await world.hang(node)


async def _in_thread(flavour: int, world: World, node: Node) -> str:
    identity, run = current_run_identity(), CONTEXT.active_run()

    def work() -> str:
        if current_run_identity() != identity or CONTEXT.active_run() is not run:
            world.complain(f"a thread of {node.name} does not see its run")
        if flavour % 4 == 0:
            raise OSError("the thread failed")
        return ANSWER.format(node.name)

    if flavour % 2:
        return await asyncio.to_thread(work)
    loop = asyncio.get_running_loop()
    result: asyncio.Future[str] = loop.create_future()
    context = contextvars.copy_context()

    def settle(answer: str, error: Exception | None) -> None:
        if not result.done():
            result.set_result(answer) if error is None else result.set_exception(error)

    def body() -> None:
        answer, failed = "", None
        try:
            answer = context.run(work)
        except Exception as error:
            failed = error
        try:
            loop.call_soon_threadsafe(settle, answer, failed)
        except RuntimeError:  # a loop of a thread, which has gone
            return

    thread = threading.Thread(target=body, name="campaign", daemon=True)
    world.threads.append(thread)
    thread.start()
    return await result


class _Awkward:
    @property
    def final_response(self) -> str:
        raise LookupError("nothing to read")


class _Later:
    def __init__(self) -> None:
        async def text() -> str:
            return "later"

        self.final_response = text()

    def __del__(self) -> None:
        self.final_response.close()


def rubbish(flavour: int) -> Any:
    """What a foreign child must not return, and some things that it may."""
    made = (
        lambda: None,
        lambda: 42,
        lambda: ChildResponse(""),
        lambda: ChildResponse(" \n"),
        lambda: ChildResponse({"a": [1, None]}),  # type: ignore[arg-type]
        lambda: ChildResponse(b"bytes"),  # type: ignore[arg-type]
        lambda: ChildResponse("\ud800 broken"),
        lambda: ChildResponse(object()),  # type: ignore[arg-type]
        _Awkward,
        _Later,
        lambda: "just text",
        lambda: ChildResponse("text", None, 7, True, "elsewhere"),  # type: ignore[arg-type]
    )
    return made[flavour % len(made)]()


def bad_reply(flavour: int) -> Any:
    """What a model must not reply."""
    return (42, None, ModelReply(5), ModelReply("", (3,)), ModelReply("x", (), "many"), [])[flavour % 6]  # type: ignore[arg-type]
