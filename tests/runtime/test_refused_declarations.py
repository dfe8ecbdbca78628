"""What newcomers get wrong is refused where they write it, or explained on the record, and never twice over."""

import asyncio
from typing import Any

import pytest
from langchain_core.tools import StructuredTool
from runtime_fakes import Kind, Response, calls, child, delegates, results

import symfonic
from symfonic import Agent, ChildPolicy, ConfigurationError, DelegationOutcome, Limits, Options, SubAgent
from symfonic.capabilities.delegation import DelegationToolSpec
from symfonic.errors import ChildDeclarationError, MaxStepsError, ModelError
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.tool import Tool
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, check_child_runner, tool_call


class WantsTenant:
    async def run(self, query: str, tenant: str) -> Any: ...


class WantsTwo:
    async def run(self, query: str, *, tenant: str, region: str, scope: Any, **more: Any) -> Any: ...


class WantsTwoPositions:
    async def run(self, task: str, tenant: str, /, **more: Any) -> Any: ...


class AgentShapedWantsTenant:
    async def run(self, prompt: str, scope: Any, tenant: str) -> Any: ...


class PromptComesSecond:
    async def run(self, tenant: str, prompt: str) -> Any: ...


@pytest.mark.parametrize(
    ("wanting", "unmet"),
    [
        (WantsTenant(), "tenant"),
        (WantsTwo(), "tenant, region"),
        (WantsTwoPositions(), "tenant"),
        (AgentShapedWantsTenant(), "tenant"),
        (PromptComesSecond(), "tenant"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_child_that_requires_what_no_delegation_sends_is_refused_by_the_names_of_it(wanting: Any, unmet: str) -> None:
    with pytest.raises(ChildDeclarationError) as caught:
        SubAgent("worker", wanting, "Works.")
    assert str(caught.value) == (
        f"run of the sub-agent 'worker' requires {unmet}, which no delegation sends; it is sent the query and, where"
        " it names them, scope, agent_depth, root_run_id, parent_run_id"
    )


class TakesWhatIsSent:
    async def run(self, query: str, scope: Any, agent_depth: int, root_run_id: str, parent_run_id: str) -> Any:
        return Response(f"{query} for {scope} at {agent_depth}")


class TakesThePosition:
    async def run(self, task: str, /, *rest: Any, tenant: str = "none", **more: Any) -> Any:
        return Response(f"{task} for {more['scope']} at {more['agent_depth']}")


class AgentShaped:
    async def run(self, *, prompt: str, scope: Any, agent_depth: int, tenant: str = "none") -> Any:
        return type("Answer", (), {"text": f"{prompt} for {scope} at {agent_depth}"})


@pytest.mark.parametrize(
    "content", [TakesWhatIsSent(), TakesThePosition(), AgentShaped()], ids=lambda value: type(value).__name__
)
async def test_a_child_that_requires_only_what_is_sent_is_served(content: Any) -> None:
    agent = Agent(FunctionModel(delegates(task="look")), sub_agents=[child(content)])
    assert (await agent.run("go", scope="acme")).text == "look for acme at 1"


@pytest.mark.parametrize(("returned", "kind_of"), [("plain text", "str"), (None, "NoneType"), ({"final": 1}, "dict")])
async def test_a_response_without_a_final_response_is_explained_on_the_record_and_not_to_the_model(
    returned: Any, kind_of: str
) -> None:
    class Returns:
        async def run(self, query: str) -> Any:
            return returned

    [record] = (await Agent(FunctionModel(delegates()), sub_agents=[child(Returns())]).run("go")).delegations
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child' failed: it returned no final response"
    assert isinstance(record.trace.error, TypeError)
    assert str(record.trace.error) == f"its run returned {kind_of}, expected an object with a final_response"
    assert record.trace.result is returned


async def test_a_blank_final_response_has_no_error_to_explain() -> None:
    [record] = (await Agent(FunctionModel(delegates()), sub_agents=[child(ScriptedChild(" "))]).run("go")).delegations
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.trace.error is None


@pytest.mark.parametrize("name", ["a b", " a", "a\n", "a\u00a0b", "", 7])
def test_a_tool_whose_name_no_model_could_call_is_refused_however_it_is_offered(name: Any) -> None:
    async def look(place: str) -> str:
        return place

    async def invoke(arguments: Any) -> str:
        return "seen"

    refused = "the name of a tool must be a non-empty string without blanks, got "
    with pytest.raises(ConfigurationError, match=refused):
        symfonic.tool(look, name=name)
    offers: list[Any] = [
        Tool(name, "Looks.", {"type": "object", "properties": {}}, invoke),
        DelegationToolSpec(name, "Looks.", look, ("place",)),
    ]
    if name and isinstance(name, str):
        offers.append(StructuredTool.from_function(coroutine=look, name=name, description="Looks."))
    for offered in offers:
        with pytest.raises(ConfigurationError, match=refused):
            Agent(ScriptedModel("never"), tools=[offered])


@pytest.mark.parametrize("reply", [5, None, [], ["text"], [tool_call("a"), "text"], {"text": "a"}, ValueError])
def test_what_is_no_reply_is_refused_where_the_script_is_written(reply: Any) -> None:
    with pytest.raises(ConfigurationError, match="a reply is text, tool_call"):
        ScriptedModel("fine", reply)


class TakesMessagesOnly:
    async def complete(self, messages: Any) -> Any: ...


class TakesOneMore:
    async def complete(self, messages: Any, tools: Any, temperature: float) -> Any: ...


class TakesByName:
    async def complete(self, *, messages: Any, tools: Any) -> Any: ...


@pytest.mark.parametrize(
    "model", [TakesMessagesOnly(), TakesOneMore(), TakesByName()], ids=lambda each: type(each).__name__
)
def test_a_model_whose_complete_cannot_take_messages_and_tools_is_refused(model: Any) -> None:
    for door in (Agent, symfonic.SymfonicAgent):
        with pytest.raises(ConfigurationError, match=r"complete of the model .* must take \(messages, tools\)"):
            door(model)


@pytest.mark.parametrize(
    ("declare", "names"),
    [
        (lambda: SubAgent("a", ScriptedChild(), "A.", policy=3), "policy of 'a'"),
        (lambda: SubAgent("a", ScriptedChild(), "A.", policy=Limits()), "policy of 'a'"),
        (lambda: SubAgent("a", ScriptedChild(), "A.", examples=5), "examples of 'a'"),
        (lambda: SubAgent("a", ScriptedChild(), "A.", examples="one"), "examples of 'a'"),
        (lambda: Agent(ScriptedModel("x"), limits={"max_tokens": 1}), r"limits must be symfonic\.Limits"),
        (lambda: Options(on_delegate=3), "on_delegate must be callable"),
        (lambda: Options(observers=[print]), "observers must be a tuple of callables"),
        (lambda: ChildPolicy(retries=-1), r"ChildPolicy\.retries must be an int >= 0, got -1"),
        (lambda: ChildPolicy(retries=True), r"ChildPolicy\.retries"),
        (lambda: ChildPolicy(timeout=0), r"ChildPolicy\.timeout must be a number of seconds > 0, got 0"),
        (lambda: ChildPolicy(max_concurrency=0), r"ChildPolicy\.max_concurrency must be an int >= 1"),
        (lambda: ChildPolicy(scope="tenant"), r"ChildPolicy\.scope must be callable"),
    ],
)
def test_bounds_of_the_wrong_kind_are_refused_by_name(declare: Any, names: str) -> None:
    with pytest.raises(ConfigurationError, match=names):
        declare()


async def test_limits_and_observers_of_a_run_are_refused_by_name_too() -> None:
    agent = Agent(ScriptedModel("never"))
    with pytest.raises(ConfigurationError, match=r"limits must be symfonic\.Limits"):
        await agent.run("go", limits=3)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="observers must be a tuple of callables"):
        await agent.run("go", observers=[print])  # type: ignore[arg-type]


async def test_arguments_that_do_not_fit_are_told_once(kind: Kind) -> None:
    async def add(a: int, b: int) -> int:
        return a + b

    agent = kind.agent(calls(tool_call("add", a="two", b=1)), tools=[kind.tool(add)])
    [told] = results(await agent.run("go"))
    assert told.startswith("Tool 'add' was not run: ")
    assert told.count("'add'") == 1
    assert "failed" not in told


async def test_a_run_that_ends_with_an_error_keeps_its_records_and_what_it_spent() -> None:
    asked = tool_call("run_agent", name="child", task="t")
    agent = Agent(ScriptedModel(asked, ValueError("gone")), sub_agents=[child(Agent(ScriptedModel("fine")))])
    with pytest.raises(ModelError) as caught:
        await agent.run("go")
    assert [(record.name, record.message) for record in caught.value.delegations] == [("child", "fine")]
    assert caught.value.usage == Usage(model_calls=3, tool_calls=1)

    short = Agent(FunctionModel(lambda m, t: asked), sub_agents=[child(ScriptedChild())], options=Options(max_steps=2))
    with pytest.raises(MaxStepsError) as stopped:
        await short.run("go")
    assert [record.delivered for record in stopped.value.delegations] == [True]
    assert stopped.value.usage == Usage(model_calls=2, tool_calls=2)


async def test_the_contract_test_of_a_child_that_never_answers_ends_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("symfonic.testing.conformance.PATIENCE", 0.05)

    class Silent:
        async def run(self, query: str) -> Any:
            await asyncio.Event().wait()

    async with asyncio.timeout(5):
        with pytest.raises(AssertionError, match="a child must answer within"):
            await check_child_runner(Silent)


def test_a_team_runs_from_synchronous_code(tmp_path: Any) -> None:
    path = tmp_path / "team.toml"
    path.write_text('[agents.lead]\nsub_agents.helper.description = "Helps."\n')
    asked = tool_call("run_agent", name="helper", task="t")
    team = symfonic.load_team(path).override({"lead": ScriptedModel(asked, "done"), "helper": ScriptedModel("helped")})

    assert team.run_sync("go").text == "done"
    [refused] = team.run_sync("go", max_depth=0).delegations
    assert refused.outcome is DelegationOutcome.REFUSED_DEPTH
