"""Agents and graphs of LangChain for tests, over a chat model that replies by a script."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt
from pydantic import PrivateAttr

from symfonic import Agent, SubAgent
from symfonic.adapters.langchain import as_langchain_tools
from symfonic.testing import ScriptedModel, tool_call


class Fake(BaseChatModel):
    """A chat model with scripted replies; an exception is raised, anything else is said."""

    _replies: list[Any] = PrivateAttr()
    _seen: list[list[BaseMessage]] = PrivateAttr(default_factory=list)

    def __init__(self, *replies: Any) -> None:
        super().__init__()
        self._replies = list(replies)

    @property
    def _llm_type(self) -> str:
        return "fake"

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> Runnable[Any, Any]:
        return self.bind(tools=tools)

    def _generate(self, messages: list[BaseMessage], *_: Any, **__: Any) -> ChatResult:
        self._seen.append(messages)
        reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
        if isinstance(reply, Exception):
            raise reply
        message = AIMessage(**(reply if isinstance(reply, dict) else {"content": reply}))
        return ChatResult(generations=[ChatGeneration(message=message)])


def said(content: Any = "", *calls: dict[str, Any], tokens: tuple[int, int] | None = None) -> dict[str, Any]:
    reply: dict[str, Any] = {"content": content, "tool_calls": [{**call, "type": "tool_call"} for call in calls]}
    if tokens:
        total = sum(tokens)
        reply["usage_metadata"] = {"input_tokens": tokens[0], "output_tokens": tokens[1], "total_tokens": total}
        reply["response_metadata"] = {"model_name": "fake"}
    return reply


def asks(name: str, call: str = "1", /, **arguments: Any) -> dict[str, Any]:
    return {"name": name, "args": arguments, "id": call}


def delegates(child: str, task: str = "go", call: str = "1") -> dict[str, Any]:
    return asks("run_agent", call, name=child, task=task)


def graph_of(node: Callable[..., Any], state: Any = MessagesState, **compiled: Any) -> Any:
    builder = StateGraph(state)
    builder.add_node("node", node)
    builder.add_edge(START, "node")
    return builder.compile(**compiled)


def lead(*children: Any, **options: Any) -> Agent:
    """An agent that delegates once to each child."""
    names = [f"child{number}" for number in range(len(children))]
    return Agent(
        ScriptedModel([tool_call("run_agent", name=name, task="go") for name in names], "went on"),
        sub_agents=[SubAgent(name, child, "Works.") for name, child in zip(names, children, strict=True)],
        **options,
    )


async def asked(child: Any, **run: Any) -> Any:
    result = await lead(child).run("go", **run)
    assert result.text == "went on"
    return result.delegations[0]


def waiting() -> tuple[Any, asyncio.Event, list[str]]:
    """A graph that never answers, and what it saw."""
    started, seen = asyncio.Event(), list[str]()

    async def node(state: MessagesState) -> Any:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("ended")

    return graph_of(node), started, seen


@dataclass
class Session:
    thread_id: str


async def remember(state: MessagesState) -> Any:
    return {"messages": [AIMessage(f"{len(state['messages'])} messages")]}


async def approve(state: MessagesState) -> Any:
    return {"messages": [AIMessage(f"a person said {interrupt('may I?')}")]}


async def host(*replies: Any, hosted: Any, config: Any = None, **agent: Any) -> Any:
    made = create_agent(Fake(*replies), as_langchain_tools(hosted), **agent)
    return await made.ainvoke({"messages": [HumanMessage("go")]}, config)
