"""What arrives is a valid message, or an error that names the field; and what is sent can be read."""

import json
import math
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from remote_kit import LINEAGE, SENT, as_floats

from symfonic.errors import EnvelopeError
from symfonic.kernel.contracts.limits import Limits
from symfonic.remote.answer import Answer
from symfonic.remote.envelope import LONGEST_ID, LONGEST_WAY, MOST, MOST_BYTES, Envelope, Left, Lineage

FULL: dict[str, Any] = {
    **SENT,
    "max_depth": 3,
    "deadline": 2e9,
    "left": dict.fromkeys(Left.model_fields, 5),
}
ANSWER: dict[str, Any] = {
    "status": "finished",
    "text": "done",
    "lineage": LINEAGE,
    "spent": {"input_tokens": 1, "output_tokens": 2, "model_calls": 3, "tool_calls": 4},
    "delegations": 5,
    "records": [],
}
PATHS = [
    *[(name,) for name in Envelope.model_fields],
    *[("lineage", name) for name in Lineage.model_fields],
    *[("left", name) for name in Left.model_fields],
    ("lineage", "via", 0),
]
ANSWER_PATHS = [
    *[(name,) for name in Answer.model_fields],
    *[("spent", name) for name in ANSWER["spent"]],
    *[("lineage", name) for name in Lineage.model_fields],
]
TEXT = st.text(st.characters(), max_size=20)  # lone surrogates too
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.sampled_from([-1, 0, 1, 1.0, -0.0, 1.5, 2**53, 2**53 + 1, 1e300, 10**400]),
)
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXT),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXT, inner, max_size=4)),
    max_leaves=8,
)


