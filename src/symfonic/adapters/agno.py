"""Agents and teams of agno as children."""

import asyncio
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from types import TracebackType
from typing import Any

from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import LimitReachedError, SymfonicError
from symfonic.kernel.concurrency.tasks import put_down
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.text import to_text

_REPLY = "assistant"


def adopt(name: str, child: Any) -> "AgnoChild | None":
    """The agent or team behind the runner contract; None for what is no instance of their ``Agent`` or ``Team``."""
    kinds = import_module("agno.agent").Agent, import_module("agno.team").Team
    return AgnoChild(name, child) if isinstance(child, kinds) else None


class AgnoChild:
    """An agent or a team of theirs. The run's content is the answer: text as it is, any other value as JSON.

    The whole ``RunOutput`` or ``TeamRunOutput`` is kept. Every delegation is a run of its own, and they do not wait for
    each other. Its session is the scope's ``session_id`` (a key or an attribute), else the one that the agent was given
    before, else a new one; its user is the scope's ``user_id``, else the agent's.
    """

    __slots__ = ("_name", "_session", "agent")

    def __init__(self, name: str, agent: Any) -> None:
        self._name = name
        self._session: str | None = agent.session_id
        self.agent: Any = agent

    async def run(self, query: str) -> ChildResponse:
        """Run it. Raises what it raises, and SymfonicError where its run did not complete."""
        run = active_run()
        scope = run.scope if run is not None else None
        if run is not None:
            run.admit_model_call()
        session = _named(scope, "session_id") or self._session or str(uuid.uuid4())
        user = _named(scope, "user_id")
        try:
            output = await self.agent.arun(query, stream=False, session_id=session, user_id=user)
        except asyncio.CancelledError as cancelled:
            await _end_what_it_left(cancelled)
            raise
        if run is not None:
            _count(run, output)
        words = _words(output)
        if words is not None:
            raise SymfonicError(words)
        return ChildResponse("" if output.content is None else to_text(output.content), output)


def _named(scope: Any, name: str) -> str | None:
    value = scope.get(name) if isinstance(scope, Mapping) else getattr(scope, name, None)
    return None if value is None or value == "" else str(value)


# ------------------------------------------------------------------------------------------------------- cancellation


async def _end_what_it_left(cancelled: asyncio.CancelledError) -> None:
    """Cancel the members of a cancelled team and wait for them: theirs would let them work on, with nobody to hear.

    They are found where the cancellation met those that wait for them, and so are the members of teams among them.
    """
    left = set(_tasks_of_theirs(cancelled.__traceback__))
    if left:
        await put_down(left)
    for task in left:
        try:
            task.result()
        except asyncio.CancelledError as below:
            await _end_what_it_left(below)
        except Exception:  # noqa: S112 - nobody waits for what became of it
            continue


def _tasks_of_theirs(trace: TracebackType | None) -> Iterator["asyncio.Task[Any]"]:
    while trace is not None:
        frame, trace = trace.tb_frame, trace.tb_next
        if not str(frame.f_globals.get("__name__")).startswith("agno."):
            continue
        for value in frame.f_locals.values():
            for each in value if isinstance(value, list | tuple | set) else (value,):
                if isinstance(each, asyncio.Task) and not each.done():
                    yield each


# --------------------------------------------------------------------------------------------------------------- usage


def _count(run: ActiveRun, output: Any) -> None:
    """Count what a run of theirs has spent, which is known when it has ended; its first model call was admitted."""
    usage = Usage()
    for each in _runs(output):
        usage += _usage(each)
    run.spend(usage)
    with suppress(LimitReachedError):  # the answer is there; whoever wants another call is refused
        for _ in range(usage.model_calls - 1):
            run.admit_model_call()


def _runs(output: Any) -> Iterator[Any]:
    """The run, and those of a team's members, which its own metrics leave out."""
    yield output
    for member in getattr(output, "member_responses", None) or ():
        yield from _runs(member)


def _usage(output: Any) -> Usage:
    """Tokens as its metrics say; a model call for each reply of this run, and for one that it still waited for."""
    metrics, said = output.metrics, [each for each in output.messages or () if not each.from_history]
    replies = sum(each.role == _REPLY for each in said)
    failed = _status(output) == "ERROR" and bool(said) and said[-1].role != _REPLY
    tools = sum(1 for each in said for _ in each.tool_calls or ())
    tokens = (metrics.input_tokens or 0, metrics.output_tokens or 0) if metrics is not None else (0, 0)
    return Usage(*tokens, model_calls=replies + failed, tool_calls=tools)


# ---------------------------------------------------------------------------------------------------- how a run ended


def _status(output: Any) -> str:
    return str(getattr(output.status, "value", output.status))


def _words(output: Any) -> str | None:
    """Why a run gave no answer, None where it did: theirs return it, with the error's text for its content."""
    status, content = _status(output), "" if output.content is None else to_text(output.content)
    if status == "COMPLETED":
        return None
    if status == "PAUSED":
        waits_for = ", ".join(_call(each) for each in output.tools or () if each.is_paused)
        return f"it waits for what nobody here can give it: {waits_for or content or 'an answer'}"
    if status == "ERROR":
        return f"its run ended in an error: {content}" if content.strip() else "its run ended in an error without words"
    return f"its run ended as {status}" + (f": {content}" if content.strip() else "")


def _call(tool: Any) -> str:
    if tool.requires_confirmation:
        what = "a confirmation of"
    else:
        what = "input for" if tool.requires_user_input else "a result from outside of"
    return f"{what} {tool.tool_name}({to_text(tool.tool_args or {})})"
