"""Model calls and tool calls as steps of a journal. Loaded for runs that have one."""

from typing import Any

from symfonic.kernel.contracts.journal import Journal
from symfonic.kernel.contracts.messages import ToolCall, current_tool_call
from symfonic.kernel.contracts.model import Model, ModelReply
from symfonic.kernel.contracts.run_identity import current_run_identity
from symfonic.kernel.contracts.text import to_text
from symfonic.kernel.contracts.tool import Tool
from symfonic.kernel.contracts.values import plain
from symfonic.kernel.runtime.conversation import Conversation
from symfonic.kernel.runtime.plan import BadCallError
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

    read = await journal.step(_step("model"), asked)
    calls = tuple(ToolCall(each["id"], each["name"], each["arguments"]) for each in read["tool_calls"])
    return ModelReply(read["text"], calls, read["input_tokens"], read["output_tokens"], read["model"])


async def answer(journal: Journal, tool: Tool, arguments: Any) -> str:
    """What a tool returns, as the text that the model reads. One that delegates is no step: its children have some.

    Raises BadCallError if the arguments do not fit, and what the tool raises.
    """
    if tool.routes:
        try:
            return to_text(await tool.invoke(arguments))
        except (SystemExit, KeyboardInterrupt) as error:  # of a hook: in a task it would end the loop of all runs
            raise RuntimeError(f"it raised {type(error).__name__}") from error

    async def called() -> dict[str, str]:
        try:
            return {"text": to_text(await tool.invoke(arguments))}
        except BadCallError as problem:
            return {"misfit": str(problem)}

    read = await journal.step(_step(f"tool {tool.name}", current_tool_call.get()), called)
    if "misfit" in read:
        raise BadCallError(read["misfit"])
    return str(read["text"])


def _step(what: str, call: str | None = None) -> str:
    """The step's name: runs that go on at once ask for their steps in any order, and none may have another's."""
    identity = current_run_identity()
    return " ".join(each for each in (what, call, identity and identity.run_id) if each)
