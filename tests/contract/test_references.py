"""How a user declares a child: `SubAgent`, and `AgentRef` for one that does not exist yet."""

import dataclasses
from typing import Any

import pytest
from contract_fakes import Answers, Child, entry, tools_of

from symfonic.capabilities.delegation import (
    AgentRef,
    ChildDeclarationError,
    DelegationOutcome,
    DelegationRoster,
    SubAgent,
    accepts_run_lineage,
    adapt_child,
)


class AgentShaped:
    async def run(self, prompt: str) -> Any:
        return Answers(text=f"shaped {prompt}")


def test_a_sub_agent_takes_its_arguments_in_the_documented_order() -> None:
    agent = Child()
    child = SubAgent("a", agent, "Does it.", "when needed", examples=("do it",))

    assert (child.name, child.agent, child.description, child.when_to_use) == ("a", agent, "Does it.", "when needed")
    assert child.examples == ("do it",)
    assert child.policy is None


def test_a_sub_agents_examples_and_policy_go_by_keyword() -> None:
    with pytest.raises(TypeError):
        SubAgent("a", Child(), "Does it.", None, ("do it",))  # type: ignore[misc]
    plain = SubAgent("a", Child(), "Does it.")
    assert (plain.when_to_use, plain.examples, plain.policy) == (None, (), None)


def test_a_sub_agent_is_frozen_and_keeps_no_list_of_the_callers() -> None:
    examples = ["do it"]
    child = SubAgent("a", Child(), "Does it.", examples=examples)  # type: ignore[arg-type]
    examples.append("do more")

    assert child.examples == ("do it",)
    with pytest.raises(dataclasses.FrozenInstanceError):
        child.name = "b"  # type: ignore[misc]


@pytest.mark.parametrize("agent", [Child(), AgentShaped(), AgentRef(lambda: None)])
def test_a_sub_agent_may_be_whatever_can_be_adopted(agent: Any) -> None:
    assert SubAgent("a", agent, "Does it.").agent is agent


@pytest.mark.parametrize("name", ["", " ", "two words", "a\n", None, 7])
def test_a_sub_agent_without_a_plain_name_fails_where_it_is_declared(name: Any) -> None:
    with pytest.raises(ChildDeclarationError, match="name"):
        SubAgent(name, Child(), "Does it.")


@pytest.mark.parametrize("description", ["", "  ", None, 7])
def test_a_sub_agent_without_a_description_fails_where_it_is_declared(description: Any) -> None:
    with pytest.raises(ChildDeclarationError, match=r"'worker'.*description"):
        SubAgent("worker", Child(), description)


@pytest.mark.parametrize("agent", [object(), None, "offline", Child, len])
def test_a_sub_agent_that_cannot_be_adopted_fails_where_it_is_declared(agent: Any) -> None:
    with pytest.raises(ChildDeclarationError, match="'worker'"):
        SubAgent("worker", agent, "Does it.")


@pytest.mark.parametrize(
    "wrong",
    [{"when_to_use": 7}, {"examples": "do it"}, {"examples": [7]}, {"policy": "fast"}],
)
def test_a_sub_agents_other_arguments_are_checked_by_name(wrong: dict[str, Any]) -> None:
    (argument,) = wrong
    with pytest.raises(ChildDeclarationError, match=f"{argument}.*'worker'"):
        SubAgent("worker", Child(), "Does it.", **wrong)


def test_a_reference_takes_a_function() -> None:
    with pytest.raises(ChildDeclarationError, match="AgentRef"):
        AgentRef("not a function")  # type: ignore[arg-type]


def test_a_reference_is_adopted_as_it_is_and_asked_for_nothing() -> None:
    calls: list[int] = []
    reference = AgentRef(lambda: calls.append(1))

    assert adapt_child("a", reference) is reference
    assert accepts_run_lineage(reference)
    DelegationRoster([entry("a", reference)])
    assert calls == []


async def test_a_reference_is_resolved_at_the_first_delegation_and_not_again() -> None:
    resolved: list[Child] = []

    def resolve() -> Child:
        resolved.append(Child("from the agent"))
        return resolved[-1]

    tools = tools_of(1, a=AgentRef(resolve))
    assert resolved == []
    for _ in range(3):
        assert (await tools.delegate("a", "task")).message == "from the agent"
    assert len(resolved) == 1


async def test_a_reference_speaks_for_its_agent_and_hands_on_its_place_in_the_tree() -> None:
    direct, behind = Child(), Child()
    tools = tools_of(5, direct=direct, behind=AgentRef(lambda: behind))
    with tools.context.run_scope(depth=2, scope="tenant"):
        await tools.delegate("direct", "task")
        await tools.delegate("behind", "task")

    assert behind.queries == ["task"]
    assert behind.keywords[0].keys() == direct.keywords[0].keys()
    assert (behind.keywords[0]["scope"], behind.keywords[0]["agent_depth"]) == ("tenant", 3)


async def test_a_reference_may_be_to_an_agent_shaped_child_or_to_a_bare_runner() -> None:
    class Bare:
        async def run(self, query: str) -> Any:
            return Answers(final_response=f"bare {query}")

    tools = tools_of(1, a=AgentRef(AgentShaped), b=AgentRef(Bare))

    assert (await tools.delegate("a", "x")).message == "shaped x"
    assert (await tools.delegate("b", "x")).message == "bare x"


async def test_a_reference_that_resolves_to_no_agent_is_a_value() -> None:
    for resolve in (lambda: None, lambda: object(), lambda: [][0]):
        record = await tools_of(1, a=AgentRef(resolve)).delegate("a", "task")
        assert record.outcome is DelegationOutcome.CHILD_FAILED


async def test_a_reference_that_failed_to_resolve_is_asked_again() -> None:
    answers: list[Any] = [None, Child("now it exists")]
    tools = tools_of(1, a=AgentRef(lambda: answers.pop(0)))

    assert not (await tools.delegate("a", "task")).delivered
    assert (await tools.delegate("a", "task")).message == "now it exists"


@pytest.mark.parametrize("ceiling", [0, 1, 2, 3, 4])
async def test_a_cycle_is_bounded_by_depth(ceiling: int) -> None:
    runs: list[str] = []

    def agent(name: str, other: str) -> Child:
        async def on(query: str) -> str:
            runs.append(name)
            return (await tools[name].delegate(other, query)).message

        return Child(on)

    agents = {"a": agent("a", "b"), "b": agent("b", "a")}
    tools = {
        "a": tools_of(ceiling, b=AgentRef(lambda: agents["b"])),
        "b": tools_of(ceiling, a=AgentRef(lambda: agents["a"])),
    }
    message = (await tools["a"].delegate("b", "task")).message

    assert len(runs) == ceiling
    assert message == tools["a"].depth.refusal()  # type: ignore[union-attr]


async def test_an_agent_whose_roster_holds_itself_is_bounded() -> None:
    async def again(query: str) -> str:
        return (await tools.delegate("me", query)).message

    me = Child(again)
    tools = tools_of(3, me=AgentRef(lambda: me))
    await tools.delegate("me", "task")

    assert len(me.queries) == 3
