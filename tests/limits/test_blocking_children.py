"""A child that works synchronously is held to its time, and a late answer is not heard."""

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from symfonic import Agent, ChildPolicy, DelegationOutcome, Limits, SubAgent
from symfonic.testing import ScriptedModel, tool_call

CALL = tool_call("run_agent", name="child", task="go")


class Blocks:
    """Works until it is let go, on whatever thread it is called."""

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.thread: Any = None

    def run(self, query: str) -> Any:
        self.thread = threading.current_thread()
        self.let_go.wait(30)
        return SimpleNamespace(final_response="late")


@pytest.mark.parametrize("by", ["policy", "tree"])
async def test_a_synchronous_child_is_left_when_its_time_is_over_and_its_late_answer_is_ignored(by: str) -> None:
    child = Blocks()
    policy = ChildPolicy(timeout=0.05) if by == "policy" else None
    middle = Agent(
        ScriptedModel(CALL, "went on"),
        sub_agents=[SubAgent("child", child, "Works.", policy=policy)],
        limits=Limits(timeout=0.05) if by == "tree" else None,
    )
    lead = Agent(
        ScriptedModel(tool_call("run_agent", name="middle", task="go"), "done"),
        sub_agents=[SubAgent("middle", middle, "Works.")],
    )
    try:
        result = await lead.run("go")
    finally:
        child.let_go.set()
    [middle_record] = result.delegations
    [record] = middle_record.children
    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert "may still be running" in record.message
    assert child.thread is not threading.main_thread()


async def test_an_answer_that_came_too_late_because_the_child_blocked_the_loop_is_not_heard() -> None:
    class BlocksTheLoop:
        async def run(self, query: str) -> Any:
            threading.Event().wait(0.1)
            return SimpleNamespace(final_response="late")

    lead = Agent(
        ScriptedModel(CALL, "went on"),
        sub_agents=[SubAgent("child", BlocksTheLoop(), "Works.", policy=ChildPolicy(timeout=0.02))],
    )
    [record] = (await lead.run("go")).delegations
    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT


async def test_without_a_clock_a_synchronous_child_is_called_where_it_is() -> None:
    child = Blocks()
    child.let_go.set()
    lead = Agent(ScriptedModel(CALL, "done"), sub_agents=[SubAgent("child", child, "Works.")])
    assert (await lead.run("go")).delegations[0].message == "late"
    assert child.thread is threading.main_thread()
