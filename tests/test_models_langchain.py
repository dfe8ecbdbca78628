"""LangChain chat models behind the port, with LangChain's own fakes and small subclasses."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from langchain.chat_models import init_chat_model
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.fake_chat_models import FakeListChatModel, GenericFakeChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import RunnableConfig, RunnableLambda

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.messages import Message, ToolCall
from symfonic.kernel.contracts.tool import Tool
from symfonic.models import resolve_model
from symfonic.models.langchain import LangChainModel


class Answering(BaseChatModel):
    """Answers with ``answer(messages, tools)``, and keeps every conversation and every binding."""

    answer: Callable[[list[BaseMessage], list[Any]], AIMessage]
    seen: list[list[BaseMessage]] = []  # noqa: RUF012  (pydantic copies it)
    bindings: list[list[Any]] = []  # noqa: RUF012

    @property
    def _llm_type(self) -> str:
        return "answering"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        self.bindings.append(tools)
        return self.bind(tools=tools, **kwargs)

    def _generate(self, messages: list[BaseMessage], *args: Any, tools: Any = (), **kwargs: Any) -> ChatResult:
        self.seen.append(messages)
        return ChatResult(generations=[ChatGeneration(message=self.answer(messages, list(tools)))])


def always(message: AIMessage) -> Answering:
    return Answering(answer=lambda messages, tools: message)


async def nothing(arguments: Any) -> None: ...


def tool(name: str) -> Tool:
    return Tool(name, f"Does {name}.", {"type": "object", "properties": {"city": {"type": "string"}}}, nothing)


HELLO = [Message("user", "hello")]
WEATHER = tool("weather")


async def test_langchains_own_fake_answers_without_tools_though_it_binds_none() -> None:
    model = resolve_model(FakeListChatModel(responses=["one", "two"]))
    assert [(await model.complete(HELLO, ())).text for _ in range(2)] == ["one", "two"]


async def test_a_chat_model_that_binds_no_tools_says_so_when_it_is_offered_some() -> None:
    model = resolve_model(GenericFakeChatModel(messages=iter(["never"])))
    with pytest.raises(ConfigurationError, match=r"GenericFakeChatModel implements no bind_tools.* offered weather"):
        await model.complete(HELLO, (WEATHER,))


async def test_a_conversation_becomes_langchains_messages() -> None:
    chat_model = always(AIMessage("ok"))
    calls = (
        ToolCall("a", "weather", {"city": "Ōsaka"}),
        ToolCall("b", "weather", '{"city": "Lima"}'),
        ToolCall("c", "weather", '{"city": '),
        ToolCall("d", "weather", "[1]"),
    )
    conversation = [
        Message("system", "Be brief."),
        *HELLO,
        Message("assistant", "Looking.", calls),
        Message("tool", "rain \ud800", tool_call_id="a", name="weather"),
        Message("assistant", "Done."),
    ]
    await resolve_model(chat_model).complete(conversation, ())
    [[system, user, assistant, result, done]] = chat_model.seen
    assert (type(system), system.content) == (SystemMessage, "Be brief.")
    assert (type(user), user.content) == (HumanMessage, "hello")
    assert isinstance(assistant, AIMessage)
    assert assistant.content == "Looking."
    assert [(call["id"], call["name"], call["args"]) for call in assistant.tool_calls] == [
        ("a", "weather", {"city": "Ōsaka"}),
        ("b", "weather", {"city": "Lima"}),
    ]
    assert [(call["id"], call["args"]) for call in assistant.invalid_tool_calls] == [("c", '{"city": '), ("d", "[1]")]
    assert isinstance(result, ToolMessage)
    assert (result.tool_call_id, result.name, result.content) == ("a", "weather", "rain \ufffd")
    assert (type(done), done.content) == (AIMessage, "Done.")


async def test_tool_calls_come_back_with_ids_arguments_and_tokens_the_malformed_ones_raw() -> None:
    reply = await LangChainModel(
        always(
            AIMessage(
                "",
                tool_calls=[
                    {"type": "tool_call", "id": "a", "name": "weather", "args": {"city": "x"}},
                    {"type": "tool_call", "id": None, "name": "weather", "args": {}},
                ],
                invalid_tool_calls=[
                    {"type": "invalid_tool_call", "id": "c", "name": "weather", "args": '{"city": ', "error": "bad"},
                    {"type": "invalid_tool_call", "id": "d", "name": None, "args": None, "error": None},
                ],
                usage_metadata={"input_tokens": 7, "output_tokens": 3, "total_tokens": 10},
            )
        )
    ).complete(HELLO, (WEATHER,))
    first, second, third, fourth = reply.tool_calls
    assert first == ToolCall("a", "weather", {"city": "x"})
    assert second.id
    assert second.arguments == {}
    assert third == ToolCall("c", "weather", '{"city": ')
    assert fourth == ToolCall("d", "", "{}")
    assert (reply.text, reply.input_tokens, reply.output_tokens) == ("", 7, 3)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (AIMessage([{"type": "thinking", "thinking": "hm", "text": "hm"}, {"type": "text", "text": "yes"}]), "yes"),
        (AIMessage([{"type": "reasoning", "reasoning": "hm"}, "ye", {"type": "text", "text": "s"}]), "yes"),
        (AIMessage([{"type": "reasoning", "reasoning": "only thoughts"}]), ""),
        (AIMessage([{"type": "refusal", "refusal": "no"}]), "no"),
        (AIMessage("", additional_kwargs={"refusal": "no"}), "no"),
        (AIMessage("", additional_kwargs={"reasoning_content": "hm"}), ""),
    ],
)
async def test_the_answer_is_the_text_parts_never_the_reasoning(message: AIMessage, text: str) -> None:
    assert (await LangChainModel(always(message)).complete(HELLO, ())).text == text


async def test_tools_are_bound_once_for_all_turns_that_offer_them() -> None:
    chat_model = Answering(answer=lambda messages, tools: AIMessage(",".join(t["function"]["name"] for t in tools)))
    model = LangChainModel(chat_model)
    few, many = (WEATHER,), (WEATHER, tool("clock"))
    texts = [(await model.complete(HELLO, offered)).text for offered in (few, many, few, list(many), (), few)]
    assert texts == ["weather", "weather,clock", "weather", "weather,clock", "", "weather"]
    assert [len(bound) for bound in chat_model.bindings] == [1, 2]
    assert chat_model.bindings[0] == [
        {
            "type": "function",
            "function": {"name": "weather", "description": "Does weather.", "parameters": WEATHER.parameters},
        }
    ]


async def test_many_agents_at_once_get_their_own_tools_from_one_model() -> None:
    chat_model = Answering(answer=lambda messages, tools: AIMessage(tools[0]["function"]["name"]))
    model = LangChainModel(chat_model)
    offered = [(tool(f"tool_{number}"),) for number in range(40)]
    async with asyncio.TaskGroup() as group:
        turns = [group.create_task(model.complete(HELLO, tools)) for tools in offered * 2]
    assert [turn.result().text for turn in turns] == [f"tool_{number}" for number in range(40)] * 2


async def test_bindings_of_tools_long_out_of_use_are_let_go() -> None:
    chat_model = always(AIMessage("ok"))
    model = LangChainModel(chat_model)
    for name in ["first", *map(str, range(16)), "first"]:
        await model.complete(HELLO, (tool(name),))
    assert [bound[0]["function"]["name"] for bound in chat_model.bindings].count("first") == 2


async def test_the_hosts_config_reaches_the_chat_model() -> None:
    started = []

    class Watching(BaseCallbackHandler):
        def on_chat_model_start(self, *args: Any, **kwargs: Any) -> None:
            started.append(kwargs["parent_run_id"])

    async def node(question: str) -> str:
        return (await model.complete([Message("user", question)], (WEATHER,))).text

    model = LangChainModel(always(AIMessage("ok")))
    config: RunnableConfig = {"callbacks": [Watching()]}
    assert await RunnableLambda(node).ainvoke("hi", config) == "ok"
    [parent] = started
    assert parent is not None


async def test_an_error_of_the_chat_model_comes_out_as_it_is() -> None:
    def fail(messages: Any, tools: Any) -> AIMessage:
        raise LookupError("no such deployment")

    with pytest.raises(LookupError, match="no such deployment"):
        await LangChainModel(Answering(answer=fail)).complete(HELLO, (WEATHER,))


@pytest.fixture
def groq(monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed provider package whose models tell their names."""

    class ChatGroq(Answering):
        model: str
        answer: Any = None

        def _generate(self, *args: Any, **kwargs: Any) -> ChatResult:
            return ChatResult(generations=[ChatGeneration(message=AIMessage(f"I am {self.model}"))])

    integration = ModuleType("langchain_groq")
    integration.ChatGroq = ChatGroq  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain_groq", integration)


