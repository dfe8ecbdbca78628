"""Our children as a toolset of pydantic-ai's agents, and what pauses in either direction."""

import subprocess
import sys
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from adapter_kit import HOLDS_IN_EVERY_HOST, lead
from pydantic_ai import Agent as Theirs
from pydantic_ai import ApprovalRequired, CallDeferred, DeferredToolRequests, DeferredToolResults, RunContext
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai_kit import Tenant, asks, says, that_pauses, theirs, tool_texts

from symfonic import ConfigurationError, DelegationOutcome, Options, SubAgent, delegation
from symfonic.adapters.pydantic_ai import as_pydantic_ai_toolset, host_context
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.testing import ScriptedChild


async def play(capability: Any, made: Any) -> list[str]:
    return tool_texts(await theirs(capability, [asks(*each) for each in made], "done").run("go"))


@pytest.mark.parametrize("check", HOLDS_IN_EVERY_HOST, ids=lambda check: check.__name__)
async def test_what_holds_in_every_host(check: Any):
    await check(play)


async def test_two_levels_deep_with_records_tally_usage_and_the_ids_of_their_calls():
    middle = lead(Theirs(TestModel(custom_output_text="from below")))
    capability = delegation([SubAgent("middle", middle, "Works.", "for work")])
    host = theirs(capability, [asks("Middle ", call_id="call-7")], "done")
    async with capability.run_scope() as run:
        result = await host.run("go")
    assert (result.output, tool_texts(result)) == ("done", ["went on"])
    [record] = run.records
    assert (record.name, record.depth, record.trace.tool_call_id) == ("middle", 1, "call-7")
    [below] = record.children
    assert (below.message, below.depth) == ("from below", 2)
    assert below.trace.child.root_run_id == run.identity.run_id
    assert (run.tally.total, run.delegated) == (2, ("middle",))
    assert run.usage.model_calls == 3


async def test_the_names_are_an_enum_and_what_does_not_fit_is_answered():
    capability = delegation([SubAgent("ann", ScriptedChild(), "A."), SubAgent("bob", ScriptedChild(), "B.")])
    wrong = [
        asks("carl"),
        ToolCallPart("run_agent", "{"),
        ToolCallPart("run_agent", "[1]"),
        ToolCallPart("list_agents"),
    ]
    offered: list[Any] = []

    async def reply(messages: list[Any], info: Any) -> ModelResponse:
        offered[:] = info.function_tools
        return ModelResponse(parts=wrong if len(messages) == 1 else [TextPart("done")])

    host = Theirs(FunctionModel(reply), toolsets=[as_pydantic_ai_toolset(capability)])
    texts = tool_texts(await host.run("go"))
    run_agent = offered[0].parameters_json_schema
    assert run_agent["properties"]["name"]["enum"] == ["ann", "bob"]
    assert run_agent["required"] == ["name", "task"]
    assert [offered[0].name, offered[1].name] == ["run_agent", "list_agents"]
    assert texts[0].startswith("Unknown sub-agent 'carl'")
    assert "not JSON" in texts[1]
    assert "JSON object" in texts[2]
    assert texts[3].startswith("Available sub-agents:")


async def test_the_hosts_context_reaches_the_child_and_its_deps_a_child_that_declares_them():
    seen: list[Any] = []
    child = Theirs(says([ToolCallPart("look", {})], "seen"), deps_type=Tenant)

    @child.tool
    async def look(context: RunContext[Tenant]) -> str:
        host = host_context()
        assert host is not None
        seen.append((context.deps, host.deps, host.tool_name))
        return "ok"

    capability = delegation([SubAgent("child", child, "Works.")])
    host = theirs(capability, [asks("child")], "done", deps_type=Tenant)
    await host.run("go", deps=Tenant("acme"))
    assert seen == [(Tenant("acme"), Tenant("acme"), "run_agent")]
    assert host_context() is None


def test_the_adapter_imports_without_pydantic_ai_and_says_what_to_install():
    program = (
        "import sys; sys.modules['pydantic_ai'] = None\n"
        "import symfonic.adapters.pydantic_ai as adapter\n"
        "try: adapter.as_pydantic_ai_toolset(None)\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"{ConfigurationError.__name__} a toolset for pydantic-ai needs pydantic-ai-slim")
    assert "pip install pydantic-ai-slim" in done.stdout


# What pauses


@pytest.mark.parametrize("levels", ["ours", "theirs", "theirs below ours"])
async def test_a_pause_below_pauses_the_host_and_its_result_goes_on(levels: str):
    signals = (ApprovalRequired, CallDeferred)
    child: Any = ScriptedChild(CallDeferred({"ticket": 4}))
    if levels != "ours":
        child = that_pauses(CallDeferred({"ticket": 4}))
    if levels == "theirs below ours":
        child = lead(child)
    capability = delegation([SubAgent("child", child, "Works.")], options=Options(pass_through=signals))
    host = theirs(capability, [asks("child", call_id="call-1")], "went on", output_type=[str, DeferredToolRequests])
    async with capability.run_scope() as run:
        paused = await host.run("go")
    assert isinstance(paused.output, DeferredToolRequests)
    assert [call.tool_call_id for call in paused.output.calls] == ["call-1"]
    assert [record.outcome for record in run.records] == [DelegationOutcome.CHILD_FAILED]
    done = await host.run(
        message_history=paused.all_messages(), deferred_tool_results=DeferredToolResults(calls={"call-1": "paid"})
    )
    assert (done.output, tool_texts(done)) == ("went on", ["paid"])


async def test_an_approved_call_starts_the_child_anew_and_it_can_know():
    class Pays:
        async def run(self, query: str) -> Any:
            host = host_context()
            if host is None or not host.tool_call_approved:
                raise ApprovalRequired({"amount": 7})
            return ChildResponse(f"{query}: paid")

    capability = delegation([SubAgent("child", Pays(), "Pays.")], options=Options(pass_through=(ApprovalRequired,)))
    host = theirs(capability, [asks("child", call_id="call-1")], "went on", output_type=[str, DeferredToolRequests])
    paused = await host.run("go")
    assert paused.output.metadata == {"call-1": {"amount": 7}}
    for approved, text in ((True, "go: paid"), (False, "The tool call was denied.")):
        results = DeferredToolResults(approvals={"call-1": approved})
        done = await host.run(message_history=paused.all_messages(), deferred_tool_results=results)
        assert tool_texts(done) == [text]
