"""Agents of smolagents for tests, with a model of theirs that replies by a script."""

from typing import Any

from smolagents import CodeAgent, LogLevel, MessageRole, Model, TokenUsage, ToolCallingAgent, tool
from smolagents.models import ChatMessage, ChatMessageToolCall, ChatMessageToolCallFunction


class Says(Model):  # type: ignore[misc]
    """Replies in order: text, lists of (tool, arguments), or what it raises; every run from the first."""

    def __init__(self, *replies: Any) -> None:
        super().__init__(model_id="scripted")
        self.replies = replies
        self.seen: list[Any] = []

    def generate(self, messages: list[Any], stop_sequences: Any = None, **_: Any) -> ChatMessage:
        self.seen.append(messages)
        said = self.replies[sum(each.role == MessageRole.TOOL_RESPONSE for each in messages)]
        if isinstance(said, BaseException):
            raise said
        calls = None if isinstance(said, str) else [
            ChatMessageToolCall(ChatMessageToolCallFunction(arguments, name), f"call-{number}", "function")
            for number, (name, arguments) in enumerate(said)
        ]  # fmt: skip
        text = said if isinstance(said, str) else None
        return ChatMessage(MessageRole.ASSISTANT, text, calls, token_usage=TokenUsage(10, 3))


def answer(value: Any) -> list[Any]:
    return [("final_answer", {"answer": value})]


def theirs(*replies: Any, tools: Any = (), **settings: Any) -> ToolCallingAgent:
    return ToolCallingAgent(list(tools), Says(*replies), verbosity_level=LogLevel.OFF, **settings)


def coder(*replies: str, tools: Any = (), **settings: Any) -> CodeAgent:
    return CodeAgent(list(tools), Says(*replies), verbosity_level=LogLevel.OFF, **settings)


def code(line: str) -> str:
    return f"Thought: so.\n<code>\n{line}\n</code>"


@tool  # type: ignore[untyped-decorator]
def note(text: str) -> str:
    """Note something.

    Args:
        text: What.
    """
    return text


def calling(function: Any) -> ToolCallingAgent:
    return theirs([(function.__name__, {})], answer("done"), tools=[tool(function)])
