"""What is told beside the spans: metrics, content where it is asked for, and nothing where there is no SDK."""

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import INVALID_SPAN, get_current_span
from otel_kit import Seen, asks, boss, child, leaf, raises, says, told, watching

from symfonic import Agent, ConfigurationError
from symfonic.adapters.otel import OpenTelemetry
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.testing import ScriptedChild, tool_call


@pytest.fixture
def seen() -> Iterator[Seen]:
    yield from watching()


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