def put(message: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The message with one field changed."""
    made = json.loads(json.dumps(message))
    inner = made
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    return made  # type: ignore[no-any-return]


def read_or_named(kind: Any, sent: Any, *names: str) -> Any:
    """What was read; None where there was an error, which has one of these names in it."""
    error: EnvelopeError | None = None
    try:
        return kind.read(sent)
    except EnvelopeError as raised:
        error = raised
    assert any(name in str(error) for name in names), error
    return None


def holds(value: Any) -> bool:
    """Whether a message that was read keeps its promises."""
    if isinstance(value, Envelope):
        numbers = [value.depth, *[each for each in vars(value.left).values() if each is not None]]
        numbers += [] if value.max_depth is None else [value.max_depth]
        in_time = value.deadline is None or (0 <= value.deadline <= MOST and math.isfinite(value.deadline))
        ids = [value.lineage.run_id, value.lineage.root_run_id, *value.lineage.via]
        ids += [] if value.lineage.parent_run_id is None else [value.lineage.parent_run_id]
        texts = bool(value.agent) and all(each and each.isprintable() and len(each) <= LONGEST_ID for each in ids)
        Limits(**vars(value.left))
    else:
        numbers, in_time, texts = [value.delegations, *vars(value.spent).values()], True, True
    return in_time and texts and all(type(each) is int and 0 <= each <= MOST for each in numbers)


@settings(max_examples=300)
@given(path=st.sampled_from(PATHS), value=JSON, as_text=st.booleans())
def test_any_value_in_any_field_is_valid_or_an_error_that_names_the_field(
    path: tuple[Any, ...], value: Any, as_text: bool
) -> None:
    sent: Any = put(FULL, path, value)
    envelope = read_or_named(Envelope, json.dumps(sent) if as_text else sent, str(path[0]), "no JSON")
    if envelope is None:
        return
    assert holds(envelope)
    envelope.task.encode()
    envelope.agent.encode()
    assert Envelope.read(envelope.text_of()) == envelope
    assert Envelope.read(as_floats(envelope.plain())) == envelope


@settings(max_examples=200)
@given(path=st.sampled_from(ANSWER_PATHS), value=JSON, as_text=st.booleans())
def test_any_value_in_any_field_of_an_answer_is_valid_or_an_error_that_names_the_field(
    path: tuple[Any, ...], value: Any, as_text: bool
) -> None:
    sent: Any = put(ANSWER, path, value)
    answer = read_or_named(Answer, json.dumps(sent) if as_text else sent, str(path[0]), "no JSON")
    if answer is None:
        return
    assert holds(answer)
    answer.text.encode()
    answer.small_enough().text_of()


@settings(max_examples=200)
@given(sent=st.one_of(JSON, TEXT, st.binary(max_size=40), st.just(object())))
def test_anything_at_all_is_a_message_or_an_error(sent: Any) -> None:
    for kind in (Envelope, Answer):
        with pytest.raises(EnvelopeError, match=kind.__name__.lower()):
            kind.read(sent)


ADDED = st.dictionaries(TEXT.filter(lambda key: key not in {*FULL, *Left.model_fields, *Lineage.model_fields}), JSON)


@settings(max_examples=60)
@given(extra=ADDED, where=st.sampled_from(["", "lineage", "left"]))
def test_what_an_envelope_states_and_nobody_knows_is_refused_by_name(extra: dict[str, Any], where: str) -> None:
    sent = {**FULL, where: {**FULL[where], **extra}} if where else {**FULL, **extra}
    told = where or "envelope"
    if not extra:
        assert Envelope.read(sent) == Envelope.read(FULL)
    else:
        with pytest.raises(EnvelopeError, match=f"{told}: .*there is no field|it is no JSON"):
            Envelope.read(json.dumps(sent))


def test_a_bound_that_nobody_knows_is_named() -> None:
    with pytest.raises(EnvelopeError, match=r"envelope: .*there is no field 'limits'"):
        Envelope.read({**FULL, "limits": {"max_delegations": 0}})
    with pytest.raises(EnvelopeError, match=r"left: .*there is no field 'delegations'"):
        Envelope.read({**FULL, "left": {"delegations": 0}})
    with pytest.raises(EnvelopeError, match=r"lineage: .*there is no field 'parent'"):
        Envelope.read({**FULL, "lineage": {**LINEAGE, "parent": "root"}})


@settings(max_examples=60)
@given(extra=ADDED, where=st.sampled_from(["", "lineage", "spent"]))
def test_what_a_newer_far_side_adds_to_its_answer_is_ignored(extra: dict[str, Any], where: str) -> None:
    added = {key: value for key, value in extra.items() if key not in {*ANSWER, *ANSWER["spent"]}}
    sent = {**ANSWER, where: {**ANSWER[where], **added}} if where else {**ANSWER, **added}
    assert read_or_named(Answer, json.dumps(sent), "no JSON") in (Answer.read(ANSWER), None)  # numbers too long to read


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("depth",), -1),
        (("depth",), 1.5),
        (("depth",), True),
        (("depth",), "1"),
        (("depth",), math.nan),
        (("depth",), math.inf),
        (("depth",), MOST + 1),
        (("depth",), 10**400),
        (("depth",), None),
        (("max_depth",), -1),
        (("deadline",), -1),
        (("deadline",), True),
        (("deadline",), "12"),
        (("deadline",), math.inf),
        (("deadline",), math.nan),
        (("deadline",), 1e300),
        (("agent",), ""),
        (("agent",), "x" * (LONGEST_ID + 1)),
        (("task",), None),
        (("task",), ["text"]),
        (("lineage", "run_id"), ""),
        (("lineage", "run_id"), " a"),
        (("lineage", "run_id"), "a\nb"),
        (("lineage", "run_id"), "a\ud800"),
        (("lineage", "run_id"), "x" * (LONGEST_ID + 1)),
        (("lineage", "root_run_id"), None),
        (("lineage", "via"), "abc"),
        (("lineage", "via"), ["a"] * (LONGEST_WAY + 1)),
        (("lineage", "via"), [1]),
        (("left", "max_model_calls"), 0),
        (("left", "max_concurrency"), 0),
        (("left", "max_repeats"), 0),
        (("left", "max_tokens"), -1),
        (("left",), None),
        (("left",), []),
    ],
)
def test_what_cannot_be_is_refused_and_named(path: tuple[str, ...], value: Any) -> None:
    with pytest.raises(EnvelopeError) as raised:
        Envelope.read(put(FULL, path, value) if path[-1] != "depth" or value != 10**400 else {**FULL, "depth": value})
    assert ".".join(path) in str(raised.value)
    assert len(str(raised.value)) <= 2000


@pytest.mark.parametrize("name", ["agent", "task", "lineage"])
def test_what_is_missing_is_named(name: str) -> None:
    with pytest.raises(EnvelopeError, match=f"{name}: Field required"):
        Envelope.read({key: value for key, value in FULL.items() if key != name})


def test_whole_numbers_may_come_as_floats() -> None:
    read = Envelope.read(as_floats(FULL))

    assert read == Envelope.read(FULL)
    assert [type(each) for each in (read.depth, read.max_depth, *vars(read.left).values())] == [int] * 9


def test_a_message_cannot_be_changed() -> None:
    envelope = Envelope.read(FULL)
    with pytest.raises(ValueError, match="frozen"):
        envelope.depth = 0  # type: ignore[misc]
    with pytest.raises(ValueError, match="frozen"):
        envelope.lineage.run_id = "other"  # type: ignore[misc]


def test_a_lone_surrogate_in_a_text_is_replaced() -> None:
    assert Envelope.read(json.dumps({**FULL, "task": "half \ud83d"})).task == "half \ufffd"
    assert Answer.read(json.dumps({**ANSWER, "text": "half \ud83d"})).text == "half \ufffd"


@pytest.mark.parametrize("depth", [300, 5_000, 100_000])
def test_deep_nesting_is_an_error_or_ignored_and_never_a_crash(depth: int) -> None:
    deep = "[" * depth + "]" * depth
    for text in (deep, json.dumps(FULL)[:-1] + f', "new": {deep}}}', f'{{"task": {deep}}}'):
        with suppress(EnvelopeError):
            assert Envelope.read(text) == Envelope.read(FULL)
    nested: Any = {}
    for _ in range(depth):
        nested = {"children": [nested]}
    with pytest.raises(EnvelopeError):
        Answer.read({**ANSWER, "records": [nested]}).record_tree()


@pytest.mark.parametrize("character", ["x", "é", "\U0001f600"])
def test_the_cap_is_in_bytes_and_holds_where_a_message_is_written_and_where_it_is_read(character: str) -> None:
    size = len(character.encode())
    room = MOST_BYTES - len(Envelope.read({**FULL, "task": ""}).text_of().encode())
    fits = Envelope.read({**FULL, "task": character * (room // size)})
    assert MOST_BYTES - size < len(fits.text_of().encode()) <= MOST_BYTES
    assert Envelope.read(fits.text_of()) == Envelope.read(fits.text_of().encode()) == fits

    too_much = fits.model_copy(update={"task": fits.task + character})
    with pytest.raises(EnvelopeError, match=f"at most {MOST_BYTES}"):
        too_much.text_of()
    with pytest.raises(EnvelopeError, match=f"at most {MOST_BYTES}"):
        Envelope.read(json.dumps({**FULL, "task": too_much.task}, ensure_ascii=False))
    with pytest.raises(EnvelopeError, match=f"at most {MOST_BYTES}"):
        Envelope.read({**FULL, "task": too_much.task * 2})


def test_an_error_does_not_show_what_was_sent() -> None:
    with pytest.raises(EnvelopeError) as raised:
        Envelope.read({**FULL, "depth": "s3cret", "task": ["s3cret"]})
    assert "s3cret" not in str(raised.value)


def test_a_message_has_no_number_that_json_does_not_know() -> None:
    answer = Answer.read({**ANSWER, "records": [{"started": math.nan, "error": {"value": [math.inf]}}]})

    assert json.loads(answer.text_of())["records"] == [{"started": None, "error": {"value": [None]}}]


def test_the_seconds_left_are_those_until_the_deadline() -> None:
    left = Envelope.read({**FULL, "deadline": time.time() + 10}).left_seconds()
    assert left is not None
    assert 9 < left <= 10
    assert Envelope.read({**FULL, "deadline": None}).left_seconds() is None


def test_every_field_of_an_envelope_is_on_the_page() -> None:
    page = (Path(__file__).parents[2] / "docs" / "remote.md").read_text("utf-8")
    table = page.partition('| in `metadata["urn:symfonic:delegation:1"]` |')[2].partition("\n\n")[0]
    named = {f"lineage.{each}" for each in Lineage.model_fields} | set(Left.model_fields)
    named |= set(Envelope.model_fields) - {"agent", "task", "lineage"}
    assert sorted(each for each in named if f"`{each}`" not in table) == []
