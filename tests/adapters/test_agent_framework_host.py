"""Our children as tools of agent-framework's agents."""

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("agent_framework")

from adapter_kit import HOLDS_IN_EVERY_HOST, lead
from agent_framework import Content, FunctionInvocationContext, Message, MiddlewareFailure, function_middleware, tool
from agent_framework.exceptions import UserInputRequiredException
from agent_framework_kit import answers, asks, host, theirs, tool_texts, uses

from symfonic import ConfigurationError, Options, SubAgent, delegation
from symfonic.adapters.agent_framework import InputNeededError, as_agent_framework_tools
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.testing import ScriptedChild


async def play(capability: Any, made: Any) -> list[str]:
    agent = host(capability, [asks(*each, str(number)) for number, each in enumerate(made)], "done")
    return tool_texts(await agent.run("go"))


@pytest.mark.parametrize("check", HOLDS_IN_EVERY_HOST, ids=lambda check: check.__name__)
async def test_what_holds_in_every_host(check: Any):
    await check(play)


async def test_two_levels_deep_with_records_tally_usage_and_the_ids_of_their_calls():
    middle = lead(answers("from below"))
    capability = delegation([SubAgent("middle", middle, "Works.", "for work")])
    agent = host(capability, [asks("Middle ", call_id="call-7")], "done")
    async with capability.run_scope() as run:
        response = await agent.run("go")
    assert (response.text, tool_texts(response)) == ("done", ["went on"])
    [record] = run.records
    assert (record.name, record.depth, record.trace.tool_call_id) == ("middle", 1, "call-7")
    [below] = record.children
    assert (below.message, below.depth) == ("from below", 2)
    assert below.trace.child.root_run_id == run.identity.run_id
    assert (run.tally.total, run.delegated) == (2, ("middle",))
    assert run.usage.model_calls == 3
    assert response.usage_details["input_token_count"] == 14  # the host's own


async def test_an_agent_of_theirs_under_an_agent_of_theirs_keeps_to_its_own_count():
    below = delegation([SubAgent("leaf", answers("leaf"), "Works.")])
    middle = host(below, [asks("leaf")], "middle")
    capability = delegation([SubAgent("middle", middle, "Works.")])
    agent = host(capability, [asks("middle")], "done")
    async with capability.run_scope() as run:
        response = await agent.run("go")
    assert tool_texts(response) == ["middle"]
    [record] = run.records
    assert [each.message for each in record.children] == ["leaf"]
    assert (run.usage.model_calls, run.usage.input_tokens, record.trace.usage.model_calls) == (3, 21, 3)
    assert (run.usage.tool_calls, record.children[0].trace.usage.model_calls) == (1, 1)


async def test_the_names_are_an_enum_and_what_does_not_fit_is_answered():
    capability = delegation([SubAgent("ann", ScriptedChild(), "A."), SubAgent("bob", ScriptedChild(), "B.")])
    wrong = [
        asks("carl", call_id="a"),
        uses("run_agent", "b", name="ann"),
        uses("run_agent", "c", name="ann", task=["x"], query="y"),
        Content.from_function_call("d", "run_agent", arguments="{no json"),
        uses("list_agents", "e"),
    ]
    agent = host(capability, wrong, "done")
    response = await agent.run("go")
    run_agent, list_agents = (each.to_json_schema_spec()["function"] for each in agent.client.options[0]["tools"])
    assert run_agent["parameters"] == dict(capability.host_tools()[0].parameters)
    assert run_agent["parameters"]["properties"]["name"]["enum"] == ["ann", "bob"]
    assert run_agent["parameters"]["required"] == ["name", "task"]
    assert (run_agent["name"], list_agents["name"]) == ("run_agent", "list_agents")
    texts = tool_texts(response)
    assert texts[0].startswith("Unknown sub-agent 'carl'")
    assert "it misses 'task'" in texts[1]
    assert "query" in texts[2]
    assert "it misses 'name', 'task'" in texts[3]
    assert texts[4].startswith("Available sub-agents:")


