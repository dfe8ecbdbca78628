"""An observer of OpenTelemetry's own SDK for tests, with what came out of it, and small agents for it to watch."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import INVALID_SPAN, get_current_span

from symfonic import Agent, SubAgent
from symfonic.adapters.otel import OpenTelemetry
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import FunctionModel, ScriptedModel, tool_call


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


def watching() -> Iterator[Seen]:
    """What a fixture of it does: after the test everything has ended."""
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
