"""Agents of ours behind another server: one tree with those that call them, its bounds, and those that lie.

Over HTTP they are in test_conformance.py as well.
"""

import asyncio
import json
import sys

import mcp_kit as kit
import pytest
from mcp_client_kit import answers, tools_of

from symfonic import Agent, Limits, Options, SubAgent, Veto
from symfonic.capabilities.delegation.contracts import DelegationOutcome
from symfonic.errors import LimitReachedError
from symfonic.remote.mcp import mcp_tools
from symfonic.testing import ScriptedModel, tool_call


def tree(records, depth=0):
    """The records, one line each."""
    for record in records:
        yield f"{'  ' * depth}{record.name} {record.outcome} at {record.depth}"
        yield from tree(record.children, depth + 1)


async def test_an_agent_of_ours_over_there_is_a_delegation_with_its_whole_tree(tmp_path):
    async with tools_of("lead", "stdio", tmp_path) as tools:
        told, result = await answers(tools, tool_call("run_agent", name="lead", task="How many?"))
    assert told == ["There are 12 invoices."]
    assert list(tree(result.delegations)) == ["lead delivered at 1", "  clerk delivered at 2"]
    [record] = result.delegations
    assert (record.root_run_id, record.parent_run_id) == (result.root_run_id, result.run_id)
    assert record.children[0].parent_run_id == record.run_id
    assert record.children[0].root_run_id == result.root_run_id
    assert (result.usage.model_calls, result.tally.by_child) == (6, {"lead": 1, "clerk": 1})


async def test_the_ceiling_holds_on_the_far_side(tmp_path):
    async with tools_of("deep", "stdio", tmp_path) as tools:
        _, result = await answers(tools, tool_call("run_agent", name="lead", task="Go."), max_depth=3)
        lines = list(tree(result.delegations))
        assert lines == [
            "lead delivered at 1",
            "  next delivered at 2",
            "    next delivered at 3",
            "      next refused_depth at 4",
        ]
        _, result = await answers(tools, tool_call("run_agent", name="lead", task="Go."), max_depth=0)
        assert list(tree(result.delegations)) == ["lead refused_depth at 1"]
        assert result.usage.model_calls == 2  # it was not even asked


async def test_two_hops_keep_counting_the_depth(tmp_path):
    """Ours, over MCP an agent whose tools are those of another server, and there an agent with children."""
    middle = tmp_path / "middle.py"
    middle.write_text(
        "import asyncio\n"
        "from symfonic import Agent\n"
        "from symfonic.remote.mcp import mcp_server, mcp_tools\n"
        "from symfonic.remote.mcp.serving import serve_stdio\n"
        "from symfonic.testing import FunctionModel, tool_call\n"
        "def model(messages, tools):\n"
        "    last = messages[-1]\n"
        "    return last.text if last.role == 'tool' else tool_call('run_agent', name='lead', task='Go on.')\n"
        "async def main():\n"
        f"    async with mcp_tools(command={kit.command('deep', tmp_path)!r}) as tools:\n"
        "        await serve_stdio(mcp_server(Agent(FunctionModel(model), name='middle', tools=tools)))\n"
        "asyncio.run(main())\n"
    )
    async with mcp_tools(command=[sys.executable, str(middle)]) as tools:
        _, result = await answers(tools, tool_call("run_agent", name="middle", task="Go."), max_depth=3)
    lines = list(tree(result.delegations))
    assert lines == [
        "middle delivered at 1",
        "  lead delivered at 2",
        "    next delivered at 3",
        "      next refused_depth at 4",
    ]


async def test_budget_time_and_hooks_bound_what_runs_over_there(tmp_path):
    async with tools_of("lead", "stdio", tmp_path) as tools:
        call = tool_call("run_agent", name="lead", task="How many?")
        _, result = await answers(tools, call, limits=Limits(max_delegations=1))
        assert list(tree(result.delegations)) == ["lead delivered at 1", "  clerk refused_budget at 2"]
        agent = Agent(
            ScriptedModel([call, call], "done"),
            tools=tools,
            options=Options(on_delegate=lambda asked: Veto("not today")),
        )
        result = await agent.run("Go.")
        assert [record.outcome for record in result.delegations] == [DelegationOutcome.REFUSED_POLICY] * 2
        assert result.delegations[0].message == "Delegation refused: not today"


