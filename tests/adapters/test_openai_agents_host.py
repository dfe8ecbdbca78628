"""Our children as tools of openai-agents' agents, in their own runner."""

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("agents.run")

from adapter_kit import HOLDS_IN_EVERY_HOST, lead
from agents import RunContextWrapper, Runner, UserError, function_tool
from openai_agents_kit import Says, Tenant, asks, calls, host, says, tool_texts

from symfonic import ConfigurationError, Options, SubAgent, delegation
from symfonic.adapters.openai_agents import as_openai_agents_tools, host_context
from symfonic.testing import ScriptedChild


async def play(capability: Any, made: Any) -> list[str]:
    return tool_texts(await Runner.run(host(capability, [asks(*each) for each in made], "done"), "go"))


@pytest.mark.parametrize("check", HOLDS_IN_EVERY_HOST, ids=lambda check: check.__name__)
async def test_what_holds_in_every_host(check: Any):
    await check(play)


async def test_two_levels_deep_with_records_tally_usage_and_the_ids_of_their_calls():
    middle = lead(says("from below"))
    capability = delegation([SubAgent("middle", middle, "Works.", "for work")])
    async with capability.run_scope() as run:
        result = await Runner.run(host(capability, [asks("Middle ", call_id="call-7")], "done"), "go")
    assert (result.final_output, tool_texts(result)) == ("done", ["went on"])
    [record] = run.records
    assert (record.name, record.depth, record.trace.tool_call_id) == ("middle", 1, "call-7")
    [below] = record.children
    assert (below.message, below.depth) == ("from below", 2)
    assert below.trace.child.root_run_id == run.identity.run_id
    assert (run.tally.total, run.delegated) == (2, ("middle",))
    assert run.usage.model_calls == 3
    assert result.context_wrapper.usage.requests == 2  # its own only


async def test_theirs_below_ours_below_theirs_with_our_tools():
    inner = delegation([SubAgent("leaf", ScriptedChild("leaf"), "Works.")])
    outer = delegation([SubAgent("child", host(inner, [asks("leaf")], "passed on"), "Works.")])
    async with outer.run_scope() as run:
        result = await Runner.run(host(outer, [asks("child")], "done"), "go")
    assert tool_texts(result) == ["passed on"]
    [record] = run.records
    assert [(below.name, below.depth) for below in record.children] == [("leaf", 2)]
    assert record.trace.usage.tool_calls == 1


async def test_the_names_are_an_enum_and_what_does_not_fit_is_answered():
    capability = delegation([SubAgent("ann", ScriptedChild(), "A."), SubAgent("bob", ScriptedChild(), "B.")])
    wrong = [asks("carl"), calls("run_agent", "{"), calls("run_agent", "[1]"), calls("list_agents", "")]
    model = Says(wrong, "done")
    agent = host(capability)
    agent.model = model
    texts = tool_texts(await Runner.run(agent, "go"))
    run_agent, list_agents = model.offered
    assert (run_agent.name, list_agents.name) == ("run_agent", "list_agents")
    assert run_agent.params_json_schema == dict(capability.host_tools()[0].parameters)
    assert run_agent.params_json_schema["properties"]["name"]["enum"] == ["ann", "bob"]
    assert run_agent.params_json_schema["required"] == ["name", "task"]
    assert run_agent.description == capability.host_tools()[0].description
    assert not run_agent.strict_json_schema
    assert texts[0].startswith("Unknown sub-agent 'carl'")
    assert "not JSON" in texts[1]
    assert "JSON object" in texts[2]
    assert texts[3].startswith("Available sub-agents:")


async def test_the_hosts_context_reaches_the_child_and_can_be_its_scope():
    seen: list[Any] = []

    @function_tool
    async def look(context: RunContextWrapper[Any]) -> str:
        around = host_context()
        assert around is not None
        seen.append((context.context, around.context, around.tool_name, around.agent))
        return "ok"

    def scope() -> Any:
        around = host_context()
        return around.context if around else None

    for options, given in ((None, None), (Options(resolve_scope=scope), Tenant("acme"))):
        child = SubAgent("child", says([calls("look")], "seen", tools=[look]), "Works.")
        agent = host(delegation([child], options=options), [asks("child")], "done")
        await Runner.run(agent, "go", context=Tenant("acme"))
        assert seen.pop() == (given, Tenant("acme"), "run_agent", agent)
    assert host_context() is None


async def test_a_signal_of_a_child_is_the_cause_of_what_ends_the_hosts_run():
    class StopError(Exception):
        """A signal of somebody's."""

    class StopOfTheirsError(UserError):
        """One that their loop does not wrap."""

    for signal in (StopError("stop"), StopOfTheirsError("stop")):
        options = Options(pass_through=(StopError, StopOfTheirsError))
        capability = delegation([SubAgent("child", ScriptedChild(signal), "Stops.")], options=options)
        with pytest.raises(UserError) as caught:
            await Runner.run(host(capability, [asks("child")], "never"), "go")
        assert signal in (caught.value, caught.value.__cause__)

    wrapped = delegation([SubAgent("child", ScriptedChild(StopError("stop")), "Stops.")])
    middle = lead(host(wrapped, [asks("child")], "never"), options=Options(pass_through=(StopError,)))
    with pytest.raises(StopError):  # below one of ours it is itself again
        await middle.run("go")


def test_the_adapter_imports_without_openai_agents_and_says_what_to_install():
    program = (
        "import sys; sys.modules['agents'] = None\n"
        "import symfonic.adapters.openai_agents as adapter\n"
        "try: adapter.as_openai_agents_tools(None)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{ConfigurationError.__name__} tools for openai-agents need openai-agents")
    assert "pip install openai-agents" in done.stdout
    assert len(as_openai_agents_tools(delegation([SubAgent("child", ScriptedChild(), "Works.")]))) == 2
