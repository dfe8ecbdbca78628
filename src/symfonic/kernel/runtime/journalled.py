"""Model calls and tool calls as steps of a journal. Loaded for runs that have one."""

from typing import Any

from symfonic.kernel.contracts.journal import Journal
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import Model, ModelReply
from symfonic.kernel.contracts.text import to_text
from symfonic.kernel.contracts.tool import Tool
from symfonic.kernel.contracts.values import plain
from symfonic.kernel.runtime.conversation import Conversation
from symfonic.kernel.runtime.replies import checked


async def reply(journal: Journal, model: Model, messages: Conversation, offered: tuple[Tool, ...]) -> ModelReply:
    """What the model answers, or answered when it was asked this before."""

    async def asked() -> dict[str, Any]:
        said = checked(await model.complete(messages, offered))
        calls = [{"id": each.id, "name": each.name, "arguments": plain(each.arguments)} for each in said.tool_calls]
        return {
            "text": said.text,
            "tool_calls": calls,
            "input_tokens": said.input_tokens,
            "output_tokens": said.output_tokens,
            "model": said.model,
        }

    read = await journal.step("model", asked)
    calls = tuple(ToolCall(each["id"], each["name"], each["arguments"]) for each in read["tool_calls"])
    return ModelReply(read["text"], calls, read["input_tokens"], read["output_tokens"], read["model"])


async def answer(journal: Journal, tool: Tool, arguments: Any) -> str:
    """What a tool returns, as the text that the model reads. One that delegates is no step: its children have some."""
    if tool.routes:
        return to_text(await tool.invoke(arguments))

    async def called() -> str:
        return to_text(await tool.invoke(arguments))

    return str(await journal.step(f"tool {tool.name}", called))