async def test_the_deadline_of_the_tree_ends_what_runs_over_there(tmp_path):
    async with tools_of("slow", "stdio", tmp_path) as tools:
        agent = Agent(ScriptedModel(tool_call("run_agent", name="lead", task="Wait."), "done"), tools=tools)
        lead = Agent(
            ScriptedModel(tool_call("run_agent", name="agent", task="Go."), "done"),
            sub_agents=[SubAgent("agent", agent, "Asks.")],
            max_depth=5,
            limits=Limits(timeout=3),
        )
        with pytest.raises(LimitReachedError, match="timeout"):
            await lead.run("Go.")
        assert (tmp_path / "started").exists()
        await kit.soon(tmp_path / "cancelled")


async def test_cancelling_the_root_cancels_the_grandchild_over_there(tmp_path):
    async with tools_of("slow", "stdio", tmp_path) as tools:
        run = asyncio.create_task(answers(tools, tool_call("run_agent", name="lead", task="Wait.")))
        await kit.soon(tmp_path / "started")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await kit.soon(tmp_path / "cancelled")


async def test_an_agent_that_fails_over_there_is_a_failed_child(tmp_path):
    async with tools_of("echo", "stdio", tmp_path) as tools:
        told, result = await answers(
            tools,
            tool_call("run_agent", name="lead", task="fail"),
            tool_call("run_agent", name="oracle", task="Go."),
            tool_call("run_agent", name="lead", task="x" * 300_000),
            tool_call("run_agent", name="Lead", task="loud"),
        )
    assert told[0] == "Sub-agent 'lead' failed: the model failed: OSError: no paper"
    assert told[1].startswith("Unknown sub-agent 'oracle'")
    assert told[2].startswith("Sub-agent 'lead' failed: the envelope has 30")
    assert told[3] == "You said loud"
    assert result.usage.model_calls == 2 + 1 + 1


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (None, "sent no account"),
        ({"status": "finished"}, "cannot be read"),
        (
            {"status": "finished", "text": "x", "lineage": {"run_id": "a", "root_run_id": "a"}, "records": [{}]},
            "cannot be read",
        ),
        ("x" * 300_000, "bytes of at most"),
    ],
)
async def test_a_server_that_only_says_it_is_one_of_ours_is_a_failed_child(answer, told, tmp_path):
    (tmp_path / "answer.json").write_text(json.dumps({} if answer is None else {"symfonic/answer": answer}))
    async with tools_of("liar", "stdio", tmp_path) as tools:
        said, result = await answers(tools, tool_call("run_agent", name="lead", task="Go."))
    assert said[0].startswith("Sub-agent 'lead' failed: ")
    assert told in said[0]
    sent = json.loads((tmp_path / "sent.json").read_text())["symfonic/envelope"]
    assert (sent["depth"], sent["max_depth"]) == (1, 2)
    assert type(sent["depth"]) is int
    assert "task" not in sent
    assert sent["lineage"]["root_run_id"] == result.root_run_id


async def test_many_calls_at_once_share_one_connection(tmp_path):
    async with tools_of("echo", "http", tmp_path) as tools:
        calls = [tool_call("run_agent", name="lead", task=f"task {number}") for number in range(24)]
        agent = Agent(ScriptedModel(calls, "done"), tools=tools, limits=Limits(max_fan_out=20, max_concurrency=5))
        result = await agent.run("Go.")
    delivered = [record for record in result.delegations if record.delivered]
    assert [record.message for record in delivered] == [f"You said task {number}" for number in range(20)]
    assert [record.outcome for record in result.delegations[20:]] == [DelegationOutcome.REFUSED_BUDGET] * 4
    assert len({record.run_id for record in delivered}) == 20
