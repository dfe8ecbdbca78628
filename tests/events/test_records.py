"""The record of what happened: the tree, its trace, tallies, and all of it as JSON that a schema describes."""

import asyncio
import json
import sys
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from events_kit import Watcher, asks, boss, chain, child, hanging, leaf

from symfonic import Agent, AgentResult, ChildPolicy, DelegationOutcome, Limits, Options, Veto
from symfonic.capabilities.delegation.contracts import ChildRun, DelegationRecord, DelegationTrace, Tally, Timing, walk
from symfonic.capabilities.delegation.reports import json_text, record_dict
from symfonic.errors import LimitReachedError, ModelError
from symfonic.kernel.contracts.events import DelegationStarted
from symfonic.kernel.contracts.messages import NO_USAGE, Message, ToolCall, Usage
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel

SCHEMA = json.loads((Path(__file__).parents[2] / "docs" / "records.schema.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
NOW = 1_700_000_000.0


def checked(result: AgentResult) -> dict[str, Any]:
    """The result as a dictionary that the schema and JSON agree with."""
    told = result.to_dict()
    VALIDATOR.validate(told)
    assert json.loads(result.to_json()) == told
    return told


def everything() -> Agent:
    """An agent whose delegations end in every way there is."""

    def raising(messages: Any, tools: Any) -> str:
        raise ValueError("pg://u:secret@h is down")

    def cancelling(messages: Any, tools: Any) -> str:
        raise asyncio.CancelledError

    def vetoing(request: Any) -> Any:
        return Veto("not on a Sunday") if request.name == "vetoed" else None

    children = [
        child("good", leaf("42")),
        child("bad", Agent(FunctionModel(raising))),
        child("slow", Agent(hanging()), policy=ChildPolicy(timeout=0.02)),
        child("gone", Agent(FunctionModel(cancelling))),
        child("deep", boss(child("deeper", boss(child("deepest", leaf()))))),
        child("vetoed", leaf()),
        child("foreign", ScriptedChild({"answer": 42})),
    ]
    made = [asks(each.name) for each in children] + [asks("good"), asks("nobody"), asks("good", "again")]
    return boss(
        *children, ask=made, limits=Limits(max_delegations=9, max_repeats=1), options=Options(on_delegate=vetoing)
    )


async def test_a_run_in_which_everything_happens_is_told_in_full() -> None:
    result = await everything().run("go")
    told = checked(result)

    outcomes = {each.value for each in DelegationOutcome}
    assert set(told["tally"]["by_outcome"]) == outcomes
    assert sum(told["tally"]["by_outcome"].values()) == sum(told["tally"]["by_child"].values()) == result.tally.total
    assert sorted(told["delegated_to"]) == ["deep", "foreign", "good", "good"]
    errors = {each["name"]: each["error"] for each in told["delegations"]}
    assert errors["bad"] == {"type": "ModelError", "text": "the model failed: ValueError: pg://u:***@h is down"}
    assert [each["error"] for each in told["delegations"] if each["outcome"] == "refused_budget"] == [
        {"type": "LimitReachedError", "text": "the limit max_repeats=1 is reached", "limit": "max_repeats", "value": 1}
    ]
    assert {each["outcome"] for each in told["delegations"] if each["retryable"]} == {"child_failed", "child_timed_out"}
    assert told["usage"] == {name: getattr(result.usage, name) for name in ("input_tokens", "output_tokens")} | {
        "model_calls": result.usage.model_calls,
        "tool_calls": result.usage.tool_calls,
    }
    assert "secret" not in result.to_json()


async def test_a_record_says_who_asked_whom_for_what_when_and_what_it_took() -> None:
    def costly(messages: Any, tools: Any) -> ModelReply:
        return ModelReply("42", (), 10, 3)

    seen, before = Watcher(), time.time()
    agent = boss(child("worker", Agent(FunctionModel(costly))), ask=[asks("worker", "dig")])
    result = await agent.run("go", observers=(seen,))
    [record] = result.delegations
    trace = record.trace
    assert trace is not None
    assert trace.caller is not None
    assert trace.child is not None
    assert (trace.caller.run_id, trace.child.parent_run_id) == (result.run_id, result.run_id)
    assert trace.child.run_id == record.run_id == seen.of(DelegationStarted)[0].child.run_id
    assert (trace.task, trace.tool_call_id, trace.retryable, trace.error) == ("dig", "call_1_1", False, None)
    assert before <= trace.timing.started <= time.time()
    assert 0 <= trace.timing.duration < 60
    assert trace.usage == Usage(10, 3, 1, 0)
    assert trace.result.result.text == "42"
    assert trace.run == ChildRun(trace.child, trace.usage, ())
    assert result.usage == Usage(10, 3, 3, 1)


async def test_the_tree_is_the_one_that_was_asked_for() -> None:
    result = await chain("a", "b", "c", "d").run("go")

    assert [record.name for record in walk(result.delegations)] == ["b", "c", "d"]
    assert [record.depth for record in walk(result.delegations)] == [1, 2, 3]
    assert result.delegations[0].children[0].children[0].children == ()
    told = checked(result)
    assert told["delegations"][0]["children"][0]["children"][0]["name"] == "d"
    assert told["tally"] == {"by_outcome": {"delivered": 3}, "by_child": {"b": 1, "c": 1, "d": 1}}


def half_done() -> Agent:
    """Delegates, and then its model fails."""
    return Agent(ScriptedModel(asks("leaf"), ValueError("no")), sub_agents=[child("leaf", leaf())])


async def test_a_failed_childs_own_records_and_costs_are_kept() -> None:
    middle = half_done()
    result = await boss(child("middle", middle)).run("go")

    [failed] = result.delegations
    assert failed.outcome is DelegationOutcome.CHILD_FAILED
    assert [record.name for record in failed.children] == ["leaf"]
    assert (failed.trace.usage.model_calls, result.usage.model_calls) == (3, 5)  # type: ignore[union-attr]
    assert result.tally.by_outcome == {DelegationOutcome.CHILD_FAILED: 1, DelegationOutcome.DELIVERED: 1}
    checked(result)


async def test_a_run_that_fails_hands_its_records_and_costs_to_the_program() -> None:
    with pytest.raises(ModelError) as raised:
        await half_done().run("go")
    assert [record.name for record in raised.value.delegations] == ["leaf"]
    assert raised.value.usage.model_calls == 3


async def test_a_spent_budget_is_on_the_record_by_name_and_number() -> None:
    agent = boss(child("leaf", leaf()), ask=[asks("leaf"), asks("leaf")], limits=Limits(max_fan_out=1))
    _, refused = (await agent.run("go")).delegations
    assert refused.outcome is DelegationOutcome.REFUSED_BUDGET
    error = refused.trace.error  # type: ignore[union-attr]
    assert isinstance(error, LimitReachedError)
    assert (error.limit, error.value) == ("max_fan_out", 1)
    assert not refused.trace.retryable  # type: ignore[union-attr]
    assert refused.trace.usage == NO_USAGE  # type: ignore[union-attr]


class Foreign:
    """A child of another library, whose result is its own affair."""

    def __init__(self, result: Any) -> None:
        self.result = result

    async def run(self, query: str) -> Any:
        return self.result


@dataclass
class Wrapped:
    final_response: str
    inner: Any


async def test_a_foreign_childs_whole_result_is_kept_and_told_as_far_as_it_can_be() -> None:
    given = Wrapped("42", {"when": object, "tags": {1}, "self": None})
    result = await boss(child("foreign", Foreign(given))).run("go")

    [record] = result.delegations
    assert record.trace.result is given  # type: ignore[union-attr]
    told = checked(result)["delegations"][0]["result"]
    assert told["final_response"] == "42"
    assert told["inner"]["tags"] == [1]


class Hostile:
    """Answers, and lets nobody look at anything else."""

    final_response = "42"

    def __getattribute__(self, name: str) -> Any:
        if name == "final_response":
            return "42"
        raise RuntimeError(name)


async def test_a_result_that_nobody_can_look_at_is_told_by_its_type() -> None:
    class Nested:
        final_response = "42"
        delegations = Hostile()

    for given in (Wrapped("42", Hostile()), Wrapped("42", Nested())):
        told = checked(await boss(child("foreign", Foreign(given))).run("go"))
        assert told["delegations"][0]["message"] == "42"


async def test_a_run_inside_a_foreign_childs_result_is_told_once() -> None:
    class Wrapping:
        def __init__(self, agent: Agent) -> None:
            self.agent = agent

        async def run(self, query: str) -> Any:
            inner = await self.agent.run(query)
            return Wrapped(inner.text, [inner, {"again": inner}])

    sizes = []
    for levels in (1, 2, 4):
        agent = leaf("x" * 1000)
        for _ in range(levels):
            agent = boss(child("wrapping", Wrapping(agent)), max_depth=levels * 2)
        result = await agent.run("go")
        told = checked(result)
        assert told["delegations"][0]["result"]["inner"][0] == ("done" if levels > 1 else "x" * 1000)
        sizes.append(len(result.to_json()))
    assert sizes[2] < 4 * sizes[0], "linear in the levels, not doubled by each"


async def test_text_that_cannot_be_encoded_does_not_keep_a_result_from_being_written() -> None:
    result = await boss(child("foreign", Foreign(Wrapped("a\ud800b", "c\udc00d")))).run("go\ud800")
    result.to_json().encode()
    VALIDATOR.validate(json.loads(result.to_json()))


async def test_arguments_that_are_no_json_are_in_the_messages_as_they_came() -> None:
    model = ScriptedModel(ToolCall("1", "nothing", "{nonsense"), "done")
    told = checked(await Agent(model).run("go"))
    assert told["messages"][1]["tool_calls"] == [{"id": "1", "name": "nothing", "arguments": "{nonsense"}]


def record(name: str, *children: DelegationRecord, **parts: Any) -> DelegationRecord:
    """A record made by hand."""
    identity = RunIdentity.root()
    run = ChildRun(identity, Usage(1, 1, 1, 0), children)
    trace = DelegationTrace(
        identity, "t", Timing(NOW, 0.5), "call", False, parts.get("error"), parts.get("result"), run
    )
    return DelegationRecord(name, DelegationOutcome.DELIVERED, 1, "done", "r", "r", None, trace)


def long_chain(length: int) -> DelegationRecord:
    last = record("r0")
    for number in range(1, length):
        last = record(f"r{number}", last)
    return last


def result_of(*records: DelegationRecord) -> AgentResult:
    return AgentResult("done", (), records, NO_USAGE, "r", "r", None, (Message("user", "go"),))


def test_a_tree_deeper_than_the_stack_is_walked_counted_printed_and_written() -> None:
    for length in (500, 5000):
        result = result_of(long_chain(length))
        assert len(list(walk(result.delegations))) == length
        assert result.tally.total == length
        assert length == 500 or length > sys.getrecursionlimit()
        text = result.to_json()
        assert text.count('"children": [{') == length - 1
        assert text.count("{") == text.count("}")
        assert len(repr(result.delegations)) < 2000
    assert json.loads(result_of(long_chain(100)).to_json())["delegations"][0]["name"] == "r99"


def test_the_size_of_what_is_written_grows_with_the_tree_and_no_faster() -> None:
    short, long = (len(result_of(long_chain(length)).to_json()) for length in (100, 1000))
    wide = len(result_of(*(record("r") for _ in range(1000))).to_json())
    assert long / short == pytest.approx(10, rel=0.1)
    assert wide / long == pytest.approx(1, rel=0.1)


def test_walking_gives_each_record_before_its_children_in_order() -> None:
    tree = [record("a", record("b", record("c")), record("d")), record("e")]
    assert [each.name for each in walk(tree)] == ["a", "b", "c", "d", "e"]
    told = record_dict(tree[0])
    assert [each["name"] for each in told["children"]] == ["b", "d"]
    assert Tally.of(tree).by_child == dict.fromkeys("abcde", 1)


def test_a_bare_record_is_told_without_a_trace() -> None:
    bare = DelegationRecord("a", DelegationOutcome.UNKNOWN_CHILD, 1, "no")
    VALIDATOR.validate(result_of(bare).to_dict())
    assert "task" not in record_dict(bare)


@pytest.mark.parametrize(
    "value",
    [None, True, 1, 1.5, 'a"b\\c\nä\u2028', [], {}, [[]], {"a": []}, [1, [2, {"b": None}], "x"], {"ä": {"b": [1, 2]}}],
    ids=repr,
)
def test_what_is_written_is_what_the_standard_library_writes(value: Any) -> None:
    assert json_text(value) == json.dumps(value, ensure_ascii=False)


def test_the_schema_is_valid_knows_every_outcome_and_every_key() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    parts = SCHEMA["$defs"]
    assert parts["outcome"]["enum"] == [outcome.value for outcome in DelegationOutcome]
    told = record_dict(record("a", error=LimitReachedError("timeout", 1.5)))
    assert list(parts["record"]["properties"]) == list(told)
    assert list(parts["error"]["properties"]) == list(told["error"])
    assert list(parts["result"]["properties"]) == list(result_of().to_dict())
    assert list(parts["usage"]["properties"]) == [field.name for field in fields(Usage)]
    assert list(parts["message"]["properties"]) == [field.name for field in fields(Message)]


@pytest.mark.parametrize(
    "change",
    [{"outcome": "lost"}, {"depth": -1}, {"depth": "1"}, {"surplus": 1}, {"usage": None}, {"children": [{}]}],
    ids=repr,
)
def test_the_schema_refuses_what_is_no_record(change: dict[str, Any]) -> None:
    told = result_of(record("a")).to_dict()
    VALIDATOR.validate(told)
    told["delegations"][0] |= change
    with pytest.raises(jsonschema.ValidationError):
        VALIDATOR.validate(told)
