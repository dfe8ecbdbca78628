"""Spans and metrics of a tree of runs, by the GenAI semantic conventions of OpenTelemetry."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlsplit

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts import events
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.text import to_text

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import Span, TracerProvider

_Attributes: TypeAlias = dict[str, str | int]

SCHEMA_URL = "https://opentelemetry.io/schemas/1.41.0"
"""The version of the conventions that the names here are from."""

_CANCELLED = ("cancelled", "")
_SPENT = ("input_tokens", "output_tokens", "model_calls", "tool_calls")
_TOKEN_BUCKETS = [4**power for power in range(14)]
_SECOND_BUCKETS = [0.01 * 2**power for power in range(14)]
_KEY = "symfonic.operation"
_PORTS = {"http": 80, "https": 443}
_PROVIDERS = {  # how models name them -> how the conventions do, where that differs
    "amazon_bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "azure_openai": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "bedrock_converse": "aws.bedrock",
    "google_genai": "gcp.gemini",
    "google_vertexai": "gcp.vertex_ai",
    "mistralai": "mistral_ai",
    "xai": "x_ai",
}


class OpenTelemetry:
    """An observer that makes spans and metrics of what it is told.

        result = await agent.run("…", observers=(OpenTelemetry(),))

    A span ``invoke_agent NAME`` for every run and every attempt at a child, ``chat MODEL`` for every model call and
    ``execute_tool NAME`` for every tool call. The tree of runs says what is below what, whatever task or thread it is
    in; a run whose parent is not watched is put under the span that is current when it starts. While a model, a tool or
    a child works its span is current, so that what else is instrumented there is found below it.

    The providers are OpenTelemetry's global ones where none are given. Tasks, answers, arguments and results are told
    only with ``capture_content``. May watch any number of runs, in any thread, and keeps nothing of those that ended.
    Raises ConfigurationError if the package opentelemetry-api is missing.
    """

    def __init__(
        self,
        tracer_provider: "TracerProvider | None" = None,
        meter_provider: "MeterProvider | None" = None,
        capture_content: bool = False,
    ) -> None:
        self._spans = _Spans(tracer_provider, meter_provider)
        self._capture = capture_content
        self._runs: dict[str, _Run] = {}  # no lock: each run's events come in order, and a dict's methods are atomic
        self._told: dict[type[Any], Callable[[Any], None]] = {
            events.RunStarted: self._run_started,
            events.RunFinished: self._run_finished,
            events.ModelCalled: self._model_called,
            events.ModelAnswered: self._model_answered,
            events.ToolStarted: self._tool_started,
            events.ToolFinished: self._tool_finished,
            events.DelegationStarted: self._delegation_started,
            events.DelegationRefused: self._delegation_refused,
            events.DelegationRetried: self._delegation_retried,
            events.DelegationFinished: self._delegation_finished,
        }

    def __call__(self, event: events.Event) -> None:
        """Begin, end or complete the span that the event is about."""
        self._told[type(event)](event)

    def __repr__(self) -> str:
        return f"OpenTelemetry(open_runs={len(self._runs)})"

    def _run_started(self, event: events.RunStarted) -> None:
        where = event.where
        run = self._runs.get(where.run_id)  # a child's span began with its delegation
        if run is None:
            op = self._begin_run(where.agent, _of_run(where), where.parent_run_id, event)
            run = self._runs[where.run_id] = _Run(op)
        run.op.span.set_attribute("symfonic.depth", where.depth)
        self._tell_task(run, event.task)

    def _run_finished(self, event: events.RunFinished) -> None:
        run = self._runs.get(event.where.run_id)
        if run is None:
            return
        run.op.span.set_attributes({f"symfonic.usage.{kind}": getattr(event.usage, kind) for kind in _SPENT})
        if event.status == "finished":
            self._tell_answer(run, event.text)
        self._abandon(run, event)
        if run.child is None:
            del self._runs[event.where.run_id]
            failed = (run.cause or event.status, event.text) if event.status == "failed" else _CANCELLED
            self._spans.end(run.op, event, None if event.status == "finished" else failed)

    def _model_called(self, event: events.ModelCalled) -> None:
        run = self._runs.get(event.where.run_id)
        if run is None:
            return
        run.chat = self._spans.begin("chat", "", _of_run(event.where), run.op.span, event)
        self._spans.enter(run.chat)

    def _model_answered(self, event: events.ModelAnswered) -> None:
        run = self._runs.get(event.where.run_id)
        if run is None or run.chat is None:
            return
        op, run.chat = run.chat, None
        error = None if event.error is None else (event.error.partition(":")[0], event.error)
        run.cause = error[0] if error and error[0] != _CANCELLED[0] else ""  # a model that fails ends its run
        if self._capture and error is None:
            op.span.set_attribute("gen_ai.output.messages", _model_message(event))
        self._spans.answered(op, event)
        self._spans.end(op, event, error)

    def _tool_started(self, event: events.ToolStarted) -> None:
        run, call = self._runs.get(event.where.run_id), event.where.tool_call_id or ""
        if run is None:
            return
        attributes: _Attributes = {
            "gen_ai.tool.name": event.name,
            "gen_ai.tool.call.id": call,
            "gen_ai.tool.type": "function",
        }
        op = self._spans.begin("execute_tool", event.name, attributes | _of_run(event.where), run.op.span, event)
        if self._capture:
            op.span.set_attribute("gen_ai.tool.call.arguments", to_text(event.arguments))
        run.tools[call] = op
        self._spans.enter(op)

    def _tool_finished(self, event: events.ToolFinished) -> None:
        run = self._runs.get(event.where.run_id)
        op = run.tools.pop(event.where.tool_call_id or "", None) if run else None
        if op is None:
            return
        if self._capture:
            op.span.set_attribute("gen_ai.tool.call.result", event.text)
        said = event.text if self._capture else ""  # it may quote the arguments
        self._spans.end(op, event, ("tool_error", said) if event.failed else None)

    def _delegation_started(self, event: events.DelegationStarted) -> None:
        self._begin_child(event, _Child(event.name, event.task))

    def _delegation_retried(self, event: events.DelegationRetried) -> None:
        failed = self._runs.pop(event.failed.run_id, None)
        if failed is None or failed.child is None:
            return
        failed.op.span.set_attribute("symfonic.delegation.retried", True)
        self._abandon(failed, event)
        self._spans.end(failed.op, event, (failed.cause or "child_failed", event.message))
        self._begin_child(event, replace(failed.child, attempt=failed.child.attempt + 1))

    def _delegation_finished(self, event: events.DelegationFinished) -> None:
        run = self._runs.pop(event.child.run_id, None)
        if run is None:
            return
        run.op.span.set_attribute("symfonic.delegation.outcome", event.outcome)
        delivered = event.outcome == "delivered"
        if delivered and not run.tells:
            self._tell_answer(run, event.message)
        self._abandon(run, event)
        self._spans.end(run.op, event, None if delivered else (run.cause or event.outcome, event.message))

    def _delegation_refused(self, event: events.DelegationRefused) -> None:
        attributes: _Attributes = {
            "gen_ai.agent.name": event.name,
            "symfonic.delegation.outcome": event.outcome,
            "symfonic.delegation.message": event.message,
        }
        if self._capture:
            attributes["symfonic.delegation.task"] = event.task
        caller = self._inside(event.where.run_id, event.where.tool_call_id) or self._spans.current()
        caller.add_event("symfonic.delegation.refused", attributes, _nanoseconds(event))

    def _begin_child(self, event: events.DelegationStarted | events.DelegationRetried, facts: "_Child") -> None:
        where, child = event.where, event.child
        place = replace(where, agent=facts.name, run_id=child.run_id, depth=where.depth + 1)
        attributes = _of_run(place) | {"symfonic.delegation.attempt": facts.attempt}
        run = self._runs[child.run_id] = _Run(self._begin_run(facts.name, attributes, where.run_id, event), facts)
        if self._capture:
            run.op.span.set_attribute("gen_ai.input.messages", _message("user", facts.task))
        self._spans.enter(run.op)

    def _begin_run(self, name: str, attributes: _Attributes, parent_run_id: str | None, event: events.Event) -> "_Op":
        if parent_run_id is not None:
            attributes["symfonic.parent_run_id"] = parent_run_id
        parent = self._inside(parent_run_id, event.where.tool_call_id)
        return self._spans.begin("invoke_agent", name, attributes, parent, event)

    def _inside(self, run_id: str | None, tool_call_id: str | None) -> "Span | None":
        """The span of the tool call in a run, else of the run; None for a run that nobody watches."""
        run = self._runs.get(run_id or "")
        if run is None:
            return None
        return run.tools.get(tool_call_id or "", run.op).span

    def _abandon(self, run: "_Run", event: events.Event) -> None:
        """End what goes on in a run that ends: a task that could not be cancelled does not tell its end in time."""
        left = [run.tools.pop(call, None) for call in tuple(run.tools)]
        for op in (*left, run.chat):
            if op is not None:
                self._spans.end(op, event, _CANCELLED)
        run.chat = None

    def _tell_task(self, run: "_Run", task: str) -> None:
        run.tells = True
        if self._capture:
            run.op.span.set_attribute("gen_ai.input.messages", _message("user", task))

    def _tell_answer(self, run: "_Run", text: str) -> None:
        if self._capture:
            run.op.span.set_attribute("gen_ai.output.messages", _message("assistant", text, "stop"))


class _Spans:
    """How spans and metrics are written: the one place that knows OpenTelemetry."""

    def __init__(self, tracer_provider: "TracerProvider | None", meter_provider: "MeterProvider | None") -> None:
        try:
            from opentelemetry import context, metrics, trace
        except ImportError as error:
            raise ConfigurationError(
                f"OpenTelemetry needs opentelemetry-api: pip install opentelemetry-api ({error})"
            ) from error
        self._context, self._trace = context, trace
        self._tracer = trace.get_tracer("symfonic", None, tracer_provider, SCHEMA_URL)
        meter = metrics.get_meter("symfonic", "", meter_provider, SCHEMA_URL)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKEN_BUCKETS,
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECOND_BUCKETS,
        )

    def current(self) -> "Span":
        """The span that is current here."""
        return self._trace.get_current_span()

    def begin(
        self, operation: str, name: str, attributes: Mapping[str, str | int], parent: "Span | None", event: events.Event
    ) -> "_Op":
        """Start a span at the time of the event; without a parent under the one that is current."""
        span = self._tracer.start_span(
            f"{operation} {name}" if name else operation,
            context=None if parent is None else self._trace.set_span_in_context(parent),
            kind=self._trace.SpanKind.CLIENT if operation == "chat" else self._trace.SpanKind.INTERNAL,
            attributes={"gen_ai.operation.name": operation, **attributes},
            start_time=_nanoseconds(event),
        )
        measured: _Attributes = {"gen_ai.operation.name": operation}
        for key in ("gen_ai.agent.name", "gen_ai.tool.name"):
            if operation != "chat" and key in attributes:
                measured[key] = attributes[key]
        return _Op(span, measured, event)

    def answered(self, op: "_Op", event: events.ModelAnswered) -> None:
        """Complete a model call by what answered and what it took."""
        usage, model = event.usage, _of_model(event.model)
        op.measured |= model
        op.span.set_attributes(model)
        if "gen_ai.response.model" in model:
            op.span.update_name(f"chat {model['gen_ai.response.model']}")
        if not (usage.input_tokens or usage.output_tokens):
            return  # not counted, which is not none
        for kind, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            op.span.set_attribute(f"gen_ai.usage.{kind}_tokens", tokens)
            self._tokens.record(tokens, {**op.measured, "gen_ai.token.type": kind})

    def end(self, op: "_Op", event: events.Event, error: tuple[str, str] | None) -> None:
        """End the span at the time of the event; an error is its type and its words."""
        self._leave(op)
        if error is not None:
            op.measured["error.type"] = error[0]
            op.span.set_attribute("error.type", error[0])
            op.span.set_status(self._trace.StatusCode.ERROR, error[1] or None)
        op.span.end(max(_nanoseconds(event), op.began))  # the clock may have been set back
        self._seconds.record(max(event.monotonic - op.clock, 0.0), op.measured)

    def enter(self, op: "_Op") -> None:
        """Make its span current in this context."""
        op.before = self._context.get_current()
        self._context.attach(self._context.set_value(_KEY, op, self._trace.set_span_in_context(op.span)))

    def _leave(self, op: "_Op") -> None:
        """Make current again what was before; what ends out of order, when it can, and other contexts never.

        No token is kept: one could be used in its own context alone, and a run may be closed from another.
        """
        op.over, top = True, self._context.get_value(_KEY)
        while isinstance(top, _Op) and top.over and top.before is not None and self.current() is top.span:
            self._context.attach(top.before)
            top = self._context.get_value(_KEY)


class _Op:
    """A span that has not ended, when it began, and what its metrics are told by."""

    __slots__ = ("before", "began", "clock", "measured", "over", "span")

    def __init__(self, span: "Span", measured: _Attributes, event: events.Event) -> None:
        self.span, self.measured = span, measured
        self.began, self.clock = _nanoseconds(event), event.monotonic
        self.before: Context | None = None
        self.over = False


@fact
class _Child:
    """What a delegation says of the child, for every attempt."""

    name: str
    task: str
    attempt: int = 1


class _Run:
    """A run in progress: its span, and those of what it is doing. That of a ``child`` ends with its delegation."""

    __slots__ = ("cause", "chat", "child", "op", "tells", "tools")

    def __init__(self, op: _Op, child: _Child | None = None) -> None:
        self.op, self.child = op, child
        self.tells = False
        self.chat: _Op | None = None
        self.tools: dict[str, _Op] = {}
        self.cause = ""


def _of_run(where: events.Where) -> _Attributes:
    attributes: _Attributes = {
        "symfonic.run_id": where.run_id,
        "symfonic.root_run_id": where.root_run_id,
        "symfonic.depth": where.depth,
    }
    return attributes | {"gen_ai.agent.name": where.agent} if where.agent else attributes


def _of_model(model: str) -> _Attributes:
    """What ``PROVIDER:NAME`` or ``https://HOST/NAME`` says."""
    provider, colon, name = model.partition(":")
    if not name.startswith("//"):
        found = {"gen_ai.provider.name": _PROVIDERS.get(provider, provider), "gen_ai.response.model": name}
        return {key: value for key, value in found.items() if value} if colon else _named(model)
    try:
        address = urlsplit(model)
        host, port = address.hostname, address.port or _PORTS.get(address.scheme)
    except ValueError:
        return _named(model)
    server: _Attributes = {"server.address": host, "server.port": port} if host and port else {}
    return server | _named(address.path.lstrip("/"))


def _named(model: str) -> _Attributes:
    return {"gen_ai.response.model": model} if model else {}


def _message(role: str, text: str, finish: str | None = None) -> str:
    ended = {} if finish is None else {"finish_reason": finish}
    return to_text([{"role": role, "parts": [{"type": "text", "content": text}], **ended}])


def _model_message(event: events.ModelAnswered) -> str:
    said = [{"type": "text", "content": event.text}] if event.text else []
    calls = [
        {"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.arguments}
        for call in event.tool_calls
    ]
    finish = "tool_call" if calls else "stop"
    return to_text([{"role": "assistant", "parts": [*said, *calls], "finish_reason": finish}])


def _nanoseconds(event: events.Event) -> int:
    return int(event.wall * 1e9)
