"""How values become text: answers, tasks, errors, previews."""

import json
import uuid
from collections import OrderedDict, UserDict, deque
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from enum import Enum, IntEnum, StrEnum
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from symfonic.kernel.contracts.text import encodable, error_text, preview, task_text, to_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",))),
    lambda inner: st.lists(inner, max_size=4)
    | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",))), inner, max_size=4),
    max_leaves=20,
)  # fmt: skip


class Model(BaseModel):
    name: str
    when: date
    tags: set[int] = set()


@dataclass
class Leaf:
    path: PurePosixPath
    parts: list[Any] = field(default_factory=list)


class Pair(NamedTuple):
    left: int
    right: str


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not this"


class Hostile:
    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


class HostileMapping(UserDict[str, int]):
    def items(self) -> Any:
        raise RuntimeError("no items")


@given(JSON)
def test_json_values_come_back_from_their_text(value: Any) -> None:
    if isinstance(value, str):
        assert to_text(value) == value
    else:
        assert json.loads(to_text(value)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Model(name="ä", when=date(2024, 1, 2), tags={2, 1}), '{"name": "ä", "when": "2024-01-02", "tags": [1, 2]}'),
        (Leaf(PurePosixPath("a/b"), [1]), '{"path": "a/b", "parts": [1]}'),
        (Pair(1, "x"), '[1, "x"]'),
        (OrderedDict(a=1), '{"a": 1}'),
        ({1: "int", None: "none", (1, 2): "tuple"}, '{"1": "int", "null": "none", "[1, 2]": "tuple"}'),
        (frozenset({"b", "a"}), '["a", "b"]'),
        (deque([1, 2]), "[1, 2]"),
        (range(3), "[0, 1, 2]"),
        (datetime(2024, 1, 2, 3, 4, tzinfo=UTC), "2024-01-02T03:04:00+00:00"),
        (time(3, 4), "03:04:00"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (PurePosixPath("/a"), "/a"),
        (b"\xff bytes", "\ufffd bytes"),
        (bytearray(b"x"), "x"),
        (float("inf"), "inf"),
        ([float("nan")], '["nan"]'),
        (Enum("Colour", {"RED": [1]}).RED, "[1]"),
        (IntEnum("Level", {"HIGH": 3}).HIGH, "3"),
        (StrEnum("Word", {"YES": "yes"}).YES, "yes"),
        (Text("this"), "this"),
        ([Text("this")], '["this"]'),
        ([ValueError("no")], '["ValueError: no"]'),
        (object(), "<object>"),
        ([object, len], '["<type>", "<builtin_function_or_method>"]'),
        ("{x} %s $x", "{x} %s $x"),
    ],
)
def test_a_value_becomes_json_or_plain_text(value: Any, text: str) -> None:
    told = to_text(value)

    if text.startswith('["<type>'):  # what a type or a function is called is its own affair; it is no failure
        assert len(json.loads(told)) == 2
    else:
        assert told == text


@pytest.mark.parametrize("value", [Hostile, HostileMapping])
def test_a_hostile_value_degrades_to_the_name_of_its_type(value: Any) -> None:
    assert to_text(value()) == f"<{value.__name__}>"
    assert json.loads(to_text([1, value(), 2])) == [1, f"<{value.__name__}>", 2]
    assert json.loads(to_text({"a": value()})) == {"a": f"<{value.__name__}>"}


def test_a_value_that_contains_itself_ends() -> None:
    twice: list[Any] = []
    twice += [twice, twice, {"again": twice}]
    mapping: dict[str, Any] = {}
    mapping["self"] = mapping

    assert json.loads(to_text(twice)) == ["…", "…", {"again": "…"}]
    assert json.loads(to_text(mapping)) == {"self": "…"}


def test_a_value_that_is_held_twice_is_told_twice() -> None:
    shared = [1]

    assert to_text([shared, shared]) == "[[1], [1]]"


def test_a_value_nested_too_deeply_is_cut() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]

    assert "…" in to_text(deep)
    assert len(to_text(deep)) < 1000


def test_a_number_too_long_to_print_degrades() -> None:
    assert to_text(10**5000).startswith("<int of ")
    assert to_text([10**5000]).startswith('["<int of ')


@given(JSON | st.text() | st.binary() | st.dates() | st.decimals() | st.sets(st.integers()) | st.complex_numbers())
def test_any_value_can_be_told_and_encoded(value: Any) -> None:
    to_text(value).encode()
    to_text([value]).encode()
    assert "object at 0x" not in to_text([value])


@given(st.text())
def test_a_task_that_is_text_stays_as_it_is(task: str) -> None:
    assert task_text(task) == task


def test_a_task_of_another_string_type_is_its_characters() -> None:
    assert task_text(Text("this")) == "this"
    assert type(task_text(Text("this"))) is str


@given(st.text() | st.text(st.sampled_from("\ud800\udbff\udc00\udfffa😀\ufeff")))
def test_what_can_be_encoded_is_left_alone_and_the_rest_is_made_so(text: str) -> None:
    made = encodable(text)

    made.encode()
    try:
        text.encode()
    except UnicodeEncodeError:
        kept = [each for each in text if not "\ud800" <= each <= "\udfff"]
        remaining = iter(made)
        assert all(each in remaining for each in kept), "the other characters stay, in order"
    else:
        assert made == text


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("\ud800", "\ufffd"),
        ("a\udc00b", "a\ufffdb"),
        ("\ud83d\ude00", "😀"),
        ("\ud800a", "\ufffda"),
        ("\ud800\ud800", "\ufffd\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced_and_pairs_joined(text: str, made: str) -> None:
    assert encodable(text) == made


@given(st.text())
def test_an_errors_text_is_never_blank(text: str) -> None:
    told = error_text(ValueError(text))

    assert told.strip()
    told.encode()


@pytest.mark.parametrize("prefix", ["", "x" * 1000, "://" * 500, "://a:" * 500, "a:" * 1000])
def test_masking_a_long_text_is_quick_and_complete(prefix: str) -> None:
    told = error_text(ValueError(f"{prefix} pg://user:secret@host {'y' * 100_000}"))

    assert "secret" not in told
    assert "pg://user:***@host" in told


def test_a_group_nested_too_deeply_still_has_a_text() -> None:
    error: Exception = ValueError("leaf")
    for _ in range(200):
        error = ExceptionGroup("level", [error])

    assert error_text(error).strip()


def test_an_error_inside_a_group_that_has_no_text_is_its_class() -> None:
    class WordlessError(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    assert error_text(ExceptionGroup("g", [WordlessError()])) == "g (1 sub-exception): WordlessError"


def test_a_preview_is_quoted_and_short() -> None:
    assert preview("short") == "'short'"
    long = preview("x" * 2_000_000)
    assert len(long) < 200
    assert "2000000 characters" in long
