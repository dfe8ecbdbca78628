"""OpenAI's path: the real SDK against a real server on loopback."""

import asyncio
import gc
import os
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any

import openai
import pytest

from chat_server import Answer, ChatServer, fails, says
from symfonic.errors import ConfigurationError, SymfonicError
from symfonic.kernel.contracts.messages import Message, ToolCall
from symfonic.kernel.contracts.tool import Tool
from symfonic.models import resolve_model
from symfonic.models.offline import OfflineModel
from symfonic.models.openai import OpenAIModel


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    server = ChatServer()
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    yield server
    server.stop()


async def nothing(arguments: Any) -> None: ...


SCHEMA = {"type": "object", "properties": {"city": {"type": "string", "enum": ["Ōsaka"]}}, "required": ["city"]}
FROZEN = MappingProxyType(
    {
        "type": "object",
        "properties": MappingProxyType({"city": MappingProxyType({"type": "string", "enum": ("Ōsaka",)})}),
        "required": ("city",),
    }
)
WEATHER = Tool("weather", "The weather {now}.", FROZEN, nothing)
HELLO = [Message("user", "hello")]


async def test_a_plain_answer_comes_back_with_its_tokens(server: ChatServer) -> None:
    server.play(says("Good day ☀"))
    reply = await resolve_model("openai:llama3:8b").complete([Message("system", "Be brief."), *HELLO], ())
    assert (reply.text, reply.tool_calls) == ("Good day ☀", ())
    assert (reply.input_tokens, reply.output_tokens) == (7, 3)
    assert server.requests == [
        {
            "path": "/v1/chat/completions",
            "model": "llama3:8b",
            "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
        }
    ]


async def test_parallel_tool_calls_keep_order_ids_and_raw_arguments(server: ChatServer) -> None:
    server.play(says(None, ("weather", '{"city": "Ōsaka"}', "a"), ("weather", '{"city": ', "b"), ("weather", "", "c")))
    reply = await OpenAIModel("m").complete(HELLO, (WEATHER,))
    assert reply.text == ""
    assert reply.tool_calls == (
        ToolCall("a", "weather", '{"city": "Ōsaka"}'),
        ToolCall("b", "weather", '{"city": '),
        ToolCall("c", "weather", "{}"),
    )
    assert server.requests[0]["tools"] == [
        {
            "type": "function",
            "function": {"name": "weather", "description": "The weather {now}.", "parameters": SCHEMA},
        }
    ]


async def test_a_conversation_with_tools_is_sent_as_the_protocol_wants_it(server: ChatServer) -> None:
    server.play(says("done"))
    calls = (ToolCall("a", "weather", {"city": "Ōsaka"}), ToolCall("b", "weather", '{"city": '))
    conversation = [
        *HELLO,
        Message("assistant", "", calls),
        Message("tool", "rain \ud800", tool_call_id="a", name="weather"),
        Message("tool", "not JSON", tool_call_id="b", name="weather"),
        Message("assistant", ""),
    ]
    await OpenAIModel("m").complete(conversation, ())
    assert server.requests[0]["messages"][1:] == [
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Ōsaka"}'}},
                {"id": "b", "type": "function", "function": {"name": "weather", "arguments": '{"city": '}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "rain \ufffd"},
        {"role": "tool", "tool_call_id": "b", "content": "not JSON"},
        {"role": "assistant", "content": ""},
    ]


async def test_what_servers_leave_out_or_do_otherwise_is_understood(server: ChatServer) -> None:
    server.play(
        says(None, ("weather", {"city": "x"}, None), ("weather", None, None), usage=None),
        says(None, refusal="I would rather not."),
        says([{"type": "thinking", "text": "hmm"}, {"type": "text", "text": "yes"}]),
        says(None, usage=None),
    )
    model = OpenAIModel("m")
    calls = await model.complete(HELLO, (WEATHER,))
    first, second = calls.tool_calls
    assert (first.arguments, second.arguments) == ({"city": "x"}, "{}")
    assert first.id != second.id
    assert "" not in (first.id, second.id)
    assert (calls.input_tokens, calls.output_tokens) == (0, 0)
    assert [(await model.complete(HELLO, ())).text for _ in range(3)] == ["I would rather not.", "yes", ""]


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (Answer({"id": "c", "choices": []}), "holds no choice"),
        (Answer({"error": {"message": "upstream is down"}}), "upstream is down"),
        (Answer("<html>Welcome to the proxy</html>"), "Welcome to the proxy"),
        (says(None, finish_reason="length"), "stopped before it said anything: length"),
    ],
)
async def test_a_response_without_an_answer_is_a_clear_error(server: ChatServer, answer: Answer, told: str) -> None:
    server.play(answer)
    with pytest.raises(SymfonicError, match="openai:m") as caught:
        await OpenAIModel("m").complete(HELLO, ())
    assert told in str(caught.value)


async def test_a_busy_server_is_asked_again(server: ChatServer) -> None:
    server.play(fails(429), says("now"))
    assert (await OpenAIModel("m").complete(HELLO, ())).text == "now"
    assert len(server.requests) == 2


