"""Every argument has a consumer: change it and the run changes, take its entry away and it is refused."""

from importlib import import_module
from inspect import signature
from typing import Any

import pytest

from symfonic.agent.cutover.delegate import KernelDelegate
from symfonic.agent.cutover.envelope import admit_invocation
from symfonic.agent.cutover.policy import ADMITTED_ARGUMENTS
from symfonic.agent.engine import SymfonicAgent
from symfonic.capabilities.delegation.declarations import SubAgent
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, tool_call


def resolved(dotted: str) -> Any:
    """The object of a dotted name: the longest module of it, then attributes."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for name in parts[cut:]:
            found = getattr(found, name)
        return found
    raise AssertionError(f"no module in {dotted}")


@pytest.mark.parametrize(("argument", "consumer"), ADMITTED_ARGUMENTS.items())
def test_every_consumer_exists_and_takes_its_argument(argument: str, consumer: str) -> None:
    found = resolved(consumer)
    assert callable(found)
    assert {"sub_agents": "children"}.get(argument, argument) in signature(found).parameters


def test_the_admitted_arguments_are_those_of_run_and_the_children() -> None:
    taken = [name for name in signature(SymfonicAgent.run).parameters if name not in ("self", "unknown")]
    assert sorted(ADMITTED_ARGUMENTS) == sorted([*taken, "sub_agents"])
    assert ADMITTED_ARGUMENTS["agent_depth"] == "symfonic.agent.cutover.delegate.KernelDelegate._delegation_scope"


HEARD: list[Any] = []


async def outcome(**arguments: Any) -> dict[str, Any]:
    """What a run of an agent with one child does, under these arguments."""
    worker = ScriptedChild("answered")
    HEARD.clear()

    def fn(messages: Any, tools: Any) -> Any:
        if messages[-1].role == "tool":
            return messages[-1].text
        return tool_call("run_agent", name="child", task=messages[-1].text)

    children = arguments.pop("sub_agents", [SubAgent("child", worker, "A child.")])
    engine = SymfonicAgent(FunctionModel(fn), sub_agents=children, max_depth=2)
    result = await engine.run(**{"query": "the query", **arguments})
    [call] = worker.calls or [None]
    return {
        "heard": len(HEARD),
        "answer": result.final_response,
        "child": call and (call.query, call.scope, call.agent_depth),
        "refusal": result.delegations[0].message if result.delegations else None,
        "root": result.root_run_id != result.run_id and result.root_run_id,
        "parent": result.parent_run_id,
    }


CHANGES = [
    ("query", "another query", "child"),
    ("scope", "tenant", "child"),
    ("agent_depth", 1, "child"),
    ("agent_depth", 2, "refusal"),
    ("max_depth", 0, "refusal"),
    ("limits", Limits(max_delegations=0), "refusal"),
    ("observers", (HEARD.append,), "heard"),
    ("root_run_id", "another root", "root"),
    ("parent_run_id", "a parent", "parent"),
    ("sub_agents", [SubAgent("other", ScriptedChild(), "Another child.")], "answer"),
]


@pytest.mark.parametrize(("argument", "value", "where"), CHANGES)
async def test_changing_an_argument_changes_what_happens(argument: str, value: Any, where: str) -> None:
    before, after = await outcome(), await outcome(**{argument: value})
    assert before[where] != after[where]


def test_every_admitted_argument_is_shown_to_change_something() -> None:
    assert {argument for argument, _, _ in CHANGES} == set(ADMITTED_ARGUMENTS)


@pytest.mark.parametrize("argument", ADMITTED_ARGUMENTS)
async def test_without_its_entry_an_argument_is_refused_by_name_with_the_admitted_ones(
    argument: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    values: dict[str, Any] = {name: value for name, value, _ in reversed(CHANGES)}
    monkeypatch.delitem(ADMITTED_ARGUMENTS, argument)
    with pytest.raises(ConfigurationError, match=repr(argument)) as caught:
        await outcome(**{argument: values[argument]})
    told = str(caught.value).partition("admitted:")[2]
    assert [name.strip() for name in told.split(":")[-1].split(",")] == list(ADMITTED_ARGUMENTS)


async def test_an_unknown_argument_of_a_run_is_refused_by_this_library_naming_it_and_the_admitted() -> None:
    with pytest.raises(ConfigurationError, match=r"'temperature' is not admitted.*query.*agent_depth.*sub_agents"):
        await SymfonicAgent(ScriptedModel("never")).run("go", temperature=0.1)
    with pytest.raises(ConfigurationError, match="'temperature' is not admitted"):
        await KernelDelegate(model=ScriptedModel("never")).run("go", temperature=0.1)


async def test_an_unknown_argument_that_is_not_set_is_let_pass() -> None:
    result = await SymfonicAgent(ScriptedModel("fine")).run("go", temperature=None)
    assert result.final_response == "fine"


@pytest.mark.parametrize("value", [0, "", False, [], {}])
def test_a_falsy_value_is_set_all_the_same(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="'temperature'"):
        admit_invocation({"temperature": value})


def test_admitted_arguments_pass() -> None:
    admit_invocation(dict.fromkeys(ADMITTED_ARGUMENTS, 1))
    admit_invocation({})


async def test_a_scope_that_a_wrapper_narrows_is_the_adopted_runs_scope() -> None:
    worker = ScriptedChild("answered")
    inner = SymfonicAgent(
        ScriptedModel(tool_call("run_agent", name="leaf", task="t"), "over"),
        sub_agents=[SubAgent("leaf", worker, "A leaf.")],
    )

    class Narrowing:
        async def run(self, query: str, **context: Any) -> Any:
            return await inner.run(query, **{**context, "scope": f"{context['scope']}/narrow"})

    outer = SymfonicAgent(
        ScriptedModel(tool_call("run_agent", name="child", task="t"), "over"),
        sub_agents=[SubAgent("child", Narrowing(), "A wrapper.")],
    )
    result = await outer.run("go", scope="tenant")
    assert [(call.scope, call.agent_depth) for call in worker.calls] == [("tenant/narrow", 2)]
    assert result.delegations[0].run_id == result.delegations[0].trace.child.run_id


async def test_a_lineage_told_inside_a_run_cannot_leave_the_tree() -> None:
    told = RunIdentity.root()
    inner = SymfonicAgent(ScriptedModel("inner"))
    ran = []

    async def work() -> str:
        ran.append(await inner.run("x", root_run_id=told.run_id, parent_run_id=told.run_id))
        return "worked"

    result = await SymfonicAgent(ScriptedModel(tool_call("work"), "over"), tools=[work]).run("go")
    assert [(each.root_run_id, each.parent_run_id) for each in ran] == [(result.run_id, result.run_id)]


async def test_an_argument_of_the_agent_is_refused_by_a_run_which_would_not_read_it() -> None:
    agent = SymfonicAgent(ScriptedModel("fine"))
    with pytest.raises(ConfigurationError, match="'sub_agents' is not read by a run"):
        await agent.run("go", sub_agents=[1])
    assert (await agent.run("go", sub_agents=None)).text == "fine"
