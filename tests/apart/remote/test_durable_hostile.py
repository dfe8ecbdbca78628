"""Durable trees whose children, tools, models and hooks do what nobody should: the tree ends, and the worker lives."""

import asyncio

import pytest

from symfonic import Agent, AgentRef, Options, SubAgent, SymfonicError, from_callable
from symfonic.durable import Waits, durable
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.remote.envelope import LONGEST_ID
from symfonic.testing import FunctionModel, ScriptedModel, tool_call

pytest_plugins = ["durable_fixtures"]

SOON = Waits(end=20, start=15)


class Signal(BaseException):
    """No Exception, as some libraries have it."""


ESCAPES = {
    "SystemExit": lambda: SystemExit(3),
    "KeyboardInterrupt": KeyboardInterrupt,
    "GeneratorExit": GeneratorExit,
    "BaseException": lambda: Signal("out of here"),
    "BaseExceptionGroup": lambda: BaseExceptionGroup("some", [ValueError("a"), KeyboardInterrupt()]),
}


def asks(*names):
    return [tool_call("run_agent", name=name, task="Look.") for name in names]


def everywhere(make):
    """Children that raise in each place where code of a user's is called."""

    async def raises(*_):
        raise make()

    def raises_at_once(*_):
        raise make()

    async def tool(text: str) -> str:
        """Raise."""
        raise make()

    spy = SubAgent("spy", from_callable(lambda query: "seen"), "Sees.")
    uses, says = tool_call("tool", text="x"), ScriptedModel("Said.")
    agents = {
        "model": Agent(FunctionModel(raises)),
        "tool": Agent(ScriptedModel(uses, "Without."), tools=[tool]),
        "hook": Agent(ScriptedModel(asks("spy"), "Without."), sub_agents=[spy], options=Options(on_delegate=raises)),
        "instructions": Agent(says, instructions=raises_at_once),
        "reference": AgentRef(raises_at_once),
        "function": from_callable(raises),
        "blocking": from_callable(raises_at_once),
    }
    return [SubAgent(name, agent, f"Raises in its {name}.") for name, agent in agents.items()]


@pytest.mark.parametrize("kind", ESCAPES)
async def test_whatever_escapes_from_a_users_code_is_a_failure_and_the_worker_goes_on(tmp_path, kind):
    children = everywhere(ESCAPES[kind])
    lead = Agent(ScriptedModel(asks(*(each.name for each in children)), "Done."), name="lead", sub_agents=children)
    async with durable(lead, tmp_path / "tree.db", waits=SOON) as tree:
        result = await tree.run("Go.", run_id="r")
        assert (await tree.run("Again.")).text == "Done."
        ended = await tree.runs(run_id="r")
    assert result.text == "Done."
    outcomes = {each.name: each.outcome.value for each in result.delegations}
    told = {each.name: each.message for each in result.delegations}
    assert outcomes.pop("tool") == "delivered"  # its model reads that the tool has failed
    outcomes.pop("hook")  # the same, or the run has failed: it depends on whether a task lets it through
    assert set(outcomes.values()) == {"child_failed"}, outcomes
    name = type(ESCAPES[kind]()).__name__
    for place in ("model", "function", "blocking", "instructions"):
        assert f"it raised {name}" in told[place], place
    assert {each.status for each in ended} <= {"finished", "failed"}


async def test_ids_and_names_that_a_database_cannot_keep_are_kept_in_another_form(database):
    """A model names its calls as it likes, and PostgreSQL has no text with a NUL in it."""
    ids = ["a\x00b", "a\x00b", "\x00", "a\ud800b", "", " ", "a\nb", "%00", "x" * 600]

    async def note(text: str) -> str:
        """Note."""
        return "noted\x00"

    def asked(messages, tools):
        if messages[-1].role != "user":
            return "\x00".join(each.text for each in messages if each.role == "tool")
        child = [ToolCall(each, "run_agent", {"name": "c\x00d", "task": "Look.\x00"}) for each in ids]
        return ModelReply("", (*child, *(ToolCall(each, "note", {"text": "\x00"}) for each in ids)))

    child = SubAgent("c\x00d", from_callable(lambda query: "seen\x00"), "Sees.")
    lead = Agent(FunctionModel(asked), name="le\x00ad/%00", sub_agents=[child], tools=[note])
    async with durable(lead, database, waits=SOON) as tree:
        result = await tree.run("Go.\x00")
        assert result.text == "\x00".join(["seen\x00"] * len(ids) + ["noted\x00"] * len(ids))
        runs = await tree.runs(run_id=result.run_id)
    assert len({each.run_id for each in runs}) == len(ids) + 1
    assert {each.agent for each in runs} == {"le%00ad%2F%2500", "le%00ad%2F%2500/c%00d"}


async def test_the_longest_run_id_is_one_that_a_tree_can_have(database):
    clerk = SubAgent("clerk", from_callable(lambda query: "seen"), "Sees.")
    auditor = SubAgent("auditor", Agent(ScriptedModel(asks("clerk"), "Audited."), sub_agents=[clerk]), "Audits.")
    lead = Agent(ScriptedModel(asks("auditor"), "Done."), name="lead", sub_agents=[auditor])
    async with durable(lead, database, waits=SOON) as tree:
        result = await tree.run("Go.", run_id="r" * LONGEST_ID)
        assert [each.outcome.value for each in result.delegations] == ["delivered"]
        assert [each.depth for each in await tree.runs(run_id="r" * LONGEST_ID)] == [0, 1, 2]


async def test_whoever_takes_the_id_of_a_child_to_come_does_not_speak_for_it(database):
    child = SubAgent("clerk", from_callable(lambda query: "The clerk's."), "Is asked.")
    lead = Agent(ScriptedModel(asks("clerk"), "The lead's."), name="lead", sub_agents=[child])
    async with durable(lead, database, waits=SOON) as tree:
        await tree.run("Go.", run_id="r.call_1_1")
        result = await tree.run("Go.", run_id="r")
    told = {each.outcome.value: each.message for each in result.delegations}
    assert told == {"child_failed": "Sub-agent 'clerk' failed: Delegation refused: its run id is that of another call"}


async def test_of_many_who_use_one_id_at_once_only_those_with_its_task_have_its_answer(database):
    def says(messages, tools):
        return messages[-1].text

    async with durable(Agent(FunctionModel(says), name="lead"), database, waits=SOON) as tree:
        await tree.start()
        tasks = [f"Task {number % 3}." for number in range(9)]
        told = await asyncio.gather(*(tree.run(each, run_id="r") for each in tasks), return_exceptions=True)
    had = {task for task, each in zip(tasks, told, strict=True) if not isinstance(each, Exception)}
    assert len(had) == 1
    for task, each in zip(tasks, told, strict=True):
        assert each.text == task if task in had else isinstance(each, SymfonicError), each