async def test_a_server_that_fails_for_good_raises_the_sdks_error(server: ChatServer) -> None:
    server.play(*[fails(500, "out of order")] * 3)
    with pytest.raises(openai.InternalServerError, match="out of order"):
        await OpenAIModel("m").complete(HELLO, ())
    assert len(server.requests) == 3


async def test_a_connection_cut_mid_body_raises_after_the_sdks_retries(server: ChatServer) -> None:
    cut = Answer(says("never whole").body, cut=True)
    server.play(cut, cut)
    with pytest.raises(openai.APIConnectionError):
        await OpenAIModel("m", max_retries=1).complete(HELLO, ())
    assert len(server.requests) == 2


async def test_a_slow_body_is_waited_for(server: ChatServer) -> None:
    held = threading.Event()
    server.play(Answer(says("at last").body, held=held))
    waiting = asyncio.create_task(OpenAIModel("m").complete(HELLO, ()))
    await asyncio.to_thread(server.wait_for_bodies, 1)
    assert not waiting.done()
    held.set()
    assert (await waiting).text == "at last"


async def test_cancelling_does_not_wait_for_a_slow_body_and_the_model_works_on(server: ChatServer) -> None:
    held = threading.Event()
    server.play(Answer(says("too late").body, held=held), says("fresh"))
    model = OpenAIModel("m")
    waiting = asyncio.create_task(model.complete(HELLO, ()))
    await asyncio.to_thread(server.wait_for_bodies, 1)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not held.is_set()
    assert (await model.complete(HELLO, ())).text == "fresh"
    held.set()


async def test_a_timeout_is_the_sdks_error(server: ChatServer) -> None:
    held = threading.Event()
    server.play(Answer(says("too late").body, held=held))
    with pytest.raises(openai.APITimeoutError):
        await OpenAIModel("m", timeout=0.05, max_retries=0).complete(HELLO, ())
    held.set()


def test_one_model_serves_one_event_loop_after_another_and_each_closes_its_connections(server: ChatServer) -> None:
    server.play(*[says("a")] * 6)
    model = OpenAIModel("m")

    async def two_turns() -> list[str]:
        return [(await model.complete(HELLO, ())).text for _ in range(2)]

    for loops in (1, 2, 3):
        assert asyncio.run(two_turns()) == ["a", "a"]
        assert server.all_closed()
        assert server.connections == loops  # both turns of a loop share a connection


def test_a_model_keeps_no_event_loop_that_is_over(server: ChatServer) -> None:
    server.play(*[says("a")] * 3)
    model = OpenAIModel("m")
    over = []

    async def turn() -> None:
        await model.complete(HELLO, ())
        over.append(weakref.ref(asyncio.get_running_loop()))

    for _ in range(3):
        asyncio.run(turn())
    gc.collect()
    assert [loop() for loop in over[:-1]] == [None, None]


def test_one_model_serves_two_event_loops_at_once(server: ChatServer) -> None:
    held = threading.Event()
    server.play(*[Answer(says("a").body, held=held)] * 2)
    model, texts = OpenAIModel("m"), []

    def loop_of_its_own() -> None:
        texts.append(asyncio.run(model.complete(HELLO, ())).text)

    threads = [threading.Thread(target=loop_of_its_own) for _ in range(2)]
    for thread in threads:
        thread.start()
    held.set()
    for thread in threads:
        thread.join()
    assert texts == ["a", "a"]
    assert server.all_closed()


async def test_models_of_one_address_and_key_share_a_client(server: ChatServer) -> None:
    server.play(*[says("a")] * 3)
    for key in ("k", "k", "another"):
        await OpenAIModel("m", api_key=key).complete(HELLO, ())
    assert server.connections == 2
    assert [sent["authorization"] for sent in server.headers] == ["Bearer k", "Bearer k", "Bearer another"]


async def test_a_loop_with_many_keys_keeps_the_latest_clients_and_closes_the_others(server: ChatServer) -> None:
    server.play(*[says("a")] * 34)
    for tenant in range(34):
        await OpenAIModel("m", api_key=f"key {tenant}").complete(HELLO, ())
    assert await asyncio.to_thread(server.all_closed, but=32)


async def test_a_client_that_is_pushed_out_finishes_its_call_first(server: ChatServer) -> None:
    held = threading.Event()
    server.play(Answer(says("still here").body, held=held), *[says("a")] * 33)
    waiting = asyncio.create_task(OpenAIModel("m").complete(HELLO, ()))
    await asyncio.to_thread(server.wait_for_bodies, 1)
    for tenant in range(33):
        await OpenAIModel("m", api_key=f"key {tenant}").complete(HELLO, ())
    held.set()
    assert (await waiting).text == "still here"
    assert await asyncio.to_thread(server.all_closed, but=32)


async def test_fifty_turns_at_once_share_one_client(server: ChatServer) -> None:
    server.play(*[says("a")] * 50)
    model = OpenAIModel("m")
    replies = [asyncio.create_task(model.complete(HELLO, ())) for _ in range(50)]
    assert {(await reply).text for reply in replies} == {"a"}


