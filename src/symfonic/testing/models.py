"""Models played by a script or by a function."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from inspect import isawaitable
from typing import Any, TypeAlias

from symfonic.errors import ConfigurationError, SymfonicError
from symfonic.kernel.contracts.messages import Message, ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.tool import Tool

Reply: TypeAlias = str | ToolCall | Sequence[ToolCall] | BaseException | ModelReply
"""Text, a tool call, several at once, an exception to raise, or a whole `ModelReply`."""


def tool_call(tool: str, /, **arguments: Any) -> ToolCall:
    """A model's call of ``tool``. Its id is given by the model that replies with it."""
    return ToolCall("", tool, arguments)


class ScriptedModel:
    """Replies in the order given; every run starts from the first.

    It keeps no state: how far a run has come is read from its messages. Raises SymfonicError when a run asks for
    more replies than there are, ConfigurationError for what is no reply.
    """

    def __init__(self, *replies: Reply) -> None:
        for reply in replies:
            _check(reply)
        self.replies = replies

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelReply:
        """The next reply."""
        step = _step(messages)
        if step >= len(self.replies):
            raise SymfonicError(
                f"ScriptedModel has {len(self.replies)} replies and was asked for number {step + 1};"
                f" the last message is {messages[-1] if messages else None!r}"
            )
        return _as_reply(self.replies[step], step)


class FunctionModel:
    """Replies with what ``fn(messages, tools)``, sync or async, returns."""

    def __init__(self, fn: Callable[[Sequence[Message], Sequence[Tool]], Reply | Awaitable[Reply]]) -> None:
        self.fn = fn

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelReply:
        """What the function says."""
        reply = self.fn(messages, tools)
        return _as_reply(await reply if isawaitable(reply) else reply, _step(messages))


def _check(reply: Any) -> None:
    calls = reply if isinstance(reply, Sequence) and not isinstance(reply, str) else ()
    if isinstance(reply, str | ToolCall | BaseException | ModelReply) or (calls and _all_calls(calls)):
        return
    raise ConfigurationError(
        f"a reply is text, tool_call(...), a list of those, an exception or a ModelReply; got {reply!r}"
    )


def _all_calls(calls: Sequence[Any]) -> bool:
    return all(isinstance(call, ToolCall) for call in calls)


def _step(messages: Sequence[Message]) -> int:
    return sum(message.role == "assistant" for message in messages)


def _as_reply(reply: Any, step: int) -> ModelReply:
    if isinstance(reply, ModelReply):
        return reply
    if isinstance(reply, BaseException):
        raise reply
    if isinstance(reply, str):
        return ModelReply(reply)
    calls = (reply,) if isinstance(reply, ToolCall) else tuple(reply)
    return ModelReply(
        tool_calls=tuple(
            call if call.id else replace(call, id=f"call_{step + 1}_{number}") for number, call in enumerate(calls, 1)
        )
    )
