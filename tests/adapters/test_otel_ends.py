"""How spans end: refused, failed, tried again, cancelled, left early, and told of too late."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
import stamina
from opentelemetry.trace import StatusCode
from otel_kit import Hanging, Seen, asks, boss, child, leaf, raises, told, watching

from symfonic import Agent, ChildPolicy, Limits, Options, SymfonicError, Veto
from symfonic.errors import ModelError
from symfonic.kernel.contracts import events
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, tool_call
from symfonic.testing.models import Reply


@pytest.fixture
def seen() -> Iterator[Seen]:
    yield from watching()


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
