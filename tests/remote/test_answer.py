"""Records out and back in are the same tree, and what is no record is an error."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_kit import LINEAGE, Far, asks, says

from symfonic.capabilities.delegation.contracts import (
    ChildRun,
    DelegationOutcome,
    DelegationRecord,
    DelegationTrace,
    Timing,
    walk,
)
from symfonic.errors import EnvelopeError
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.kernel.contracts.text import error_text
from symfonic.remote.answer import MOST_RECORDS, Answer, RemoteError, Spent, started
from symfonic.remote.envelope import MOST, MOST_BYTES, Lineage
from symfonic.remote.reception import Reception
from symfonic.testing import ScriptedChild

WHO = Lineage.model_validate(LINEAGE)
COUNTS = st.integers(0, MOST)
TEXT = st.text(max_size=12)
IDS = st.text("abcdef0123456789-.~%:", min_size=1, max_size=12)
IDENTITIES = st.builds(RunIdentity, IDS, IDS, st.none() | IDS)
ERRORS = st.none() | st.builds(ValueError, TEXT) | st.builds(RemoteError, TEXT)


@st.composite
def records(draw: Any, deeper: int = 2) -> DelegationRecord:
    below = draw(st.lists(records(deeper - 1), max_size=3)) if deeper else []  # type: ignore[call-arg]
    run = ChildRun(draw(st.none() | IDENTITIES), Usage(*[draw(COUNTS) for _ in range(4)]), tuple(below))
    timing = Timing(draw(st.floats(0, 2e9)), draw(st.floats(0, 1e6)))
    trace = DelegationTrace(
        draw(st.none() | IDENTITIES),
        draw(TEXT),
        timing,
        draw(st.none() | TEXT),
        draw(st.booleans()),
        draw(ERRORS),
        draw(st.none() | TEXT),
        run,
    )
    ids = (draw(TEXT), draw(TEXT), draw(st.none() | TEXT))
    outcome = draw(st.sampled_from(DelegationOutcome))
    return DelegationRecord(draw(TEXT), outcome, draw(st.integers(0, 99)), draw(TEXT), *ids, trace)


def seen(record: DelegationRecord) -> tuple[Any, ...]:
    """All of a record that crosses, and of what is below it."""
    trace = record.trace
    assert trace is not None
    error = None if trace.error is None else error_text(trace.error)
    facts = (record.name, record.outcome, record.depth, record.message, record.run_id, record.root_run_id)
    told = (record.parent_run_id, trace.caller, trace.child, trace.task, trace.timing, trace.tool_call_id)
    return (*facts, *told, trace.retryable, error, trace.usage, tuple(seen(each) for each in record.children))


def there_and_back(record: DelegationRecord) -> Answer:
    return Answer.read(Answer.of(record, WHO).text_of())


def a_record(*below: DelegationRecord, message: str = "done", task: str = "", **trace: Any) -> DelegationRecord:
    run = ChildRun(RunIdentity.root(), Usage(1, 2, 3, 4), below)
    made = DelegationTrace(None, task, Timing(1.5, 0.25), run=run, **trace)
    return DelegationRecord("child", DelegationOutcome.DELIVERED, 1, message, trace=made)


@settings(max_examples=60)
@given(records())
def test_records_out_and_back_in_are_the_same_tree(record: DelegationRecord) -> None:
    answer = there_and_back(record)

    assert [seen(each) for each in answer.record_tree()] == [seen(each) for each in record.children]
    assert answer.spent.usage() == (record.trace and record.trace.usage)
    assert answer.delegations == sum(not each.outcome.refused for each in walk(record.children))


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (DelegationOutcome.DELIVERED, "finished"),
        (DelegationOutcome.CHILD_FAILED, "failed"),
        (DelegationOutcome.CHILD_TIMED_OUT, "timed_out"),
        (DelegationOutcome.CHILD_CANCELLED, "cancelled"),
        (DelegationOutcome.REFUSED_DEPTH, "refused"),
        (DelegationOutcome.REFUSED_BUDGET, "refused"),
        (DelegationOutcome.REFUSED_POLICY, "refused"),
        (DelegationOutcome.UNKNOWN_CHILD, "refused"),
    ],
)
def test_every_outcome_has_a_status(outcome: DelegationOutcome, status: str) -> None:
    record = DelegationRecord("child", outcome, 1, "words", trace=DelegationTrace(None, "", Timing(0, 0)))

    assert (there_and_back(record).status, there_and_back(record).text) == (status, "words")


async def test_a_real_tree_that_crossed_is_the_one_that_was_made_and_no_result_is_sent_twice() -> None:
    leaf, failing = says("leaf " * 20), ScriptedChild(ValueError("no such table"))
    far = Far(Reception({"worker": asks([("leaf", "a"), ("bad", "b")], children={"leaf": leaf, "bad": failing})}))
    result = await asks(("far", "go"), children={"far": far}).run("go")

    [record] = result.delegations
    assert [seen(each) for each in record.children] == [seen(each) for each in far.came[0].record_tree()]
    assert far.came[0].text_of().count("leaf leaf") < 40
    assert "result" not in far.came[0].records[0]
    told = json.dumps(result.to_dict()["delegations"])
    assert told.count('"no such table"') == 1  # the answer's records are not in the record's result once more


def test_an_unread_or_hostile_error_is_words_all_the_same() -> None:
    for error in ({"text": None}, {"text": ["x"]}, {}, {"text": "\ud800"}, {"type": 3}):
        line = {"name": "a", "outcome": "child_failed", "depth": 1, "message": "m", "error": error}
        [record] = Answer(status="finished", text="", lineage=WHO, records=(line,)).record_tree()
        assert record.trace is not None
        assert record.trace.error is None or error_text(record.trace.error).encode()


LINE: dict[str, Any] = {"name": "a", "outcome": "delivered", "depth": 1, "message": "m"}


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ({}, "name"),
        ({**LINE, "outcome": "escaped"}, "outcome"),
        ({**LINE, "outcome": 3}, "outcome"),
        ({**LINE, "depth": -1}, "depth"),
        ({**LINE, "depth": "1"}, "depth"),
        ({**LINE, "name": None}, "name"),
        ({**LINE, "message": {"a": 1}}, "message"),
        ({**LINE, "duration": -1}, "duration"),
        ({**LINE, "duration": "1"}, "duration"),
        ({**LINE, "started": float("nan")}, "started"),
        ({**LINE, "started": True}, "started"),
        ({**LINE, "usage": {"input_tokens": -5}}, "usage.input_tokens"),
        ({**LINE, "usage": {"model_calls": 1e30}}, "usage.model_calls"),
        ({**LINE, "child": {"run_id": "a"}}, "root_run_id"),
        ({**LINE, "caller": {"run_id": "a\n", "root_run_id": "b"}}, "run_id"),
        ({**LINE, "child": "me"}, "child"),
        ({**LINE, "error": "boom"}, "error"),
        ({**LINE, "retryable": []}, "retryable"),
        ({**LINE, "children": "none"}, "children"),
        ({**LINE, "children": {"0": LINE}}, "children"),
        ({**LINE, "children": 7}, "children"),
        ({**LINE, "children": [1]}, "line"),
        ({**LINE, "children": [None]}, "line"),
        ({**LINE, "children": [{**LINE, "children": [{**LINE, "depth": "deep"}]}]}, "depth"),
    ],
)
def test_what_is_no_record_is_an_error_that_says_what_is_wrong(told: dict[str, Any], named: str) -> None:
    answer = Answer(status="finished", text="", lineage=WHO, records=(LINE, told))
    with pytest.raises(EnvelopeError, match=named):
        answer.record_tree()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = [
    *["name", "outcome", "depth", "message", "run_id", "root_run_id", "parent_run_id", "caller", "child"],
    *["tool_call_id", "task", "started", "duration", "retryable", "error", "usage", "children", "result"],
]


@settings(max_examples=300)
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=4), st.integers(0, 3))
def test_any_value_in_any_field_of_a_record_is_a_record_or_an_error(told: dict[str, Any], depth: int) -> None:
    record: dict[str, Any] = {**LINE, **told}
    for _ in range(depth):
        record = {**LINE, "children": [record]}
    answer = Answer(status="finished", text="", lineage=WHO, records=(record,))
    made = None
    try:
        made = answer.record_tree()
    except EnvelopeError as error:
        problem = str(error)
    assert made is None or Answer.of(a_record(*made), WHO).text_of()
    assert made is not None or "line" in problem or "children" in problem or "lineage" in problem


def test_a_chain_of_records_that_is_deeper_than_pythons_stack_is_read_and_none_takes_long() -> None:
    chain: dict[str, Any] = dict(LINE)
    for _ in range(5_000):
        chain = {**LINE, "children": [chain]}

    answer = Answer(status="finished", text="", lineage=WHO, records=(chain,))

    assert started(answer.record_tree()) == 5_001
    assert answer.small_enough().records == ()
    assert answer.small_enough().text_of()


def test_more_records_than_there_may_be_are_an_error() -> None:
    few = Answer(status="finished", text="", lineage=WHO, records=(LINE,) * MOST_RECORDS)
    assert len(few.record_tree()) == MOST_RECORDS
    with pytest.raises(EnvelopeError, match=f"more than {MOST_RECORDS}"):
        few.model_copy(update={"records": (LINE,) * (MOST_RECORDS + 1)}).record_tree()


def test_records_that_are_too_many_are_left_out_and_a_text_that_is_too_long_is_a_failure() -> None:
    many = Answer.of(a_record(*[a_record(task="x" * 1000) for _ in range(500)]), WHO)
    assert (many.status, many.text, many.delegations, many.records) == ("finished", "done", 500, ())

    long = Answer.of(a_record(a_record(), message="x" * (MOST_BYTES + 1)), WHO)
    assert (long.status, long.delegations, long.records) == ("failed", 1, ())
    assert f"at most {MOST_BYTES}" in long.text
    assert long.spent.usage() == Usage(1, 2, 3, 4)


def test_texts_that_cannot_be_encoded_and_counts_that_cannot_be_sent_do_not_lose_an_answer() -> None:
    record = a_record(a_record(task="half \ud83d", result={"\ud800": float("nan")}), message="half \ud83d")

    answer = there_and_back(record)

    assert answer.text == "half \ufffd"
    assert answer.record_tree()[0].trace.task == "half \ufffd"  # type: ignore[union-attr]
    assert Spent.of(Usage(2**70, 1, 1, 1)).input_tokens == MOST


async def test_an_answer_charges_the_largest_count_without_breaking_the_budget() -> None:
    far = Far(Reception({"worker": says()}), mislead=lambda came: {**came, "spent": {"input_tokens": float(MOST)}})
    lead = asks(("far", "go"), children={"far": far}, limits=Limits(max_tokens=MOST * 2))

    assert (await lead.run("go")).usage.input_tokens == MOST + 12
