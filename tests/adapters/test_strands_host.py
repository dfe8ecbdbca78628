"""Our children as tools of Strands' agents."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("strands")

from strands.interrupt import Interrupt, InterruptException
from strands.tools.executors import SequentialToolExecutor
from strands_kit import Waits, answers, asks, host, lead, theirs, tool_texts, uses

from symfonic import ConfigurationError, DelegationOutcome, Limits, Options, SubAgent, delegation
from symfonic.adapters.strands import as_strands_tools
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.testing import ScriptedChild


async def test_two_levels_deep_with_records_tally_usage_and_the_ids_of_their_calls():
    middle = lead(answers("from below"))
    capability = delegation([SubAgent("middle", middle, "Works.", "for work")])
    agent = host(capability, [asks("Middle ", call_id="call-7")], "done")
    async with capability.run_scope() as run:
        result = await agent.invoke_async("go")
    assert (str(result).strip(), tool_texts(agent)) == ("done", ["went on"])
    [record] = run.records
    assert (record.name, record.depth, record.trace.tool_call_id) == ("middle", 1, "call-7")
    [below] = record.children
    assert (below.message, below.depth) == ("from below", 2)
    assert below.trace.child.root_run_id == run.identity.run_id
    assert (run.tally.total, run.delegated) == (2, ("middle",))
    assert run.usage.model_calls == 3


async def test_an_agent_of_theirs_under_an_agent_of_theirs_keeps_to_its_own_count():
    below = delegation([SubAgent("leaf", answers("leaf"), "Works.")])
    middle = host(below, [asks("leaf")], "middle")
    capability = delegation([SubAgent("middle", middle, "Works.")])
    agent = host(capability, [asks("middle")], "done")
    async with capability.run_scope() as run:
        await agent.invoke_async("go")
    assert tool_texts(agent) == ["middle"]
    [record] = run.records
    assert [each.message for each in record.children] == ["leaf"]
    assert (run.usage.model_calls, run.usage.input_tokens, record.trace.usage.model_calls) == (3, 21, 3)
    assert record.children[0].trace.usage.model_calls == 1


async def test_the_names_are_an_enum_and_what_does_not_fit_is_answered():
    capability = delegation([SubAgent("ann", ScriptedChild(), "A."), SubAgent("bob", ScriptedChild(), "B.")])
    wrong = [asks("carl", call_id="a"), uses("run_agent", "b", name="ann"), uses("list_agents", "c")]
    agent = host(capability, wrong, "done")
    run_agent, list_agents = agent.tool_registry.get_all_tool_specs()
    schema = run_agent["inputSchema"]["json"]
    assert schema["properties"]["name"]["enum"] == ["ann", "bob"]
    assert schema["required"] == ["name", "task"]
    assert (run_agent["name"], list_agents["name"]) == ("run_agent", "list_agents")
    await agent.invoke_async("go")
    texts = tool_texts(agent)
    assert texts[0].startswith("Unknown sub-agent 'carl'")
    assert "task" in texts[1]
    assert texts[2].startswith("Available sub-agents:")


async def test_parallel_calls_run_at_once_and_a_failing_one_leaves_the_others_alone():
    both = asyncio.Barrier(2)

    class Meets:
        async def run(self, query: str) -> Any:
            await both.wait()
            if query == "fail":
                raise ValueError("down")
            return type("Response", (), {"final_response": query})

    capability = delegation([SubAgent("child", Meets(), "Works.")])
    agent = host(capability, [asks("child", "fine", "a"), asks("child", "fail", "b")], "done")
    async with capability.run_scope() as run:
        await agent.invoke_async("go")
    assert tool_texts(agent) == ["fine", "Sub-agent 'child' failed: down"]
    assert run.tally.by_outcome == {DelegationOutcome.DELIVERED: 1, DelegationOutcome.CHILD_FAILED: 1}


async def test_the_ceiling_and_the_budget_hold():
    deep = delegation([SubAgent("child", lead(ScriptedChild("never")), "Works.")], max_depth=1)
    async with deep.run_scope() as run:
        await host(deep, [asks("child")], "done").invoke_async("go")
    [record] = run.records
    assert record.delivered, record
    assert [each.outcome for each in record.children] == [DelegationOutcome.REFUSED_DEPTH]

    switched_off = delegation([SubAgent("child", ScriptedChild("never"), "Works.")], max_depth=0)
    agent = host(switched_off, [asks("child")], "done")
    await agent.invoke_async("go")  # each call a root of its own
    refusal = "Delegation refused: maximum sub-agent depth (0) reached; cannot delegate further."
    assert tool_texts(agent) == [refusal]

    few = delegation([SubAgent("child", ScriptedChild("yes"), "Works.")], limits=Limits(max_delegations=2))
    agent = host(few, [asks("child", str(number), str(number)) for number in range(3)], "done")
    async with few.run_scope() as run:
        await agent.invoke_async("go")
    assert sorted(tool_texts(agent))[1:] == ["yes", "yes"]
    assert sum("max_delegations=2" in text for text in tool_texts(agent)) == 1
    assert run.tally.by_outcome[DelegationOutcome.REFUSED_BUDGET] == 1


async def test_cancelling_the_host_reaches_the_child():
    before, waits = asyncio.all_tasks(), Waits()
    capability = delegation([SubAgent("child", waits, "Waits.")])
    async with capability.run_scope() as run:
        task = asyncio.create_task(host(capability, [asks("child")], "never").invoke_async("go"))
        await waits.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert waits.ended.is_set()
    assert [record.outcome for record in run.records] == [DelegationOutcome.CHILD_CANCELLED]
    assert asyncio.all_tasks() == before


@pytest.mark.parametrize("settings", [{}, {"tool_executor": SequentialToolExecutor()}])
@pytest.mark.parametrize("synchronous", [False, True])
async def test_the_context_reaches_the_child_by_whatever_thread_they_call_it(synchronous: bool, settings: Any):
    seen: list[Any] = []

    class Looks:
        async def run(self, query: str) -> Any:
            seen.append(active_run())
            return type("Response", (), {"final_response": "seen"})

    capability = delegation([SubAgent("child", Looks(), "Looks.")])
    agent = host(capability, [asks("child", call_id="a"), asks("child", call_id="b")], "done", **settings)
    async with capability.run_scope(scope="acme") as run:
        if synchronous:
            agent("go")  # a loop of their own in a thread of their own
        else:
            await agent.invoke_async("go")
    assert [(each.depth, each.scope, each.identity.root_run_id) for each in seen] == [
        (1, "acme", run.identity.run_id)
    ] * 2
    assert run.delegated == ("child", "child")


async def test_a_pause_below_pauses_the_host_where_it_is_named():
    signal = InterruptException(Interrupt("pay-7", "approval", {"amount": 7}))
    child = ScriptedChild(signal)
    named = delegation([SubAgent("child", child, "Pays.")], options=Options(pass_through=(InterruptException,)))
    paused = await host(named, [asks("child")], "never").invoke_async("go")
    assert paused.stop_reason == "interrupt"
    assert [each.name for each in paused.interrupts] == ["approval"]


def test_the_adapter_imports_without_strands_and_says_what_to_install():
    program = (
        "import sys; sys.modules['strands'] = None\n"
        "import symfonic.adapters.strands as adapter\n"
        "try: adapter.as_strands_tools(None)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{ConfigurationError.__name__} tools for Strands need strands-agents")
    assert "pip install strands-agents" in done.stdout


async def test_they_stand_beside_tools_of_the_hosts_own():
    from strands import tool

    @tool
    def note(text: str) -> str:
        """Note it."""
        return f"noted {text}"

    capability = delegation([SubAgent("child", ScriptedChild("yes"), "Works.")])
    agent = theirs([asks("child"), uses("note", "n", text="it")], "done", tools=[note, *as_strands_tools(capability)])
    await agent.invoke_async("go")
    assert tool_texts(agent) == ["yes", "noted it"]
