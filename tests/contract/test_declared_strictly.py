"""Declarations that cannot work are refused by name, and what a declaration says is what happens."""

import asyncio
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from symfonic import Agent, AgentRef, ConfigurationError, DelegationOutcome, Limits, Options, SubAgent, Veto
from symfonic.agent.cutover.delegation import delegation_for_children
from symfonic.capabilities.delegation import ChildDeclarationError, ChildSpec, DelegationCapability
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.text import error_text
from symfonic.testing import ScriptedChild, ScriptedModel, tool_call


@pytest.mark.parametrize("name", ["run_agent", "list_agents"])
def test_a_child_cannot_have_the_name_of_a_tool_that_delegation_brings(name: str):
    with pytest.raises(ConfigurationError, match=f"'{name}'.*delegation contributes"):
        Agent(ScriptedModel("x"), sub_agents=[SubAgent(name, ScriptedChild(), "Works.")])


async def test_a_prompt_that_is_not_the_first_parameter_is_given_by_name():
    class PromptSecond:
        async def run(self, messages: Any = None, prompt: str = "") -> Any:
            return SimpleNamespace(text=f"{messages} {prompt}")

    lead = Agent(
        ScriptedModel(tool_call("run_agent", name="child", task="look"), "done"),
        sub_agents=[SubAgent("child", PromptSecond(), "Works.")],
    )
    assert (await lead.run("go")).delegations[0].message == "None look"


def test_a_plain_declaration_with_a_wrong_policy_or_ceiling_is_refused_by_name():
    child = SimpleNamespace(name="w", agent=ScriptedChild(), description="d", policy="often")
    with pytest.raises(ChildDeclarationError, match="policy of 'w' must be a ChildPolicy"):
        delegation_for_children([child], max_depth=2)
    with pytest.raises(ConfigurationError, match="max_depth"):
        delegation_for_children([], max_depth=-2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("mysql://user@srv:secret@host/db", "mysql://user@srv:***@host/db"),
        ("postgres://u:p:q@h/db", "postgres://u:***@h/db"),
        ("http://host:8080?email=a@b", "http://host:8080?email=a@b"),
        ("http://host:8080/path@x", "http://host:8080/path@x"),
    ],
)
def test_the_password_of_a_url_is_masked_and_nothing_else_of_it(text: str, told: str):
    assert error_text(ValueError(text)) == told


async def test_a_hooks_words_are_held_to_the_length_of_an_answer():
    lead = Agent(
        ScriptedModel(tool_call("run_agent", name="child", task="go"), "done"),
        sub_agents=[SubAgent("child", ScriptedChild(), "Works.")],
        limits=Limits(max_answer_chars=100),
        options=Options(on_delegate=lambda request: Veto("no" * 5000)),
    )
    assert len((await lead.run("go")).delegations[0].message) <= 100


async def test_what_covers_answers_counts_as_yes_or_no():
    class Scope:
        def __init__(self, level: int) -> None:
            self.level = level

        def covers(self, other: Any) -> Any:
            return 1 if other.level <= self.level else 0

    inner = Agent(ScriptedModel("inner"))

    async def nested(level: int) -> str:
        return (await inner.run("go", scope=Scope(level))).text

    lead = Agent(ScriptedModel([tool_call("nested", level=0), tool_call("nested", level=9)], "done"), tools=[nested])
    result = await lead.run("go", scope=Scope(1))
    assert result.messages[2].text == "inner"
    assert "authority can only shrink" in result.messages[3].text


@pytest.mark.parametrize(
    "call",
    [
        "bind_contributed_tool(DelegationToolSpec('t', 'd', run, ('task',)))",
        "bind_extension_tool(ToolContribution('t', 'd', {'type': 'object'}, run))",
    ],
)
def test_binding_for_langchain_without_it_says_what_to_install(call: str):
    code = f"""
import sys
sys.modules["langchain_core"] = None
from symfonic.agent.cutover.delegation import bind_contributed_tool
from symfonic.agent.cutover.extension_tools import ToolContribution, bind_extension_tool
from symfonic.capabilities.delegation import ConfigurationError, DelegationToolSpec
async def run(task): ...
try:
    {call}
except ConfigurationError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install langchain-core" in done.stdout


@pytest.mark.parametrize("tool", ["run_agent", "list_agents"])
async def test_at_the_ceiling_every_delegation_tool_answers_with_the_refusal(tool: str):
    arguments = {"name": "child", "task": "go"} if tool == "run_agent" else {}
    lead = Agent(
        ScriptedModel(tool_call(tool, **arguments), "done"),
        sub_agents=[SubAgent("child", ScriptedChild(), "Works.")],
        max_depth=0,
    )
    result = await lead.run("go")
    refusal = "Delegation refused: maximum sub-agent depth (0) reached; cannot delegate further."
    assert result.messages[2].text == refusal


@pytest.mark.parametrize("sent", [{"name": "child"}, {}, {"query": "x"}, "{", "[1]"])
async def test_at_the_ceiling_a_call_that_does_not_fit_is_refused_like_one_that_does(sent: Any):
    child = ScriptedChild()
    lead = Agent(
        ScriptedModel(ToolCall("1", "run_agent", sent), "done"),
        sub_agents=[SubAgent("child", child, "Works.")],
        max_depth=0,
    )
    result = await lead.run("go")
    assert result.messages[2].text.startswith("Delegation refused: maximum sub-agent depth (0) reached")
    assert [record.outcome for record in result.delegations] == [DelegationOutcome.REFUSED_DEPTH]
    assert child.calls == []


async def test_two_first_delegations_at_once_resolve_a_reference_once():
    resolved, begun, go = [], asyncio.Event(), asyncio.Event()

    async def resolve() -> Any:
        resolved.append(1)
        begun.set()
        await go.wait()
        return ScriptedChild("answer")

    call = tool_call("run_agent", name="child", task="go")
    lead = Agent(ScriptedModel([call, call], "done"), sub_agents=[SubAgent("child", AgentRef(resolve), "Works.")])
    run = asyncio.ensure_future(lead.run("go"))
    await begun.wait()
    go.set()
    assert (await run).delegated_to == ("child", "child")
    assert len(resolved) == 1


async def test_an_owned_child_that_does_not_close_is_named_as_it_was_declared():
    class Slow(ScriptedChild):
        async def aclose(self) -> None:
            await asyncio.Event().wait()

    capability = DelegationCapability.declare([ChildSpec("researcher", Slow, "Works.")], max_depth=1)
    capability.lifecycle._close_timeout = 0.01
    with pytest.raises(ExceptionGroup) as caught:
        await capability.aclose()
    assert "'researcher' did not close" in str(caught.value.exceptions[0])
