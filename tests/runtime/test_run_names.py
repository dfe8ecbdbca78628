"""Names, as models send them: one rule for all, and a value that lists the children where none is meant."""

import asyncio
from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, Kind, answer, calls, child, delegates, results

import symfonic
from symfonic import ConfigurationError, DelegationOutcome
from symfonic.testing import FunctionModel, ScriptedChild, tool_call

UNWRAPPED = " \t\n\"'`[](){}<>"


def senior() -> symfonic.SubAgent:
    return child(ScriptedChild("delivered"), "Senior-Researcher")


@pytest.mark.parametrize(
    "spelling",
    [
        "Senior-Researcher",
        "senior_researcher",
        "SENIOR-RESEARCHER",
        "senior researcher",
        " Senior-Researcher\n",
        "'Senior-Researcher'",
        '"senior researcher"',
        "`Senior_Researcher`",
        "[Senior-Researcher]",
        "['Senior-Researcher']",
        '["senior_researcher"]',
        "Ｓenior-Researcher",
        ["Senior-Researcher"],
    ],
)
async def test_a_near_miss_of_the_one_declared_name_means_that_name(spelling: Any, kind: Kind) -> None:
    result = await kind.agent(delegates(spelling), sub_agents=[senior(), child(ScriptedChild(), "other")]).run("go")
    assert result.text == "delivered"
    assert result.delegated_to == ("Senior-Researcher",)


@pytest.mark.parametrize(
    "spelling", ["Senior", "researcher", "SeniorResearcher", "the Senior-Researcher", "Senior-Researcher."]
)
async def test_what_is_not_a_spelling_of_the_name_is_a_value_that_lists_the_children(spelling: str, kind: Kind) -> None:
    agent = kind.agent(delegates(spelling), sub_agents=[senior(), child(ScriptedChild(), "other")])
    result = await agent.run("go")
    [record] = result.delegations
    assert record.outcome is DelegationOutcome.UNKNOWN_CHILD
    assert record.outcome.refused
    assert result.text == record.message
    assert result.text == (
        f"Unknown sub-agent {spelling!r}. Available:\n"
        "  - Senior-Researcher: Does what Senior-Researcher does.\n  - other: Does what other does."
    )


@pytest.mark.parametrize("sent", [["worker"], "['worker']", {"name": "worker"}, '{"name": "worker"}', [["worker"]]])
async def test_a_refusal_never_lists_as_valid_what_it_refused(sent: Any, kind: Kind) -> None:
    worker = ScriptedChild("worked")
    result = await kind.agent(delegates(sent), sub_agents=[child(worker, "worker")]).run("go")
    [record] = result.delegations
    if record.outcome is DelegationOutcome.UNKNOWN_CHILD:
        assert str(sent).strip(UNWRAPPED) != "worker"
        assert "  - worker: " in result.text
    else:
        assert result.text == "worked"


@pytest.mark.parametrize("sent", [None, "", "   ", 0, "undefined", "\n", [], False, 10**30, "\ud800"])
async def test_a_name_that_is_none_is_a_value_that_lists_the_children(sent: Any, kind: Kind) -> None:
    worker = ScriptedChild()
    result = await kind.agent(delegates(sent), sub_agents=[child(worker, "worker")]).run("go")
    [record] = result.delegations
    assert record.outcome is DelegationOutcome.UNKNOWN_CHILD
    assert "worker" in result.text
    assert worker.calls == []
    result.text.encode()


async def test_a_missing_name_is_a_value_that_lists_the_children(kind: Kind) -> None:
    agent = kind.agent(calls(tool_call("run_agent", task="t")), sub_agents=[child(ScriptedChild(), "worker")])
    result = await agent.run("go")
    assert "'name'" in result.text
    assert "worker" in result.text
    assert result.delegations == ()


