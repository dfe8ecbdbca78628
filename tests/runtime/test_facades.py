"""The doors: what they take, what they refuse when they are built, and what they give back."""

import inspect
from dataclasses import replace
from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, Response, answer, calls, child, delegates

import symfonic
from symfonic import Agent, AgentRef, ConfigurationError, Options, SubAgent, SymfonicError
from symfonic.agent.cutover.delegate import KernelDelegate
from symfonic.agent.cutover.delegation import delegation_for_children
from symfonic.agent.engine import AgentResponse, SymfonicAgent
from symfonic.capabilities.delegation.contracts import ChildRunner
from symfonic.capabilities.delegation.runner_adapter import accepts_run_lineage, speaks_runner_contract
from symfonic.errors import ChildDeclarationError
from symfonic.kernel.contracts.tool import Tool
from symfonic.kernel.runtime.registry import ToolRegistry
from symfonic.testing import ScriptedChild, ScriptedModel, tool_call

MODEL = ScriptedModel("fine")


def parameters(call: Any) -> list[str]:
    return [name for name in inspect.signature(call).parameters if name != "self"]


def test_an_agent_takes_what_the_contract_says_all_but_the_model_by_name_and_optional() -> None:
    taken = inspect.signature(Agent).parameters
    contract = ["model", "name", "instructions", "tools", "sub_agents", "max_depth", "limits", "options"]
    assert list(taken) == [*contract, "keeping"]  # durable=...
    for name, parameter in taken.items():
        if name not in ("model", "keeping"):
            assert parameter.kind is parameter.KEYWORD_ONLY
            assert parameter.default is not parameter.empty


def test_the_engines_run_takes_what_the_runner_contract_sends() -> None:
    named = ["query", "scope", "agent_depth", "max_depth", "root_run_id", "parent_run_id"]
    assert parameters(SymfonicAgent.run)[:6] == named
    engine = SymfonicAgent(MODEL)
    assert speaks_runner_contract(engine)
    assert accepts_run_lineage(engine)
    assert isinstance(engine, ChildRunner)


async def test_the_friendly_run_is_closed_and_looks_like_no_runner() -> None:
    agent = Agent(MODEL)
    assert not speaks_runner_contract(agent)
    with pytest.raises(TypeError, match="unknown"):
        await agent.run("go", unknown=1)  # type: ignore[call-arg]


def test_a_sub_agents_positional_order_is_as_written() -> None:
    worker = ScriptedChild()
    made = SubAgent("worker", worker, "Works.", "for work", examples=("do work",), policy=None)
    assert (made.name, made.agent, made.description, made.when_to_use) == ("worker", worker, "Works.", "for work")
    assert (made.examples, made.policy) == (("do work",), None)
    with pytest.raises(TypeError):
        SubAgent("worker", worker, "Works.", "for work", ("do work",))  # type: ignore[misc]


class SyncNoQuery:
    def run(self, text: str) -> None: ...


@pytest.mark.parametrize(
    ("declaration", "names"),
    [
        (("", ScriptedChild(), "Works."), "name"),
        (("a b", ScriptedChild(), "Works."), "'a b'"),
        (("worker", ScriptedChild(), ""), "'worker'"),
        (("worker", ScriptedChild(), "  "), "'worker'"),
        (("worker", ScriptedChild(), None), "'worker'"),
        (("worker", object(), "Works."), "'worker'.*object with run missing"),
        (("worker", SyncNoQuery(), "Works."), r"'worker'.*SyncNoQuery with run\(text: 'str'|'worker'.*run\(text"),
        (("worker", ScriptedChild, "Works."), "'worker'.*the class ScriptedChild"),
        (("worker", None, "Works."), "'worker'"),
        (("worker", "offline", "Works."), "'worker'"),
        (("worker", ScriptedChild(), "Works.", 3), "'worker'"),
    ],
)
def test_a_bad_declaration_fails_where_it_is_made_naming_the_child(declaration: Any, names: str) -> None:
    with pytest.raises(ChildDeclarationError, match=names):
        SubAgent(*declaration)


