"""How deep a run is, read from anything, and how deep a child may run."""

import dataclasses
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from symfonic.capabilities.delegation import ConfigurationError, DepthPolicy, coerce_depth


class Raises:
    """An object whose conversion raises."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __int__(self) -> int:
        raise self.error


class Returns:
    """An object whose conversion returns what it is given, of whatever type."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __int__(self) -> Any:
        return self.value


class Deep(int):
    """An int of another type."""


ANYTHING: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.complex_numbers(),
    st.decimals(),
    st.lists(st.integers()),
    st.dictionaries(st.text(), st.integers()),
    st.builds(object),
    st.builds(Returns, st.one_of(st.integers(), st.text(), st.none())),
    st.builds(Raises, st.sampled_from([ValueError, TypeError, RecursionError, RuntimeError, MemoryError])),
    st.integers().map(Deep),
)


@given(ANYTHING)
def test_a_depth_is_always_a_plain_int_of_at_least_zero(value: Any) -> None:
    depth = coerce_depth(value)

    assert type(depth) is int
    assert depth >= 0


@given(st.integers(min_value=0))
def test_a_depth_that_is_one_is_kept(depth: int) -> None:
    assert coerce_depth(depth) == depth


@pytest.mark.parametrize(
    ("value", "depth"),
    [
        ("3", 3),
        (2.9, 2),
        ("2.9", 0),
        (-4, 0),
        (True, 1),
        (False, 0),
        (None, 0),
        ("", 0),
        ("three", 0),
        (" 3 ", 3),
        (b"3", 3),
        (float("nan"), 0),
        (float("inf"), 0),
        (float("-inf"), 0),
        ("9" * 5000, 0),
        (Decimal("2.5"), 2),
        ([], 0),
        ({"depth": 2}, 0),
        (object(), 0),
        (int, 0),
        (Deep(5), 5),
        (Returns("2"), 0),
        (Raises(OverflowError), 0),
    ],
)
def test_what_int_cannot_read_is_a_top_level_run(value: Any, depth: int) -> None:
    assert coerce_depth(value) == depth


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, GeneratorExit])
def test_an_interrupt_passes_through_a_conversion(error: type[BaseException]) -> None:
    with pytest.raises(error):
        coerce_depth(Raises(error))


@given(ANYTHING, st.integers(min_value=0, max_value=20))
def test_the_ceiling_is_on_the_child(parent: Any, ceiling: int) -> None:
    policy = DepthPolicy(ceiling)

    assert policy.child_depth(parent) == coerce_depth(parent) + 1
    assert policy.admits(parent) is (policy.child_depth(parent) <= ceiling)


def test_at_a_ceiling_of_two_a_grandchild_may_run_and_may_not_delegate() -> None:
    policy = DepthPolicy(max_depth=2)

    assert [policy.admits(parent) for parent in (0, 1, 2, 3)] == [True, True, False, False]
    assert policy.child_depth(1) == 2


@given(ANYTHING)
def test_a_ceiling_of_zero_switches_delegation_off(parent: Any) -> None:
    assert not DepthPolicy(0).admits(parent)


@pytest.mark.parametrize("ceiling", [-1, 1.0, "2", None, float("nan"), [], object()])
def test_a_ceiling_that_is_no_int_of_at_least_zero_is_refused_at_construction(ceiling: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_depth"):
        DepthPolicy(ceiling)


def test_the_refusal_names_the_ceiling() -> None:
    assert DepthPolicy(3).refusal() == (
        "Delegation refused: maximum sub-agent depth (3) reached; cannot delegate further."
    )


def test_a_refusal_invites_no_retry() -> None:
    text = DepthPolicy(0).refusal().lower()

    assert not any(word in text for word in ("retry", "again", "try", "later"))


def test_a_policy_is_a_frozen_dataclass() -> None:
    policy = DepthPolicy(2)

    assert dataclasses.is_dataclass(policy)
    assert policy == DepthPolicy(max_depth=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.max_depth = 5  # type: ignore[misc]
