"""The ceiling: who may delegate how deep, by every entry, and what is said at the end of it."""

import asyncio
import contextvars
import json
from collections.abc import Callable
from typing import Any

import pytest
from runtime_fakes import (
    NATIVE,
    Child,
    Kind,
    Response,
    Spot,
    answer,
    calls,
    child,
    delegates,
    results,
    spot,
    spots_of,
)

import symfonic
from symfonic import AgentRef, ConfigurationError, DelegationOutcome, Options
from symfonic.agent.cutover.delegation import delegation_for_children
from symfonic.agent.engine import SymfonicAgent
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.capabilities.delegation.depth import DepthPolicy
from symfonic.kernel.contracts.events import DelegationFinished, DelegationStarted, RunStarted
from symfonic.testing import FunctionModel, ScriptedChild, tool_call

REFUSED = DelegationOutcome.REFUSED_DEPTH


def flattened(records: Any) -> list[Any]:
    return [each for record in records for each in (record, *flattened(record.children))]


@pytest.mark.parametrize("ceiling", [0, 1, 2, 3])
async def test_an_agent_that_always_delegates_to_itself_runs_once_a_level_down_to_the_ceiling(
    ceiling: int, kind: Kind
) -> None:
    seen: list[Spot] = []
    agent: symfonic.Agent = kind.agent(
        spots_of(delegates("again"), seen), sub_agents=[child(AgentRef(lambda: agent), "again")], max_depth=ceiling
    )
    result = await agent.run("go")
    assert [each.depth for each in seen] == list(range(ceiling + 1))
    assert {each.root_run_id for each in seen} == {result.run_id}
    assert result.text == DepthPolicy(ceiling).refusal()
    records = flattened(result.delegations)
    assert [record.outcome for record in records] == [DelegationOutcome.DELIVERED] * ceiling + [REFUSED]
    assert [record.depth for record in records] == list(range(1, ceiling + 2))


async def test_two_agents_that_delegate_to_each_other_are_bounded_by_depth(kind: Kind) -> None:
    seen: list[Spot] = []
    first: symfonic.Agent = kind.agent(
        spots_of(delegates("second"), seen), sub_agents=[child(AgentRef(lambda: second), "second")], max_depth=4
    )
    second: symfonic.Agent = kind.agent(
        spots_of(delegates("first"), seen), sub_agents=[child(AgentRef(lambda: first), "first")]
    )
    result = await first.run("go")
    assert len(seen) == 1 + 4
    assert {each.root_run_id for each in seen} == {result.root_run_id}
    assert result.text == DepthPolicy(4).refusal()


async def test_the_refused_child_is_never_touched() -> None:
    refused = ScriptedChild()
    await NATIVE.agent(delegates(), sub_agents=[child(refused)], max_depth=0).run("go")
    assert refused.calls == []


async def test_fifty_siblings_at_once_are_all_at_the_same_level(kind: Kind) -> None:
    together = asyncio.Barrier(50)
    depths = []

    async def act(query: str) -> str:
        depths.append(spot().depth)
        await together.wait()
        return "done"

    result = await kind.agent(delegates(times=50), sub_agents=[child(Child(act))], max_depth=2).run("go")
    assert depths == [1] * 50
    assert result.delegated_to == ("child",) * 50


async def test_a_hundred_delegations_one_after_another_are_all_at_the_same_level_though_half_fail() -> None:
    depths = []

    async def act(query: str) -> str:
        depths.append(spot().depth)
        if len(depths) % 2:
            raise ValueError("odd")
        return "even"

    def fn(messages: Any, tools: Any) -> Any:
        return tool_call("run_agent", name="child", task="go") if len(depths) < 100 else "finished"

    agent = NATIVE.agent(fn, sub_agents=[child(Child(act))], options=Options(max_steps=200))
    result = await agent.run("go")
    assert depths == [1] * 100
    assert [record.delivered for record in result.delegations] == [False, True] * 50


async def by_the_tool(agent: symfonic.Agent) -> list[str]:
    return [(await agent.run("inner")).text]


async def by_delegate(agent: symfonic.Agent) -> list[str]:
    assert agent.engine.delegation is not None
    return [(await agent.engine.delegation.tools.delegate("child", "go")).message]


async def by_the_spec(agent: symfonic.Agent) -> list[str]:
    assert agent.engine.delegation is not None
    return [await agent.engine.delegation.tool_specs()[0].coroutine(name="child", task="go")]


async def in_a_thread(agent: symfonic.Agent) -> list[str]:
    return await asyncio.to_thread(lambda: asyncio.run(by_the_tool(agent)))


