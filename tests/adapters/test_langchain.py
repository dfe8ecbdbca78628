"""Runnables of LangChain and graphs of LangGraph as children."""

import asyncio
import json
import subprocess
import sys
from dataclasses import dataclass
from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.callbacks import UsageMetadataCallbackHandler
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.output_parsers import PydanticOutputParser, StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import Runnable, RunnableLambda, RunnablePassthrough
from langchain_core.tools import tool
from langchain_kit import Fake, Session, approve, asked, asks, graph_of, lead, remember, said, waiting
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphInterrupt
from langgraph.func import entrypoint
from langgraph.graph import MessagesState
from pydantic import BaseModel

import symfonic
from symfonic import Agent, DelegationOutcome, Limits, Options, SubAgent
from symfonic.adapters.langchain import LangChainChild, adopt
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.errors import ChildDeclarationError, LimitReachedError
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import ScriptedChild, ScriptedModel, check_child_runner, tool_call

# ------------------------------------------------------------------------------------------------ as child: its answer


class Joke(BaseModel):
    joke: str
    laughs: int = 0


async def test_an_agent_a_graph_a_chain_a_model_a_tool_and_a_function_answer() -> None:
    @tool
    def shout(text: str) -> str:
        """Say it loudly."""
        return text.upper()

    async def node(state: MessagesState) -> Any:
        return {"messages": [AIMessage(f"did {state['messages'][-1].text}")]}

    chain = ChatPromptTemplate.from_template("Translate {text}.") | Fake("übersetzt") | StrOutputParser()
    for child, answer in (
        (create_agent(Fake("hello"), []), "hello"),
        (graph_of(node), "did go"),
        (graph_of(node).with_config(tags=["x"]).with_retry(), "did go"),
        (chain, "übersetzt"),
        ({"text": RunnablePassthrough()} | chain, "übersetzt"),
        (GenericFakeChatModel(messages=iter(["a word"])), "a word"),
        (shout, "GO"),
        (RunnableLambda(lambda task: f"{task}!"), "go!"),
    ):
        record = await asked(child)
        assert (record.outcome, record.message) == (DelegationOutcome.DELIVERED, answer), record
        assert record.run_id == record.trace.child.run_id


async def test_the_task_arrives_byte_for_byte() -> None:
    model, task = Fake("ok"), ' {"a": 1} %s $x\n'
    child = adopt("a", ChatPromptTemplate.from_template("<{task}>") | model)
    await child.run(task)
    assert model._seen[0][-1].text == f"<{task}>"


async def test_structured_answers_are_json_and_the_object_is_kept() -> None:
    joke = asks("Joke", joke="haha ü", laughs=2)
    record = await asked(create_agent(Fake(said("", joke)), [], response_format=Joke))
    assert json.loads(record.message) == {"joke": "haha ü", "laughs": 2}
    assert "ü" in record.message
    assert record.trace.result.result["structured_response"] == Joke(joke="haha ü", laughs=2)

    parser = PydanticOutputParser(pydantic_object=Joke)
    record = await asked(Fake('{"joke": "x"}') | parser)
    assert json.loads(record.message) == {"joke": "x", "laughs": 0}
    assert record.trace.result.result == Joke(joke="x")


class Topic(TypedDict):
    topic: str


async def test_a_graph_without_messages_takes_its_one_key_and_answers_with_its_state_as_json() -> None:
    async def node(state: Topic) -> Any:
        return {"topic": state["topic"] + "es"}

    record = await asked(graph_of(node, Topic))
    assert record.message == '{"topic": "goes"}'


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ({"messages": []}, ""),
        ({}, ""),
        ([], ""),
        (None, ""),
        ("", ""),
        (0, "0"),
        (False, "false"),
        ({"error": "no"}, '{"error": "no"}'),
        ([{"type": "row", "content": "x"}], '[{"type": "row", "content": "x"}]'),
        (AIMessage([{"type": "thinking", "thinking": "hm"}, {"type": "reasoning", "text": "hm"}]), ""),
        (
            AIMessage([{"type": "text", "text": ""}, {"type": "text", "text": "yes"}, {"type": "image", "url": "u"}]),
            "yes",
        ),
        ({"messages": [AIMessage("the answer"), AIMessage("")]}, "the answer"),
        ({"messages": [AIMessage("the answer"), AIMessage([])]}, "the answer"),
        ({"messages": [AIMessage("let me see"), ToolMessage("42", tool_call_id="1")]}, ""),
        ({"messages": [HumanMessage("hi")]}, ""),
        ({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}, "a"),
        ({"messages": [{"role": "assistant", "content": None}]}, ""),
        ({"messages": "three"}, '{"messages": "three"}'),
    ],
)
async def test_the_answer_of_what_comes_back(output: Any, answer: str) -> None:
    async def give(task: str) -> Any:
        return output

    assert (await adopt("a", RunnableLambda(give)).run("go")).final_response == answer


async def test_an_empty_answer_is_a_failure_as_a_value() -> None:
    record = await asked(create_agent(Fake(""), []))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child0' failed: it returned no final response"