def nothing() -> None: ...


@pytest.mark.parametrize(
    ("parts", "names"),
    [
        ({"name": ""}, "name"),
        ({"name": 3}, "name"),
        ({"instructions": 3}, "instructions"),
        ({"options": {"max_steps": 3}}, r"options must be symfonic\.Options"),
        ({"limits": 3}, "limits"),
        ({"max_depth": -1}, "max_depth"),
        ({"tools": [3]}, "3"),
        ({"tools": [Agent(MODEL)]}, "sub_agents"),
        ({"tools": nothing}, "tools"),
        ({"tools": None}, "tools"),
        ({"sub_agents": [ScriptedChild()]}, "ScriptedChild"),
        ({"sub_agents": [Agent(MODEL, name="inner")]}, "inner"),
        ({"sub_agents": SubAgent("a", ScriptedChild(), "b")}, "sub_agents"),
        ({"sub_agents": ["name"]}, "name"),
    ],
)
def test_a_broken_composition_fails_when_it_is_built_naming_the_culprit(parts: Any, names: str) -> None:
    with pytest.raises(ConfigurationError, match=names):
        Agent(MODEL, **parts)
    if "limits" not in parts:
        with pytest.raises(ConfigurationError, match=names):
            SymfonicAgent(MODEL, **parts)


@pytest.mark.parametrize("model", [None, 3, object(), ScriptedModel, "no such model", ""])
def test_what_is_no_model_is_refused(model: Any) -> None:
    with pytest.raises(ConfigurationError, match="model"):
        Agent(model)
    with pytest.raises(ConfigurationError, match="model"):
        SymfonicAgent(model)


@pytest.mark.parametrize("steps", [0, -1, True, 1.5, "3", None])
def test_options_hold_only_what_works(steps: Any) -> None:
    with pytest.raises(ConfigurationError, match="max_steps"):
        Options(max_steps=steps)


def test_other_options_are_checked_too() -> None:
    with pytest.raises(ConfigurationError, match="observers"):
        Options(observers=[print])  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="resolve_scope"):
        Options(resolve_scope="tenant")  # type: ignore[arg-type]


async def test_a_result_has_both_spellings_and_everything_about_the_run() -> None:
    script = ScriptedModel(tool_call("run_agent", name="child", task="t"), "over")
    agent = Agent(script, sub_agents=[child(ScriptedChild("x"))])
    result = await agent.run("go")
    assert isinstance(result, AgentResponse)
    assert result.text == result.final_response == "over"
    assert (result.delegated_to, [each.name for each in result.delegations]) == (("child",), ["child"])
    assert (result.usage.model_calls, result.usage.tool_calls) == (2, 1)
    assert (result.root_run_id, result.parent_run_id) == (result.run_id, None)
    assert [message.role for message in result.messages] == ["user", "assistant", "tool", "assistant"]


def test_agents_say_who_they_are() -> None:
    assert repr(Agent(MODEL, name="lead")) == "Agent('lead')"
    assert repr(SymfonicAgent(MODEL, name="lead")) == "SymfonicAgent('lead')"
    assert Agent(MODEL).name == "agent"


class Closable(Child):
    closed = 0

    def __init__(self) -> None:
        async def act(query: str) -> str:
            return "fine"

        super().__init__(act)

    async def aclose(self) -> None:
        self.closed += 1


async def test_leaving_an_agent_closes_no_child_that_the_caller_built() -> None:
    inner = Closable()
    async with Agent(MODEL, sub_agents=[child(inner)]) as agent:
        assert (await agent.run("go")).text == "fine"
    async with SymfonicAgent(MODEL, sub_agents=[child(inner)]) as engine:
        assert (await engine.run("go")).final_response == "fine"
    await agent.aclose()
    async with Agent(MODEL):
        pass
    assert inner.closed == 0