async def in_a_context_of_its_own(agent: symfonic.Agent) -> list[str]:
    context = contextvars.copy_context()
    return await asyncio.get_running_loop().run_in_executor(None, lambda: context.run(asyncio.run, by_delegate(agent)))


async def in_a_task(agent: symfonic.Agent) -> list[str]:
    async with asyncio.TaskGroup() as group:
        made = [group.create_task(each(agent)) for each in (by_the_tool, by_delegate)]
    return [text for task in made for text in task.result()]


ENTRIES = [by_the_tool, by_delegate, by_the_spec, in_a_thread, in_a_context_of_its_own, in_a_task]


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__name__)
async def test_the_ceiling_of_the_enclosing_run_holds_in_a_tools_body_by_every_entry(entry: Any, kind: Kind) -> None:
    leaf = ScriptedChild()
    roomy = NATIVE.agent(delegates(), sub_agents=[child(leaf)], max_depth=9)
    texts: list[str] = []

    async def work() -> str:
        texts.extend(await entry(roomy))
        return "worked"

    await kind.agent(calls(tool_call("work")), tools=[kind.tool(work)], max_depth=0).run("go")
    assert set(texts) == {DepthPolicy(0).refusal()}
    assert leaf.calls == []


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.__name__)
async def test_the_ceiling_holds_in_a_foreign_child_that_calls_back_by_every_entry(entry: Any) -> None:
    leaf = ScriptedChild()
    roomy = NATIVE.agent(delegates(), sub_agents=[child(leaf)], max_depth=9)

    async def act(query: str) -> str:
        return " ".join(await entry(roomy))

    result = await NATIVE.agent(delegates(), sub_agents=[child(Child(act))], max_depth=1).run("go")
    assert DepthPolicy(1).refusal() in result.text
    assert leaf.calls == []


class Reading:
    """A child that answers with the ceiling in force where it runs."""

    async def run(self, query: str) -> Any:
        return Response(str(spot().ceiling))


@pytest.mark.parametrize(
    ("root", "middle", "in_force"),
    [(7, 9, 7), (7, None, 7), (7, 3, 3), (None, None, 2), (None, 9, 2), (3, 2, 2)],
)
async def test_a_grandchild_reads_the_lowest_ceiling_on_its_path(
    root: int | None, middle: int | None, in_force: int
) -> None:
    between = NATIVE.agent(delegates(), sub_agents=[child(Reading())], max_depth=middle)
    result = await NATIVE.agent(delegates(), sub_agents=[child(between)], max_depth=root).run("go")
    assert result.text == str(in_force)


@pytest.mark.parametrize(("asked", "in_force"), [(None, 3), (1, 1), (3, 3), (9, 3)])
async def test_a_runs_own_ceiling_only_tightens_and_only_for_that_run(asked: int | None, in_force: int) -> None:
    agent = NATIVE.agent(delegates(), sub_agents=[child(Reading())], max_depth=3)
    assert (await agent.run("go", max_depth=asked)).text == str(in_force)
    assert (await agent.run("go")).text == "3"


