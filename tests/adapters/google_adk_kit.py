"""Agents of Google's ADK for tests, with a model that replies by a script."""

import asyncio
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from symfonic.adapters.google_adk import as_adk_tools

USAGE = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=5,
    tool_use_prompt_token_count=2,
    candidates_token_count=2,
    thoughts_token_count=1,
    total_token_count=10,
)
the_old_workflows = pytest.mark.filterwarnings("ignore:.*Agent is deprecated in favor of Workflow:DeprecationWarning")


class Says(BaseLlm):
    """Replies in order: text, lists of parts, whole responses, or what it raises. Keeps what it was sent."""

    model: str = "says"
    replies: list[Any] = []  # noqa: RUF012 - a field of theirs, copied for every model
    again: bool = False
    sent: list[list[str]] = []  # noqa: RUF012
    tools: list[Any] = []  # noqa: RUF012

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        self.sent.append([part.text for each in llm_request.contents for part in each.parts if part.text])
        self.tools[:] = [one for each in llm_request.config.tools or [] for one in each.function_declarations]
        said = self.replies[0] if self.again else self.replies.pop(0)
        await asyncio.sleep(0)
        if isinstance(said, BaseException):
            raise said
        if isinstance(said, LlmResponse):
            yield said
            return
        parts = [types.Part(text=said)] if isinstance(said, str) else said
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=USAGE)


async def note() -> str:
    """Note."""
    return "noted"


def thinks(thought: str) -> Any:
    return types.Part(text=thought, thought=True)


def says(text: str) -> Any:
    return types.Part(text=text)


def uses(tool: str, call_id: str = "call-1", /, **arguments: Any) -> Any:
    return types.Part(function_call=types.FunctionCall(name=tool, id=call_id, args=arguments))


def asks(name: str, task: str = "go", call_id: str = "call-1") -> Any:
    return uses("run_agent", call_id, name=name, task=task)


def theirs(*replies: Any, again: bool = False, name: str = "theirs", **settings: Any) -> Any:
    return LlmAgent(name=name, model=Says(replies=list(replies), again=again), **settings)


def answers(text: str = "Hallo") -> Any:
    return theirs(text, again=True)


def calling(tool: Any, *then: Any) -> Any:
    """An agent of theirs that calls a tool of its own, and then says "done", or what else it is to say."""
    return theirs([uses(getattr(tool, "name", "") or tool.__name__)], *(then or ["done"]), tools=[tool])


def host(capability: Any, *replies: Any, **settings: Any) -> Any:
    return theirs(*replies, tools=as_adk_tools(capability), **settings)


async def talk(agent: Any, task: str = "go") -> list[Any]:
    """The events of a run of theirs, on its own."""
    runner = InMemoryRunner(agent=agent)
    session = await runner.session_service.create_session(app_name=runner.app_name, user_id="me")
    message = types.Content(role="user", parts=[types.Part(text=task)])
    return [each async for each in runner.run_async(user_id="me", session_id=session.id, new_message=message)]


def tool_texts(events: list[Any]) -> list[str]:
    return [each.response["result"] for event in events for each in event.get_function_responses()]
