"""Real runs, seen by OpenTelemetry's own SDK: its spans in memory, its metrics in a reader."""

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import stamina
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN, SpanKind, StatusCode, get_current_span

from symfonic import Agent, ChildPolicy, ConfigurationError, Limits, Options, SubAgent, SymfonicError, Veto
from symfonic.adapters.otel import SCHEMA_URL, OpenTelemetry
from symfonic.errors import ModelError
from symfonic.kernel.contracts import events
from symfonic.kernel.contracts.messages import ToolCall, Usage
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, tool_call
from symfonic.testing.models import Reply


class Counting(SimpleSpanProcessor):
    """Exports what ends, and counts what began."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        super().__init__(exporter)
        self.begun = 0

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.begun += 1


class Seen:
    """An observer with providers of its own, and what came out of them."""

    def __init__(self, **options: Any) -> None:
        self.exporter, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.counting = Counting(self.exporter)
        self.provider = TracerProvider()
        self.provider.add_span_processor(self.counting)
        self.meters = MeterProvider([self.reader])
        self.tracer = self.provider.get_tracer("test")
        self.otel = OpenTelemetry(self.provider, self.meters, **options)

    @property
    def spans(self) -> list[ReadableSpan]:
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def all(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans if span.name == name]

    def one(self, name: str) -> ReadableSpan:
        [span] = self.all(name)
        return span

    def path(self, span: ReadableSpan) -> list[str]:
        """The names from the root to the span."""
        known = {each.context.span_id: each for each in self.spans}
        above = self.path(known[span.parent.span_id]) if span.parent else []
        return [*above, span.name]

    def metric(self, name: str) -> list[Any]:
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return [
            point for scope in scopes for each in scope.metrics if each.name == name for point in each.data.data_points
        ]

    def check_whole(self) -> None:
        """Every span ended once, none is kept, and none is current any more."""
        ids = [span.context.span_id for span in self.spans]
        assert len(set(ids)) == len(ids) == self.counting.begun
        assert repr(self.otel) == "OpenTelemetry(open_runs=0)"
        assert get_current_span() is INVALID_SPAN


@pytest.fixture
def seen() -> Iterator[Seen]:
    made = Seen()
    yield made
    made.check_whole()


def told(thing: Any, key: str) -> Any:
    """An attribute of a span or of an event in it, or None."""
    return (thing.attributes or {}).get(key)


def asks(name: str, task: str = "t") -> ToolCall:
    return tool_call("run_agent", name=name, task=task)


def child(name: str, agent: Any, **policy: Any) -> SubAgent:
    return SubAgent(name, agent, f"Does what {name} does.", **policy)


def boss(*children: SubAgent, ask: Sequence[ToolCall] | None = None, **parts: Any) -> Agent:
    calls = [asks(each.name) for each in children] if ask is None else list(ask)
    return Agent(ScriptedModel(calls, "done"), **{"name": "boss", "sub_agents": children} | parts)


def leaf(*replies: Any, name: str = "leaf", **parts: Any) -> Agent:
    return Agent(ScriptedModel(*(replies or ("done",))), name=name, **parts)


def says(model: str, tokens_in: int = 0, tokens_out: int = 0) -> FunctionModel:
    return FunctionModel(lambda messages, tools: ModelReply("done", (), tokens_in, tokens_out, model))


def raises(error: BaseException) -> FunctionModel:
    def fail(messages: Any, tools: Any) -> str:
        raise error

    return FunctionModel(fail)


class Hanging:
    """A model that says it was reached, and never answers."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()

    async def complete(self, messages: Any, tools: Any) -> ModelReply:
        self.reached.set()
        await asyncio.Event().wait()
        return ModelReply()


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


@pytest.mark.parametrize(
    ("outcome", "parts", "name"),
    [
        ("refused_depth", {"max_depth": 0}, "worker"),
        ("unknown_child", {}, "nobody"),
        ("refused_budget", {"limits": Limits(max_delegations=0)}, "worker"),
        ("refused_policy", {"options": Options(on_delegate=lambda request: Veto("not today"))}, "worker"),
    ],
)
async def test_a_refusal_is_an_event_on_the_callers_span(seen: Seen, outcome: str, parts: Any, name: str) -> None:
    agent = boss(child("worker", leaf()), ask=[asks(name, "dig")], **parts)
    [record] = (await agent.run("go", observers=(seen.otel,))).delegations
    tool = seen.one("execute_tool run_agent")
    [refused] = tool.events
    assert refused.name == "symfonic.delegation.refused"
    assert refused.attributes == {
        "gen_ai.agent.name": name,
        "symfonic.delegation.outcome": outcome,
        "symfonic.delegation.message": record.message,
    }
    assert tool.status.status_code is StatusCode.UNSET
    assert not seen.all(f"invoke_agent {name}")


