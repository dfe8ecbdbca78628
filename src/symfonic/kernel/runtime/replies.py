"""What a model answers, checked: a run goes on with nothing else."""

from collections.abc import Sequence
from typing import Any

from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.text import encodable
from symfonic.kernel.runtime.plan import encodable_value, frozen, frozen_flat

_MOST = 2**63
"""Tokens in a count: what has more bits may be more than Python prints."""


def checked(reply: Any) -> ModelReply:
    """The reply in encodable text, its calls told apart, their arguments copied. Raises TypeError if it is none."""
    if type(reply) is ModelReply and _is_plain(reply):
        if not reply.tool_calls:
            return reply
        text, model = reply.text, reply.model
    else:
        reply = _read_once(reply)
        _check(reply)
        text, model = encodable(reply.text), encodable(reply.model)
    calls = _with_unique_ids(reply.tool_calls) if reply.tool_calls else ()
    return ModelReply(text, calls, reply.input_tokens, reply.output_tokens, model)


def unchangeable(arguments: Any) -> Any:
    """A copy of a call's arguments in encodable text, which nobody can change: they are part of the conversation."""
    try:
        if type(arguments) is not dict:
            return frozen(encodable_value(arguments))
        for key, value in arguments.items():  # what is nearly always sent is a few plain texts
            if not (type(key) is type(value) is str and key.isascii() and value.isascii()):
                return frozen(encodable_value(arguments))
        return frozen_flat(arguments)
    except RecursionError:  # refused like any other text that is no JSON object
        return "(nested too deeply)"


def _is_plain(reply: ModelReply) -> bool:
    """Whether all of it but the calls can be taken as it is, as nearly every reply can."""
    text, model, read, written = reply.text, reply.model, reply.input_tokens, reply.output_tokens
    if not (type(text) is type(model) is str and type(read) is type(written) is int):
        return False
    if type(reply.tool_calls) is not tuple:
        return False
    return text.isascii() and model.isascii() and 0 <= read | written < _MOST  # below it both, or neither


def _read_once(reply: Any) -> ModelReply:
    """The reply itself, or what a subclass says now: what it says later is not what was checked."""
    if not isinstance(reply, ModelReply):
        raise TypeError(f"it returned {type(reply).__name__}, expected ModelReply")
    if type(reply) is ModelReply:
        return reply
    return ModelReply(reply.text, reply.tool_calls, reply.input_tokens, reply.output_tokens, reply.model)


def _check(reply: ModelReply) -> None:
    if not isinstance(reply.text, str):
        raise TypeError(f"its reply's text is {type(reply.text).__name__}, expected str")
    if not isinstance(reply.model, str):
        raise TypeError(f"its reply's model is {type(reply.model).__name__}, expected str")
    if not _is_count(reply.input_tokens) or not _is_count(reply.output_tokens):
        told = (reply.input_tokens, reply.output_tokens)
        raise TypeError(f"its reply counts {told!r} tokens, expected an int >= 0 for each")
    if not isinstance(reply.tool_calls, Sequence):  # a generator would be empty once it was looked at
        raise TypeError(f"its reply's tool_calls are {type(reply.tool_calls).__name__}, expected a tuple")


def _is_count(tokens: Any) -> bool:
    """Less than none would give budget back."""
    return type(tokens) is int and 0 <= tokens < _MOST


def _with_unique_ids(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls in encodable text, and ids told apart where a model repeated or left out one."""
    seen: set[str] = set()
    unique = []
    for number, call in enumerate(calls, 1):
        if not isinstance(call, ToolCall):
            raise TypeError(f"its reply has {call!r} for a tool call, expected ToolCall")
        call_id, name, arguments = call.id, call.name, call.arguments
        if not isinstance(name, str) or not isinstance(call_id, _TEXT_OR_NONE):
            raise TypeError(f"its reply has {call!r} for a tool call, expected text for id and name")
        call_id, name = encodable(call_id or f"call_{number}"), encodable(name)
        while call_id in seen:
            call_id = f"{call_id}_{number}"
        seen.add(call_id)
        unique.append(ToolCall(call_id, name, unchangeable(arguments)))
    return tuple(unique)


_TEXT_OR_NONE = (str, type(None))
