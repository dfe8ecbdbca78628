"""An agent as the tools of a server, for clients that know nothing of us."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import httpx2
import jsonschema
import mcp_kit as kit
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp import Client, MCPError, StdioServerParameters

from symfonic import Agent, ConfigurationError, Limits, SubAgent
from symfonic.remote.mcp import mcp_server
from symfonic.testing import FunctionModel, ScriptedModel, tool_call

TRANSPORTS = ["stdio", "http", "http-2025", "stdio-2025"]
_shared = ExitStack()
_addresses: dict[tuple[str, Path | None], str] = {}


@pytest.fixture(scope="module", autouse=True)
def _shared_servers():
    """Servers over HTTP that several tests speak to."""
    with _shared:
        yield


def shared(kind: str, folder: Path) -> str:
    """The address of one of them, started by the first who asks; of one that writes into the folder there are more."""
    key = (kind, folder if kind == "slow" else None)
    if key not in _addresses:
        _addresses[key], _ = _shared.enter_context(kit.over_http(kind, folder))
    return _addresses[key]


def place(kind: str, transport: str, folder: Path):
    """What a client connects to."""
    if transport.startswith("http"):
        return shared(kind, folder)
    program, *arguments = kit.command(kind, folder)
    return StdioServerParameters(command=program, args=arguments)


def client_of(kind: str, transport: str, folder: Path) -> Client:
    """A plain client, of the present protocol or of the one before."""
    return Client(place(kind, transport, folder), mode="legacy" if transport.endswith("2025") else "auto")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_plain_client_lists_the_agent_runs_it_and_reads_text_and_structure(transport, tmp_path):
    async with client_of("lead", transport, tmp_path) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["list_agents", "run_agent"]
        assert tools["run_agent"].input_schema["properties"]["name"]["enum"] == ["lead"]
        listed = await client.call_tool("list_agents")
        assert listed.structured_content == {"agents": [{"name": "lead", "description": "The agent lead."}]}
        result = await client.call_tool("run_agent", {"name": "lead", "task": "How many?"})
    assert result.content[0].text == "There are 12 invoices."
    assert not result.is_error
    told = result.structured_content
    assert (told["outcome"], told["answer"], told["delegations"]) == ("finished", "There are 12 invoices.", 1)
    assert told["usage"] == {"input_tokens": 0, "output_tokens": 0, "model_calls": 4, "tool_calls": 2}
    assert told["run_id"] == told["root_run_id"]
    assert "parent_run_id" not in told
    assert "symfonic/answer" not in (result.meta or {})  # it said nothing of a tree, and has no use for records
    jsonschema.validate(told, tools["run_agent"].output_schema)


async def test_what_tools_print_never_gets_between_the_messages(tmp_path):
    program = kit.command("lead", tmp_path)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    process = await asyncio.create_subprocess_exec(
        *program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=buffered
    )
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "by hand", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "run_agent", "arguments": {"name": "lead", "task": "How many?"}, "_meta": meta}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode() + b"\n")
    await process.stdin.drain()
    first = await asyncio.wait_for(process.stdout.readline(), kit.SECONDS)
    process.stdin.close()
    rest, errors = await asyncio.wait_for(process.communicate(), kit.SECONDS)
    answer = json.loads(first)
    assert (answer["id"], answer["result"]["structuredContent"]["outcome"]) == (1, "finished")
    assert rest == b""
    for printed in (b"printed by a tool", b"printed and not flushed", b"printed by a process"):
        assert printed in errors


@pytest.mark.parametrize("transport", TRANSPORTS[:3])
async def test_a_refusal_is_a_value_and_no_error_of_the_protocol(transport, tmp_path):
    async with client_of("lead", transport, tmp_path) as client:
        result = await client.call_tool("run_agent", {"name": "oracle", "task": "Tell."})
        assert (result.is_error, result.structured_content["outcome"]) == (False, "refused")
        assert "Unknown agent 'oracle'. Available: lead" in result.structured_content["answer"]
        envelope = {"lineage": {"run_id": "a.1", "root_run_id": "a", "parent_run_id": "a"}, "depth": 3}
        result = await client.call_tool(
            "run_agent", {"name": "lead", "task": "Go."}, meta={"symfonic/envelope": envelope}
        )
    assert (result.is_error, result.structured_content["outcome"]) == (False, "refused")
    assert "depth" in result.structured_content["answer"]
    assert result.meta["symfonic/answer"]["lineage"]["run_id"] == "a.1"


async def test_a_failure_is_an_error_of_the_tool_with_an_outcome(tmp_path):
    async with client_of("echo", "stdio", tmp_path) as client:
        result = await client.call_tool("run_agent", {"name": "lead", "task": "fail"})
        assert (result.is_error, result.structured_content["outcome"]) == (True, "failed")
        assert "no paper" in result.content[0].text
        for arguments in ({}, {"name": "lead"}, {"name": "lead", "task": 7}, {"name": None, "task": "Go."}):
            result = await client.call_tool("run_agent", arguments)
            assert (result.is_error, result.structured_content["outcome"]) == (True, "failed")
            assert "run_agent was not called" in result.content[0].text
        result = await client.call_tool("run_agent", {"name": "lead", "task": "x" * 300_000})
        assert (result.is_error, "bytes of at most 262144" in result.content[0].text) == (True, True)
        result = await client.call_tool("run_agent", {"name": "lead", "task": "long"})
        assert (result.is_error, result.structured_content["outcome"]) == (True, "failed")
        with pytest.raises(MCPError, match="Unknown tool: other"):
            await client.call_tool("other")


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_cancelled_call_stops_the_tree(transport, tmp_path):
    async with client_of("slow", transport, tmp_path) as client:
        call = asyncio.create_task(client.call_tool("run_agent", {"name": "lead", "task": "Wait."}))
        await kit.soon(tmp_path / "started")
        assert not (tmp_path / "cancelled").exists()
        call.cancel()
        await kit.soon(tmp_path / "cancelled")
        with pytest.raises(asyncio.CancelledError):
            await call
        listed = await client.call_tool("list_agents")  # the server goes on
        assert not listed.is_error


CLIENT = """
import asyncio, sys
from mcp import Client, StdioServerParameters

