"""What a model is told first: a text, or what a function makes of the run's scope."""

from collections.abc import Sequence
from typing import Any

import pytest

from symfonic import Agent, AgentResult, ConfigurationError, SubAgent
from symfonic.testing import FunctionModel, ScriptedModel, tool_call


def told(messages: Sequence[Any], _: Any) -> str:
    return "|".join(message.text for message in messages if message.role == "system") or "(nothing)"


def tenant(scope: Any) -> str | None:
    return None if scope is None else f"You work for {scope}."


async def tenant_later(scope: Any) -> str | None:
    return tenant(scope)


@pytest.mark.parametrize("instructions", [tenant, tenant_later], ids=["sync", "async"])
async def test_a_function_makes_them_of_each_runs_scope(instructions: Any) -> None:
    agent = Agent(FunctionModel(told), instructions=instructions)
    assert (await agent.run("go", scope="acme")).text == "You work for acme."
    assert (await agent.run("go", scope="umbrella")).text == "You work for umbrella."
    nobody = await agent.run("go")
    assert nobody.text == "(nothing)"
    assert [message.role for message in nobody.messages] == ["user", "assistant"]


async def test_a_child_is_instructed_for_the_scope_that_it_was_handed() -> None:
    child = Agent(FunctionModel(told), instructions=tenant)
    lead = Agent(
        ScriptedModel(tool_call("run_agent", name="child", task="go"), "done"),
        sub_agents=[SubAgent("child", child, "Works.")],
    )
    result = await lead.run("go", scope="acme")
    assert result.delegations[0].message == "You work for acme."


def no_text(scope: Any) -> Any:
    return 7


def raises(scope: Any) -> Any:
    raise KeyError("no such tenant")


@pytest.mark.parametrize(
    ("instructions", "words"),
    [(no_text, r"agent 'clerk' returned 7, expected a string"), (raises, "agent 'clerk' raised: .*no such tenant")],
)
async def test_a_function_that_makes_none_ends_its_run_and_is_the_childs_failure(instructions: Any, words: str) -> None:
    clerk = Agent(ScriptedModel("never"), name="clerk", instructions=instructions)
    heard: list[Any] = []
    with pytest.raises(ConfigurationError, match=words):
        await clerk.run("go", observers=(heard.append,))
    assert [type(event).__name__ for event in heard] == ["RunStarted", "RunFinished"]
    lead = Agent(
        ScriptedModel(tool_call("run_agent", name="clerk", task="go"), "went on"),
        sub_agents=[SubAgent("clerk", clerk, "Works.")],
    )
    result: AgentResult = await lead.run("go")
    assert result.text == "went on"
    assert "the instructions of the agent 'clerk'" in result.delegations[0].message


@pytest.mark.parametrize("instructions", [7, ["a"], object()])
def test_what_is_neither_is_refused_where_it_is_declared(instructions: Any) -> None:
    with pytest.raises(ConfigurationError, match="a string, or a function of the scope"):
        Agent(ScriptedModel("never"), instructions=instructions)


async def test_a_text_that_cannot_be_encoded_is_made_so() -> None:
    agent = Agent(FunctionModel(told), instructions=lambda scope: "a\ud800b")
    assert (await agent.run("go")).text.encode()
