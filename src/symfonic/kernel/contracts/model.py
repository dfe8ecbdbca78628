"""The port behind which every language model stands."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.messages import Message, ToolCall
from symfonic.kernel.contracts.tool import Tool


@fact
class ModelReply:
    """What a model answers: text, tool calls, or both, and the tokens it took.

    A reply without tool calls ends the run; its text is the answer. ``model`` says what answered, for whoever prices
    it: ``PROVIDER:NAME``, or ``https://HOST/NAME`` for a server known by its address; blank where nobody knows.
    """

    text: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    input_tokens: int = 0
    output_tokens: int = 0
    model: str = ""


@runtime_checkable
class Model(Protocol):
    """Anything that continues a conversation.

    One object serves any number of runs at once, so it keeps nothing between calls: all it may use is what
    it is given. ``tools`` are offered, not to be invoked here.
    """

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelReply:
        """Continue the conversation. Raises whatever means that no reply can be had."""
        ...