@pytest.mark.parametrize("second", ["writer", "WRITER", "Writer", "ｗriter", "'writer'"])
def test_two_names_equal_once_normalised_are_refused_naming_both(second: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        NATIVE.agent(answer(), sub_agents=[child(ScriptedChild(), "writer"), child(ScriptedChild(), second)])
    assert "'writer'" in str(caught.value)
    assert repr(second) in str(caught.value)


@pytest.mark.parametrize("name", ["", "a b", " a", "a\n", "a\u00a0b", None, 3])
def test_a_declared_name_is_plain(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        symfonic.SubAgent(name, ScriptedChild(), "A child.")


def tree(root_calls: Any, middle_calls: Any, kind: Kind) -> symfonic.Agent:
    middle = kind.agent(middle_calls, sub_agents=[child(ScriptedChild("deep answer"), "deep")])
    return kind.agent(root_calls, sub_agents=[child(middle, "middle")])


async def test_each_agent_reaches_its_own_children_and_no_others(kind: Kind) -> None:
    assert (await tree(delegates("middle"), delegates("deep"), kind).run("go")).text == "deep answer"
    result = await tree(delegates("deep"), delegates("deep"), kind).run("go")
    assert result.text == "Unknown sub-agent 'deep'. Available:\n  - middle: Does what middle does."


async def test_parallel_branches_do_not_mix_their_rosters(kind: Kind) -> None:
    together = asyncio.Barrier(2)

    async def meet(query: str) -> str:
        await together.wait()
        return query

    def branch(own: str, others: str) -> symfonic.SubAgent:
        both = calls(*(tool_call("run_agent", name=name, task=name) for name in (own, others)))
        return child(kind.agent(both, sub_agents=[child(Child(meet), own)]), f"of-{own}")

    both = calls(*(tool_call("run_agent", name=f"of-{own}", task="go") for own in "ab"))
    result = await kind.agent(both, sub_agents=[branch("a", "b"), branch("b", "a")]).run("go")
    assert results(result) == [
        "a\nUnknown sub-agent 'b'. Available:\n  - a: Does what a does.",
        "b\nUnknown sub-agent 'a'. Available:\n  - b: Does what b does.",
    ]


def named(name: str) -> Any:
    async def tool() -> None: ...

    tool.__name__ = name
    return tool


@pytest.mark.parametrize("taken", ["run_agent", "list_agents"])
def test_a_tool_named_like_a_delegation_tool_is_refused_naming_both_sources(taken: str, kind: Kind) -> None:
    expected = (
        f"delegation contributed a tool named {taken!r}, "
        r"which is already registered by a tool passed to Agent\(tools=\[...\]\)"
    )
    with pytest.raises(ConfigurationError, match=expected):
        kind.agent(answer(), tools=[kind.tool(named(taken))], sub_agents=[senior()])


def test_a_tool_and_a_child_that_share_a_name_are_refused_naming_both_sources(kind: Kind) -> None:
    with pytest.raises(ConfigurationError, match=r"sub-agent 'writer' .* a tool passed to Agent\(tools"):
        kind.agent(answer(), tools=[kind.tool(named("writer"))], sub_agents=[child(ScriptedChild(), "writer")])


def test_two_tools_of_one_name_are_refused_by_name(kind: Kind) -> None:
    with pytest.raises(ConfigurationError, match=r"tools passed to Agent\(tools=\[...\]\) are named 'same'"):
        kind.agent(answer(), tools=[kind.tool(named("same")), named("same")])


def test_without_children_a_tool_may_be_called_run_agent(kind: Kind) -> None:
    assert kind.agent(answer(), tools=[kind.tool(named("run_agent"))]).name == "agent"


async def test_the_schema_offers_the_names_as_an_enum(kind: Kind) -> None:
    schemas: list[Any] = []

    def fn(messages: Any, tools: Any) -> str:
        schemas.extend(tool.parameters for tool in tools)
        return "seen"

    await kind.agent(fn, sub_agents=[child(ScriptedChild(), name) for name in ("writer", "Zoë")]).run("go")
    run_agent, list_agents = schemas
    assert run_agent["properties"]["name"]["enum"] == ["writer", "Zoë"]
    assert "enum" not in run_agent["properties"]["task"]
    assert run_agent["required"] == ["name", "task"]
    assert list_agents["properties"] == {}


async def test_list_agents_says_who_there_is(kind: Kind) -> None:
    guided = symfonic.SubAgent("writer", ScriptedChild(), "Writes.", "for prose", examples=("write a poem",))
    agent = kind.agent(calls(tool_call("list_agents")), sub_agents=[guided, child(ScriptedChild(), "other")])
    expected = "Available sub-agents:\n  - writer: Writes. (for prose)\n  - other: Does what other does."
    assert (await agent.run("go")).text == expected


async def test_examples_reach_a_router_though_no_description_shows_them() -> None:
    routes: list[Any] = []

    def fn(messages: Any, tools: Any) -> str:
        routes.extend(route for tool in tools for route in tool.routes)
        assert "poem" not in "".join(tool.description for tool in tools)
        return "seen"

    guided = symfonic.SubAgent("writer", ScriptedChild(), "Writes.", examples=("write a poem",))
    await symfonic.Agent(FunctionModel(fn), sub_agents=[guided]).run("go")
    assert [(route.name, route.examples) for route in routes] == [("writer", ("write a poem",))]
