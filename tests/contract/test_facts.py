"""A fact is what a frozen, slotted dataclass is."""

import copy
import dataclasses
import inspect
import pickle
import typing
from dataclasses import KW_ONLY, FrozenInstanceError, dataclass, field
from typing import Any

import pytest

import symfonic
from symfonic import Agent, ConfigurationError, SubAgent
from symfonic.kernel.contracts.facts import fact
from symfonic.testing import ScriptedModel


@fact
class Fact:
    """A fact."""

    a: int
    b: Any = "b"
    hidden: Any = field(default=None, repr=False)
    apart: Any = field(default=0, compare=False)
    _: KW_ONLY
    only: int = 7


@dataclass(frozen=True, slots=True)
class Plain:
    """A dataclass."""

    a: int
    b: Any = "b"
    hidden: Any = field(default=None, repr=False)
    apart: Any = field(default=0, compare=False)
    _: KW_ONLY
    only: int = 7


@fact
class One:
    """A fact of one field."""

    value: Any


@pytest.mark.parametrize(
    "look",
    [
        lambda kind: repr(kind(1, hidden=3)),
        lambda kind: (kind(1) == kind(1), kind(1) == kind(2), kind(1) == kind(1, apart=5), kind(1) == (1, "b")),
        lambda kind: hash(kind(1)) == hash(kind(1, apart=9)),
        lambda kind: dataclasses.asdict(kind(1, only=2)),
        lambda kind: repr(dataclasses.replace(kind(1), b=2)),
        lambda kind: [each.name for each in dataclasses.fields(kind)],
        lambda kind: str(inspect.signature(kind)),
        lambda kind: kind.__match_args__,
        lambda kind: kind.__slots__,
        lambda kind: dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen,
        lambda kind: typing.get_type_hints(kind)["a"],
        lambda kind: repr(copy.deepcopy(kind([1], [2]))),
        lambda kind: repr(pickle.loads(pickle.dumps(kind(1, "x", only=4)))),
    ],
)
def test_it_looks_the_same_from_outside(look: Any) -> None:
    assert str(look(Fact)).replace("Fact", "Plain") == str(look(Plain))


@pytest.mark.parametrize("kind", [Fact, Plain])
def test_nobody_changes_one(kind: Any) -> None:
    made = kind(1)
    with pytest.raises(FrozenInstanceError, match="'a'"):
        made.a = 2
    with pytest.raises(FrozenInstanceError, match="'a'"):
        del made.a
    with pytest.raises((AttributeError, TypeError)):
        made.other = 1
    with pytest.raises(TypeError):
        kind()
    with pytest.raises(TypeError):
        kind(1, 2, 3, 4, 5)


def test_values_are_compared_as_those_of_a_tuple_are() -> None:
    nan = float("nan")
    assert One(nan) == One(nan)
    assert One([nan]) == One([nan])


def test_a_fact_inside_itself_can_be_printed() -> None:
    inside: list[Any] = []
    inside.append(One(inside))
    assert repr(inside[0]) == "One(value=[...])" or "..." in repr(inside[0])


def test_what_prints_itself_by_way_of_a_fact_is_refused_like_anything_else() -> None:
    class Child:
        spec: Any = None

        async def run(self, query: str) -> Any: ...

        def __repr__(self) -> str:
            return f"Child({self.spec!r})"

    child = Child()
    child.spec = SubAgent("c", child, "A child.")
    with pytest.raises(ConfigurationError, match=r"SubAgent\(name='c'"):
        Agent(ScriptedModel("x"), tools=[child.spec])


def test_a_field_that_nobody_fills_is_refused() -> None:
    with pytest.raises(TypeError, match="Wrong has a field that its caller does not fill"):

        @fact
        class Wrong:
            """A mistake."""

            made: list[int] = field(default_factory=list)


@pytest.mark.parametrize("function", [symfonic.Agent.run, symfonic.Agent.stream, symfonic.SymfonicAgent.stream])
def test_the_types_of_the_doors_can_be_read(function: Any) -> None:
    assert "return" in typing.get_type_hints(function)


def test_the_types_of_a_result_can_be_read() -> None:
    assert "delegations" in typing.get_type_hints(symfonic.AgentResult)
    tally: Any = symfonic.AgentResult.tally
    assert "return" in typing.get_type_hints(tally.fget)
