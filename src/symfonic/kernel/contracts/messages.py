"""What is said in a run: messages, tool calls, and what they cost."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Literal

from symfonic.kernel.contracts.facts import fact

Role = Literal["system", "user", "assistant", "tool"]


@fact
class ToolCall:
    """A model's wish to call a tool.

    ``arguments`` is the parsed object, or the model's raw text, which the runtime parses. ``id`` is unique
    within its reply; the runtime sees to that.
    """

    id: str
    name: str
    arguments: Mapping[str, Any] | str


@fact
class Message:
    """One message of a conversation.

    An assistant's message may carry ``tool_calls``; a tool's answers the one whose id is ``tool_call_id``,
    and names the tool in ``name``.
    """

    role: Role
    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None


@fact
class Usage:
    """What was spent: tokens, and calls made (failed ones count). Values add up."""

    input_tokens: int = 0
    output_tokens: int = 0
    model_calls: int = 0
    tool_calls: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.model_calls + other.model_calls,
            self.tool_calls + other.tool_calls,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            self.model_calls - other.model_calls,
            self.tool_calls - other.tool_calls,
        )


NO_USAGE = Usage()


def total(parts: Sequence[Usage]) -> Usage:
    """What the parts come to. A list that another thread is appending to may be given."""
    if len(parts) <= 1:
        return parts[0] if parts else NO_USAGE
    inputs = outputs = models = tools = 0
    for part in parts:
        inputs += part.input_tokens
        outputs += part.output_tokens
        models += part.model_calls
        tools += part.tool_calls
    return Usage(inputs, outputs, models, tools)


current_tool_call: ContextVar[str | None] = ContextVar("symfonic_tool_call", default=None)
"""The id of the model's tool call that this code carries out, or None outside any."""
