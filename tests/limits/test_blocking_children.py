"""A child that blocks the loop blocks the clock too; its time is measured all the same."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from symfonic import Agent, ChildPolicy, DelegationOutcome, SubAgent
from symfonic.testing import ScriptedModel, tool_call

CALL = tool_call("run_agent", name="child", task="go")


def works(seconds: float) -> Any:
    threading.Event().wait(seconds)
    return SimpleNamespace(final_response="late")


class Plain:
    def run(self, query: str) -> Any:
        return works(0.1)


class Async:
    async def run(self, query: str) -> Any:
        return works(0.1)


class Fails:
    def run(self, query: str) -> Any:
        works(0.1)
        raise ValueError("late error")


@pytest.mark.parametrize("child", [Plain(), Async(), Fails()], ids=lambda each: type(each).__name__)
async def test_an_answer_or_error_that_came_too_late_is_not_heard(child: Any) -> None:
    lead = Agent(
        ScriptedModel(CALL, "went on"),
        sub_agents=[SubAgent("child", child, "Works.", policy=ChildPolicy(timeout=0.02))],
    )
    result = await lead.run("go")
    [record] = result.delegations
    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert "may still be running" in record.message
    assert (result.text, result.delegated_to) == ("went on", ())


async def test_what_a_plain_function_answers_in_time_is_delivered() -> None:
    class Quick:
        def run(self, query: str) -> Any:
            return SimpleNamespace(final_response="in time")

    lead = Agent(
        ScriptedModel(CALL, "done"),
        sub_agents=[SubAgent("child", Quick(), "Works.", policy=ChildPolicy(timeout=30))],
    )
    assert (await lead.run("go")).delegations[0].message == "in time"
