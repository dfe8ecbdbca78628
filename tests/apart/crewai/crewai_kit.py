"""Crews and agents of CrewAI for tests, with a model that replies by a script."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from crewai import Agent as Theirs
from crewai import Crew, Task
from crewai.events.types.llm_events import LLMCallType
from crewai.llms.base_llm import BaseLLM, llm_call_context
from crewai.tools import tool
from pydantic import PrivateAttr

from symfonic import delegation
from symfonic.capabilities.delegation import SubAgent
from symfonic.kernel.contracts.messages import Usage

TOKENS = {"prompt_tokens": 7, "completion_tokens": 3}
ONE_CALL = Usage(TOKENS["prompt_tokens"], TOKENS["completion_tokens"], 1)


class Says(BaseLLM):
    """Replies in order: text, lists of tool calls, what it raises, or what a function returns.

    It keeps what it was sent, and tells what was spent as the models that come with theirs do.
    """

    model: str = "scripted"
    native: bool = True
    _replies: list[Any] = PrivateAttr()
    _sent: list[list[str]] = PrivateAttr(default_factory=list)
    _again: bool = PrivateAttr()

    def __init__(self, *replies: Any, again: bool = False, native: bool = True) -> None:
        super().__init__(model="scripted", native=native)
        self._replies, self._again = list(replies), again

    @property
    def sent(self) -> list[list[str]]:
        return self._sent

    def call(self, messages: Any, tools: Any = None, *_: Any, **settings: Any) -> Any:
        said = messages if isinstance(messages, str) else [str(each.get("content")) for each in messages]
        self._sent.append([said] if isinstance(said, str) else said)
        reply = self._replies[0] if self._again else self._replies.pop(0)
        with llm_call_context():
            whose = {"from_task": settings.get("from_task"), "from_agent": settings.get("from_agent")}
            self._emit_call_started_event(messages, **whose)
            if callable(reply):
                reply = reply()
            if isinstance(reply, Exception):
                self._emit_call_failed_event(str(reply), **whose)
                raise reply
            self._track_token_usage_internal(TOKENS)
            self._emit_call_completed_event(reply, LLMCallType.LLM_CALL, usage=TOKENS, **whose)
        return reply

    def supports_function_calling(self) -> bool:
        return self.native

    def supports_stop_words(self) -> bool:
        return False


def uses(name: str, call_id: str = "call-1", /, **arguments: Any) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


def worker(*replies: Any, again: bool = False, native: bool = True, **settings: Any) -> Theirs:
    """An agent of theirs."""
    about = {"role": "clerk", "goal": "Answer.", "backstory": "You answer.", "verbose": False}
    return Theirs(**{"llm": Says(*replies, again=again, native=native), **about, **settings})


def crew(*agents: Theirs, description: str = "Work on {task}", last: Any = None, **settings: Any) -> Crew:
    """A crew of these agents, with a task for each of them; ``last`` are more settings of the last task."""
    tasks = [Task(description=description, expected_output="An answer.", agent=each) for each in agents[:-1]]
    tasks.append(Task(description=description, expected_output="An answer.", agent=agents[-1], **(last or {})))
    return Crew(agents=list(agents), tasks=tasks, verbose=False, **settings)


def small_crew(*replies: Any, **settings: Any) -> Crew:
    """A crew of one agent without tools."""
    return crew(worker(*replies), **settings)


def agent_that_calls(function: Callable[..., Any], **settings: Any) -> Theirs:
    """An agent of theirs that calls a tool of its own, and then says "done"; four times."""
    return worker(*[[uses(function.__name__)], "done"] * 4, tools=[tool(function)], **settings)


def both(make: Callable[..., Theirs]) -> list[Callable[..., Any]]:
    """The same as an agent alone, and as the agent of a crew."""
    return [make, lambda *given, **settings: crew(make(*given, **settings))]


def of(child: Any, **settings: Any) -> Any:
    return delegation([SubAgent("child", child, "Works.")], **settings)


alone_and_in_a_crew = pytest.mark.parametrize("make", both(worker), ids=["agent", "crew"])
that_calls_alone_and_in_a_crew = pytest.mark.parametrize("calling", both(agent_that_calls), ids=["agent", "crew"])


@tool
def note() -> str:
    """Note."""
    return "noted"
