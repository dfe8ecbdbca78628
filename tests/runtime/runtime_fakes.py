"""What the tests of the runtime are played with: models and tools of both kinds, and a look at where code runs."""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import StructuredTool

import symfonic
from symfonic.agent.engine import AgentResult
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.kernel.contracts.messages import Message, ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.run_identity import current_run_identity
from symfonic.kernel.contracts.tool import Tool
from symfonic.testing import FunctionModel, ScriptedModel, tool_call

Fn = Callable[[Sequence[Message], Sequence[Tool]], Any]
ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}


class ChatFake(BaseChatModel):
    """A LangChain chat model played by one of our models."""

    inner: Any

    @property
    def _llm_type(self) -> str:
        return "chat-fake"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools, **kwargs)

    def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
        raise AssertionError("models are asked asynchronously")

    async def _agenerate(self, messages: list[BaseMessage], *args: Any, tools: Any = (), **kwargs: Any) -> ChatResult:
        reply = await self.inner.complete([_ours(each) for each in messages], [_offered(each) for each in tools])
        return ChatResult(generations=[ChatGeneration(message=_theirs(reply))])


def _ours(message: BaseMessage) -> Message:
    made = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    calls = tuple(ToolCall(each["id"], each["name"], each["args"]) for each in made)
    return Message(ROLES[message.type], message.text, calls, getattr(message, "tool_call_id", None), message.name)


def _offered(tool: dict[str, Any]) -> Tool:
    function = tool["function"]
    return Tool(function["name"], function["description"], function["parameters"], never_called)


def _theirs(reply: ModelReply) -> AIMessage:
    good, bad = [], []
    for call in reply.tool_calls:
        if isinstance(call.arguments, str):
            told = {"type": "invalid_tool_call", "id": call.id, "name": call.name, "args": call.arguments}
            bad.append({**told, "error": "not an object"})
        else:
            good.append({"type": "tool_call", "id": call.id, "name": call.name, "args": dict(call.arguments)})
    spent = {"input_tokens": reply.input_tokens, "output_tokens": reply.output_tokens}
    usage = {**spent, "total_tokens": sum(spent.values())}
    return AIMessage(reply.text, tool_calls=good, invalid_tool_calls=bad, usage_metadata=usage)


async def never_called(arguments: Any) -> None:
    raise AssertionError("a model only reads its tools")


@dataclass(frozen=True)
class Kind:
    """Native models and tools, or LangChain's."""

    name: str

    def model(self, fn: Fn) -> Any:
        return self._as_kind(FunctionModel(fn))

    def script(self, *replies: Any) -> Any:
        return self._as_kind(ScriptedModel(*replies))

    def tool(self, fn: Callable[..., Any], name: str | None = None, description: str = "A tool.") -> Any:
        name = name or fn.__name__
        if self.name == "native":
            return symfonic.tool(fn, name=name, description=description)
        made = {"coroutine": fn} if iscoroutinefunction(fn) else {"func": fn}
        return StructuredTool.from_function(name=name, description=description, **made)

    def agent(self, fn: Fn, **parts: Any) -> symfonic.Agent:
        return symfonic.Agent(self.model(fn), **parts)

    def _as_kind(self, model: Any) -> Any:
        return model if self.name == "native" else ChatFake(inner=model)


NATIVE, LANGCHAIN = Kind("native"), Kind("langchain")


@dataclass(frozen=True)
class Spot:
    """Where a piece of code runs."""

    depth: int
    run_id: str
    root_run_id: str
    parent_run_id: str | None
    scope: Any
    ceiling: int | None


def spot() -> Spot:
    """Where this code runs; fails outside every run."""
    run, identity = DelegationContext().active_run(), current_run_identity()
    assert run is not None
    assert identity is not None
    assert run.identity == identity
    return Spot(run.depth, *(getattr(identity, key) for key in IDS), run.scope, run.max_depth)


IDS = ("run_id", "root_run_id", "parent_run_id")


def spots_of(fn: Fn, seen: list[Spot]) -> Fn:
    """The same function, noting where each first step of a run happens."""

    def noting(messages: Sequence[Message], tools: Sequence[Tool]) -> Any:
        if messages[-1].role == "user":
            seen.append(spot())
        return fn(messages, tools)

    return noting


def answer(text: str = "done") -> Fn:
    """Answers at once."""
    return lambda messages, tools: text


def calls(*made: ToolCall) -> Fn:
    """Makes these calls in one reply, then answers with what came back, a line each."""

    def fn(messages: Sequence[Message], tools: Sequence[Tool]) -> Any:
        return list(made) if messages[-1].role != "tool" else "\n".join(results(messages))

    return fn


def delegates(name: str = "child", task: Any = "the task", times: int = 1) -> Fn:
    """Delegates once (or several times at once), then answers with what came back."""
    return calls(*(tool_call("run_agent", name=name, task=task) for _ in range(times)))


def results(messages: Sequence[Message] | AgentResult) -> list[str]:
    """The texts of the tool messages."""
    found = messages.messages if isinstance(messages, AgentResult) else messages
    return [message.text for message in found if message.role == "tool"]


class Child:
    """A child that is no agent of ours: ``run(query)`` and nothing else."""

    def __init__(self, act: Callable[[str], Awaitable[Any]]) -> None:
        self.act = act

    async def run(self, query: str) -> Any:
        return Response(await self.act(query))


@dataclass
class Response:
    final_response: Any


def child(agent: Any, name: str = "child") -> symfonic.SubAgent:
    return symfonic.SubAgent(name, agent, f"Does what {name} does.")


def raising(error: BaseException) -> Child:
    async def act(query: str) -> str:
        raise error

    return Child(act)


async def cancelled(task: Any) -> bool:
    """Cancel a task and wait for it; whether it ended cancelled."""
    task.cancel()
    with suppress(BaseException):
        await task
    return bool(task.cancelled())
