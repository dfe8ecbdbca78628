"""What becomes of a child's answer: text, JSON, nothing at all, and responses that fight back."""

import json
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from contract_fakes import Answers, Child, tools_of

from symfonic.capabilities.delegation import DelegationOutcome, DelegationRecord

DELIVERED, CHILD_FAILED = DelegationOutcome.DELIVERED, DelegationOutcome.CHILD_FAILED


@dataclass
class Point:
    x: int
    label: str


class Model:
    """Shaped like a pydantic model."""

    def model_dump(self) -> dict[str, Any]:
        return {"x": 1, "when": date(2024, 1, 2)}


class Colour(Enum):
    RED = "red"


class Hostile:
    """Raises whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"do not touch {name}")


class HostileText:
    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class HostileTruth:
    def __bool__(self) -> bool:
        raise RuntimeError("neither true nor false")


class HostileResponse:
    @property
    def final_response(self) -> str:
        raise RuntimeError("no answer for you")


async def delegated(response: Any) -> DelegationRecord:
    return await tools_of(a=Child(lambda query: response)).delegate("a", "task")


async def answered(final: Any) -> DelegationRecord:
    return await delegated(Answers(final_response=final))


@pytest.mark.parametrize(
    ("final", "text"),
    [
        ("plain", "plain"),
        ("\n padded \t", "padded"),
        ('{"error": "it broke"}', '{"error": "it broke"}'),
        ({"error": "it broke"}, '{"error": "it broke"}'),
        (7, "7"),
        (True, "true"),
        (1.5, "1.5"),
        ([1, "zwei", None], '[1, "zwei", null]'),
        (("a", "b"), '["a", "b"]'),
        ({"städte": ["Köln", "東京"]}, '{"städte": ["Köln", "東京"]}'),
        (Point(1, "ä"), '{"x": 1, "label": "ä"}'),
        (Model(), '{"x": 1, "when": "2024-01-02"}'),
        ({3, 1, 2}, "[1, 2, 3]"),
        (date(2024, 1, 2), "2024-01-02"),
        (Decimal("1.50"), "1.50"),
        (b"bytes", "bytes"),
        (Colour.RED, "red"),
        ("{x} %s $x %(y)s {0} \\n", "{x} %s $x %(y)s {0} \\n"),
    ],
)
async def test_an_answer_is_text_or_json_and_never_a_repr(final: Any, text: str) -> None:
    record = await answered(final)

    assert (record.outcome, record.message) == (DELIVERED, text)


async def test_a_leaf_that_has_no_json_form_degrades() -> None:
    record = await answered({"ok": 1, "bad": HostileText(), "plain": object(), "nan": float("nan")})

    assert record.outcome is DELIVERED
    assert json.loads(record.message) == {"ok": 1, "bad": "<HostileText>", "plain": "<object>", "nan": "nan"}


async def test_an_answer_that_contains_itself_is_delivered() -> None:
    cycle: list[Any] = [1]
    cycle += [cycle, cycle, {"again": cycle}]

    record = await answered(cycle)

    assert record.outcome is DELIVERED
    assert json.loads(record.message)[0] == 1


@pytest.mark.parametrize("falsy", ["", "  ", "\n\t", None, 0, 0.0, False, [], {}, (), b"", set()])
async def test_an_answer_that_is_blank_or_false_is_a_failure(falsy: Any) -> None:
    record = await answered(falsy)

    assert record.outcome is CHILD_FAILED
    assert record.message == "Sub-agent 'a' failed: it returned no final response"


@pytest.mark.parametrize("response", [None, object(), {}, {"final_response": "in a mapping"}, 7, "text", []])
async def test_a_response_without_a_final_response_is_a_failure(response: Any) -> None:
    class Returns:
        async def run(self, query: str) -> Any:
            return response

    record = await tools_of(a=Returns()).delegate("a", "task")

    assert record.outcome is CHILD_FAILED
    assert record.message == "Sub-agent 'a' failed: it returned no final response"


async def test_a_blank_answer_still_names_the_run_that_gave_it() -> None:
    response = Answers(final_response=" ", run_id="run", root_run_id="root", parent_run_id="parent")
    record = await delegated(response)

    assert record.outcome is CHILD_FAILED
    assert (record.run_id, record.root_run_id, record.parent_run_id) == ("run", "root", "parent")


async def test_an_answer_that_strips_to_nothing_once_made_text_is_a_failure() -> None:
    assert (await answered(b"  \n")).outcome is CHILD_FAILED


@pytest.mark.parametrize(
    ("response", "problem"),
    [
        (HostileResponse(), "no answer for you"),
        (Answers(final_response=HostileTruth()), "neither true nor false"),
        (Answers(final_response="fine", run_id=HostileText()), "no text"),
        (Answers(final_response="fine", parent_run_id=HostileTruth()), "neither true nor false"),
    ],
)
async def test_a_response_that_raises_is_the_childs_failure(response: Any, problem: str) -> None:
    record = await delegated(response)

    assert (record.outcome, record.message) == (CHILD_FAILED, f"Sub-agent 'a' failed: {problem}")


async def test_a_response_that_raises_at_every_touch_is_the_childs_failure() -> None:
    class Returns:
        async def run(self, query: str) -> Any:
            return Hostile()

    record = await tools_of(a=Returns()).delegate("a", "task")

    assert record.outcome is CHILD_FAILED
    assert "do not touch" in record.message


@pytest.mark.parametrize("hostile", [Hostile, HostileText, HostileTruth])
async def test_a_task_that_fights_back_never_raises(hostile: type) -> None:
    record = await tools_of(a=Child()).delegate("a", hostile())

    assert isinstance(record, DelegationRecord)
    assert "object at 0x" not in record.message


@pytest.mark.parametrize("hostile", [Hostile, HostileText, HostileTruth])
async def test_a_name_that_fights_back_never_raises(hostile: type) -> None:
    child = Child()
    tools = tools_of(a=child)

    assert not (await tools.delegate(hostile(), "task")).delivered
    assert isinstance(await tools.run_agent(hostile(), "task"), str)
    assert child.queries == []


@pytest.mark.parametrize("lone", ["\ud800", "a\udc80b", "\udfff\ud800", "ok \ud83d"])
async def test_an_answer_can_always_be_encoded(lone: str) -> None:
    for final in (lone, {"key": lone}, [lone], {lone: 1}):
        record = await answered(final)
        assert record.outcome is DELIVERED
        record.message.encode()


async def test_an_answer_that_is_one_keeps_its_pairs_and_other_text() -> None:
    record = await answered("a\ud800b 😀 東京")

    assert record.message == "a\ufffdb 😀 東京"


async def test_run_ids_can_always_be_encoded() -> None:
    record = await delegated(
        Answers(final_response="done", run_id="\ud800", root_run_id="\udc00", parent_run_id="\ud800")
    )

    "".join((record.run_id, record.root_run_id, record.parent_run_id or "")).encode()


async def test_ten_megabytes_of_answer_arrive_whole() -> None:
    final = "ä" * 10_000_000

    assert (await answered(final)).message == final


async def test_the_record_keeps_the_childs_whole_return_value() -> None:
    response = Answers(final_response="done", extra=object())
    record = await delegated(response)

    assert record.trace is not None
    assert record.trace.result is response
