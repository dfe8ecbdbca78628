"""Our children as tools of LangChain's agents and LangGraph's graphs."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from adapter_kit import HOLDS_IN_EVERY_HOST
from langchain.agents import create_agent
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import AnyMessage, HumanMessage
from langchain_core.runnables import RunnableLambda
from langchain_core.runnables.config import ensure_config
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_kit import Fake, Session, approve, delegates, graph_of, host, lead, remember, said
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.graph import MessagesState
from langgraph.runtime import get_runtime
from langgraph.types import Command

import symfonic
from symfonic import Agent, Options, SubAgent
from symfonic.adapters.langchain import as_langchain_tools
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import ScriptedChild, ScriptedModel, tool_call


async def play(capability: Any, made: Any) -> list[str]:
    calls = [delegates(*each, str(number)) for number, each in enumerate(made)]
    state = await host(said("", *calls), said("done"), hosted=capability)
    return [each.content for each in state["messages"] if each.type == "tool"]


@pytest.mark.parametrize("check", HOLDS_IN_EVERY_HOST, ids=lambda check: check.__name__)
async def test_what_holds_in_every_host(check: Any) -> None:
    await check(play)


async def test_one_that_would_send_its_callers_graph_elsewhere_is_told_so() -> None:
    async def leave(state: MessagesState) -> Any:
        return Command(goto="other", graph=Command.PARENT)

    hosted = symfonic.delegation([SubAgent("child", graph_of(leave), "Leaves.")])
    async with hosted.run_scope() as run:
        answer = (await host(said("", delegates("child")), said("done"), hosted=hosted))["messages"]
    assert answer[-1].text == "done"
    assert "it may only answer" in run.records[0].message


async def test_the_tools_advertise_the_children_and_answer_without_a_run_around_them() -> None:
    hosted = symfonic.delegation([SubAgent("écrivain", ScriptedChild("done"), "Writes {x} %s.")])
    run_agent, list_agents = as_langchain_tools(hosted)
    assert run_agent.tool_call_schema["properties"]["name"]["enum"] == ["écrivain"]
    advertised = json.loads(json.dumps(convert_to_openai_tool(run_agent, strict=True)))["function"]["parameters"]
    assert type(run_agent.args_schema["properties"]["name"]) is dict  # theirs to change, not ours frozen
    assert advertised["required"] == ["name", "task"]
    assert advertised["properties"]["name"]["enum"] == ["écrivain"]
    assert "Writes {x} %s." in run_agent.description
    assert await run_agent.ainvoke({"name": "Écrivain", "task": "go"}) == "done"
    assert await asyncio.to_thread(run_agent.invoke, {"name": "écrivain", "task": "go"}) == "done"
    assert "écrivain" in await list_agents.ainvoke({})
    assert "Unknown sub-agent 'x'" in await run_agent.ainvoke({"name": "x", "task": "go"})
    assert "it misses 'task'" in await run_agent.ainvoke({"name": "x"})
    with pytest.raises(symfonic.SymfonicError, match="event loop is running"):
        run_agent.invoke({"name": "écrivain", "task": "go"})


async def test_two_levels_deep_with_records_tally_and_usage() -> None:
    leaf = create_agent(Fake(said("leaf", tokens=(5, 5))), [])
    middle = Agent(
        ScriptedModel(tool_call("run_agent", name="leaf", task="dig"), "middle"),
        sub_agents=[SubAgent("leaf", leaf, "Digs.")],
    )
    hosted = symfonic.delegation([SubAgent("middle", middle, "Asks.")])
    async with hosted.run_scope() as run:
        state = await host(said("", delegates("middle", call="call-7")), said("done"), hosted=hosted)
    assert [each.content for each in state["messages"][-2:]] == ["middle", "done"]
    [record] = run.records
    assert (record.name, record.depth, record.delivered) == ("middle", 1, True)
    assert record.trace.tool_call_id == "call-7"
    [below] = record.children
    assert (below.name, below.depth, below.message) == ("leaf", 2, "leaf")
    assert below.trace.child.root_run_id == record.trace.child.root_run_id == run.identity.run_id
    assert run.tally.total == 2
    assert run.usage == Usage(5, 5, 3, 1)


async def test_their_agent_under_ours_under_theirs_and_the_ceiling_between_them() -> None:
    deep = symfonic.delegation([SubAgent("deepest", ScriptedChild("deepest"), "Works.")])

    def theirs(name: str, hosted: Any) -> Any:
        return create_agent(Fake(said("", delegates(name)), said(f"{name} asked")), as_langchain_tools(hosted))

    middle = symfonic.delegation([SubAgent("deep", theirs("deepest", deep), "Works.")])
    hosted = symfonic.delegation([SubAgent("middle", theirs("deep", middle), "Works.")], max_depth=2)
    async with hosted.run_scope() as run:
        await host(said("", delegates("middle")), said("done"), hosted=hosted)
    [first] = run.records
    [second] = first.children
    [third] = second.children
    assert [each.outcome for each in (first, second, third)] == ["delivered", "delivered", "refused_depth"]
    assert third.depth == 3


async def test_parallel_calls_run_at_once_and_keep_their_order() -> None:
    both, started = asyncio.Event(), list[str]()

    class Meets:
        async def run(self, query: str) -> Any:
            started.append(query)
            if len(started) == 2:
                both.set()
            await both.wait()
            return type("Response", (), {"final_response": f"did {query}"})

    hosted = symfonic.delegation([SubAgent("child", Meets(), "Works.")])
    async with hosted.run_scope() as run:
        calls = (delegates("child", "a", "1"), delegates("child", "b", "2"))
        state = await host(said("", *calls), said("done"), hosted=hosted)
    assert [each.content for each in state["messages"] if each.type == "tool"] == ["did a", "did b"]
    assert run.delegated == ("child", "child")
    assert {record.trace.tool_call_id for record in run.records} == {"1", "2"}


class Watching(BaseCallbackHandler):
    def __init__(self) -> None:
        self.models: list[Any] = []

    def on_chat_model_start(self, *_: Any, **told: Any) -> None:
        self.models.append(told["metadata"].get("tenant"))


async def test_the_hosts_config_and_run_context_reach_the_child() -> None:
    seen: list[Any] = []

    async def node(state: MessagesState) -> Any:
        configurable = ensure_config()["configurable"]
        seen.append((get_runtime().context, configurable["user"], configurable["thread_id"]))
        return {"messages": [await Fake("ok").ainvoke("x")]}

    hosted = symfonic.delegation([SubAgent("child", lead(graph_of(node)), "Works.")])
    watching = Watching()
    made = create_agent(
        Fake(said("", delegates("child")), said("done")), as_langchain_tools(hosted), context_schema=Session
    )
    config = {"callbacks": [watching], "metadata": {"tenant": "t"}, "configurable": {"user": "ann", "thread_id": "h"}}
    await made.ainvoke({"messages": ["go"]}, config, context=Session("c"))
    assert seen == [(Session("c"), "ann", "h")]
    assert watching.models == ["t"] * 3


async def test_the_hosts_config_reaches_a_chain_also_on_a_thread_of_its_own() -> None:
    seen: list[Any] = []

    async def look(task: str) -> str:
        configurable = ensure_config()["configurable"]
        seen.append((configurable["user"], configurable["thread_id"], "checkpoint_ns" in configurable))
        return task

    watching = Watching()
    hosted = symfonic.delegation([SubAgent("child", RunnableLambda(look) | Fake("ok"), "Works.")])
    config = {"callbacks": [watching], "metadata": {"tenant": "t"}, "configurable": {"user": "ann", "thread_id": "h"}}
    for scope in (None, Session("s")):
        async with hosted.run_scope(scope=scope) as run:
            await host(said("", delegates("child")), said("done"), hosted=hosted, config=config)
        assert run.usage.model_calls == 1
    assert seen == [("ann", "h", True), ("ann", "s", False)]
    assert watching.models == ["t"] * 6


async def test_a_pause_of_a_child_pauses_the_host_which_goes_on_where_it_was() -> None:
    options = Options(pass_through=(GraphInterrupt,))
    hosted = symfonic.delegation([SubAgent("child", graph_of(approve), "Asks a person.")], options=options)
    made = create_agent(
        Fake(said("", delegates("child")), said("done")), as_langchain_tools(hosted), checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    paused = await made.ainvoke({"messages": ["go"]}, config)
    assert [each.value for each in paused["__interrupt__"]] == ["may I?"]
    state = await made.ainvoke(Command(resume="yes"), config)
    assert [each.content for each in state["messages"][-2:]] == ["a person said yes", "done"]


async def test_a_pause_passes_through_an_agent_of_ours_and_back() -> None:
    options = Options(pass_through=(GraphInterrupt,))
    hosted = symfonic.delegation(
        [SubAgent("middle", lead(graph_of(approve), options=options), "Asks.")], options=options
    )
    made = create_agent(
        Fake(said("", delegates("middle")), said("done")), as_langchain_tools(hosted), checkpointer=InMemorySaver()
    )
    config: Any = {"configurable": {"thread_id": "t"}}
    paused = await made.ainvoke({"messages": ["go"]}, config)
    assert [each.value for each in paused["__interrupt__"]] == ["may I?"]
    async with hosted.run_scope() as run:
        state = await made.ainvoke(Command(resume="yes"), config)
    assert [each.content for each in state["messages"][-2:]] == ["went on", "done"]
    assert run.records[0].children[0].message == "a person said yes"


async def test_a_child_inside_a_host_starts_anew_each_time_and_keeps_the_thread_that_its_scope_names() -> None:
    calls = (delegates("child"), delegates("child", "again", "2"))
    for saver in (None, InMemorySaver()):
        hosted = symfonic.delegation([SubAgent("child", graph_of(remember, checkpointer=InMemorySaver()), "Works.")])
        for scope, answers in ((None, ["1", "1", "1"]), ({"thread_id": "s"}, ["1", "3"])):
            replies = (said("", *calls), said("", calls[0])) if scope is None else (said("", calls[0]),) * 2
            async with hosted.run_scope(scope=scope) as run:
                config = {"configurable": {"thread_id": "t"}} if saver else None
                await host(*replies, said("done"), hosted=hosted, config=config, checkpointer=saver)
            assert [record.message for record in run.records] == [f"{each} messages" for each in answers]


def test_a_synchronous_host_works_too() -> None:
    hosted = symfonic.delegation([SubAgent("child", ScriptedChild("did it"), "Works.")])
    made = create_agent(Fake(said("", delegates("child")), said("done")), as_langchain_tools(hosted))
    state = made.invoke({"messages": [HumanMessage("go")]})
    assert [each.content for each in state["messages"][-2:]] == ["did it", "done"]


async def test_a_graph_that_streams_hosts_too() -> None:
    hosted = symfonic.delegation([SubAgent("child", ScriptedChild("did it"), "Works.")])
    made = create_agent(Fake(said("", delegates("child")), said("done")), as_langchain_tools(hosted))
    async with hosted.run_scope() as run:
        stream: AsyncIterator[Any] = made.astream({"messages": [HumanMessage("go")]}, stream_mode="values")
        last: list[AnyMessage] = [state async for state in stream][-1]["messages"]
    assert last[-1].text == "done"
    assert run.delegated == ("child",)