async def test_children_may_be_any_object_of_that_shape() -> None:
    class Declared:
        name, description, agent = "shaped", "Has the shape.", ScriptedChild("from the shape")

    result = await NATIVE.agent(delegates("shaped"), sub_agents=[Declared()]).run("go")
    assert result.text == "from the shape"


def test_a_reference_takes_a_function() -> None:
    with pytest.raises(ChildDeclarationError, match="AgentRef takes a function"):
        AgentRef("agent")  # type: ignore[arg-type]


async def test_a_reference_hands_lineage_and_scope_to_the_agent_it_speaks_for() -> None:
    worker = ScriptedChild("spoken for")
    agent = NATIVE.agent(delegates(), sub_agents=[child(AgentRef(lambda: worker))])
    result = await agent.run("go", scope="tenant")
    [call] = worker.calls
    assert (call.query, call.scope, call.agent_depth) == ("the task", "tenant", 1)
    assert (call.root_run_id, call.parent_run_id) == (result.run_id, result.run_id)


async def test_what_is_changed_after_an_agent_was_built_changes_nothing() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}

    async def invoke(arguments: Any) -> str:
        return f"n is {arguments['n']}"

    tools, children = [Tool("count", "Counts.", schema, invoke)], [child(ScriptedChild("fine"))]
    offered: list[Any] = []

    def fn(messages: Any, tools: Any) -> Any:
        offered.append([(tool.name, dict(tool.parameters)) for tool in tools])
        return calls(tool_call("count", n=3), tool_call("run_agent", name="child", task="t"))(messages, tools)

    agent = NATIVE.agent(fn, tools=tools, sub_agents=children)
    tools.clear()
    children.clear()
    schema.clear()
    assert (await agent.run("go")).text == "n is 3\nfine"
    name, parameters = offered[0][0]
    assert (name, parameters["required"]) == ("count", ["n"])


def test_a_tool_after_compile_is_an_error_that_says_what_to_do() -> None:
    kernel = KernelDelegate(model=MODEL, delegation=delegation_for_children([child(ScriptedChild())], max_depth=2))
    with pytest.raises(ConfigurationError, match=r"'late'.*build a new Agent with it in tools=\[\.\.\.\]"):
        kernel.registry.register(symfonic.tool(nothing, name="late"))
    assert [each.tool.name for each in kernel.plan.tools] == ["run_agent", "list_agents"]


def test_the_registry_itself_takes_each_name_once_and_only_object_schemas() -> None:
    registry = ToolRegistry([symfonic.tool(nothing)])
    assert registry.names() == ("nothing",)
    with pytest.raises(ConfigurationError, match="two tools are named 'nothing'"):
        registry.register(symfonic.tool(nothing))
    for parameters in (None, {"type": "array"}, {"properties": {}, "required": ["x"]}):
        with pytest.raises(ConfigurationError, match="'odd'"):
            ToolRegistry([replace(symfonic.tool(nothing), name="odd", parameters=parameters)]).compile()


@pytest.mark.parametrize("parameters", [None, {"type": "array"}, {"properties": []}, {"required": ["x"]}])
def test_a_tool_whose_schema_is_no_object_is_refused_by_name(parameters: Any) -> None:
    async def invoke(arguments: Any) -> None: ...

    with pytest.raises(ConfigurationError, match="'odd'"):
        NATIVE.agent(answer(), tools=[Tool("odd", "Odd.", parameters, invoke)])


async def test_a_child_that_answers_without_being_awaited_is_served() -> None:
    class AtOnce:
        def run(self, query: str) -> Any:
            return Response(f"at once: {query}")

    assert (await NATIVE.agent(delegates(), sub_agents=[child(AtOnce())]).run("go")).text == "at once: the task"


def test_every_error_of_ours_is_a_symfonic_error() -> None:
    for error in (ConfigurationError, ChildDeclarationError):
        assert issubclass(error, SymfonicError)
        assert issubclass(error, ValueError)
