"""Workflows of agent-framework as children: one that is built for each delegation."""

from itertools import pairwise
from typing import Any

import pytest

pytest.importorskip("agent_framework")

from adapter_kit import a_cancellation_reaches_it, ask, that_waits, the_record
from agent_framework import ChatContext, FileCheckpointStorage, WorkflowBuilder, chat_middleware, workflow
from agent_framework_kit import TOKENS, answers, calling, note, that_pays, theirs, uses

from symfonic import DelegationOutcome, Limits, SubAgent, delegation
from symfonic.adapters.agent_framework import AgentFrameworkChild
from symfonic.errors import ChildDeclarationError
from symfonic.kernel.contracts.messages import Usage


def in_a_row(*agents: Any, **settings: Any) -> Any:
    builder = WorkflowBuilder(start_executor=agents[0], **settings)
    for one, following in pairwise(agents):
        builder.add_edge(one, following)
    return builder.build().as_agent()


experimental = pytest.mark.filterwarnings("ignore:.FUNCTIONAL_WORKFLOWS. workflow is experimental")


@experimental
def test_one_instance_of_a_workflow_is_refused_and_told_what_to_give():
    @workflow
    async def written(text: str) -> str:
        return text

    one = in_a_row(answers())
    for child in (one, one.workflow, written, written.build(), written.build().as_agent()):
        with pytest.raises(ChildDeclarationError, match=r"'team' is a .*AgentFrameworkChild\(lambda: build\(\)"):
            SubAgent("team", child, "Works.")


async def test_a_workflow_that_is_built_for_each_delegation_is_a_child():
    writer = theirs([uses("note")], "draft", [uses("note")], "draft 2", tools=[note], name="writer")
    editor = theirs("final", "final 2", name="editor")
    child = AgentFrameworkChild(lambda: in_a_row(writer, editor, output_from=[editor]))
    capability = delegation([SubAgent("team", child, "Writes.")], limits=Limits(max_model_calls=5))
    async with capability.run_scope() as run:
        assert await ask(capability, "team", "one") == "final"
        assert run.usage == Usage(21, 9, 3, 1)
        assert "max_model_calls=5" in await ask(capability, "team", "two")
    assert run.usage == Usage(35, 15, 5, 2)
    assert writer.client.sent[2] == ["two"]
    assert editor.client.sent[0] == ["one", "draft"]


async def test_all_that_a_workflow_puts_out_is_its_answer():
    child = AgentFrameworkChild(lambda: in_a_row(theirs("draft", name="writer"), theirs("final", name="editor")))
    record = await the_record(child)
    assert record.message == "draft\n\nfinal"
    assert record.trace.usage == Usage(14, 6, 2)


async def test_a_failure_a_pause_and_a_cancellation_in_a_workflow_are_those_of_the_child():
    error = ValueError("down")
    record = await the_record(AgentFrameworkChild(lambda: in_a_row(theirs(error))))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.trace.error is error
    record = await the_record(AgentFrameworkChild(lambda: in_a_row(that_pays())))
    assert "it waits for an approval of pay" in record.message

    inner, waits = that_waits(calling)
    await a_cancellation_reaches_it(AgentFrameworkChild(lambda: in_a_row(inner)), waits)


async def test_the_tokens_of_an_agent_with_middleware_of_its_own_in_a_workflow_are_those_that_the_workflow_tells():
    @chat_middleware
    async def its_own(context: ChatContext, call_next: Any) -> None:
        await call_next()

    child = AgentFrameworkChild(lambda: in_a_row(theirs("done", middleware=[its_own])))
    assert (await the_record(child)).trace.usage == Usage(TOKENS["input_token_count"], TOKENS["output_token_count"], 1)


async def test_a_workflow_that_saves_itself_saves_itself_also_below_us(tmp_path: Any):
    saved = FileCheckpointStorage(tmp_path)
    child = AgentFrameworkChild(lambda: in_a_row(answers(), name="row", checkpoint_storage=saved))
    assert (await the_record(child)).delivered
    assert await saved.list_checkpoints(workflow_name="row")


@experimental
async def test_a_functional_workflow_is_a_child_as_well():
    @workflow
    async def written(text: str) -> str:
        return f"{text}: {(await answers().run(text)).text}"

    record = await the_record(AgentFrameworkChild(lambda: written.build().as_agent()))
    assert record.delivered, record
    assert record.message == "go: Hallo"
