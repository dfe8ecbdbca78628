"""Whole runs over real models' protocols: through a server on loopback, and over LangChain's messages."""

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, InvalidToolCall, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from chat_server import Answer, ChatServer, fails, says
from symfonic import Agent, DelegationOutcome, SubAgent
from symfonic.errors import ModelError


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    server = ChatServer()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    yield server
    server.stop()


def weather(city: str) -> str:
    """The weather in a city."""
    return f"rain in {city}"


def delegate(name: str, task: str, call_id: str) -> tuple[str, str, str]:
    return "run_agent", json.dumps({"name": name, "task": task}), call_id


def parent_of(*names: str, model: Any = "openai:parent") -> Agent:
    children = [SubAgent(name, Agent(f"openai:{name}"), f"Does {name}.") for name in names]
    return Agent(model, sub_agents=children)


async def test_malformed_arguments_become_a_tool_message_and_the_run_goes_on(server: ChatServer) -> None:
    server.play(
        says(None, ("weather", '{"city": "Li', "a"), ("weather", '{"city": "Lima"}', "b")), says("It rains in Lima.")
    )
    result = await Agent("openai:m", tools=[weather]).run("Weather in Lima?")
    assert result.text == "It rains in Lima."
    calls, malformed, well = server.requests[1]["messages"][-3:]
    assert [call["function"]["arguments"] for call in calls["tool_calls"]] == ['{"city": "Li', '{"city": "Lima"}']
    assert (malformed["tool_call_id"], well) == ("a", {"role": "tool", "tool_call_id": "b", "content": "rain in Lima"})
    assert "not JSON" in malformed["content"]
    assert (result.usage.input_tokens, result.usage.output_tokens) == (14, 6)


async def test_a_model_that_fails_for_good_ends_the_run_with_its_error_as_the_cause(server: ChatServer) -> None:
    server.play(*[fails(500, "out of order")] * 3)
    with pytest.raises(ModelError, match="out of order") as caught:
        await Agent("openai:m").run("hello")
    assert isinstance(caught.value.__cause__, openai.InternalServerError)


async def test_a_childs_model_that_fails_for_good_is_a_value_for_its_parent(server: ChatServer) -> None:
    server.play(
        says(None, delegate("scout", "look", "a")), *[fails(500, "out of order")] * 3, says("The scout is broken.")
    )
    result = await parent_of("scout").run("look around")
    assert result.text == "The scout is broken."
    [record] = result.delegations
    assert record.outcome == DelegationOutcome.CHILD_FAILED
    assert "out of order" in record.message
    assert server.requests[-1]["messages"][-1]["content"] == record.message
    assert result.usage.model_calls == 3


async def test_parallel_delegations_answer_under_the_ids_of_their_calls(server: ChatServer) -> None:
    server.play(
        says(None, delegate("scout", "ahead", "a"), delegate("cook", "soup", "b"), delegate("nobody", "x", "c")),
        says("done"),
        says("done"),
        says("all done"),
    )
    result = await parent_of("scout", "cook").run("get going")
    assert result.text == "all done"
    assert result.delegated_to in (("scout", "cook"), ("cook", "scout"))
    answers = [message for message in server.requests[-1]["messages"] if message["role"] == "tool"]
    assert [answer["tool_call_id"] for answer in answers] == ["a", "b", "c"]
    assert [answer["content"] for answer in answers[:2]] == ["done", "done"]
    assert "Unknown sub-agent 'nobody'" in answers[2]["content"]
    asked = {request["model"]: request["messages"][-1]["content"] for request in server.requests[1:3]}
    assert asked == {"scout": "ahead", "cook": "soup"}


async def test_cancelling_a_run_reaches_a_childs_slow_answer(server: ChatServer) -> None:
    held = threading.Event()
    server.play(says(None, delegate("scout", "look", "a")), Answer(says("too late").body, held=held))
    running = asyncio.create_task(parent_of("scout").run("look around"))
    await asyncio.to_thread(server.wait_for_bodies, 2)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not held.is_set()
    held.set()
    assert asyncio.all_tasks() == {asyncio.current_task()}


def test_one_agent_runs_in_one_event_loop_after_another(server: ChatServer) -> None:
    server.play(says("one"), says("two"))
    agent = Agent("openai:m")
    assert [agent.run_sync("hello").text for _ in range(2)] == ["one", "two"]


class Scripted(BaseChatModel):
    """Plays messages, or raises errors, by how many answers it finds in the conversation."""

    script: list[Any]
    seen: list[list[BaseMessage]] = []  # noqa: RUF012  (pydantic copies it)

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self.bind(tools=tools)

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.seen.append(messages)
        played = self.script[sum(isinstance(message, AIMessage) for message in messages)]
        if isinstance(played, Exception):
            raise played
        return ChatResult(generations=[ChatGeneration(message=played)])


async def test_malformed_arguments_of_a_langchain_model_become_a_tool_message_and_the_run_goes_on() -> None:
    malformed = InvalidToolCall(type="invalid_tool_call", id="a", name="weather", args='{"city": "Li', error="bad")
    chat_model = Scripted(script=[AIMessage("", invalid_tool_calls=[malformed]), AIMessage("Sorry.")])
    result = await Agent(chat_model, tools=[weather]).run("Weather in Lima?")
    assert result.text == "Sorry."
    *_, call, answer = chat_model.seen[-1]
    assert isinstance(call, AIMessage)
    assert [(each["id"], each["args"]) for each in call.invalid_tool_calls] == [("a", '{"city": "Li')]
    assert isinstance(answer, ToolMessage)
    assert answer.tool_call_id == "a"
    assert "not JSON" in answer.text


async def test_a_langchain_childs_failure_is_a_value_for_its_langchain_parent() -> None:
    call = {"type": "tool_call", "id": "a", "name": "run_agent", "args": {"name": "scout", "task": "look"}}
    parent = Scripted(script=[AIMessage("", tool_calls=[call]), AIMessage("The scout is broken.")])
    child = Agent(Scripted(script=[LookupError("no such deployment")]))
    result = await Agent(parent, sub_agents=[SubAgent("scout", child, "Scouts.")]).run("look around")
    assert result.text == "The scout is broken."
    assert result.delegations[0].outcome == DelegationOutcome.CHILD_FAILED
    assert "no such deployment" in result.delegations[0].message


async def test_a_langchain_model_that_fails_ends_the_run_with_its_error_as_the_cause() -> None:
    error = LookupError("no such deployment")
    with pytest.raises(ModelError, match="no such deployment") as caught:
        await Agent(Scripted(script=[error])).run("hello")
    assert caught.value.__cause__ is error
