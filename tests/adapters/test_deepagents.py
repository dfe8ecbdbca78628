"""Agents of deepagents, which are graphs of LangGraph: as children, and as hosts of our children."""

import asyncio
import json
from typing import Any

import pytest
from adapter_kit import HOLDS_IN_EVERY_HOST
from deepagents import create_deep_agent
from langchain.agents.middleware import TodoListMiddleware
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langchain_kit import Fake, asked, asks, delegates, lead, said
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.types import Command
from pydantic import BaseModel

from symfonic import ChildPolicy, DelegationOutcome, Limits, Options, SubAgent, delegation
from symfonic.adapters.langchain import LangChainChild, adopt, as_langchain_tools
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import ScriptedChild, check_child_runner

NOTE = asks("write_file", file_path="/notes.md", content="12 invoices")
DIG = asks("task", "dig", description="dig", subagent_type="general-purpose")


def deep(*replies: Any, **settings: Any) -> Any:
    return create_deep_agent(Fake(*replies), **settings)


def that_asks_its_own(*tools: Any, name: str = "digger", **settings: Any) -> Any:
    """A deep agent whose sub-agent calls each tool once; both then say how they are called."""
    calls = [asks(each.name, str(number)) for number, each in enumerate(tools)]
    below = {
        "name": name,
        "description": "Digs.",
        "system_prompt": "Dig.",
        "model": Fake(said("", *calls, tokens=(10, 1)), said(name, tokens=(20, 2))),
        "tools": list(tools),
    }
    dig = asks("task", "dig", description="dig", subagent_type=name)
    return deep(said("", dig, tokens=(1, 1)), said("deep", tokens=(2, 1)), subagents=[below], **settings)


def tool_texts(state: Any) -> list[str]:
    return [each.text for each in state["messages"] if isinstance(each, ToolMessage)]


def sent(agent_model: Fake) -> list[list[str]]:
    """What a model was sent, call by call, without the system's message."""
    return [[each.text for each in messages if each.type != "system"] for messages in agent_model._seen]


# ---------------------------------------------------------------------------------------- as child: answer and state


async def test_it_passes_the_contract_of_children() -> None:
    assert isinstance(adopt("deep", deep("hello")), LangChainChild)
    await check_child_runner(lambda: deep("hello"), make_failing=lambda: deep(ValueError("broken")))


async def test_its_last_words_are_the_answer_and_its_files_and_todos_are_kept() -> None:
    todos = asks("write_todos", "2", todos=[{"content": "count", "status": "completed"}])
    record = await asked(deep(said("", NOTE, todos), "noted", middleware=[TodoListMiddleware()]))
    assert (record.outcome, record.message) == (DelegationOutcome.DELIVERED, "noted"), record
    state = record.trace.result.result
    assert state["files"]["/notes.md"]["content"] == "12 invoices"
    assert state["todos"] == [{"content": "count", "status": "completed"}]
    assert record.trace.usage == Usage(0, 0, 2, 2)


class Found(BaseModel):
    invoices: int


async def test_a_structured_answer_is_json_and_the_object_is_kept() -> None:
    record = await asked(deep(said("", asks("Found", invoices=12)), response_format=Found))
    assert json.loads(record.message) == {"invoices": 12}
    assert record.trace.result.result["structured_response"] == Found(invoices=12)


@pytest.mark.parametrize("silence", ["", " \n", [{"type": "thinking", "thinking": "hm"}]])
async def test_an_empty_answer_is_a_failure(silence: Any) -> None:
    record = await asked(deep(said("", NOTE), said(silence)))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child0' failed: it returned no final response"


async def test_an_error_anywhere_in_it_is_its_failure_with_the_original() -> None:
    error = ValueError("no such table")

    @tool
    def look() -> str:
        """Look."""
        raise error

    for child in (deep(error), that_asks_its_own(look)):
        record = await asked(child)
        assert record.outcome is DelegationOutcome.CHILD_FAILED
        assert record.message == "Sub-agent 'child0' failed: no such table"
        assert record.trace.error is error


async def test_files_and_talk_are_of_one_delegation_unless_the_scope_names_a_thread() -> None:
    def agent() -> tuple[Any, Fake]:
        model = Fake(said("", NOTE), "noted", said("", asks("ls", "2", path="/")), "looked")
        return create_deep_agent(model, checkpointer=InMemorySaver()), model

    for scope, seen, heard in (
        (None, "No files found", ["go"]),
        ({"thread_id": "ann"}, "['/notes.md']", ["go", "", "Updated file /notes.md", "noted", "go"]),
    ):
        child, model = agent()
        capability = delegation([SubAgent("child", child, "Works.")])
        async with capability.run_scope(scope=scope) as run:
            for _ in range(2):
                await capability.call("run_agent", {"name": "child", "task": "go"})
        assert tool_texts(run.records[1].trace.result.result)[-1] == seen
        assert sent(model)[2] == heard


