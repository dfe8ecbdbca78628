"""Our children as tools of Strands' agents."""

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("strands")

from adapter_kit import HOLDS_IN_EVERY_HOST, lead
from strands.interrupt import Interrupt, InterruptException
from strands.tools.executors import SequentialToolExecutor
from strands_kit import answers, asks, host, theirs, tool_texts, uses

from symfonic import ConfigurationError, Options, SubAgent, delegation
from symfonic.adapters.strands import as_strands_tools
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.testing import ScriptedChild


async def play(capability: Any, made: Any) -> list[str]:
    agent = host(capability, [asks(*each, str(number)) for number, each in enumerate(made)], "done")
    await agent.invoke_async("go")
    return tool_texts(agent)


@pytest.mark.parametrize("check", HOLDS_IN_EVERY_HOST, ids=lambda check: check.__name__)
async def test_what_holds_in_every_host(check: Any):
    await check(play)


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
