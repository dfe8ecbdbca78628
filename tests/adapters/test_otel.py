"""Real runs, seen by OpenTelemetry's own SDK: the spans of a tree, what they are called, and what is below what."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import SpanKind, StatusCode, get_current_span
from otel_kit import Seen, boss, child, leaf, says, told, watching

from symfonic import Agent, Options
from symfonic.adapters.otel import SCHEMA_URL
from symfonic.kernel.contracts import events
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, tool_call


@pytest.fixture
def seen() -> Iterator[Seen]:
    yield from watching()


async def test_a_tree_is_a_trace_with_the_names_of_the_conventions(seen: Seen) -> None:
    agent = boss(child("middle", boss(child("bottom", Agent(says("openai:gpt-4o-mini", 7, 3))), name="ignored")))
    result = await agent.run("go", observers=(seen.otel,))

    assert seen.path(seen.one("chat gpt-4o-mini")) == [
        "invoke_agent boss",
        "execute_tool run_agent",
        "invoke_agent middle",
        "execute_tool run_agent",
        "invoke_agent bottom",
        "chat gpt-4o-mini",
    ]
    assert len(seen.all("chat")) == 4
    assert len({span.context.trace_id for span in seen.spans}) == 1
    scope = seen.spans[0].instrumentation_scope
    assert scope is not None
    assert (scope.name, scope.schema_url) == ("symfonic", SCHEMA_URL)
    middle = seen.one("invoke_agent middle")
    trace = result.delegations[0].trace
    assert trace is not None
    assert trace.child is not None
    assert middle.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "middle",
        "symfonic.run_id": trace.child.run_id,
        "symfonic.root_run_id": result.run_id,
        "symfonic.parent_run_id": result.run_id,
        "symfonic.depth": 1,
        "symfonic.delegation.attempt": 1,
        "symfonic.delegation.outcome": "delivered",
        "symfonic.usage.input_tokens": 7,
        "symfonic.usage.output_tokens": 3,
        "symfonic.usage.model_calls": 3,
        "symfonic.usage.tool_calls": 1,
    }
    assert "symfonic.parent_run_id" not in (seen.one("invoke_agent boss").attributes or {})
    assert {span.status.status_code for span in seen.spans} == {StatusCode.UNSET}
    kinds = {span.name.partition(" ")[0]: span.kind for span in seen.spans}
    assert kinds == {"invoke_agent": SpanKind.INTERNAL, "execute_tool": SpanKind.INTERNAL, "chat": SpanKind.CLIENT}


async def test_a_model_call_and_a_tool_call_say_what_they_are(seen: Seen) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    call = ToolCall("call_7", "add", {"a": 1, "b": 2})
    replies = [ModelReply("", (call,), 100, 10, "anthropic:claude"), ModelReply("3")]
    agent = Agent(ScriptedModel(*replies), name="calculator", tools=[add])
    result = await agent.run("go", observers=(seen.otel,))

    run = {"symfonic.run_id": result.run_id, "symfonic.root_run_id": result.run_id, "symfonic.depth": 0}
    run["gen_ai.agent.name"] = "calculator"
    assert seen.one("execute_tool add").attributes == run | {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "call_7",
        "gen_ai.tool.type": "function",
    }
    assert seen.one("chat claude").attributes == run | {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "anthropic",
        "gen_ai.response.model": "claude",
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 10,
    }
    assert seen.one("chat").attributes == run | {"gen_ai.operation.name": "chat"}


@pytest.mark.parametrize(
    ("model", "attributes"),
    [
        ("openai:gpt-4o", {"gen_ai.provider.name": "openai", "gen_ai.response.model": "gpt-4o"}),
        ("ollama:llama3.1:8b", {"gen_ai.provider.name": "ollama", "gen_ai.response.model": "llama3.1:8b"}),
        ("google_genai:gemini", {"gen_ai.provider.name": "gcp.gemini", "gen_ai.response.model": "gemini"}),
        ("gpt-4o", {"gen_ai.response.model": "gpt-4o"}),
        ("", {}),
        ("openai:", {"gen_ai.provider.name": "openai"}),
        (
            "http://localhost:11434/llama3.1:8b",
            {"server.address": "localhost", "server.port": 11434, "gen_ai.response.model": "llama3.1:8b"},
        ),
        (
            "https://proxy.example/m",
            {"server.address": "proxy.example", "server.port": 443, "gen_ai.response.model": "m"},
        ),
        ("https://proxy.example", {"server.address": "proxy.example", "server.port": 443}),
        ("http://[oops/m", {"gen_ai.response.model": "http://[oops/m"}),
        ("http://host:port/m", {"gen_ai.response.model": "http://host:port/m"}),
    ],
)
async def test_a_model_is_told_as_far_as_it_is_known(seen: Seen, model: str, attributes: dict[str, Any]) -> None:
    await Agent(says(model)).run("go", observers=(seen.otel,))
    name = attributes.get("gen_ai.response.model")
    span = seen.one(f"chat {name}" if name else "chat")
    keys = ("gen_ai.provider.name", "gen_ai.response.model", "server.address", "server.port")
    assert {key: told(span, key) for key in keys if told(span, key) is not None} == attributes


async def test_a_root_is_below_the_span_that_is_current_when_it_starts(seen: Seen) -> None:
    with seen.tracer.start_as_current_span("request") as request:
        await leaf().run("1", observers=(seen.otel,))
        assert get_current_span() is request
        await leaf().run("2", observers=(seen.otel,))
        assert get_current_span() is request
    await leaf().run("3", observers=(seen.otel,))
    paths = [seen.path(span) for span in seen.all("invoke_agent leaf")]
    assert paths == [["request", "invoke_agent leaf"], ["request", "invoke_agent leaf"], ["invoke_agent leaf"]]


async def test_parents_are_the_trees_and_not_what_is_current(seen: Seen) -> None:
    inner = leaf("deep", name="inner")

    async def look() -> str:
        with seen.tracer.start_as_current_span("mine"):
            return (await inner.run("look")).text

    agent = Agent(ScriptedModel(tool_call("look"), "done"), tools=[look], name="top")
    await agent.run("go", observers=(seen.otel,))
    assert seen.path(seen.one("invoke_agent inner")) == ["invoke_agent top", "execute_tool look", "invoke_agent inner"]


async def test_a_run_in_a_thread_of_a_tool_is_below_the_tool(seen: Seen) -> None:
    inner = boss(child("leaf", leaf()), name="inner")

    def look() -> str:
        with seen.tracer.start_as_current_span("http"):
            return inner.run_sync("look").text

    agent = Agent(ScriptedModel([tool_call("look"), tool_call("look")], "done"), tools=[look], name="top")
    await agent.run("go", observers=(seen.otel,))
    tools = ["invoke_agent top", "execute_tool look"]
    assert [seen.path(span) for span in seen.all("http")] == [[*tools, "http"]] * 2
    below = [*tools, "invoke_agent inner", "execute_tool run_agent", "invoke_agent leaf"]
    assert [seen.path(span) for span in seen.all("invoke_agent leaf")] == [below] * 2
    first, second = seen.all("invoke_agent inner")
    assert first.parent is not None
    assert second.parent is not None
    assert first.parent.span_id != second.parent.span_id


async def test_a_run_in_another_loop_is_below_the_foreign_child_that_made_it(seen: Seen) -> None:
    inner = leaf(name="inner")

    class Foreign:
        async def run(self, query: str) -> Any:
            return await asyncio.to_thread(lambda: asyncio.run(inner.run(query)))

    await boss(child("foreign", Foreign())).run("go", observers=(seen.otel,))
    assert seen.path(seen.one("invoke_agent inner"))[-2:] == ["invoke_agent foreign", "invoke_agent inner"]


async def test_parallel_delegations_are_each_below_their_own_call(seen: Seen) -> None:
    everyone = asyncio.Barrier(3)

    async def meet(messages: Any, tools: Any) -> str:
        await everyone.wait()
        return "met"

    await boss(*(child(name, Agent(FunctionModel(meet))) for name in "abc")).run("go", observers=(seen.otel,))
    parents = [seen.one(f"invoke_agent {name}").parent for name in "abc"]
    tools = {span.context.span_id: span.attributes or {} for span in seen.all("execute_tool run_agent")}
    calls = [tools[parent.span_id]["gen_ai.tool.call.id"] for parent in parents if parent]
    assert calls == ["call_1_1", "call_1_2", "call_1_3"]


async def test_a_foreign_child_is_told_of_as_its_delegation(seen: Seen) -> None:
    class Foreign:
        async def run(self, query: str) -> Any:
            with seen.tracer.start_as_current_span("theirs"):
                return await ScriptedChild("fine").run(query)

    await boss(child("foreign", Foreign())).run("go", observers=(seen.otel,))
    span = seen.one("invoke_agent foreign")
    assert told(span, "symfonic.delegation.outcome") == "delivered"
    assert told(span, "symfonic.depth") == 1
    assert seen.path(seen.one("theirs"))[-2:] == ["invoke_agent foreign", "theirs"]


async def test_spans_begin_and_end_when_the_events_say(seen: Seen) -> None:
    heard: list[events.Event] = []
    await boss(child("leaf", leaf())).run("go", observers=(seen.otel, heard.append))
    [begun] = [int(each.wall * 1e9) for each in heard if isinstance(each, events.DelegationStarted)]
    [ended] = [int(each.wall * 1e9) for each in heard if isinstance(each, events.DelegationFinished)]
    span, root = seen.one("invoke_agent leaf"), seen.one("invoke_agent boss")
    assert (span.start_time, span.end_time) == (begun, ended)
    assert (root.start_time, root.end_time) == (int(heard[0].wall * 1e9), int(heard[-1].wall * 1e9))


async def test_told_by_an_asynchronous_observer_it_makes_the_same_tree(seen: Seen) -> None:
    async def relay(event: events.Event) -> None:
        seen.otel(event)

    await boss(*(child(name, boss(child("leaf", leaf()))) for name in "abc")).run("go", observers=(relay,))
    assert sorted(seen.path(span)[2] for span in seen.all("invoke_agent leaf")) == [f"invoke_agent {n}" for n in "abc"]


async def test_an_observer_of_a_child_alone_puts_it_below_what_is_current(seen: Seen) -> None:
    watched = leaf(options=Options(observers=(seen.otel,)))
    with seen.tracer.start_as_current_span("request"):
        await boss(child("leaf", watched)).run("go")
    assert seen.path(seen.one("invoke_agent leaf")) == ["request", "invoke_agent leaf"]


def test_one_observer_may_watch_many_runs_in_many_threads(seen: Seen) -> None:
    agent = boss(child("a", leaf()), child("b", leaf()))
    threads = [threading.Thread(target=lambda: agent.run_sync("go", observers=(seen.otel,))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    roots = seen.all("invoke_agent boss")
    assert len({span.context.trace_id for span in roots}) == 20
    assert {tuple(seen.path(span)) for span in seen.all("invoke_agent a")} == {
        ("invoke_agent boss", "execute_tool run_agent", "invoke_agent a")
    }