@pytest.mark.parametrize("concurrent", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_the_context_reaches_the_child_however_they_run_it(stream: bool, concurrent: bool):
    seen: list[Any] = []

    class Looks:
        async def run(self, query: str) -> Any:
            seen.append(active_run())
            return type("Response", (), {"final_response": "seen"})

    capability = delegation([SubAgent("child", Looks(), "Looks.")])
    agent = host(capability, [asks("child", call_id="a"), asks("child", call_id="b")], "done")
    agent.client.function_invocation_configuration["allow_concurrent_invocation"] = concurrent
    async with capability.run_scope(scope="acme") as run:
        response = await (agent.run("go", stream=True).get_final_response() if stream else agent.run("go"))
    assert response.text == "done"
    assert [(each.depth, each.scope, each.identity.root_run_id) for each in seen] == [
        (1, "acme", run.identity.run_id)
    ] * 2
    assert run.delegated == ("child", "child")
    assert sorted(record.trace.tool_call_id for record in run.records) == ["a", "b"]


# Signals


async def test_a_pause_below_pauses_the_host_where_it_is_named():
    signal = UserInputRequiredException([Content.from_oauth_consent_request("https://sign.in")])
    child = ScriptedChild(signal, signal)
    named = delegation(
        [SubAgent("child", child, "Works.")], options=Options(pass_through=(UserInputRequiredException,))
    )
    paused = await host(named, [asks("child", call_id="call-7")], "never").run("go")
    [request] = paused.user_input_requests
    assert (request.consent_link, request.call_id) == ("https://sign.in", "call-7")
    unnamed = delegation([SubAgent("child", child, "Works.")])
    assert (await host(unnamed, [asks("child")], "done").run("go")).text == "done"


async def test_any_other_signal_ends_the_run_of_the_host_and_is_the_cause():
    @tool(approval_mode="always_require")
    def pay() -> str:
        """Pay."""
        return "paid"

    child = theirs([uses("pay", "p")], tools=[pay])
    named = delegation([SubAgent("child", child, "Pays.")], options=Options(pass_through=(InputNeededError,)))
    agent = host(named, [asks("child")], "never")
    with pytest.raises(MiddlewareFailure) as caught:
        await agent.run("go")
    assert isinstance(caught.value.__cause__, InputNeededError)
    assert len(agent.client.replies) == 1


async def test_a_signal_passes_through_a_host_that_is_itself_a_child():
    class StopError(Exception):
        pass

    stop = Options(pass_through=(StopError,))
    below = delegation([SubAgent("leaf", ScriptedChild(StopError("here")), "Works.")], options=stop)
    middle = host(below, [asks("leaf")], "never")
    with pytest.raises(StopError, match="here"):
        await lead(middle, options=stop).run("go")


# Beside what else the host has


async def test_they_stand_beside_tools_of_the_hosts_own_and_its_middleware_sees_the_calls():
    seen: list[Any] = []

    @function_middleware
    async def watch(context: FunctionInvocationContext, call_next: Any) -> None:
        seen.append((context.function.name, dict(context.arguments)))  # type: ignore[arg-type]
        await call_next()

    @tool
    def note(text: str) -> str:
        """Note it."""
        return f"noted {text}"

    capability = delegation([SubAgent("child", ScriptedChild("yes"), "Works.")])
    calls = [asks("child"), uses("run_agent", "w", name="child"), uses("note", "n", text="it")]
    agent = theirs(calls, "done", tools=[note, *as_agent_framework_tools(capability)], middleware=[watch])
    texts = tool_texts(await agent.run("go"))
    assert (texts[0], texts[2]) == ("yes", "noted it")
    assert "it misses 'task'" in texts[1]
    assert ("run_agent", {"name": "child", "task": "go"}) in seen


async def test_the_host_may_want_an_approval_of_a_delegation():
    capability = delegation([SubAgent("child", ScriptedChild("yes"), "Works.")])
    agent = host(capability, [asks("child")], "done")
    agent.default_options["tools"][0].approval_mode = "always_require"
    session = agent.create_session()
    [request] = (await agent.run("go", session=session)).user_input_requests
    approved = Message("user", [request.to_function_approval_response(approved=True)])
    response = await agent.run(approved, session=session)
    assert (response.text, tool_texts(response)) == ("done", ["yes"])


async def test_a_tool_can_be_called_by_hand():
    [run_agent, list_agents] = as_agent_framework_tools(delegation([SubAgent("child", ScriptedChild("yes"), "Works.")]))
    assert await run_agent.invoke(arguments={"name": "child", "task": "go"}, skip_parsing=True) == "yes"
    [content] = await list_agents.invoke()
    assert content.text.startswith("Available sub-agents:")


def test_the_adapter_imports_without_agent_framework_and_says_what_to_install():
    program = (
        "import sys; sys.modules['agent_framework'] = None\n"
        "import symfonic.adapters.agent_framework as adapter\n"
        "try: adapter.as_agent_framework_tools(None)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{ConfigurationError.__name__} tools for agent-framework need agent-framework-core")
    assert "pip install agent-framework-core" in done.stdout
