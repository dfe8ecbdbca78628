"""Lineage, tallies and usage: every run under its parent, every cost counted once, failures included."""

from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, Kind, Spot, answer, calls, child, delegates, raising, spots_of

import symfonic
from symfonic import DelegationOutcome, Options
from symfonic.errors import MaxStepsError, ModelError
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import FunctionModel, ScriptedChild, tool_call


async def test_three_levels_share_a_root_and_each_is_under_its_caller(kind: Kind) -> None:
    seen: list[Spot] = []
    leaf = kind.agent(spots_of(answer("deep"), seen))
    middle = kind.agent(spots_of(delegates("leaf"), seen), sub_agents=[child(leaf, "leaf")])
    result = await kind.agent(spots_of(delegates("middle"), seen), sub_agents=[child(middle, "middle")]).run("go")
    first, second, third = seen
    assert {each.root_run_id for each in seen} == {result.run_id}
    assert len({each.run_id for each in seen}) == 3
    assert [each.parent_run_id for each in seen] == [None, first.run_id, second.run_id]
    [to_middle] = result.delegations
    [to_leaf] = to_middle.children
    assert (to_middle.run_id, to_leaf.run_id) == (second.run_id, third.run_id)
    assert (to_leaf.root_run_id, to_leaf.parent_run_id) == (result.run_id, second.run_id)
    assert sorted(each.run_id for each in seen) == [each.run_id for each in seen]


async def test_the_trace_of_a_refusal_and_of_a_failure_names_the_caller_too(kind: Kind) -> None:
    made = calls(*(tool_call("run_agent", name=name, task="t") for name in ("missing", "child")))
    result = await kind.agent(made, sub_agents=[child(raising(ValueError("no")))]).run("go")
    unknown, failed = result.delegations
    assert unknown.trace.caller.run_id == failed.trace.caller.run_id == result.run_id
    assert unknown.trace.child is None
    assert failed.trace.child.parent_run_id == result.run_id
    refused = (await NATIVE.agent(delegates(), sub_agents=[child(ScriptedChild())], max_depth=0).run("go")).delegations
    assert refused[0].trace.caller.parent_run_id is None


def costing(fn: Any, tokens_in: int, tokens_out: int) -> FunctionModel:
    """The same function, each of whose replies takes so many tokens."""

    async def priced(messages: Any, tools: Any) -> ModelReply:
        reply = await FunctionModel(fn).complete(messages, tools)
        return ModelReply(reply.text, reply.tool_calls, tokens_in, tokens_out)

    return FunctionModel(priced)


def priced_agent(kind: Kind, fn: Any, *sub_agents: symfonic.SubAgent, tools: Any = ()) -> symfonic.Agent:
    return symfonic.Agent(kind._as_kind(costing(fn, 10, 3)), sub_agents=sub_agents, tools=tools)


async def test_three_levels_of_two_children_each_add_up_once_per_run(kind: Kind) -> None:
    runs: list[Spot] = []

    def level(depth: int) -> symfonic.Agent:
        if depth == 2:
            return priced_agent(kind, spots_of(answer(), runs))
        below = [child(level(depth + 1), name) for name in ("left", "right")]
        both = calls(*(tool_call("run_agent", name=each.name, task="t") for each in below))
        return priced_agent(kind, spots_of(both, runs), *below)

    result = await level(0).run("go")
    assert len(runs) == 7
    replies = 4 * 1 + 3 * 2
    assert result.usage == Usage(10 * replies, 3 * replies, replies, 3 * 2)
    below = [record.trace.usage for record in result.delegations]
    assert below == [Usage(10 * 4, 3 * 4, 4, 2)] * 2
    assert result.usage == sum(below, Usage(20, 6, 2, 2))
    assert result.delegated_to == ("left", "right")


async def test_failed_model_calls_and_failed_children_are_in_the_usage(kind: Kind) -> None:
    def fails_late(messages: Any, tools: Any) -> Any:
        if messages[-1].role == "tool":
            raise ConnectionError("gone")
        return tool_call("nothing")

    failing = child(priced_agent(kind, fails_late), "failing")
    result = await priced_agent(kind, delegates("failing"), failing).run("go")
    assert result.usage == Usage(10 * 3, 3 * 3, 2 + 2, 1 + 1)
    [record] = result.delegations
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.trace.usage == Usage(10, 3, 2, 1)


async def test_a_child_that_never_answers_is_in_the_usage(kind: Kind) -> None:
    endless = kind.agent(lambda messages, tools: tool_call("nothing"), options=Options(max_steps=3))
    result = await kind.agent(delegates(), sub_agents=[child(endless)]).run("go")
    assert (result.usage.model_calls, result.usage.tool_calls) == (2 + 3, 1 + 3)


async def test_outcomes_are_counted_apart(kind: Kind) -> None:
    children = [child(ScriptedChild("fine"), "fine"), child(raising(ValueError("no")), "bad")]
    deep = child(kind.agent(delegates("x"), sub_agents=[child(ScriptedChild(), "x")]), "deep")
    made = calls(*(tool_call("run_agent", name=name, task="t") for name in ("fine", "bad", "nobody", "deep")))
    result = await kind.agent(made, sub_agents=[*children, deep], max_depth=1).run("go")
    assert [(record.name, str(record.outcome)) for record in result.delegations] == [
        ("fine", "delivered"),
        ("bad", "child_failed"),
        ("nobody", "unknown_child"),
        ("deep", "delivered"),
    ]
    assert [str(record.outcome) for record in result.delegations[3].children] == ["refused_depth"]
    assert result.delegated_to == ("fine", "deep")


