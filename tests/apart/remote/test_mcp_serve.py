"""A team's lead, served by the command line."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys

import httpx2
import mcp_kit as kit
import pytest
from mcp import Client, StdioServerParameters

from symfonic import Agent
from symfonic.remote.answer import RemoteError
from symfonic.remote.mcp import mcp_tools
from symfonic.testing import ScriptedModel, tool_call

TEAM = """
lead = "boss"

[agents.boss]
model = "offline"
description = "Counts."
tools = ["ledger:count"]
"""
LEDGER = """
import os
print("printed as it is imported")

def count(text: str) -> str:
    "Count the invoices of the ledger."
    import neighbour
    print("printed by a tool")
    return neighbour.TWELVE
"""
WAITING = """
import asyncio
from pathlib import Path

async def count(text: str) -> str:
    "Count the invoices of the ledger."
    here = Path(__file__).parent
    (here / "began").touch()
    try:
        await asyncio.Event().wait()
    finally:
        (here / "ended").touch()
"""


@pytest.fixture
def team(tmp_path):
    (tmp_path / "team.toml").write_text(TEAM)
    (tmp_path / "ledger.py").write_text(LEDGER)
    (tmp_path / "neighbour.py").write_text("TWELVE = '12 invoices'")
    return str(tmp_path / "team.toml")


def serve(team: str, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "symfonic", "serve", team, "--mcp", *arguments]


async def test_a_team_is_served_over_stdio_whatever_it_prints(team):
    program, *arguments = serve(team, "stdio")
    async with Client(StdioServerParameters(command=program, args=arguments)) as client:
        listed = await client.call_tool("list_agents")
        assert listed.structured_content == {"agents": [{"name": "boss", "description": "Counts."}]}
        result = await client.call_tool("run_agent", {"name": "boss", "task": "Count the invoices of the ledger."})
    assert result.content[0].text == "12 invoices"


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_team_is_served_over_http_until_it_is_told_to_end(team, told):
    with subprocess.Popen(serve(team, ":0"), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        address = next(line.rsplit(" ", 1)[1].strip() for line in lines if line.startswith("boss is served at"))
        assert address.startswith("http://127.0.0.1:")
        with mcp_tools(url=address) as tools:
            assert [tool.name for tool in tools] == ["list_agents", "run_agent"]
        process.send_signal(told)
        assert process.wait(kit.SECONDS) == 0
        assert process.stderr.read() == ""


def test_a_call_in_progress_over_http_is_given_up_without_noise(team, tmp_path):
    (tmp_path / "ledger.py").write_text(WAITING)
    with subprocess.Popen(serve(team, ":0"), stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        address = next(line.rsplit(" ", 1)[1].strip() for line in lines if line.startswith("boss is served at"))

        async def called():
            count = tool_call("run_agent", name="boss", task="Count the invoices of the ledger.")
            async with mcp_tools(url=address) as tools:
                call = asyncio.create_task(Agent(ScriptedModel(count, "over"), tools=tools).run("Go."))
                await kit.soon(tmp_path / "began")
                process.send_signal(signal.SIGTERM)
                return (await call).messages[2].text

        assert asyncio.run(called()).startswith("Sub-agent 'boss' failed: the MCP server")
        assert process.wait(kit.SECONDS) == 0
        assert process.stderr.read() == ""
    assert (tmp_path / "ended").exists()


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_server_that_waits_for_its_client(team, told):
    with subprocess.Popen(
        serve(team, "stdio"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "nothing"}) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1  # it serves
        process.send_signal(told)
        assert process.wait(kit.SECONDS) == 0
        assert process.stdout.read() == ""


def test_who_has_no_token_is_turned_away_and_without_one_nobody_else_is_served(team):
    known = {**os.environ, "SYMFONIC_TOKEN": "known"}
    with subprocess.Popen(serve(team, "0.0.0.0:0"), stderr=subprocess.PIPE, text=True, env=known) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        served = next(line.rsplit(" ", 1)[1].strip() for line in lines if line.startswith("boss is served at"))
        address = served.replace("0.0.0.0", "127.0.0.1")
        for headers in ({}, {"authorization": "Bearer other"}, {"authorization": "known"}):
            assert httpx2.post(address, headers=headers, json={}).status_code == 401
            with pytest.raises(RemoteError, match="no connection to the MCP server"):
                mcp_tools(url=address, headers=headers).open()
        with mcp_tools(url=address, headers={"authorization": "Bearer known"}) as tools:
            assert len(tools) == 2
        process.send_signal(signal.SIGINT)
        assert process.wait(kit.SECONDS) == 0
    done = told(team, "0.0.0.0:0")
    assert "symfonic: --mcp 0.0.0.0:0: others reach it there, so set SYMFONIC_TOKEN" in done


def told(team: str, *arguments: str) -> str:
    """What is said of a mistake in the command."""
    done = subprocess.run(serve(team, *arguments), capture_output=True, text=True, timeout=kit.SECONDS)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    return done.stderr


def test_a_mistake_in_the_command_is_a_line(team):
    for where in ("", "stdin", ":x", "localhost"):
        assert f"symfonic: --mcp: expected stdio or [HOST]:PORT, got '{where}'" in told(team, where)
    assert "symfonic: --mcp: expected a port of at most 65535, got ':70000'" in told(team, ":70000")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"symfonic: --mcp: cannot listen on 127.0.0.1:{port}" in told(team, f":{port}")
    assert "|[HOST]:PORT is needed; both were given\n" in told(team, "stdio", "--a2a", ":0")
    assert "symfonic: --url goes with --a2a, not with --mcp\n" in told(team, "stdio", "--url", "http://x")
    assert "symfonic: --durable goes with --a2a, not with --mcp\n" in told(team, "stdio", "--durable", "calls.db")
