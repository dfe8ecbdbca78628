"""Agents of agent-framework for tests, with a chat client that replies by a script."""

import asyncio
import json
from typing import Any

from agent_framework import (
    Agent,
    AgentResponse,
    BaseAgent,
    BaseChatClient,
    ChatMiddlewareLayer,
    ChatResponse,
    ChatResponseUpdate,
    Content,
    FunctionInvocationLayer,
    Message,
    tool,
)

from symfonic.adapters.agent_framework import as_agent_framework_tools

TOKENS = {"input_token_count": 7, "output_token_count": 3, "total_token_count": 10}


class Replies(BaseChatClient):
    """Replies in order: text, lists of contents, or what it raises. Keeps what it was sent."""

    def __init__(self, *, replies: Any, again: bool = False, **settings: Any) -> None:
        super().__init__(**settings)
        self.replies = list(replies)
        self.again = again
        self.sent: list[list[str]] = []
        self.options: list[Any] = []

    def _inner_get_response(self, *, messages: Any, stream: bool, options: Any, **_: Any) -> Any:
        if not stream:
            return self._reply(messages, options)
        return self._build_response_stream(self._pieces(messages, options))

    async def _pieces(self, messages: Any, options: Any) -> Any:
        reply = await self._reply(messages, options)
        yield ChatResponseUpdate(role="assistant", contents=reply.messages[0].contents)

    async def _reply(self, messages: Any, options: Any) -> Any:
        self.sent.append([each.text for each in messages if each.text])
        self.options.append(options)
        said = self.replies[0] if self.again else self.replies.pop(0)
        await asyncio.sleep(0)
        if isinstance(said, BaseException):
            raise said
        contents = [Content.from_text(said)] if isinstance(said, str) else list(said)
        return ChatResponse(
            messages=[Message("assistant", contents)],
            usage_details=dict(TOKENS),
            response_format=options.get("response_format"),
        )


class Says(FunctionInvocationLayer, ChatMiddlewareLayer, Replies):
    """A client as those of providers are: with tools, and with middleware."""


class Remote(BaseAgent):
    """An agent of theirs with nothing inside that could be seen."""

    def __init__(self, reply: Any = "Hallo", **settings: Any) -> None:
        super().__init__(**settings)
        self.reply = reply

    async def run(self, messages: Any = None, *, session: Any = None, **_: Any) -> Any:
        if isinstance(self.reply, BaseException):
            raise self.reply
        if isinstance(self.reply, AgentResponse):
            return self.reply
        return AgentResponse(messages=[Message("assistant", [self.reply])], usage_details=dict(TOKENS))


def uses(name: str, call_id: str = "call-1", /, **arguments: Any) -> Content:
    return Content.from_function_call(call_id, name, arguments=json.dumps(arguments))


def asks(name: str, task: str = "go", call_id: str = "call-1") -> Content:
    return uses("run_agent", call_id, name=name, task=task)


def theirs(*replies: Any, again: bool = False, **settings: Any) -> Any:
    settings.setdefault("name", "theirs")
    return Agent(Says(replies=replies, again=again), **settings)


def note() -> str:
    """Note."""
    return "noted"


@tool(approval_mode="always_require")
def pay(amount: int) -> str:
    """Pay."""
    return f"paid {amount}"


def answers(text: str = "Hallo") -> Any:
    return theirs(text, again=True)


def calling(function: Any) -> Any:
    """An agent of theirs that calls a tool of its own, and then says "done"."""
    return theirs([uses(function.__name__)], "done", tools=[function])


def that_pays() -> Any:
    return theirs([uses("pay", "call-1", amount=7)], "done", tools=[pay])


def host(capability: Any, *replies: Any, **settings: Any) -> Any:
    return theirs(*replies, tools=as_agent_framework_tools(capability), **settings)


def tool_texts(response: Any) -> list[str]:
    contents = [content for message in response.messages for content in message.contents]
    return [content.result for content in contents if content.type == "function_result"]