@pytest.mark.parametrize(
    ("runner", "policy", "outcome", "kind", "words"),
    [
        (Agent(raises(ValueError("no"))), None, "child_failed", "ValueError", "ValueError: no"),
        (ScriptedChild(ValueError("no")), None, "child_failed", "child_failed", "no"),
        (Agent(ScriptedModel("  ")), None, "child_failed", "child_failed", "no final response"),
        (leaf(tool_call("x"), options=Options(max_steps=1)), None, "child_failed", "child_failed", "stopped after 1"),
        (Agent(raises(asyncio.CancelledError())), None, "child_cancelled", "child_cancelled", "was cancelled"),
        (Agent(Hanging()), ChildPolicy(timeout=0.02), "child_timed_out", "child_timed_out", "timed out after"),
    ],
    ids=["model", "foreign", "silent", "limit", "cancelled", "late"],
)
async def test_a_delegation_that_fails_says_why(
    seen: Seen, runner: Any, policy: Any, outcome: str, kind: str, words: str
) -> None:
    [record] = (await boss(child("worker", runner, policy=policy)).run("go", observers=(seen.otel,))).delegations
    span = seen.one("invoke_agent worker")
    assert told(span, "symfonic.delegation.outcome") == record.outcome == outcome
    assert told(span, "error.type") == kind
    assert span.status.status_code is StatusCode.ERROR
    assert words in (span.status.description or "")
    assert seen.one("invoke_agent boss").status.status_code is StatusCode.UNSET


async def test_a_retried_child_has_a_span_for_each_attempt(seen: Seen) -> None:
    flaky = ScriptedChild(ValueError("first"), ValueError("second"), "third time lucky")
    replies: Iterator[Reply] = iter([ValueError("overloaded"), "done"])
    native = Agent(FunctionModel(lambda messages, tools: next(replies)))
    agent = boss(
        child("flaky", flaky, policy=ChildPolicy(retries=2)), child("native", native, policy=ChildPolicy(retries=1))
    )
    with stamina.set_testing(True, attempts=3, cap=True):
        await agent.run("go", observers=(seen.otel,))

    attempts = seen.all("invoke_agent flaky")
    assert [told(span, "symfonic.delegation.attempt") for span in attempts] == [1, 2, 3]
    assert [span.status.description for span in attempts] == ["first", "second", None]
    assert [told(span, "error.type") for span in attempts] == ["child_failed", "child_failed", None]
    assert [told(span, "symfonic.delegation.retried") for span in attempts] == [True, True, None]
    assert [told(span, "symfonic.delegation.outcome") for span in attempts] == [
        None,
        None,
        "delivered",
    ]
    assert len({span.parent.span_id for span in attempts if span.parent}) == 1
    first, second = seen.all("invoke_agent native")
    assert told(first, "error.type") == "ValueError"
    assert second.status.status_code is StatusCode.UNSET


async def test_a_run_that_fails_ends_in_an_error(seen: Seen) -> None:
    with pytest.raises(ModelError):
        await Agent(raises(ValueError("no")), name="top").run("go", observers=(seen.otel,))
    chat, run = seen.one("chat"), seen.one("invoke_agent top")
    for span in (chat, run):
        assert told(span, "error.type") == "ValueError"
        assert span.status.status_code is StatusCode.ERROR
    assert chat.status.description == "ValueError: no"
    assert run.status.description == "the model failed: ValueError: no"


@pytest.mark.parametrize(
    "agent",
    [
        leaf(tool_call("nothing"), "x", options=Options(max_steps=1)),
        leaf(tool_call("nothing"), "x", limits=Limits(max_model_calls=1)),
        Agent(Hanging(), name="leaf", limits=Limits(timeout=0.02)),
    ],
    ids=["steps", "calls", "time"],
)
async def test_a_run_that_has_to_stop_ends_in_an_error(seen: Seen, agent: Agent) -> None:
    with pytest.raises(SymfonicError) as raised:
        await agent.run("go", observers=(seen.otel,))
    span = seen.one("invoke_agent leaf")
    assert told(span, "error.type") == "failed"
    assert span.status.description == str(raised.value)


async def test_a_tool_that_fails_ends_in_an_error_and_its_run_goes_on(seen: Seen) -> None:
    def fail() -> str:
        raise ValueError("secret arguments")

    await Agent(ScriptedModel([tool_call("fail"), tool_call("nothing")], "done"), tools=[fail]).run(
        "go", observers=(seen.otel,)
    )
    for name in ("execute_tool fail", "execute_tool nothing"):
        span = seen.one(name)
        assert told(span, "error.type") == "tool_error"
        assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert seen.one("invoke_agent agent").status.status_code is StatusCode.UNSET


