"""What a tree cost, at real prices; what has no price is counted, never guessed."""

import asyncio
import sys
import threading
from decimal import Decimal
from typing import Any

import httpx
import pytest
from events_kit import asks, boss, child
from genai_prices import Usage, calc_price
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage
from openai import AsyncOpenAI

from symfonic import Agent, ConfigurationError
from symfonic.adapters.genai_prices import CostMeter
from symfonic.kernel.contracts.model import ModelReply
from symfonic.models.langchain import LangChainModel
from symfonic.models.openai import OpenAIModel
from symfonic.testing import FunctionModel, ScriptedModel


def priced(model: str, tokens_in: int = 1000, tokens_out: int = 100, *calls: Any) -> FunctionModel:
    """A model that says what it is and what it took."""

    def reply(messages: Any, tools: Any) -> ModelReply:
        asked = calls if messages[-1].role == "user" else ()
        return ModelReply("done", tuple(asked), tokens_in, tokens_out, model)

    return FunctionModel(reply)


def price(provider: str, name: str, tokens_in: int = 1000, tokens_out: int = 100) -> Decimal:
    usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out)
    return calc_price(usage, name, provider_id=provider).total_price


async def test_a_tree_costs_what_its_model_calls_cost() -> None:
    meter = CostMeter()
    cheap = Agent(priced("openai:gpt-4o-mini", 2000, 10))
    lead = Agent(priced("anthropic:claude-sonnet-4-5", 500, 50, asks("a"), asks("b")), sub_agents=children(cheap))
    await lead.run("go", observers=(meter,))

    mini, sonnet = price("openai", "gpt-4o-mini", 2000, 10), price("anthropic", "claude-sonnet-4-5", 500, 50)
    assert meter.by_model == {"openai:gpt-4o-mini": 2 * mini, "anthropic:claude-sonnet-4-5": 2 * sonnet}
    assert meter.total == 2 * mini + 2 * sonnet > 0
    assert meter.unpriced == {}


def children(agent: Agent) -> list[Any]:
    return [child("a", agent), child("b", agent)]


@pytest.mark.parametrize(
    "model",
    [
        "",
        "gpt-4o",
        "openai:",
        "openai:no-such-model",
        "nobody:gpt-4o",
        ":gpt-4o",
        "http://localhost:11434/llama3.1:8b",
        "https://proxy.example/gpt-4o",
        "https://api.openai.com",
        "localhost:gpt-4o",
    ],
)
async def test_a_model_without_a_known_price_is_counted_and_not_guessed(model: str) -> None:
    meter = CostMeter()
    await Agent(priced(model)).run("go", observers=(meter,))
    assert (meter.total, meter.by_model, meter.unpriced) == (0, {}, {model: 1})


async def test_a_server_is_priced_by_its_address() -> None:
    meter = CostMeter()
    await Agent(priced("https://api.groq.com/llama-3.3-70b-versatile")).run("go", observers=(meter,))
    assert meter.total == price("groq", "llama-3.3-70b-versatile") > 0


async def test_a_call_that_failed_was_cancelled_or_counted_no_tokens_has_no_known_price() -> None:
    meter = CostMeter()
    failing = Agent(ScriptedModel(ValueError("no")))
    free = Agent(priced("openai:gpt-4o", 0, 0))
    hanging_reached = asyncio.Event()

    async def hang(messages: Any, tools: Any) -> str:
        hanging_reached.set()
        await asyncio.Event().wait()
        return ""

    await boss(child("failing", failing), child("free", free)).run("go", observers=(meter,))
    assert meter.unpriced == {"": 3, "openai:gpt-4o": 1}
    async with Agent(FunctionModel(hang)).stream("go", observers=(meter,)):
        await hanging_reached.wait()
    assert meter.unpriced == {"": 4, "openai:gpt-4o": 1}
    assert meter.total == 0


def test_one_meter_may_watch_many_runs_in_many_threads() -> None:
    meter = CostMeter()
    agent = Agent(priced("openai:gpt-4o"))
    threads = [threading.Thread(target=lambda: asyncio.run(agent.run("go", observers=(meter,)))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert meter.total == 20 * price("openai", "gpt-4o")
    assert "unpriced={}" in repr(meter)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)
    with pytest.raises(ConfigurationError, match="CostMeter needs genai-prices: pip install genai-prices"):
        CostMeter()


@pytest.mark.parametrize(
    ("url", "served", "model"),
    [
        ("https://api.openai.com/v1", "gpt-4o-2024-08-06", "openai:gpt-4o-2024-08-06"),
        ("https://api.openai.com/v1", "", "openai:gpt-4o"),
        ("http://127.0.0.1:9/v1", "m", "http://127.0.0.1:9/m"),
        ("https://user:pw@proxy.example/v1", "gpt-4o", "https://proxy.example/gpt-4o"),
    ],
)
async def test_an_openai_model_says_what_answered_and_where(url: str, served: str, model: str) -> None:
    body = {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": served,
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
        "usage": {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100},
    }
    meter = CostMeter()
    transport = httpx.MockTransport(lambda request: httpx.Response(200, json=body))
    async with httpx.AsyncClient(transport=transport) as http:
        client = AsyncOpenAI(api_key="k", http_client=http, base_url=url)
        await Agent(OpenAIModel("gpt-4o", client=client)).run("go", observers=(meter,))
    known = model.startswith("openai:")
    assert meter.by_model == ({model: price("openai", "gpt-4o")} if known else {})
    assert meter.unpriced == ({} if known else {model: 1})


@pytest.mark.parametrize(
    ("metadata", "model"),
    [
        ({"model_provider": "openai", "model_name": "gpt-4o"}, "openai:gpt-4o"),
        ({"model_provider": "anthropic", "model": "claude"}, "anthropic:claude"),
        ({"model_name": "gpt-4o"}, ""),
        ({}, ""),
    ],
    ids=repr,
)
async def test_a_langchain_model_says_what_its_integration_says(metadata: dict[str, str], model: str) -> None:
    chat = GenericFakeChatModel(messages=iter([AIMessage("hi", response_metadata=metadata)]))
    assert (await LangChainModel(chat).complete((), ())).model == model


@pytest.mark.parametrize("model", [None, 7, b"m"])
async def test_a_reply_whose_models_name_is_no_text_is_a_models_error(model: Any) -> None:
    agent = Agent(priced(model))
    with pytest.raises(Exception, match="its reply's model is"):
        await agent.run("go")