async def test_what_is_no_runnable_is_left_to_others() -> None:
    assert adopt("a", object()) is None
    assert adopt("a", RunnableLambda) is None
    assert isinstance(adopt("a", RunnableLambda(str)), LangChainChild)


class PydanticTopic(BaseModel):
    topic: str
    tone: str = "dry"


@dataclass
class DataTopic:
    topic: str
    tone: str = "dry"


async def test_the_input_is_read_from_every_kind_of_state_and_function() -> None:
    async def node(state: Any) -> Any:
        return {"topic": state.topic + "es"}

    async def say(topic: PydanticTopic | dict[str, str]) -> str:
        return f"{topic}"

    async def quote(state):
        return f"<{state['line']}>"

    @entrypoint()
    async def work(task: str) -> str:
        return f"did {task}"

    for child, answer in (
        (graph_of(node, PydanticTopic), '{"topic": "goes"}'),
        (graph_of(node, DataTopic), '{"topic": "goes"}'),
        (RunnableLambda(lambda task: work.ainvoke(task)), "did go"),
        (RunnableLambda(say), "go"),
        (RunnableLambda(quote), "<go>"),
        (work, "did go"),
    ):
        assert (await adopt("a", child).run("go")).final_response == answer


def test_an_input_of_several_keys_is_refused_where_it_is_declared() -> None:
    class Two(TypedDict):
        topic: str
        tone: str

    chain = ChatPromptTemplate.from_template("{topic} {tone}") | Fake("x")
    for child in (chain, graph_of(lambda state: {}, Two)):
        with pytest.raises(
            ChildDeclarationError, match=r"'poet' is a LangChain .* has the keys tone, topic|topic, tone"
        ):
            SubAgent("poet", child, "Writes.")


# ------------------------------------------------------------------------------------------- as child: how it may fail


async def test_an_exception_is_a_value_and_the_original_is_on_the_record() -> None:
    for error in (ValueError("no such table"), AssertionError()):
        record = await asked(create_agent(Fake(error), []))
        assert record.outcome is DelegationOutcome.CHILD_FAILED
        assert record.message == f"Sub-agent 'child0' failed: {str(error) or type(error).__name__}"
        assert record.trace.error is error


async def test_a_timeout_reaches_it() -> None:
    graph, _, seen = waiting()
    agent = Agent(
        ScriptedModel(tool_call("run_agent", name="slow", task="go"), "went on"),
        sub_agents=[SubAgent("slow", graph, "Waits.", policy=symfonic.ChildPolicy(timeout=0.05))],
    )
    result = await agent.run("go")
    assert result.delegations[0].outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert seen == ["ended"]


async def test_a_cancellation_reaches_it_and_leaves_no_task() -> None:
    graph, started, seen = waiting()
    before = asyncio.all_tasks()
    running = asyncio.create_task(lead(graph).run("go"))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert seen == ["ended"]
    assert asyncio.all_tasks() <= before


async def test_it_passes_the_contract_of_children() -> None:
    def failing() -> Any:
        return create_agent(Fake(ValueError("broken")), [])

    await check_child_runner(lambda: create_agent(Fake("hello"), []), make_failing=failing)
    await check_child_runner(lambda: RunnableLambda(lambda task: "hello"))
    await check_child_runner(lambda: ChatPromptTemplate.from_template("{x}") | Fake("hello") | StrOutputParser())


async def test_one_that_is_only_synchronous_runs_in_a_thread_with_our_context() -> None:
    class Blocking(Runnable[str, str]):
        def invoke(self, input: str, config: Any = None, **_: Any) -> str:  # noqa: A002
            with pytest.raises(RuntimeError):
                asyncio.get_running_loop()
            return f"{input} at {active_run().depth}"

    assert (await asked(Blocking())).message == "go at 1"


# ------------------------------------------------------------------------------------------- as child: usage and limits


@tool
def square(number: int) -> int:
    """Multiply a number by itself."""
    return number * number


async def test_usage_equals_the_hosts_own_count() -> None:
    def replies() -> list[Any]:
        calls = (asks("square", "1", number=2), asks("square", "2", number=3))
        return [said("", *calls, tokens=(10, 5)), said("4 and 9", tokens=(30, 7))]

    theirs = UsageMetadataCallbackHandler()
    await create_agent(Fake(*replies()), [square]).ainvoke({"messages": ["go"]}, {"callbacks": [theirs]})
    record = await asked(create_agent(Fake(*replies()), [square]))
    assert record.message == "4 and 9"
    assert record.trace.usage == Usage(40, 12, 2, 2)
    counted = theirs.usage_metadata["fake"]
    assert (counted["input_tokens"], counted["output_tokens"]) == (40, 12)


async def test_usage_of_a_chain_whose_messages_are_parsed_away_and_of_failed_calls() -> None:
    chain = ChatPromptTemplate.from_template("{x}") | Fake(said("x", tokens=(3, 4))) | StrOutputParser()
    assert (await asked(chain)).trace.usage == Usage(3, 4, 1, 0)
    failing = create_agent(Fake(said("", asks("square", number=2), tokens=(3, 4)), ValueError("down")), [square])
    assert (await asked(failing)).trace.usage == Usage(3, 4, 2, 1)


