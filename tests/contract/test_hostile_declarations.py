"""A child that cannot be declared says so where it is declared, by name, and never in the middle of a turn."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from contract_fakes import Child

from symfonic import Agent, ChildPolicy, SubAgent
from symfonic.capabilities.delegation import (
    ChildDeclarationError,
    DelegationCapability,
    PrebuiltChild,
    accepts_run_lineage,
    adapt_child,
)
from symfonic.testing import ScriptedModel


class Unreadable:
    """Asked whether it takes lineage, it raises."""

    @property
    def accepts_run_lineage(self) -> bool:
        raise RuntimeError("not to be asked")

    async def run(self, query: str) -> Any: ...


class Undecided:
    """Says something of which nobody can tell whether it is true."""

    class Maybe:
        def __bool__(self) -> bool:
            raise RuntimeError("not to be asked")

    accepts_run_lineage = Maybe()

    async def run(self, query: str) -> Any: ...


class AgentShaped(Unreadable):
    async def run(self, prompt: str) -> Any: ...  # type: ignore[override]


class TakesLineage(Unreadable):
    async def run(self, query: str, *, root_run_id: Any = None, parent_run_id: Any = None) -> Any: ...


@dataclass
class Declared:
    """A declaration of the user's own making."""

    name: str = "odd"
    agent: Any = None
    description: str = "Does odd things."
    examples: Any = ()


WAYS = {
    "sub-agent": lambda agent: SubAgent("odd", agent, "Does odd things."),
    "own": lambda agent: Agent(ScriptedModel("x"), sub_agents=[Declared(agent=agent)]),
    "prebuilt": lambda agent: DelegationCapability.declare([PrebuiltChild("odd", agent, "d")], max_depth=1),
    "adapted": lambda agent: adapt_child("odd", agent),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("made", [Unreadable, Undecided, TakesLineage], ids=lambda made: made.__name__)
def test_a_child_that_cannot_be_asked_about_lineage_is_refused_by_name(made: Any, way: str) -> None:
    with pytest.raises(
        ChildDeclarationError, match="accepts_run_lineage of the sub-agent 'odd' cannot be read: not to"
    ):
        WAYS[way](made())


def test_the_reason_of_a_refused_declaration_is_its_cause() -> None:
    with pytest.raises(ChildDeclarationError) as caught:
        SubAgent("odd", Unreadable(), "Does odd things.")
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_outside_a_declaration_a_mark_that_cannot_be_read_leaves_it_to_the_signature() -> None:
    assert accepts_run_lineage(Unreadable()) is False
    assert accepts_run_lineage(TakesLineage()) is True


def endless() -> Iterator[str]:
    yield "a request"
    raise RuntimeError("not to be gone through")


EXAMPLES: dict[str, Any] = {
    "nothing": None,
    "a number": 5,
    "a text": "a request",
    "bytes": b"a request",
    "numbers": (1, 2),
    "a text and nothing": ["a request", None],
    "what raises": endless,
}


@pytest.mark.parametrize("kind", EXAMPLES)
@pytest.mark.parametrize("own", [False, True], ids=["sub-agent", "own"])
def test_examples_that_are_no_texts_are_refused_by_the_childs_name(kind: str, own: bool) -> None:
    examples = endless() if kind == "what raises" else EXAMPLES[kind]

    def declare() -> object:
        if own:
            return Agent(ScriptedModel("x"), sub_agents=[Declared(agent=Child(), examples=examples)])
        return SubAgent("odd", Child(), "Does odd things.", examples=examples)

    with pytest.raises(ChildDeclarationError, match="examples of 'odd' must be strings in a tuple, got "):
        declare()


@pytest.mark.parametrize(
    "examples", [("a", "b"), ["a", "b"], {"a": 1, "b": 2}, iter(("a", "b"))], ids=lambda each: type(each).__name__
)
def test_examples_of_any_kind_of_row_are_kept_as_a_tuple(examples: Any) -> None:
    assert SubAgent("fine", Child(), "Does fine things.", examples=examples).examples == ("a", "b")


@pytest.mark.parametrize("policy", [5, "retries", {"retries": 1}, ChildPolicy], ids=lambda each: type(each).__name__)
def test_a_policy_of_another_type_is_refused_by_the_childs_name(policy: Any) -> None:
    with pytest.raises(ChildDeclarationError, match="policy of 'odd' must be a ChildPolicy"):
        SubAgent("odd", Child(), "Does odd things.", policy=policy)


def test_a_name_that_cannot_be_hashed_is_a_name() -> None:
    class Name(str):
        __hash__ = None  # type: ignore[assignment]

    class Child:
        async def run(self, query: str) -> Any: ...

    assert SubAgent(Name("odd"), Child(), "A child.").name == "odd"
