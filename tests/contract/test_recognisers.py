"""Foreign agents are known by where their type comes from, and adopted where they are declared."""

import importlib.metadata
from typing import Any

import pytest

from symfonic import Agent, SubAgent
from symfonic.agent.cutover import adoption
from symfonic.capabilities.delegation import recognisers
from symfonic.capabilities.delegation.errors import ChildDeclarationError
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.testing import ScriptedModel, tool_call


def foreign(package: str, **members: Any) -> Any:
    """An object whose type claims to come from a package."""
    return type("Foreign", (), {"__module__": f"{package}.agents", **members})()


class Runner:
    def __init__(self, agent: Any) -> None:
        self.agent = agent

    async def run(self, query: str) -> Any:
        return ChildResponse(f"adopted: {query}", self.agent)


@pytest.fixture(autouse=True)
def table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recognisers, "_known", dict(recognisers._known))
    monkeypatch.setattr(recognisers, "_sources", [])


async def test_an_agent_that_an_adapter_knows_is_a_child_though_it_looks_like_another_kind() -> None:
    asked: list[str] = []

    def adopt(name: str, agent: Any) -> Any:
        asked.append(name)
        return Runner(agent) if hasattr(agent, "mine") else None

    recognisers.recognise("other", lambda: adopt)

    def run(self: Any, **kwargs: Any) -> Any:
        raise AssertionError("this is not the contract's run")

    child = SubAgent("child", foreign("other", mine=True, run=run), "Works.")
    lead = Agent(ScriptedModel(tool_call("run_agent", name="child", task="go"), "done"), sub_agents=[child])
    [record] = (await lead.run("x")).delegations
    assert record.message == "adopted: go"
    assert set(asked) == {"child"}

    async def plain(self: Any, query: str) -> Any: ...

    assert SubAgent("child", foreign("other", run=plain), "Works.").name == "child", "it speaks for itself"


def test_a_base_from_the_package_is_enough_and_the_first_adapter_stays() -> None:
    base = type("Base", (), {"__module__": "other.base"})
    mine = type("Mine", (base,), {"__module__": "app"})()
    recognisers.recognise("other", lambda: lambda name, agent: Runner(agent))
    recognisers.recognise("other", lambda: lambda name, agent: None)
    assert isinstance(recognisers.recognised("x", mine), Runner)
    assert recognisers.recognised("x", foreign("unknown")) is None
    assert recognisers.recognised("x", object()) is None


def test_installed_packages_are_asked_once_and_only_about_what_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def entry_points(*, group: str) -> Any:
        asked.append(group)
        return [
            importlib.metadata.EntryPoint("there", "contract_fakes:adopt_there", group),
            importlib.metadata.EntryPoint("broken", "no_such_module:adopt", group),
        ]

    monkeypatch.setattr(importlib.metadata, "entry_points", entry_points)
    recognisers.look_there(adoption._offered)
    recognisers.recognise("other", lambda: lambda name, agent: Runner(agent))
    assert recognisers.recognised("x", foreign("other")) is not None
    assert asked == []
    assert recognisers.recognised("x", foreign("there")) == ("adopted", "x")
    assert recognisers.recognised("x", foreign("unknown")) is None
    assert asked == ["symfonic.adapters"]
    with pytest.raises(ChildDeclarationError, match="'no_such_module:adopt', which is offered for 'broken'"):
        recognisers.recognised("x", foreign("broken"))


def test_what_nobody_can_adopt_is_refused_with_the_list_of_what_can() -> None:
    with pytest.raises(
        ChildDeclarationError,
        match=r"from_callable\(.*agno, .*LangChain.*pydantic-ai, smolagents, strands",
    ):
        SubAgent("child", foreign("unknown"), "Works.")
