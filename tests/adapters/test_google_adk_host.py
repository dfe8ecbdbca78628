"""Our children as tools of agents of Google's ADK."""

import asyncio
import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("google.adk")

from adapter_kit import HOLDS_IN_EVERY_HOST, lead
from google.adk.agents import RunConfig
from google.adk.agents.run_config import ToolThreadPoolConfig
from google.adk.runners import InMemoryRunner
from google.genai import types
from google_adk_kit import answers, asks, host, talk, theirs, tool_texts, uses

from symfonic import ConfigurationError, Options, SubAgent, delegation
from symfonic.adapters.google_adk import as_adk_tools, host_context
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.testing import ScriptedChild


async def play(capability: Any, made: Any) -> list[str]:
    agent = host(capability, [asks(*each, str(number)) for number, each in enumerate(made)], "done")
    return tool_texts(await talk(agent))


@pytest.mark.parametrize("check", HOLDS_IN_EVERY_HOST, ids=lambda check: check.__name__)
async def test_what_holds_in_every_host(check: Any):
    await check(play)


async def test_two_levels_deep_with_records_tally_usage_and_the_ids_of_their_calls():
    middle = lead(answers("from below"))
    capability = delegation([SubAgent("middle", middle, "Works.", "for work")])
    agent = host(capability, [asks("Middle ", call_id="call-7")], "done")
    async with capability.run_scope() as run:
        events = await talk(agent)
    assert (events[-1].content.parts[0].text, tool_texts(events)) == ("done", ["went on"])
    [record] = run.records
    assert (record.name, record.depth, record.trace.tool_call_id) == ("middle", 1, "call-7")
    [below] = record.children
    assert (below.message, below.depth) == ("from below", 2)
    assert below.trace.child.root_run_id == run.identity.run_id
    assert below.trace.child.parent_run_id == record.trace.child.run_id
    assert (run.tally.total, run.delegated) == (2, ("middle",))
    assert run.usage.model_calls == 3


async def test_an_agent_of_theirs_under_an_agent_of_theirs_keeps_to_its_own_count():
    below = delegation([SubAgent("leaf", answers("leaf"), "Works.")])
    middle = host(below, [asks("leaf")], "middle")
    capability = delegation([SubAgent("middle", middle, "Works.")])
    agent = host(capability, [asks("middle")], "done")
    async with capability.run_scope() as run:
        events = await talk(agent)
    assert tool_texts(events) == ["middle"]
    [record] = run.records
    assert [each.message for each in record.children] == ["leaf"]
    assert (run.usage.model_calls, run.usage.input_tokens, record.trace.usage.model_calls) == (3, 21, 3)
    assert record.children[0].trace.usage.model_calls == 1


async def test_the_schema_is_as_it_is_the_names_are_an_enum_and_what_does_not_fit_is_answered():
    capability = delegation([SubAgent("ann", ScriptedChild(), "A."), SubAgent("bob", ScriptedChild(), "B.")])
    wrong = [asks("carl", call_id="a"), uses("run_agent", "b", name="ann"), uses("list_agents", "c")]
    agent = host(capability, wrong, "done")
    texts = tool_texts(await talk(agent))
    told = {each.name: each for each in agent.model.tools}
    for tool in capability.host_tools():
        assert told[tool.name].parameters_json_schema == tool.parameters
        assert told[tool.name].description == tool.description
    assert told["run_agent"].parameters_json_schema["properties"]["name"]["enum"] == ["ann", "bob"]
    assert texts[0].startswith("Unknown sub-agent 'carl'")
    assert "task" in texts[1]
    assert texts[2].startswith("Available sub-agents:")


@pytest.mark.parametrize("settings", [None, RunConfig(tool_thread_pool_config=ToolThreadPoolConfig())])
@pytest.mark.parametrize("synchronous", [False, True])
async def test_the_context_reaches_the_child_by_whatever_thread_they_call_it(synchronous: bool, settings: Any):
    seen: list[Any] = []

    class Looks:
        async def run(self, query: str) -> Any:
            seen.append((active_run(), host_context()))
            return type("Response", (), {"final_response": "seen"})

    capability = delegation([SubAgent("child", Looks(), "Looks.")])
    runner = InMemoryRunner(agent=host(capability, [asks("child", call_id="a"), asks("child", call_id="b")], "done"))
    session = await runner.session_service.create_session(app_name=runner.app_name, user_id="me")
    message = types.Content(role="user", parts=[types.Part(text="go")])
    how = {"user_id": "me", "session_id": session.id, "new_message": message, "run_config": settings}
    async with capability.run_scope(scope="acme") as run:
        if synchronous:  # a loop of their own in a thread of their own
            await asyncio.to_thread(lambda: [*runner.run(**how)])
        else:
            assert [each async for each in runner.run_async(**how)]
    assert [(each.depth, each.scope, each.identity.root_run_id) for each, _ in seen] == [
        (1, "acme", run.identity.run_id)
    ] * 2
    assert sorted(context.function_call_id for _, context in seen) == ["a", "b"]
    assert {context.session.id for _, context in seen} == {session.id}
    assert host_context() is None
    assert run.delegated == ("child", "child")


async def test_a_signal_from_below_ends_the_run_of_the_host_where_it_is_named():
    class NeedsApprovalError(Exception):
        pass

    signal = NeedsApprovalError("pay 7?")
    child = SubAgent("child", ScriptedChild(signal), "Pays.")
    named = delegation([child], options=Options(pass_through=(NeedsApprovalError,)))
    with pytest.raises(NeedsApprovalError) as caught:
        await talk(host(named, [asks("child")], "never"))
    assert caught.value is signal
    texts = tool_texts(await talk(host(delegation([child]), [asks("child")], "done")))
    assert texts == ["Sub-agent 'child' failed: pay 7?"]


def test_the_adapter_imports_without_their_package_and_says_what_to_install():
    program = (
        "import sys; sys.modules['google.adk'] = None\n"
        "import symfonic.adapters.google_adk as adapter\n"
        "try: adapter.as_adk_tools(None)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{ConfigurationError.__name__} tools for Google's ADK need google-adk")
    assert "pip install google-adk" in done.stdout


async def test_they_stand_beside_tools_of_the_hosts_own():
    def note(text: str) -> str:
        """Note it."""
        return f"noted {text}"

    capability = delegation([SubAgent("child", ScriptedChild("yes"), "Works.")])
    agent = theirs([asks("child"), uses("note", "n", text="it")], "done", tools=[note, *as_adk_tools(capability)])
    assert tool_texts(await talk(agent)) == ["yes", "noted it"]