async def test_a_run_opened_directly_inside_another_adds_usage_and_no_record(kind: Kind) -> None:
    inner = priced_agent(kind, delegates("leaf"), child(priced_agent(kind, answer()), "leaf"))
    inside = []

    async def work() -> str:
        inside.append(await inner.run("inner"))
        return "worked"

    result = await priced_agent(kind, calls(tool_call("work")), tools=[kind.tool(work)]).run("go")
    assert inside[0].usage == Usage(30, 9, 3, 1)
    assert result.usage == Usage(50, 15, 5, 2)
    assert (result.delegations, result.delegated_to) == ((), ())
    assert inside[0].delegated_to == ("leaf",)


async def test_a_direct_run_that_fails_adds_its_usage(kind: Kind) -> None:
    inner = symfonic.Agent(kind.script(tool_call("nothing"), ConnectionError("gone")))

    async def work() -> str:
        with pytest.raises(ModelError):
            await inner.run("inner")
        return "worked"

    result = await kind.agent(calls(tool_call("work")), tools=[kind.tool(work)]).run("go")
    assert (result.usage.model_calls, result.usage.tool_calls) == (2 + 2, 1 + 1)


async def test_a_direct_run_inside_a_foreign_child_is_in_that_childs_usage() -> None:
    inner = priced_agent(NATIVE, answer())

    async def act(query: str) -> str:
        return (await inner.run(query)).text + (await inner.run(query)).text

    result = await NATIVE.agent(delegates(), sub_agents=[child(Child(act))]).run("go")
    assert result.delegations[0].trace.usage == Usage(20, 6, 2, 0)
    assert result.delegations[0].children == ()
    assert result.usage == Usage(20, 6, 4, 1)


async def test_delegations_made_directly_in_a_tools_body_are_on_the_runs_records() -> None:
    agents: list[symfonic.Agent] = []

    async def work() -> str:
        delegation = agents[0].engine.delegation
        assert delegation is not None
        return (await delegation.tools.delegate("child", "direct")).message

    agent = NATIVE.agent(calls(tool_call("work")), tools=[work], sub_agents=[child(ScriptedChild("answered"))])
    agents.append(agent)
    result = await agent.run("go")
    assert result.text == "answered"
    assert [record.trace.task for record in result.delegations] == ["direct"]
    assert result.delegated_to == ("child",)


async def test_the_facades_tally_is_the_runs_own_after_every_run(kind: Kind) -> None:
    inner = kind.agent(delegates("leaf", times=2), sub_agents=[child(ScriptedChild("x"), "leaf")])
    children = [child(inner, "inner"), child(raising(ValueError("no")), "bad"), child(ScriptedChild("y"), "leaf")]
    made = calls(*(tool_call("run_agent", name=name, task="t") for name in ("leaf", "inner", "bad", "none", "leaf")))
    agent = kind.agent(made, sub_agents=children)
    for _ in range(3):
        result = await agent.run("go")
        delivered = [record.name for record in result.delegations if record.delivered]
        assert sorted(result.delegated_to) == sorted(delivered) == ["inner", "leaf", "leaf"]
        inside = next(record for record in result.delegations if record.name == "inner")
        assert inside.trace.result.result.delegated_to == ("leaf", "leaf")


async def test_a_failed_run_leaves_the_tally_of_the_next_alone(kind: Kind) -> None:
    agent = kind.agent(delegates(), sub_agents=[child(ScriptedChild("x"))], options=Options(max_steps=1))
    with pytest.raises(MaxStepsError):
        await agent.run("go")
    quick = symfonic.Agent(kind.script("at once"), sub_agents=[child(ScriptedChild("x"))])
    assert (await quick.run("go")).delegated_to == ()


async def test_a_scope_opened_by_hand_inside_a_run_keeps_both_tallies_equal() -> None:
    agents: list[symfonic.Agent] = []

    async def work() -> str:
        delegation = agents[0].engine.delegation
        assert delegation is not None
        async with delegation.run_scope(depth=1) as run:
            await delegation.tools.delegate("child", "by hand")
        return ",".join(run.delegated)

    agent = NATIVE.agent(calls(tool_call("work")), tools=[work], sub_agents=[child(ScriptedChild("x"))], max_depth=3)
    agents.append(agent)
    result = await agent.run("go")
    assert result.text == "child"
    assert (result.delegated_to, result.delegations) == ((), ())


async def test_scope_is_handed_down_as_it_is_to_every_level(kind: Kind) -> None:
    scope, seen, worker = object(), [], ScriptedChild("x")
    inner = kind.agent(spots_of(delegates("leaf"), seen), sub_agents=[child(worker, "leaf")])
    await kind.agent(delegates(), sub_agents=[child(inner)]).run("go", scope=scope)
    assert seen[0].scope is scope
    assert worker.calls[0].scope is scope


async def test_a_run_without_a_scope_gets_what_the_options_resolve() -> None:
    worker = ScriptedChild("x")
    options = Options(resolve_scope=lambda: "resolved")
    agent = NATIVE.agent(delegates(), sub_agents=[child(worker)], options=options)
    await agent.run("go")
    await agent.run("go", scope="given")
    assert [call.scope for call in worker.calls] == ["resolved", "given"]


async def test_a_scope_that_cannot_be_resolved_is_the_delegations_failure(kind: Kind) -> None:
    def resolve() -> Any:
        raise LookupError("no tenant")

    worker = ScriptedChild()
    agent = kind.agent(delegates(), sub_agents=[child(worker)], options=Options(resolve_scope=resolve))
    result = await agent.run("go")
    assert result.text == "Sub-agent 'child' failed: no tenant"
    assert worker.calls == []