@pytest.mark.parametrize("bad", [-1, True, 1.5, "2"])
async def test_a_ceiling_that_is_no_depth_is_refused_by_name(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_depth must be an int >= 0"):
        NATIVE.agent(answer(), max_depth=bad)
    with pytest.raises(ConfigurationError, match="max_depth must be an int >= 0"):
        await NATIVE.agent(answer()).run("go", max_depth=bad)


def offers(messages: Any, tools: Any) -> str:
    return json.dumps([tool.name for tool in tools])


@pytest.mark.parametrize(
    ("run", "offered"),
    [
        ({}, ["look", "run_agent", "list_agents"]),
        ({"agent_depth": 1}, ["look", "run_agent", "list_agents"]),
        ({"agent_depth": 2}, ["look"]),
        ({"agent_depth": 3}, ["look"]),
        ({"max_depth": 0}, ["look"]),
    ],
)
async def test_at_the_ceiling_the_delegation_tools_are_not_offered(run: Any, offered: list[str], kind: Kind) -> None:
    async def look() -> str:
        return "seen"

    agent = kind.agent(offers, tools=[kind.tool(look)], sub_agents=[child(ScriptedChild())], max_depth=2)
    assert json.loads((await agent.run("go", **run)).text) == offered


@pytest.mark.parametrize("name", ["child", "no such child"])
async def test_at_the_ceiling_a_call_of_the_hidden_tool_is_answered_with_the_refusal(name: str, kind: Kind) -> None:
    agent = kind.agent(delegates(name), sub_agents=[child(ScriptedChild())], max_depth=0)
    result = await agent.run("go")
    assert result.text == DepthPolicy(0).refusal()
    assert [(record.outcome, record.name, record.depth) for record in result.delegations] == [(REFUSED, name, 1)]


async def test_the_same_refused_call_five_times_is_five_values_and_no_run(kind: Kind) -> None:
    refused = ScriptedChild()
    script = [*[tool_call("run_agent", name="child", task="please")] * 5, "I answer myself"]
    agent = symfonic.Agent(kind.script(*script), sub_agents=[child(refused)], max_depth=0)
    result = await agent.run("go")
    assert result.text == "I answer myself"
    assert results(result) == [DepthPolicy(0).refusal()] * 5
    assert [(each.outcome, each.outcome.refused, each.trace.task) for each in result.delegations] == [
        (REFUSED, True, "please")
    ] * 5
    assert refused.calls == []
    assert result.delegated_to == ()


async def test_the_model_is_told_beforehand_that_a_refusal_is_final_and_what_to_do_instead(kind: Kind) -> None:
    described: Callable[[Any, Any], str] = lambda messages, tools: tools[0].description  # noqa: E731
    text = (await kind.agent(described, sub_agents=[child(ScriptedChild(), "writer")]).run("go")).text
    assert "does not see this conversation" in text
    assert "A refusal is final" in text
    assert "answer yourself" in text
    assert text.endswith("  - writer: Does what writer does.")


async def test_a_childs_own_lower_ceiling_holds_for_whatever_it_starts(kind: Kind) -> None:
    leaf, offered = ScriptedChild(), []
    roomy = NATIVE.agent(delegates(), sub_agents=[child(leaf)], max_depth=9)

    async def work() -> str:
        return (await roomy.run("inner")).text

    def fn(messages: Any, tools: Any) -> Any:
        offered.extend(tool.name for tool in tools)
        return calls(tool_call("work"))(messages, tools) if not leaf.calls else "never"

    middle = kind.agent(fn, tools=[kind.tool(work)], sub_agents=[child(leaf)], max_depth=1)
    result = await kind.agent(delegates(), sub_agents=[child(middle)], max_depth=7).run("go")
    assert result.text == DepthPolicy(1).refusal()
    assert set(offered) == {"work"}
    assert leaf.calls == []


async def test_a_ceiling_that_a_wrapper_states_for_the_agent_it_runs_tightens_it() -> None:
    leaf = ScriptedChild()
    inner = SymfonicAgent(FunctionModel(delegates()), sub_agents=[child(leaf)], max_depth=9)

    class Wrapper:
        async def run(self, query: str, **context: Any) -> Any:
            return await inner.run(query, **context, max_depth=1)

    result = await NATIVE.agent(delegates(), sub_agents=[child(Wrapper())], max_depth=7).run("go")
    assert result.text == DepthPolicy(1).refusal()
    assert leaf.calls == []


async def test_a_program_that_delegates_outside_every_run_bounds_what_runs_below() -> None:
    leaf = ScriptedChild()
    roomy = NATIVE.agent(delegates(), sub_agents=[child(leaf)], max_depth=9)
    delegation = delegation_for_children([child(roomy)], max_depth=1)
    assert delegation is not None
    record = await delegation.tools.delegate("child", "go")
    assert record.message == DepthPolicy(1).refusal()
    assert leaf.calls == []


async def test_a_scope_opened_by_hand_inside_a_run_has_no_higher_ceiling() -> None:
    in_force = []

    async def work() -> str:
        for asked in (None, 1, 9):
            with DelegationContext().run_scope(depth=1, bounds=Bounds(max_depth=asked)) as run:
                in_force.append(run.max_depth)
        return "worked"

    await NATIVE.agent(calls(tool_call("work")), tools=[work], max_depth=3).run("go")
    assert in_force == [3, 1, 3]


async def test_the_observers_of_a_child_are_told_of_its_own_delegations_only(kind: Kind) -> None:
    of_root: list[Any] = []
    of_child: list[Any] = []
    middle = kind.agent(
        delegates("leaf"), sub_agents=[child(ScriptedChild(), "leaf")], options=Options(observers=(of_child.append,))
    )
    agent = kind.agent(delegates(), sub_agents=[child(middle)], options=Options(observers=(of_root.append,)))
    await agent.run("go")
    delegations = (DelegationStarted, DelegationFinished)
    assert [event.name for event in of_root if isinstance(event, DelegationStarted)] == ["child", "leaf"]
    assert [event.name for event in of_child if isinstance(event, delegations)] == ["leaf", "leaf"]
    assert [event.where.depth for event in of_child if isinstance(event, RunStarted)] == [1]
