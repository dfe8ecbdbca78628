"""The turn loop: model, tools, model … until a reply without tool calls."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, overload

from symfonic.errors import MaxStepsError, ModelError
from symfonic.kernel.concurrency.tasks import run_together
from symfonic.kernel.contracts.events import ModelAnswered, ModelCalled, Tell, ToolFinished, ToolStarted
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.messages import Message, ToolCall, Usage, current_tool_call
from symfonic.kernel.contracts.model import Model, ModelReply
from symfonic.kernel.contracts.text import encodable, error_text, to_text
from symfonic.kernel.contracts.tool import Tool
from symfonic.kernel.runtime.plan import BadCallError, Plan, encodable_value


@fact
@dataclass(frozen=True, slots=True)
class Turn:
    """One run's way through the loop.

    ``offered`` are the tools the model is shown. ``admit`` is asked before every model call and raises where there
    may be none. ``spend`` is told of every model call and its tool calls, ``tell`` of everything that happens.
    """

    model: Model
    plan: Plan
    offered: tuple[Tool, ...]
    max_steps: int
    pass_through: tuple[type[Exception], ...]
    spend: Callable[[Usage], None]
    admit: Callable[[], None] | None = None
    tell: Tell | None = None

    async def run(self, messages: list[Message]) -> str:
        """Continue ``messages``, in place, to the answer.

        Raises ModelError if the model fails, MaxStepsError if it was called ``max_steps`` times and wants still
        more tools.
        """
        for step in range(1, self.max_steps + 1):
            reply = await self._ask(Conversation(messages))
            calls = reply.tool_calls
            messages.append(Message("assistant", reply.text, calls))
            if not calls:
                return messages[-1].text
            if step == self.max_steps:
                break  # nobody would read what the tools return
            answers = await run_together(self._execute(call) for call in calls)
            messages.extend(
                _tool_message(call, f"Tool {call.name!r} failed: it cancelled itself")
                if isinstance(answer, asyncio.CancelledError)
                else answer
                for call, answer in zip(calls, answers, strict=True)
            )
        raise MaxStepsError(f"stopped after {self.max_steps} model calls without an answer (options.max_steps)")

    async def _ask(self, messages: "Conversation") -> ModelReply:
        if self.admit is not None:
            self.admit()
        if self.tell is not None:
            self.tell(ModelCalled, len(messages))
        reply: ModelReply | None = None
        problem: str | None = "cancelled"
        try:
            reply = _checked(await self.model.complete(messages, self.offered))
            problem = None
            return reply
        except self.pass_through as signal:
            problem = type(signal).__name__
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error_text(error)}"
            raise ModelError(f"the model failed: {problem}") from error
        finally:  # a call that failed or was cancelled is a call all the same
            cost = _cost(reply)
            self.spend(cost)
            if self.tell is not None:
                said = reply or ModelReply()
                self.tell(ModelAnswered, said.text, _copied(said.tool_calls), cost, problem, said.model)

    async def _execute(self, call: ToolCall) -> Message:
        current_tool_call.set(call.id)  # in a task of its own, so there is nothing to restore
        if self.tell is None:
            return _tool_message(call, (await self._result(call))[0])
        self.tell(ToolStarted, call.name, _encodable_arguments(call))
        text, failed = "cancelled", True
        try:
            text, failed = await self._result(call)
        finally:
            self.tell(ToolFinished, call.name, text, failed)
        return _tool_message(call, text)

    async def _result(self, call: ToolCall) -> tuple[str, bool]:
        """What the model reads of a call, and whether that is an error."""
        try:
            tool = self.plan.find(call.name, self.offered)
            read = tool.arguments if tool.tool in self.offered else tool.made_to_fit
            value = await tool.tool.invoke(read(call.arguments))
            return to_text(value), False
        except BadCallError as problem:
            return str(problem), True
        except self.pass_through:
            raise
        except Exception as error:
            return f"Tool {call.name!r} failed: {error_text(error)}", True


class Conversation(Sequence[Message]):
    """The messages so far, as a model sees them: the run goes on writing behind its back, but not into this.

    A view, not a copy: a long conversation would be copied whole at every step.
    """

    __slots__ = ("_length", "_messages")

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self._length = len(messages)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return [self._messages[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._messages[index if index >= 0 else index + self._length]

    def __iter__(self) -> Iterator[Message]:
        return islice(self._messages, self._length)

    def __repr__(self) -> str:
        return f"Conversation({list(self)!r})"


def _checked(reply: Any) -> ModelReply:
    if not isinstance(reply, ModelReply):
        raise TypeError(f"it returned {type(reply).__name__}, expected ModelReply")
    if not isinstance(reply.text, str):
        raise TypeError(f"its reply's text is {type(reply.text).__name__}, expected str")
    if not isinstance(reply.model, str):
        raise TypeError(f"its reply's model is {type(reply.model).__name__}, expected str")
    if not _is_count(reply.input_tokens) or not _is_count(reply.output_tokens):
        told = (reply.input_tokens, reply.output_tokens)
        raise TypeError(f"its reply counts {told!r} tokens, expected an int >= 0 for each")
    if type(reply.tool_calls) is not tuple and not isinstance(
        reply.tool_calls, Sequence
    ):  # a generator would be empty once it was looked at
        raise TypeError(f"its reply's tool_calls are {type(reply.tool_calls).__name__}, expected a tuple")
    for call in reply.tool_calls:
        if not isinstance(call, ToolCall) or not isinstance(call.name, str) or not isinstance(call.id, str | None):
            raise TypeError(f"its reply has {call!r} for a tool call, expected ToolCall with text for id and name")
    calls = _with_unique_ids(reply.tool_calls) if reply.tool_calls else ()
    if not calls and reply.text.isascii() and reply.model.isascii():
        return reply
    tokens = reply.input_tokens, reply.output_tokens
    return ModelReply(encodable(reply.text), calls, *tokens, encodable(reply.model))


def _is_count(tokens: Any) -> bool:
    """Less than none would give budget back, and what has more than 63 bits may be more than Python prints."""
    return type(tokens) is int and 0 <= tokens < 2**63


def _cost(reply: ModelReply | None) -> Usage:
    if reply is None:
        return Usage(model_calls=1)
    return Usage(reply.input_tokens, reply.output_tokens, 1, len(reply.tool_calls))


def _with_unique_ids(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls in encodable text, and ids told apart where a model repeated or left out one."""
    seen: set[str] = set()
    unique = []
    for number, call in enumerate(calls, 1):
        call_id = encodable(call.id or f"call_{number}")
        while call_id in seen:
            call_id = f"{call_id}_{number}"
        seen.add(call_id)
        unique.append(ToolCall(call_id, encodable(call.name), _encodable_arguments(call)))
    return tuple(unique)


def _copied(calls: Sequence[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls for those who watch, who may change nothing."""
    return tuple(ToolCall(call.id, call.name, _encodable_arguments(call)) for call in calls)


def _encodable_arguments(call: ToolCall) -> Any:
    try:
        return encodable_value(call.arguments)
    except RecursionError:  # refused like any other text that is no JSON object
        return "(nested too deeply)"


def _tool_message(call: ToolCall, text: str) -> Message:
    return Message("tool", text, (), call.id, call.name)