async def main():
    mode, *where = sys.argv[1:]
    at = where[0] if len(where) == 1 else StdioServerParameters(command=where[0], args=where[1:])
    async with Client(at, mode=mode) as client:
        await client.call_tool("run_agent", {"name": "lead", "task": "Wait."})

asyncio.run(main())
"""


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_client_that_is_killed_takes_its_tree_with_it(transport, mode, tmp_path):
    def killed(where: list[str]) -> None:
        process = subprocess.Popen([sys.executable, "-c", CLIENT, mode, *where])
        try:
            kit.until(tmp_path / "started")
            os.kill(process.pid, signal.SIGKILL)
            kit.until(tmp_path / "cancelled")
        finally:
            process.kill()
            process.wait(kit.SECONDS)

    if transport == "stdio":
        await asyncio.to_thread(killed, kit.command("slow", tmp_path))
        return
    with kit.over_http("slow", tmp_path) as (address, server):
        await asyncio.to_thread(killed, [address])
        assert server.poll() is None
        async with Client(address) as client:
            assert not (await client.call_tool("list_agents")).is_error


async def test_a_body_of_five_mebibytes_is_refused(tmp_path):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x" * 5 * 2**20}})
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    async with httpx2.AsyncClient() as http:
        for version in ("2025-11-25", "2026-07-28"):
            sent = await http.post(
                shared("lead", tmp_path), content=body, headers={**headers, "mcp-protocol-version": version}
            )
            assert sent.status_code == 413


@pytest.mark.parametrize("transport", TRANSPORTS[1:])
async def test_who_asks_for_progress_is_told_of_the_tree_as_it_grows(transport, tmp_path):
    seen: list[tuple[float, str | None]] = []

    async def note(progress, total, message):
        seen.append((progress, message))

    async with client_of("lead", transport, tmp_path) as client:
        await client.call_tool("run_agent", {"name": "lead", "task": "How many?"}, progress_callback=note)
    assert sorted(seen) == [
        (1.0, "lead: run_agent"),
        (2.0, "lead: clerk is asked 'Count.'"),
        (3.0, "clerk: look"),
        (4.0, "lead: clerk: delivered"),
    ]


def json_values():
    leaves = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
    return st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)


GOOD = {
    "lineage": {"run_id": "a.1", "root_run_id": "a", "parent_run_id": "a", "via": ["a.1"]},
    "depth": 1,
    "max_depth": 2,
    "deadline": 4e9,
    "left": {"max_delegations": 3, "max_model_calls": 9, "max_tokens": 100, "max_concurrency": 2},
}
FIELDS = [("lineage", each) for each in GOOD["lineage"]] + [("left", each) for each in GOOD["left"]]
FIELDS += [(each,) for each in GOOD] + [()]


def with_one(path, value):
    if not path:
        return value
    envelope = json.loads(json.dumps(GOOD))
    at = envelope
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    return envelope


@pytest.mark.parametrize("path", FIELDS, ids=".".join)
@settings(max_examples=30, suppress_health_check=list(HealthCheck))
@given(value=json_values(), number=st.integers())
async def test_whatever_is_sent_as_lineage_is_answered_with_a_value(path, value, number):
    agent = Agent(ScriptedModel("done"), name="lead")
    sent = with_one(path, value)
    if isinstance(sent, dict) and isinstance(sent.get("lineage"), dict) and sent["lineage"].get("run_id") == "a.1":
        sent["lineage"]["run_id"] = f"a.{number}"
    async with Client(mcp_server(agent)) as client:
        result = await client.call_tool("run_agent", {"name": "lead", "task": "Go."}, meta={"symfonic/envelope": sent})
    outcome = result.structured_content["outcome"]
    if outcome == "failed" and result.is_error:
        assert re.search("cannot be read|the limit .* is reached", result.content[0].text)
    else:
        assert outcome in ("finished", "refused", "timed_out")
    assert result.content[0].text


async def test_what_crosses_stays_a_whole_number_and_bounds_the_run():
    seen = {}

    def answer(messages, tools):
        from symfonic.capabilities.delegation.active_run import active_run

        run = active_run()
        seen.update(depth=run.depth, ceiling=run.max_depth, ids=run.identity, left=run.budget.left())
        return "done"

    envelope = {**GOOD, "lineage": {**GOOD["lineage"], "run_id": "whole"}}
    async with Client(mcp_server(Agent(FunctionModel(answer), name="lead"), limits=Limits(max_tokens=50))) as client:
        await client.call_tool("run_agent", {"name": "lead", "task": "Go."}, meta={"symfonic/envelope": envelope})
    assert (seen["depth"], seen["ceiling"]) == (1, 2)
    assert type(seen["depth"]) is type(seen["ceiling"]) is int
    assert (seen["ids"].run_id, seen["ids"].root_run_id, seen["ids"].parent_run_id) == ("whole", "a", "a")
    assert (seen["left"].max_delegations, seen["left"].max_tokens) == (3, 50)


async def test_bounds_of_the_server_hold_for_a_caller_who_brings_none():
    child = SubAgent("child", Agent(ScriptedModel("never")), "Works.")
    agent = Agent(ScriptedModel(tool_call("run_agent", name="child", task="Go."), "told"), sub_agents=[child])
    async with Client(mcp_server(agent, name="boss", description="Leads.", max_depth=0)) as client:
        listed = await client.call_tool("list_agents")
        assert listed.structured_content == {"agents": [{"name": "boss", "description": "Leads."}]}
        result = await client.call_tool("run_agent", {"name": "boss", "task": "Go."})
    assert (result.structured_content["outcome"], result.structured_content["usage"]["model_calls"]) == ("finished", 2)


async def test_of_a_team_the_lead_is_served(tmp_path):
    from symfonic import load_team

    (tmp_path / "team.toml").write_text(
        'lead = "boss"\n[agents.boss]\nmodel = "offline"\ndescription = "Leads."\nsub_agents = ["aide"]\n'
        '[agents.aide]\nmodel = "offline"\ndescription = "Helps."\n'
    )
    async with Client(mcp_server(load_team(tmp_path / "team.toml"))) as client:
        listed = await client.call_tool("list_agents")
    assert listed.structured_content == {"agents": [{"name": "boss", "description": "Leads."}]}


def test_what_cannot_be_served_is_refused_where_it_is_declared():
    with pytest.raises(ConfigurationError, match="must expose an async run"):
        mcp_server(object())
    with pytest.raises(ConfigurationError, match="max_depth"):
        mcp_server(Agent(ScriptedModel("x")), max_depth=-1)