async def test_a_cancelled_root_ends_every_span_of_its_tree(seen: Seen) -> None:
    model = Hanging()
    agent = boss(child("middle", boss(child("bottom", Agent(model)))))
    task = asyncio.ensure_future(agent.run("go", observers=(seen.otel,)))
    await model.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    kinds = {span.name: told(span, "error.type") for span in seen.spans}
    assert kinds["invoke_agent boss"] == "cancelled"
    assert kinds["invoke_agent middle"] == kinds["invoke_agent bottom"] == "child_cancelled"
    assert seen.all("chat")[-1].status.description == "cancelled"


async def test_a_stream_left_early_ends_every_span(seen: Seen) -> None:
    agent = boss(child("bottom", Agent(Hanging())))
    async with agent.stream("go", observers=(seen.otel,)) as heard:
        async for event in heard:
            if isinstance(event, events.ModelCalled) and event.where.depth == 1:
                break
    assert told(seen.one("invoke_agent boss"), "error.type") == "cancelled"
    assert told(seen.one("invoke_agent bottom"), "symfonic.delegation.outcome") == "child_cancelled"


async def test_a_run_that_is_closed_from_outside_ends_its_spans(seen: Seen) -> None:
    run = Agent(Hanging(), name="top").run("go", observers=(seen.otel,))
    await asyncio.create_task(_first_step(run))
    run.close()  # in another context than that it ran in
    assert told(seen.one("invoke_agent top"), "error.type") == "cancelled"


async def _first_step(run: Any) -> None:
    run.send(None)


async def test_a_run_that_outlives_the_tool_that_started_it_is_told_to_its_end(seen: Seen) -> None:
    model = Hanging()
    started: list[asyncio.Task[Any]] = []

    async def begin() -> str:
        started.append(asyncio.ensure_future(Agent(model, name="later").run("go")))
        await model.reached.wait()
        return "begun"

    await Agent(ScriptedModel(tool_call("begin"), "done"), name="top", tools=[begin]).run("go", observers=(seen.otel,))
    assert repr(seen.otel) == "OpenTelemetry(open_runs=1)"
    started[0].cancel()
    await asyncio.wait(started)
    assert seen.path(seen.one("invoke_agent later")) == ["invoke_agent top", "execute_tool begin", "invoke_agent later"]


async def test_told_by_an_asynchronous_observer_it_makes_the_same_tree(seen: Seen) -> None:
    async def relay(event: events.Event) -> None:
        seen.otel(event)

    await boss(*(child(name, boss(child("leaf", leaf()))) for name in "abc")).run("go", observers=(relay,))
    assert sorted(seen.path(span)[2] for span in seen.all("invoke_agent leaf")) == [f"invoke_agent {n}" for n in "abc"]


def place(run_id: str, call: str | None = None) -> events.Where:
    return events.Where("stuck", run_id, None, run_id, 0, call)


def test_what_does_not_tell_its_end_ends_with_its_run_and_what_comes_late_is_nothing(seen: Seen) -> None:
    tell, run, tool = seen.otel, place("r"), place("r", "c")
    tell(events.RunStarted(run, 1.0, 10.0, "t"))
    tell(events.ToolStarted(tool, 2.0, 11.0, "hang", {}))
    tell(events.ModelCalled(run, 2.0, 11.0, 1))
    tell(events.RunFinished(run, 3.0, 9.0, "cancelled", "", Usage()))  # the clock was set back
    tell(events.ToolFinished(tool, 4.0, 13.0, "hang", "late", False))
    tell(events.ModelAnswered(run, 4.0, 13.0, "late", (), Usage()))
    tell(events.ToolStarted(tool, 5.0, 14.0, "more", {}))
    tell(events.ModelCalled(run, 5.0, 14.0, 1))
    tell(events.RunFinished(run, 6.0, 15.0, "cancelled", "", Usage()))
    one, other = RunIdentity("r", "r", None).child(), RunIdentity("r", "r", None).child()
    tell(events.DelegationRetried(tool, 7.0, 16.0, "nobody", one, other, "late"))
    tell(events.DelegationFinished(tool, 7.0, 16.0, "nobody", other, "delivered", "late", 1.0))
    assert [span.name for span in seen.spans] == ["invoke_agent stuck", "execute_tool hang", "chat"]
    assert {told(span, "error.type") for span in seen.spans} == {"cancelled"}
    assert all((span.end_time or 0) >= (span.start_time or 0) for span in seen.spans)


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