async def test_a_client_of_ones_own_is_used_and_left_open(server: ChatServer) -> None:
    server.play(says("a"))
    async with openai.AsyncOpenAI(api_key="mine") as client:
        assert (await OpenAIModel("m", client=client).complete(HELLO, ())).text == "a"
        assert not client.is_closed()
    assert server.headers[0]["authorization"] == "Bearer mine"


async def test_settings_go_with_every_request_and_those_of_tools_only_with_tools(server: ChatServer) -> None:
    server.play(says("a"), says("b"))
    model = OpenAIModel("m", settings={"temperature": 0, "tool_choice": "auto"})
    await model.complete(HELLO, (WEATHER,))
    await model.complete(HELLO, ())
    assert [(sent["temperature"], sent.get("tool_choice")) for sent in server.requests] == [(0, "auto"), (0, None)]


async def test_arguments_win_over_the_environment(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/elsewhere")
    monkeypatch.setenv("OPENAI_API_KEY", "from the environment")
    server.play(says("a"))
    await OpenAIModel("m", base_url=server.url, api_key="given").complete(HELLO, ())
    assert server.headers[0]["authorization"] == "Bearer given"


@pytest.mark.parametrize("key", [None, "", "  "])
@pytest.mark.parametrize("url", [None, ""])
def test_a_missing_key_is_an_error_at_declaration(
    monkeypatch: pytest.MonkeyPatch, key: str | None, url: str | None
) -> None:
    for name, value in (("OPENAI_API_KEY", key), ("OPENAI_BASE_URL", url)):
        monkeypatch.delenv(name, raising=False)
        if value is not None:
            monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=r"openai:gpt-5.*set OPENAI_API_KEY"):
        resolve_model("openai:gpt-5")


def test_a_base_url_that_is_none_is_an_error_at_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "localhost:11434/v1")
    with pytest.raises(ConfigurationError, match="'localhost:11434/v1' must start with http"):
        resolve_model("openai:m")


@pytest.mark.parametrize("settings", [{"temperatur": 0}, {"stream": True}, {"messages": []}])
def test_settings_that_are_not_the_users_to_give_are_errors_at_declaration(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(settings))):
        OpenAIModel("m", api_key="k", settings=settings)


async def test_a_client_and_options_for_one_are_an_error_at_declaration() -> None:
    async with openai.AsyncOpenAI(api_key="mine") as client:
        with pytest.raises(ConfigurationError, match="client brings its own max_retries"):
            OpenAIModel("m", client=client, max_retries=1)


def test_a_missing_package_is_an_error_at_declaration_that_says_what_to_install() -> None:
    told = in_a_fresh_interpreter("""
        import sys
        sys.modules["openai"] = None
        from symfonic.errors import ConfigurationError
        from symfonic.models import resolve_model
        try:
            resolve_model("openai:gpt-5")
        except ConfigurationError as error:
            print(error)
    """)
    assert "'openai:gpt-5' needs the package openai: pip install openai" in told


def test_the_sdk_is_imported_by_the_declaration_that_names_it() -> None:
    told = in_a_fresh_interpreter("""
        import sys
        from symfonic.models import resolve_model
        before = {"openai", "pydantic", "langchain_core"} & set(sys.modules)
        resolve_model("openai:gpt-5")
        print(before, "openai" in sys.modules)
    """)
    assert told == "set() True"


def in_a_fresh_interpreter(code: str) -> str:
    lines = code.strip("\n").splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    environment = {**os.environ, "OPENAI_API_KEY": "k"}
    command = [sys.executable, "-c", "\n".join(line[indent:] for line in lines)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.strip()


@pytest.mark.parametrize(
    "given", ["", "gpt-5", "openai", "openai:", "openai: gpt", "Offline", "langchain:openai", "langchain::x", 42, None]
)
def test_what_is_no_model_is_named_beside_all_that_is_accepted(given: object) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve_model(given)
    assert repr(given) in str(caught.value)
    for accepted in ("'offline'", "'openai:NAME'", "'langchain:PROVIDER:NAME'", "LangChain chat model", "complete("):
        assert accepted in str(caught.value)


def test_a_class_is_not_mistaken_for_a_model() -> None:
    with pytest.raises(ConfigurationError, match="the class OpenAIModel, expected an object"):
        resolve_model(OpenAIModel)


async def test_requests_are_billed_to_the_organization_and_project_of_the_environment(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.play(says("a"))
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    model = OpenAIModel("m")
    monkeypatch.delenv("OPENAI_ORG_ID")
    await model.complete(HELLO, ())
    [sent] = server.headers
    assert (sent["openai-organization"], sent["openai-project"]) == ("org", "project")


def test_offline_is_the_embedded_model() -> None:
    assert isinstance(resolve_model("offline"), OfflineModel)


def test_a_model_object_comes_back_as_it_is(server: ChatServer) -> None:
    model = OpenAIModel("m")
    assert resolve_model(model) is model
    assert repr(model) == "OpenAIModel('m')"
