"""A LangChain chat model played by a script, for every adapter built on langchain-core."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from common import Delegate, call_id


def tracing_off() -> None:
    """LangSmith tracing is off unless these are set; make sure they are not."""
    for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2", "LANGSMITH_TRACING_V2"):
        os.environ[name] = "false"


def by_tool_name(call: Delegate) -> dict[str, Any]:
    """The agent-as-a-tool shape: each child is a tool that takes a task."""
    return {"name": call.target, "args": {"task": call.task}}


class ScriptedChatModel(BaseChatModel):
    """Answers from ``script``; ``shape`` turns a delegation into a tool call."""

    script: Any
    shape: Callable[[Delegate], dict[str, Any]] = by_tool_name

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> ScriptedChatModel:
        return self

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError("this model is asynchronous only")

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: Any = None,
        **kwargs: Any,
    ) -> ChatResult:
        user = ""
        results = []
        for message in messages:
            if isinstance(message, HumanMessage):
                user = message.text
            elif isinstance(message, ToolMessage):
                results.append(message.text)
        reply = await self.script(user, results)
        if isinstance(reply, str):
            answer = AIMessage(content=reply)
        else:
            answer = AIMessage(
                content="",
                tool_calls=[{**self.shape(call), "id": call_id(), "type": "tool_call"} for call in reply],
            )
        return ChatResult(generations=[ChatGeneration(message=answer)])
