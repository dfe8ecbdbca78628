"""A child that cancels its own task is going away, whatever it returns."""

import asyncio

from symfonic import Agent, DelegationOutcome, SubAgent
from symfonic.testing import ScriptedModel, tool_call


class Quitter:
    async def run(self, query):
        asyncio.current_task().cancel()
        return type("Response", (), {"final_response": "done"})


async def test_a_child_that_cancels_its_own_task_and_answers_has_not_delivered():
    lead = Agent(
        ScriptedModel(tool_call("run_agent", name="quitter", task="go"), "went on"),
        sub_agents=[SubAgent("quitter", Quitter(), "Quits.")],
    )

    result = await lead.run("go")

    assert result.text == "went on"
    assert result.delegated_to == ()
    assert [record.outcome for record in result.delegations] == [DelegationOutcome.CHILD_CANCELLED]
    assert "cancelled itself" in result.messages[2].text
