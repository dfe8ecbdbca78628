"""Authority can only shrink on the way down, by every way that a scope can be given."""

from dataclasses import dataclass

import pytest

from symfonic import Agent, ConfigurationError, DelegationOutcome, Options, SubAgent, SymfonicAgent
from symfonic.capabilities.delegation import DelegationContext
from symfonic.testing import FunctionModel, ScriptedModel, tool_call


@dataclass(frozen=True)
class Level:
    height: int

    def covers(self, other):
        return isinstance(other, Level) and other.height <= self.height


def test_a_scope_opened_inside_a_run_must_be_covered_by_the_runs():
    context = DelegationContext()
    with context.run_scope(depth=0, scope=Level(1)):
        with context.run_scope(depth=1, scope=Level(0)):
            assert context.current_scope() == Level(0)
        with pytest.raises(ConfigurationError, match=r"Level\(height=2\).*covered.*Level\(height=1\)"):
            context.run_scope(depth=1, scope=Level(2)).__enter__()
        assert context.current_scope() == Level(1)


async def test_a_run_started_in_a_tool_cannot_be_given_more_than_the_run_has():
    inner = Agent(ScriptedModel("inner"))

    async def widen() -> str:
        return (await inner.run("go", scope=Level(9))).text

    lead = Agent(ScriptedModel(tool_call("widen"), "went on"), tools=[widen])
    result = await lead.run("go", scope=Level(1))
    assert "not covered" in result.messages[2].text
    assert result.text == "went on"


async def test_a_foreign_child_cannot_widen_the_scope_of_the_run_it_hands_on():
    engine = SymfonicAgent(ScriptedModel("inner"))

    class Widening:
        async def run(self, query, **keywords):
            return await engine.run(query, **{**keywords, "scope": Level(9)})

    lead = Agent(
        ScriptedModel(tool_call("run_agent", name="widening", task="go"), "went on"),
        sub_agents=[SubAgent("widening", Widening(), "Widens.")],
    )
    result = await lead.run("go", scope=Level(1))
    assert [record.outcome for record in result.delegations] == [DelegationOutcome.CHILD_FAILED]
    assert "authority can only shrink" in result.delegations[0].message


async def test_a_hook_that_delegates_is_not_asked_about_its_own_delegation():
    asked = []

    async def judge(request):
        asked.append(request.name)
        assert (await lead.engine.delegation.tools.delegate("judge", request.task)).delivered

    options = Options(on_delegate=judge)
    lead = Agent(
        FunctionModel(lambda m, _: "done" if len(m) > 1 else tool_call("run_agent", name="worker", task="go")),
        sub_agents=[
            SubAgent("worker", Agent(ScriptedModel("worked")), "Works."),
            SubAgent("judge", Agent(ScriptedModel("fine")), "Judges."),
        ],
        options=options,
    )
    result = await lead.run("go")
    assert asked == ["worker"]
    assert {record.name: record.delivered for record in result.delegations} == {"worker": True, "judge": True}
