"""The turn loop: model, tools, model … until a reply without tool calls."""

import asyncio
from typing import Any, Protocol

from symfonic.errors import MaxStepsError, ModelError
from symfonic.kernel.concurrency.tasks import run_together
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.journal import Journal
from symfonic.kernel.contracts.messages import Message, ToolCall, Usage, current_tool_call
from symfonic.kernel.contracts.model import Model, ModelReply
from symfonic.kernel.contracts.observer import EventName
from symfonic.kernel.contracts.text import error_text, to_text
from symfonic.kernel.contracts.tool import Tool
from symfonic.kernel.runtime.conversation import Conversation
from symfonic.kernel.runtime.plan import BadCallError, Plan
from symfonic.kernel.runtime.replies import checked

_FAILED = Usage(model_calls=1)


class Run(Protocol):
    """What the loop needs of the run that it is gone through for."""

    @property
    def observers(self) -> tuple[Any, ...]:
        """Who is told of what happens; where there are none, nothing is told."""
        ...

    @property
    def pass_through(self) -> tuple[type[Exception], ...]:
        """Exceptions that end the run as they are."""
        ...

    @property
    def journal(self) -> Journal | None:
        """Where every model call and tool call is a step; None for a run that ends with its process."""
        ...

    def admit_model_call(self) -> None:
        """Asked before every model call. Raises where there may be none."""
        ...

    def spend(self, usage: Usage) -> None:
        """Told of every model call and its tool calls."""
        ...

    def tell(self, event: EventName, *payload: Any) -> None:
        """Told of everything that happens."""
        ...


@fact
class Turn:
    """The way of an agent's runs through the loop."""

    model: Model
    plan: Plan
    max_steps: int

    async def run(self, messages: list[Message], offered: tuple[Tool, ...], run: Run) -> str:
        """Continue ``messages``, in place, to the answer; ``offered`` are the tools that the model is shown.

        Raises ModelError if the model fails, MaxStepsError if it was called ``max_steps`` times and wants still
        more tools.
        """
        for step in range(1, self.max_steps + 1):
            reply = await self._ask(Conversation(messages), offered, run)
            calls = reply.tool_calls
            messages.append(Message("assistant", reply.text, calls))
            if not calls:
                return reply.text
            if step == self.max_steps:
                break  # nobody would read what the tools return
            work = []
            for call in calls:  # no comprehension: its cells would live as long as the children run
                work.append(self._execute(call, offered, run))
            answers = await run_together(work)
            for call, answer in zip(calls, answers, strict=True):
                if isinstance(answer, asyncio.CancelledError):
                    answer = _tool_message(call, f"Tool {call.name!r} failed: it cancelled itself")
                messages.append(answer)
        raise MaxStepsError(f"stopped after {self.max_steps} model calls without an answer (options.max_steps)")

    async def _ask(self, messages: Conversation, offered: tuple[Tool, ...], run: Run) -> ModelReply:
        run.admit_model_call()
        if run.observers:
            run.tell("ModelCalled", len(messages))
        reply: ModelReply | None = None
        problem: str | None = "cancelled"
        try:
            journal = run.journal
            if journal is None:
                reply = checked(await self.model.complete(messages, offered))
            else:
                from symfonic.kernel.runtime import journalled

                reply = checked(await journalled.reply(journal, self.model, messages, offered))
            problem = None
            return reply
        except run.pass_through as signal:
            problem = type(signal).__name__
            raise
        except Exception as error:
            problem = f"{type(error).__name__}: {error_text(error)}"
            raise ModelError(f"the model failed: {problem}") from error
        finally:  # a call that failed or was cancelled is a call all the same
            cost = (
                _FAILED if reply is None else Usage(reply.input_tokens, reply.output_tokens, 1, len(reply.tool_calls))
            )
            run.spend(cost)
            if run.observers:
                said = reply or ModelReply()
                run.tell("ModelAnswered", said.text, said.tool_calls, cost, problem, said.model)

    async def _execute(self, call: ToolCall, offered: tuple[Tool, ...], run: Run) -> Message:
        """Carry a call out; whatever happens is told in what the model reads."""
        current_tool_call.set(call.id)  # in a task of its own, so there is nothing to restore
        if run.observers:
            run.tell("ToolStarted", call.name, call.arguments)
        text, failed = "cancelled", True
        try:
            tool = self.plan.find(call.name, offered)
            sent = tool.arguments(call.arguments) if tool.tool in offered else tool.made_to_fit(call.arguments)
            if run.journal is None:
                text, failed = to_text(await tool.tool.invoke(sent)), False
            else:
                from symfonic.kernel.runtime import journalled

                text, failed = await journalled.answer(run.journal, tool.tool, sent), False
        except BadCallError as problem:
            text = str(problem)
        except run.pass_through:
            raise
        except Exception as error:
            text = f"Tool {call.name!r} failed: {error_text(error)}"
        finally:
            if run.observers:
                run.tell("ToolFinished", call.name, text, failed)
        return _tool_message(call, text)


def _tool_message(call: ToolCall, text: str) -> Message:
    return Message("tool", text, (), call.id, call.name)
