"""Delegation as one thing to plug into a runtime."""

import inspect
from typing import Any

import pytest
from contract_fakes import Answers, Child, roster_of

from symfonic.capabilities.delegation import (
    ActiveRun,
    Bounds,
    ChildDeclarationError,
    ChildLifecycle,
    ChildSpec,
    ConfigurationError,
    DelegationCapability,
    DelegationContext,
    DelegationTools,
    DepthPolicy,
    PrebuiltChild,
)


class Closable(Child):
    def __init__(self, does: Any = "done") -> None:
        super().__init__(does)
        self.closes = 0

    async def aclose(self) -> None:
        self.closes += 1


class AgentShaped:
    def __init__(self) -> None:
        self.closes = 0

    async def run(self, prompt: str) -> Any:
        return Answers(text=prompt)

    async def aclose(self) -> None:
        self.closes += 1


def assembled() -> dict[str, Any]:
    roster, depth, context = roster_of(a=Child()), DepthPolicy(2), DelegationContext()
    tools = DelegationTools(roster=roster, depth=depth, context=context)
    return {"roster": roster, "tools": tools, "lifecycle": ChildLifecycle(()), "context": context, "depth": depth}


def test_it_is_made_by_keyword_and_its_attributes_are_what_it_was_given() -> None:
    parts = assembled()
    capability = DelegationCapability(**parts)

    assert all(getattr(capability, name) is part for name, part in parts.items())
    parameters = inspect.signature(DelegationCapability).parameters
    assert list(parameters) == ["roster", "tools", "lifecycle", "context", "depth"]
    assert all(each.kind is each.KEYWORD_ONLY for each in parameters.values())


def test_its_name_is_delegation_and_its_tools_are_the_tools_specs() -> None:
    capability = DelegationCapability(**assembled())

    assert capability.name == DelegationCapability.name == "delegation"
    assert capability.tool_specs() is capability.tools.specs()


async def test_its_run_scope_is_an_async_one_over_the_contexts() -> None:
    capability = DelegationCapability(**assembled())

    async with capability.run_scope(depth="3", scope="tenant") as run:
        assert isinstance(run, ActiveRun)
        assert capability.context.active_run() is run
        assert (run.depth, run.scope) == (3, "tenant")
    assert capability.context.active_run() is None


async def test_its_run_scope_opens_on_entry_and_ends_when_the_block_raises() -> None:
    capability = DelegationCapability(**assembled())
    scope = capability.run_scope(depth=1)
    assert capability.context.active_run() is None

    with pytest.raises(ValueError, match="inside"):
        async with scope:
            raise ValueError("inside")
    assert capability.context.active_run() is None


async def test_a_contexts_own_run_scope_is_the_one_that_is_opened() -> None:
    opened: list[dict[str, Any]] = []

    class Watching(DelegationContext):
        def run_scope(self, **arguments: Any) -> Any:
            opened.append(arguments)
            return super().run_scope(**arguments)

    parts = assembled()
    parts["context"] = Watching()
    async with DelegationCapability(**parts).run_scope(depth=1, scope="tenant"):
        pass

    assert opened == [{"depth": 1, "scope": "tenant"}]


async def test_closing_it_closes_the_lifecycle() -> None:
    child = Closable()
    parts = assembled()
    parts["lifecycle"] = ChildLifecycle([child])
    capability = DelegationCapability(**parts)
    await capability.aclose()
    await capability.aclose()

    assert child.closes == 1


def test_declaring_builds_one_from_declarations_in_order() -> None:
    runner, built = Child(), Closable()
    capability = DelegationCapability.declare(
        [
            PrebuiltChild("given", runner, "Is given.", "when given"),
            ChildSpec("made", lambda: built, "Is made.", examples=("make it",)),
        ],
        max_depth=3,
    )

    given, made = capability.roster
    assert (given.name, given.description, given.when_to_use, given.owned) == (
        "given",
        "Is given.",
        "when given",
        False,
    )
    assert given.runner is runner
    assert (made.name, made.owned, made.examples, made.runner) == ("made", True, ("make it",), built)
    assert capability.depth == DepthPolicy(3)


async def test_what_was_declared_can_be_delegated_to() -> None:
    capability = DelegationCapability.declare([PrebuiltChild("a", AgentShaped(), "Echoes.")], max_depth=1)

    assert (await capability.tools.delegate("a", "hello")).message == "hello"


async def test_children_that_the_caller_built_are_never_closed_and_those_built_here_are() -> None:
    mine, my_agent, built, built_agent = Closable(), AgentShaped(), Closable(), AgentShaped()
    capability = DelegationCapability.declare(
        [
            PrebuiltChild("mine", mine, "Mine."),
            PrebuiltChild("my_agent", my_agent, "Mine too."),
            ChildSpec("built", lambda: built, "Built."),
            ChildSpec("built_agent", lambda: built_agent, "Built too."),
        ],
        max_depth=1,
    )
    await capability.aclose()

    assert [each.closes for each in (mine, my_agent, built, built_agent)] == [0, 0, 1, 1]


def test_each_child_is_built_once_when_it_is_declared() -> None:
    builds: list[Child] = []

    def build() -> Child:
        builds.append(Child())
        return builds[-1]

    DelegationCapability.declare([ChildSpec("a", build, "Built.")], max_depth=1)

    assert len(builds) == 1


@pytest.mark.parametrize("agent", [object(), None, "offline", Child])
def test_a_child_that_cannot_be_adopted_fails_the_declaration_by_name(agent: Any) -> None:
    for declared in (PrebuiltChild("worker", agent, "Works."), ChildSpec("worker", lambda: agent, "Works.")):
        with pytest.raises(ChildDeclarationError, match="'worker'"):
            DelegationCapability.declare([declared], max_depth=1)


@pytest.mark.parametrize("max_depth", [-1, "2", 1.5])
def test_a_ceiling_that_is_none_fails_the_declaration(max_depth: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_depth"):
        DelegationCapability.declare([PrebuiltChild("a", Child(), "Does it.")], max_depth=max_depth)


def test_two_children_of_one_name_fail_the_declaration() -> None:
    with pytest.raises(ChildDeclarationError, match="'worker' and 'Worker'"):
        DelegationCapability.declare(
            [PrebuiltChild("worker", Child(), "Works."), PrebuiltChild("Worker", Child(), "Works too.")], max_depth=1
        )


async def test_without_a_ceiling_of_its_own_the_enclosing_runs_holds_and_two_for_a_root() -> None:
    child = Child()
    capability = DelegationCapability.declare([PrebuiltChild("a", child, "Does it.")], max_depth=None)

    outcomes = []
    for depth, ceiling in ((0, None), (1, None), (2, None), (5, 7), (7, 7), (0, 0)):
        with capability.context.run_scope(depth=depth, bounds=Bounds(max_depth=ceiling)):
            outcomes.append((await capability.tools.delegate("a", "task")).delivered)

    assert outcomes == [True, True, False, True, False, False]