async def test_delegations_to_one_agent_at_once_do_not_mix() -> None:
    both = asyncio.Barrier(2)

    @tool
    async def meet() -> str:
        """Meet."""
        await both.wait()
        return "met"

    model = Fake(*[said("", asks("meet"))] * 2, "done")
    capability = delegation([SubAgent("child", create_deep_agent(model, [meet]), "Works.")])
    async with capability.run_scope() as run, asyncio.TaskGroup() as group:
        for task in ("one", "two"):
            group.create_task(capability.call("run_agent", {"name": "child", "task": task}))
    assert sorted(sent(model)[2:]) == [["one", "", "met"], ["two", "", "met"]]
    assert [record.message for record in run.records] == ["done", "done"]
    assert run.usage == Usage(0, 0, 4, 2)


# ----------------------------------------------------------------------------------- as child: what is below it


async def test_what_its_own_sub_agents_spend_is_counted_once_as_they_count_it() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    theirs = UsageMetadataCallbackHandler()
    await that_asks_its_own(look).ainvoke({"messages": ["go"]}, {"callbacks": [theirs]})
    counted = theirs.usage_metadata["fake"]
    record = await asked(that_asks_its_own(look))
    assert record.message == "deep"
    assert tool_texts(record.trace.result.result) == ["digger"]
    assert record.trace.usage == Usage(33, 5, 4, 2)
    assert (counted["input_tokens"], counted["output_tokens"]) == (33, 5)


@pytest.mark.parametrize(("most", "made"), [(1, 1), (2, 2), (3, 3)])
async def test_limits_of_the_tree_hold_inside_it_and_inside_its_sub_agents(most: int, made: int) -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    capability = delegation([SubAgent("child", that_asks_its_own(look), "Works.")], limits=Limits(max_model_calls=most))
    async with capability.run_scope() as run:
        assert f"max_model_calls={most}" in await capability.call("run_agent", {"name": "child", "task": "go"})
    assert run.usage.model_calls == made


@pytest.mark.parametrize("synchronous", [False, True])
async def test_one_of_ours_that_its_sub_agent_runs_stays_under_the_ceiling_and_knows_where_it_is(
    synchronous: bool,
) -> None:
    ours, inner, around = lead(ScriptedChild("never")), list[Any](), list[Any]()

    @tool
    async def ask() -> str:
        """Ask."""
        around.append(active_run())
        inner.append(await ours.run("x"))
        return "asked"

    @tool
    def ask_and_block() -> str:
        """Ask."""
        around.append(active_run())
        inner.append(ours.run_sync("x"))
        return "asked"

    result = await lead(that_asks_its_own(ask_and_block if synchronous else ask), max_depth=2).run("go", scope="acme")
    [record] = result.delegations
    assert record.delivered, record
    assert (around[0].depth, around[0].scope, around[0].identity) == (1, "acme", record.trace.child)
    assert [each.outcome for each in inner[0].delegations] == [DelegationOutcome.REFUSED_DEPTH]
    assert inner[0].parent_run_id == record.trace.child.run_id


@pytest.mark.parametrize("seconds", [None, 0.5])
async def test_a_cancellation_and_a_timeout_reach_its_sub_agents(seconds: float | None) -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    @tool
    async def wait() -> str:
        """Wait."""
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    before = asyncio.all_tasks()
    child = SubAgent("child", that_asks_its_own(wait), "Works.", policy=ChildPolicy(timeout=seconds))
    capability = delegation([child])
    async with capability.run_scope() as run:
        running = asyncio.ensure_future(capability.call("run_agent", {"name": "child", "task": "go"}))
        await began.wait()
        if seconds is None:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
        else:
            await running
    assert ended.is_set()
    outcome = DelegationOutcome.CHILD_CANCELLED if seconds is None else DelegationOutcome.CHILD_TIMED_OUT
    assert [record.outcome for record in run.records] == [outcome]
    assert run.usage == Usage(11, 2, 2, 2)
    assert asyncio.all_tasks() == before


@tool
def pay() -> str:
    """Pay."""
    return "paid"


async def test_an_approval_that_it_waits_for_is_a_signal_where_it_is_named_and_else_its_failure() -> None:
    def agents() -> list[Any]:
        approved: dict[str, Any] = {"interrupt_on": {"pay": True}, "checkpointer": InMemorySaver()}
        return [deep(said("", asks("pay")), "done", tools=[pay], **approved), that_asks_its_own(pay, **approved)]

    for child in agents():
        with pytest.raises(GraphInterrupt) as caught:
            await lead(child, options=Options(pass_through=(GraphInterrupt,))).run("go")
        assert caught.value.args[0][0].value["action_requests"][0]["name"] == "pay"
    for child in agents():
        record = await asked(child)
        assert record.outcome is DelegationOutcome.CHILD_FAILED
        assert "it waits for an answer that nobody here can give" in record.message
        assert "pay" in record.message