async def test_a_run_of_ours_inside_counts_once() -> None:
    ours = Agent(Fake(said("inner", tokens=(100, 1))))

    @tool
    async def ask(task: str) -> str:
        """Ask."""
        return (await ours.run(task)).text

    child = create_agent(Fake(said("", asks("ask", task="x"), tokens=(1, 1)), said("outer", tokens=(1, 1))), [ask])
    record = await asked(child)
    assert record.trace.usage == Usage(102, 3, 3, 1)


async def test_limits_of_the_tree_hold_inside() -> None:
    child = create_agent(Fake(said("", asks("square", number=2), tokens=(3, 4)), said("done")), [square])
    result = await lead(child).run("go", limits=Limits(max_model_calls=4))
    assert result.text == "went on"
    child = create_agent(Fake(said("", asks("square", number=2), tokens=(3, 4)), said("done")), [square])
    with pytest.raises(LimitReachedError) as caught:
        await lead(child).run("go", limits=Limits(max_model_calls=2))
    [record] = caught.value.delegations
    assert isinstance(record.trace.error, LimitReachedError)
    assert record.trace.usage.model_calls == 1


# ------------------------------------------------------------------------------------- as child: depth, scope, threads


async def test_depth_scope_and_lineage_are_visible_inside() -> None:
    seen: list[Any] = []

    async def node(state: MessagesState) -> Any:
        seen.append(active_run())
        return {"messages": [AIMessage("ok")]}

    result = await lead(graph_of(node)).run("go", scope="tenant")
    run, record = seen[0], result.delegations[0]
    assert (run.depth, run.scope) == (1, "tenant")
    assert run.identity == record.trace.child
    assert (run.identity.root_run_id, run.identity.parent_run_id) == (result.root_run_id, result.run_id)


@pytest.mark.parametrize("synchronous", [False, True])
async def test_a_tool_of_theirs_that_runs_our_agent_stays_under_the_ceiling(synchronous: bool) -> None:
    ours = lead(ScriptedChild("never"))
    inner: list[Any] = []

    @tool
    async def ask(task: str) -> str:
        """Ask."""
        inner.append(await ours.run(task))
        return "asked"

    @tool
    def ask_and_block(task: str) -> str:
        """Ask."""
        inner.append(ours.run_sync(task))
        return "asked"

    theirs = ask_and_block if synchronous else ask
    child = create_agent(Fake(said("", asks(theirs.name, task="x")), said("ok")), [theirs])
    result = await lead(child).run("go")
    assert result.delegations[0].delivered
    [record] = inner[0].delegations
    assert (record.outcome, record.depth) == (DelegationOutcome.REFUSED_DEPTH, 3)
    assert inner[0].root_run_id == result.run_id


async def test_a_delegation_has_a_thread_of_its_own_unless_the_scope_names_one() -> None:
    saver = InMemorySaver()
    graph = graph_of(remember, checkpointer=saver)
    assert [(await asked(graph)).message for _ in range(2)] == ["1 messages", "1 messages"]
    for scope in (Session("a"), {"thread_id": "b"}):
        assert [(await asked(graph, scope=scope)).message for _ in range(2)] == ["1 messages", "3 messages"]
    assert {"a", "b"} < {each.config["configurable"]["thread_id"] for each in saver.list(None)}
    bound = graph.with_config(configurable={"thread_id": "mine"})
    assert [(await asked(bound)).message for _ in range(2)] == ["1 messages", "3 messages"]


async def test_an_answer_of_an_earlier_turn_is_not_this_turns() -> None:
    says = iter(["first", ""])

    async def node(state: MessagesState) -> Any:
        return {"messages": [AIMessage(next(says))]}

    graph = graph_of(node, checkpointer=InMemorySaver())
    assert (await asked(graph, scope=Session("t"))).message == "first"
    assert (await asked(graph, scope=Session("t"))).outcome is DelegationOutcome.CHILD_FAILED


# ------------------------------------------------------------------------------------------------- as child: it pauses


async def test_a_pause_passes_where_it_is_named_and_is_a_failure_with_words_where_not() -> None:
    graph = graph_of(approve, checkpointer=InMemorySaver())
    with pytest.raises(GraphInterrupt) as caught:
        await lead(graph, options=Options(pass_through=(GraphInterrupt,))).run("go")
    assert caught.value.args[0][0].value == "may I?"
    record = await asked(graph)
    assert record.message == "Sub-agent 'child0' failed: it waits for an answer that nobody here can give: may I?"
    assert isinstance(record.trace.error.__cause__, GraphInterrupt)


def test_nothing_of_theirs_is_imported_before_it_is_needed() -> None:
    missing = "dict.fromkeys(('langchain', 'langchain_core', 'langgraph'))"
    program = f"""
import sys; sys.modules.update({missing})
from symfonic.adapters.langchain import adopt, as_langchain_tools
assert adopt("a", object()) is None
try: as_langchain_tools(None)
except Exception as error: print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.startswith(
        "ConfigurationError as_langchain_tools needs langchain-core: pip install langchain-core"
    )