@pytest.mark.usefixtures("groq")
async def test_a_named_model_is_made_by_langchain() -> None:
    model = resolve_model("langchain:groq:llama:8b")
    assert (await model.complete(HELLO, (WEATHER,))).text == "I am llama:8b"
    assert repr(model) == "LangChainModel(ChatGroq)"


@pytest.mark.usefixtures("groq")
async def test_a_configurable_model_of_langchain_is_one_of_its_chat_models() -> None:
    model = resolve_model(init_chat_model("llama", model_provider="groq", configurable_fields="any"))
    assert (await model.complete(HELLO, (WEATHER,))).text == "I am llama"


@pytest.mark.parametrize(
    ("declared", "told"),
    [
        ("langchain:nowhere:m", "'langchain:nowhere:m' cannot be made: Unsupported provider='nowhere'"),
        ("langchain:mistralai:m", "`pip install langchain-mistralai`"),
    ],
)
def test_what_langchain_cannot_make_is_an_error_at_declaration(declared: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        resolve_model(declared)
    assert told in str(caught.value)
    assert caught.value.__cause__ is not None


def test_a_missing_key_of_a_provider_is_an_error_at_declaration(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_key(**options: Any) -> None:
        raise RuntimeError("set DEEPSEEK_API_KEY")

    integration = ModuleType("langchain_deepseek")
    integration.ChatDeepSeek = without_key  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "langchain_deepseek", integration)
    with pytest.raises(ConfigurationError, match="'langchain:deepseek:m' cannot be made: set DEEPSEEK_API_KEY"):
        resolve_model("langchain:deepseek:m")


@pytest.mark.parametrize(
    ("missing", "declaration", "told"),
    [
        ("langchain", 'resolve_model("langchain:openai:m")', "the package langchain: pip install langchain ("),
        ("langchain_core", "LangChainModel(object())", "langchain-core: pip install langchain-core ("),
    ],
)
def test_a_missing_package_is_an_error_at_declaration_that_says_what_to_install(
    missing: str, declaration: str, told: str
) -> None:
    code = (
        f"import sys\nsys.modules[{missing!r}] = None\n"
        "from symfonic.errors import ConfigurationError\n"
        "from symfonic.models import resolve_model\n"
        "from symfonic.models.langchain import LangChainModel\n"
        f"try:\n    {declaration}\nexcept ConfigurationError as error:\n    print(error)\n"
    )
    assert told in fresh(code)


def test_looking_for_langchain_models_imports_no_langchain() -> None:
    code = (
        "import sys\n"
        "from symfonic.models import resolve_model\n"
        "import symfonic.models.langchain\n"
        "class Own:\n    async def complete(self, messages, tools): ...\n"
        "resolve_model(Own())\n"
        "print([name for name in sys.modules if name.startswith('langchain') or name == 'pydantic'])\n"
    )
    assert fresh(code) == "[]"


def fresh(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, check=True, capture_output=True, text=True, env=dict(os.environ)).stdout.strip()
