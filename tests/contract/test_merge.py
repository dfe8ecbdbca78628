"""One tool set: the caller's tools, then those that capabilities contribute, in order and without collisions."""

from dataclasses import dataclass
from typing import Any

import pytest

from symfonic.agent.cutover.merge import merge_capability_tools
from symfonic.errors import ConfigurationError


@dataclass(frozen=True)
class Named:
    name: str


A, B, C, D = (Named(name) for name in "abcd")
DELEGATION, MEMORY = Named("delegation"), Named("memory")


def test_the_callers_tools_come_first_then_the_contributed_ones_in_order() -> None:
    assert list(merge_capability_tools([B, A], [(DELEGATION, D), (MEMORY, C)])) == [B, A, D, C]


@pytest.mark.parametrize("contributed", [[], (), iter(())])
def test_without_contributions_the_tools_stay_as_they_are(contributed: Any) -> None:
    assert list(merge_capability_tools([A, B], contributed)) == [A, B]
    assert list(merge_capability_tools([], contributed)) == []


def test_the_callers_list_is_never_mutated_and_later_mutation_changes_nothing() -> None:
    tools, contributed = [A], [("delegation", B)]
    merged = list(merge_capability_tools(tools, contributed))
    assert (tools, contributed) == ([A], [("delegation", B)])
    tools.append(C)
    contributed.clear()
    assert merged == [A, B]


def test_the_merged_tools_are_the_very_objects() -> None:
    merged = merge_capability_tools([A], [(DELEGATION, B)])
    assert merged[0] is A
    assert merged[1] is B


@pytest.mark.parametrize("capability", ["delegation", DELEGATION], ids=["by name", "an object with a name"])
def test_a_collision_with_the_callers_tool_names_the_capability_and_where_the_other_comes_from(
    capability: Any,
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        merge_capability_tools([A, Named("run_agent")], [(capability, Named("run_agent"))])
    assert str(caught.value) == (
        "delegation contributed a tool named 'run_agent', "
        "which is already registered by a tool passed to Agent(tools=[...])"
    )


def test_a_collision_between_two_capabilities_names_both() -> None:
    with pytest.raises(ConfigurationError) as caught:
        merge_capability_tools([A], [(DELEGATION, Named("recall")), (MEMORY, Named("recall"))])
    assert str(caught.value) == ("memory contributed a tool named 'recall', which is already registered by delegation")


def test_a_capability_that_offers_one_name_twice_collides_with_itself() -> None:
    with pytest.raises(ConfigurationError, match=r"delegation contributed a tool named 'a'.*by delegation"):
        merge_capability_tools([], [(DELEGATION, A), (DELEGATION, Named("a"))])


def test_two_tools_of_the_caller_with_one_name_are_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="'a'"):
        merge_capability_tools([A, B, Named("a")], [])


def test_names_that_differ_only_by_case_are_two_tools() -> None:
    assert len(merge_capability_tools([A, Named("A")], [(DELEGATION, Named("á"))])) == 3