# ------------------------------------------------------------------------------------------------------------ as host


def host(capability: Any, *replies: Any, **settings: Any) -> Any:
    return deep(*replies, tools=as_langchain_tools(capability), **settings)


async def go(made: Any, config: Any = None) -> Any:
    return await made.ainvoke({"messages": ["go"]}, config)


async def play(capability: Any, calls: Any) -> list[str]:
    made = [delegates(name, task, str(number)) for number, (name, task) in enumerate(calls)]
    return tool_texts(await go(host(capability, said("", *made), "done")))


@pytest.mark.parametrize("check", HOLDS_IN_EVERY_HOST, ids=lambda check: check.__name__)
async def test_what_holds_in_every_host(check: Any) -> None:
    await check(play)


async def test_a_deep_agent_under_ours_under_a_deep_agent() -> None:
    middle = lead(deep(said("", NOTE, tokens=(5, 5)), said("from below", tokens=(1, 1))))
    capability = delegation([SubAgent("middle", middle, "Works.")])
    async with capability.run_scope() as run:
        state = await go(host(capability, said("", delegates("Middle ", call="call-7")), "done"))
    assert (tool_texts(state), state["messages"][-1].text) == (["went on"], "done")
    [record] = run.records
    assert (record.name, record.depth, record.trace.tool_call_id) == ("middle", 1, "call-7")
    [below] = record.children
    assert (below.message, below.depth) == ("from below", 2)
    assert below.trace.child.root_run_id == run.identity.run_id
    assert run.tally.total == 2
    assert run.usage == Usage(6, 6, 4, 2)


async def test_a_child_shares_no_files_with_a_host_that_has_some() -> None:
    child = deep(said("", asks("ls", path="/"), asks("write_file", "2", file_path="/mine.md", content="x")), "looked")
    capability = delegation([SubAgent("child", child, "Works.")])
    async with capability.run_scope() as run:
        made = host(capability, said("", NOTE), said("", delegates("child")), "done", checkpointer=InMemorySaver())
        state = await go(made, {"configurable": {"thread_id": "t"}})
    assert tool_texts(run.records[0].trace.result.result)[0] == "No files found"
    assert list(state["files"]) == ["/notes.md"]


async def test_a_sub_agent_of_the_host_has_the_tools_as_well_and_delegates_within_the_same_tree() -> None:
    capability = delegation([SubAgent("child", ScriptedChild("from ours"), "Works.")], limits=Limits(max_delegations=1))
    replies = said("", DIG), said("", delegates("child", call="below")), "dug", said("", delegates("child")), "done"
    async with capability.run_scope() as run:
        state = await go(host(capability, *replies))
    assert tool_texts(state)[0] == "dug"
    assert "max_delegations=1" in tool_texts(state)[1]
    assert [(each.depth, each.outcome, each.trace.tool_call_id) for each in run.records] == [
        (1, DelegationOutcome.DELIVERED, "below"),
        (1, DelegationOutcome.REFUSED_BUDGET, "1"),
    ]


async def test_a_very_long_answer_becomes_a_file_of_the_host_and_is_whole_on_the_record() -> None:
    long = "\n".join(["12 invoices"] * 20_000)
    capability = delegation([SubAgent("child", ScriptedChild(long), "Works.")])
    async with capability.run_scope() as run:
        state = await go(host(capability, said("", delegates("child")), "done"))
    [told] = tool_texts(state)
    assert len(told) < 5_000
    [(path, file)] = state["files"].items()
    assert path in told
    assert file["content"] == run.records[0].message == long


async def test_an_approval_below_pauses_the_host_which_goes_on_where_it_was() -> None:
    child = deep(said("", asks("pay")), "paid it", tools=[pay], interrupt_on={"pay": True})
    capability = delegation([SubAgent("child", child, "Pays.")], options=Options(pass_through=(GraphInterrupt,)))
    made = host(capability, said("", delegates("child")), "done", checkpointer=InMemorySaver())
    config: Any = {"configurable": {"thread_id": "t"}}
    paused = await go(made, config)
    assert paused["__interrupt__"][0].value["action_requests"][0]["name"] == "pay"
    state = await made.ainvoke(Command(resume={"decisions": [{"type": "approve"}]}), config)
    assert (tool_texts(state), state["messages"][-1].text) == (["paid it"], "done")