async def test_the_metrics_count_tokens_and_measure_every_operation(seen: Seen) -> None:
    cheap = Agent(says("openai:gpt-4o-mini", 200, 10))
    agent = boss(child("a", cheap), child("b", cheap), child("c", Agent(raises(ValueError("no")))))
    await agent.run("go", observers=(seen.otel,))

    tokens = {point.attributes["gen_ai.token.type"]: point for point in seen.metric("gen_ai.client.token.usage")}
    assert {kind: (point.count, point.sum) for kind, point in tokens.items()} == {"input": (2, 400), "output": (2, 20)}
    assert tokens["input"].attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.response.model": "gpt-4o-mini",
        "gen_ai.token.type": "input",
    }
    assert tokens["input"].explicit_bounds[:4] == (1, 4, 16, 64)
    points = seen.metric("gen_ai.client.operation.duration")
    counts: dict[str, int] = {}
    for point in points:
        operation = point.attributes["gen_ai.operation.name"]
        counts[operation] = counts.get(operation, 0) + point.count
    assert counts == {"invoke_agent": 4, "execute_tool": 3, "chat": 5}
    failed = [point.attributes for point in points if "error.type" in point.attributes]
    assert {attributes["error.type"] for attributes in failed} == {"ValueError"}
    assert points[0].explicit_bounds[:3] == (0.01, 0.02, 0.04)
    assert all(point.sum >= 0 for point in points)


def told_texts(seen: Seen) -> str:
    attributes = [dict(span.attributes or {}) for span in seen.spans]
    happened = [dict(event.attributes or {}) for span in seen.spans for event in span.events]
    return repr((attributes, happened, [span.status.description for span in seen.spans]))


async def run_with_content(seen: Seen) -> None:
    class Foreign:
        async def run(self, query: str) -> Any:
            return await ScriptedChild("ANSWER-foreign").run(query)

    def search(words: str) -> str:
        return f"RESULT {words}"

    calls = [
        asks("leaf", "TASK-leaf"),
        asks("foreign", "TASK-foreign"),
        asks("nobody", "TASK-nobody"),
        tool_call("search", words="ARGUMENT"),
        ToolCall("bad", "search", '{"ARGUMENT'),
    ]
    agent = boss(child("leaf", leaf("ANSWER-leaf")), child("foreign", Foreign()), ask=calls, tools=[search])
    await agent.run("TASK-root", observers=(seen.otel,))


async def test_no_content_is_told_unless_it_is_asked_for(seen: Seen) -> None:
    await run_with_content(seen)
    texts = told_texts(seen)
    assert [word for word in ("TASK", "ANSWER", "RESULT", "ARGUMENT", "done") if word in texts] == []


async def test_content_is_told_where_it_is_asked_for() -> None:
    seen = Seen(capture_content=True)
    await run_with_content(seen)
    seen.check_whole()

    def said(name: str, key: str) -> str:
        return str((seen.one(name).attributes or {})[key])

    for name in ("leaf", "foreign"):
        assert said(f"invoke_agent {name}", "gen_ai.input.messages") == (
            f'[{{"role": "user", "parts": [{{"type": "text", "content": "TASK-{name}"}}]}}]'
        )
        assert f'"content": "ANSWER-{name}"' in said(f"invoke_agent {name}", "gen_ai.output.messages")
    assert "TASK-root" in said("invoke_agent boss", "gen_ai.input.messages")
    assert '"finish_reason": "stop"' in said("invoke_agent boss", "gen_ai.output.messages")
    assert '"type": "tool_call"' in told(seen.all("chat")[0], "gen_ai.output.messages")
    good, bad = seen.all("execute_tool search")
    assert told(good, "gen_ai.tool.call.arguments") == '{"words": "ARGUMENT"}'
    assert told(good, "gen_ai.tool.call.result") == "RESULT ARGUMENT"
    assert "not JSON" in (bad.status.description or "")
    [refused] = [event for span in seen.spans for event in span.events]
    assert told(refused, "symfonic.delegation.task") == "TASK-nobody"


async def test_without_an_sdk_nothing_happens_and_nothing_is_kept() -> None:
    otel = OpenTelemetry()
    result = await boss(child("leaf", leaf())).run("go", observers=(otel,))
    assert result.text == "done"
    assert repr(otel) == "OpenTelemetry(open_runs=0)"
    assert get_current_span() is INVALID_SPAN


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(
        ConfigurationError, match="OpenTelemetry needs opentelemetry-api: pip install opentelemetry-api"
    ):
        OpenTelemetry()


def test_the_module_imports_without_the_package() -> None:
    program = "import sys; sys.modules['opentelemetry'] = None; import symfonic.adapters.otel"
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True)
