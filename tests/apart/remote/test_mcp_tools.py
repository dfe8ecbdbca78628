"""Other servers' tools for an agent of ours: called, refused, opened and closed."""

import asyncio
import os
import signal
import socket
import sys
import time

import mcp_kit as kit
import pytest
from mcp_client_kit import answers, tools_of

from symfonic import Agent, ConfigurationError, SubAgent
from symfonic.remote.answer import RemoteError
from symfonic.remote.mcp import mcp_tools
from symfonic.testing import ScriptedModel, tool_call

BOTH = ["stdio", "http"]
SILENT = "one that takes every connection and says nothing"


@pytest.mark.parametrize("transport", BOTH)
async def test_a_plain_servers_tools_are_an_agents_tools(transport, tmp_path):
    async with tools_of("plain", transport, tmp_path, prefix="far_") as tools:
        assert "far_add" in [tool.name for tool in tools]
        told, _ = await answers(
            tools,
            tool_call("far_add", a=2, b=3),
            tool_call("far_add", a="two", b=3),
            tool_call("far_add", a=2),
            tool_call("far_fails"),
            tool_call("far_crashes"),
            tool_call("far_draws"),
            tool_call("far_huge"),
        )
    assert told[0] == "5"
    assert told[1].startswith("Tool 'far_add' failed: Error executing tool add: 1 validation error")
    assert told[2].startswith("Tool 'far_add' was not called: it misses 'b'.")
    assert told[3] == "Tool 'far_fails' failed: Error executing tool fails: the shelf is empty"
    assert told[4] == "Tool 'far_crashes' failed: Error executing tool crashes"
    assert told[5] == "[image/png, not shown]"
    assert told[6].startswith("Tool 'far_huge' failed: its result has 3000000 characters, of at most")


async def test_a_server_that_dies_is_an_error_that_the_model_reads(tmp_path):
    async with tools_of("plain", "stdio", tmp_path) as tools:
        told, _ = await answers(tools, tool_call("dies"))
        assert told[0].startswith("Tool 'dies' failed: the MCP server python")
        told, _ = await answers(tools, tool_call("add", a=1, b=2))
        assert told[0].startswith("Tool 'add' failed: the MCP server python")


async def test_an_http_server_that_is_killed_is_an_error_that_the_model_reads(tmp_path):
    with kit.over_http("plain", tmp_path) as (address, server):
        async with mcp_tools(url=address) as tools:
            call = asyncio.create_task(answers(tools, tool_call("dawdles")))
            await kit.soon(tmp_path / "started")
            os.kill(server.pid, signal.SIGKILL)
            told, _ = await asyncio.wait_for(call, kit.SECONDS)
            assert told[0].startswith(f"Tool 'dawdles' failed: the MCP server {address}")
            told, _ = await answers(tools, tool_call("add", a=1, b=2))
            assert told[0].startswith(f"Tool 'add' failed: the MCP server {address}")


@pytest.mark.parametrize("transport", BOTH)
async def test_a_call_that_takes_too_long_is_an_error_and_stops_there(transport, tmp_path):
    async with tools_of("plain", transport, tmp_path, timeout=0.5) as tools:
        told, _ = await answers(tools, tool_call("dawdles"))
        assert told == ["Tool 'dawdles' failed: not finished within 0.5 s"]
        await kit.soon(tmp_path / "cancelled")


@pytest.mark.parametrize("transport", BOTH)
async def test_cancelling_the_agent_cancels_the_call_over_there(transport, tmp_path):
    async with tools_of("plain", transport, tmp_path) as tools:
        run = asyncio.create_task(answers(tools, tool_call("dawdles")))
        await kit.soon(tmp_path / "started")
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await kit.soon(tmp_path / "cancelled")
        told, _ = await answers(tools, tool_call("add", a=1, b=2))
        assert told == ["3"]


async def test_hostile_schemas_are_declared_as_far_as_they_can_be_and_block_nobody(tmp_path):
    async with tools_of("hostile", "stdio", tmp_path) as tools:
        agent = Agent(ScriptedModel("done"), tools=tools)
        schemas = {tool.name: tool.parameters for tool in tools}
        assert list(schemas["undescribed"]["properties"]) == ["a", "b"]
        assert schemas["undescribed"]["required"] == ["a"]
        assert schemas["elsewhere"]["additionalProperties"] is True
        assert schemas["vast"] == {"type": "object", "properties": {}, "additionalProperties": True}
        assert all(len(tool.description) <= 16 * 1024 for tool in tools)
        assert (await agent.run("Go.")).text == "done"
        began = time.monotonic()
        told, _ = await answers(
            tools,
            tool_call("bare"),
            tool_call("undescribed", a=1),
            tool_call("elsewhere", a=1),
            tool_call("vast", p1="x"),
        )
        assert told == ["{}", '{"a": 1}', '{"a": 1}', '{"p1": "x"}']
        assert time.monotonic() - began < 10  # and not for ever, as their patterns could be looked for


async def test_a_list_that_never_ends_is_no_connection(tmp_path):
    with pytest.raises(RemoteError, match=r"no connection to the MCP server python.*goes on after"):
        async with tools_of("endless", "stdio", tmp_path):
            pass


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ({"command": [sys.executable, "-c", "pass"]}, "no connection to the MCP server python"),
        ({"command": [sys.executable, "-c", "import time; time.sleep(60)"], "opening": 1.0}, "not there within 1 s"),
        ({"url": SILENT, "timeout": 1.0}, "not there within 1 s, which opening="),
        ({"url": SILENT, "timeout": 0.5, "opening": 1.0}, "not there within 1 s"),
        ({"command": ["/no/such/program"]}, "No such file"),
        (
            {"url": "http://someone:hidden@127.0.0.1:1/mcp?key=hidden"},
            "no connection to the MCP server http://127.0.0.1:1",
        ),
    ],
    ids=["ends", "silent", "silent over HTTP", "told apart", "missing", "refused"],
)
async def test_what_is_no_server_is_told_where_the_tools_are_opened(where, told):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        if where.get("url") is SILENT:
            where = where | {"url": f"http://127.0.0.1:{silent.getsockname()[1]}/mcp"}
        with pytest.raises(RemoteError, match=told) as caught:
            async with mcp_tools(**where):
                pass
    assert "hidden" not in str(caught.value)


async def test_a_server_that_says_what_is_no_message_is_a_line_in_the_log_for_each(caplog):
    program = "import time\nfor number in range(3): print('no message', number, flush=True)\ntime.sleep(60)"
    with pytest.raises(RemoteError, match="not there within 2 s"):
        async with mcp_tools(command=[sys.executable, "-c", program], opening=2.0):
            pass
    written = [each for each in caplog.records if each.name.startswith("mcp")]
    assert len(written) == 3
    assert not any(each.exc_info or "\n" in each.getMessage() for each in written)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "needs one of"),
        ({"command": ["x"], "url": "http://x"}, "needs one of"),
        ({"command": "python server.py"}, r"must be a list, \[program, argument, ...\], got a string"),
        ({"command": ""}, "needs one of"),
        ({"url": "ftp://x"}, "must begin with http"),
        ({"url": "http://x", "env": {"A": "b"}}, "env and cwd with a command"),
        ({"command": ["x"], "headers": {"A": "b"}}, "headers go with a url"),
        ({"command": ["x"], "timeout": 0}, "seconds > 0"),
    ],
)
def test_arguments_that_make_no_sense_together_are_refused(given, told):
    with pytest.raises(ConfigurationError, match=told):
        mcp_tools(**given)


async def test_headers_and_environment_arrive_and_are_shown_nowhere(tmp_path):
    tools = mcp_tools(url="http://127.0.0.1:1/mcp", headers={"authorization": "Bearer hidden"})
    assert repr(tools) == "mcp_tools(http://127.0.0.1:1/mcp)"
    assert "hidden" not in f"{vars(tools)} {vars(tools._connection)}"
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    program = "import os, pathlib; pathlib.Path('told').write_text(os.environ['TOLD'])"
    with pytest.raises(RemoteError):
        async with mcp_tools(command=[sys.executable, "-c", program], env={"TOLD": "well"}, cwd=str(folder)):
            pass
    assert (folder / "told").read_text() == "well"


async def test_two_servers_with_one_name_are_refused_where_the_agent_is_declared(tmp_path):
    async with tools_of("echo", "stdio", tmp_path) as one:
        with pytest.raises(ConfigurationError, match=r"two tools .*are named 'list_agents'"):
            Agent(ScriptedModel("x"), tools=[*one, *one])
        child = SubAgent("child", Agent(ScriptedModel("x")), "Works.")
        with pytest.raises(ConfigurationError, match="named 'run_agent', which is already registered"):
            Agent(ScriptedModel("x"), tools=one, sub_agents=[child])


async def test_a_list_that_changes_later_changes_nothing(tmp_path):
    async with tools_of("plain", "stdio", tmp_path) as tools:
        names = [tool.name for tool in tools]
        told, _ = await answers(tools, tool_call("grows"))
        assert told == ["grown"]
        told, _ = await answers(tools, tool_call("late"), tool_call("grows"))
        assert told[0].startswith("Unknown tool 'late'")
        assert told[1] == "Tool 'grows' failed: Unknown tool: grows"
        assert [tool.name for tool in tools] == names


# --- opening and closing


def test_synchronous_code_opens_with_a_with_block(tmp_path):
    with mcp_tools(command=kit.command("plain", tmp_path)) as tools:
        agent = Agent(ScriptedModel(tool_call("add", a=1, b=2), "done"), tools=tools)
        assert agent.run_sync("Go.").messages[2].text == "3"
        assert agent.run_sync("Go.").messages[2].text == "3"  # on another loop
    assert agent.run_sync("Go.").messages[2].text.endswith("is closed")
    with pytest.raises(ConfigurationError, match="is closed: make another"):
        tools.open()


async def test_an_agent_built_with_it_opens_it_and_closes_it(tmp_path):
    def mine() -> str:
        """Say."""
        return "mine"

    calls = [tool_call("add", a=1, b=2), tool_call("mine")]
    async with Agent(
        ScriptedModel(calls, "done"), tools=[mcp_tools(command=kit.command("plain", tmp_path)), mine]
    ) as agent:
        assert [each.text for each in (await agent.run("Go.")).messages[2:4]] == ["3", "mine"]
    assert (await agent.run("Go.")).messages[2].text.endswith("is closed")


async def test_who_did_not_open_it_does_not_close_it(tmp_path):
    async with tools_of("plain", "stdio", tmp_path) as tools:
        for given in (tools, [tools], [*tools]):
            async with Agent(ScriptedModel(tool_call("add", a=1, b=2), "done"), tools=given) as agent:
                assert (await agent.run("Go.")).messages[2].text == "3"
        assert (await agent.run("Go.")).messages[2].text == "3"


def test_an_agent_that_cannot_be_built_closes_what_it_opened(tmp_path):
    def add() -> str:
        """Add."""
        return ""

    tools = mcp_tools(command=kit.command("plain", tmp_path))
    with pytest.raises(ConfigurationError, match="named 'add'"):
        Agent(ScriptedModel("x"), tools=[tools, add])
    with pytest.raises(ConfigurationError, match="is closed"):
        tools.open()
    with pytest.raises(RemoteError, match="No such file"):
        Agent(ScriptedModel("x"), tools=[mcp_tools(command=["/no/such/program"])])


async def test_closing_ends_the_calls_that_are_out_and_leaves_no_process(tmp_path):
    program = kit.command("plain", tmp_path)
    written = f"import os; open({str(tmp_path / 'pid')!r}, 'w').write(str(os.getpid()))"
    tools = mcp_tools(command=[program[0], "-c", f"{written}; os.execv({program[0]!r}, {program!r})"])
    agent = Agent(ScriptedModel(tool_call("dawdles"), "done"), tools=tools)
    call = asyncio.create_task(agent.run("Go."))
    await kit.soon(tmp_path / "started")
    await tools.aclose()
    told = await asyncio.wait_for(call, kit.SECONDS)
    assert told.messages[2].text.startswith("Tool 'dawdles' failed: ")
    assert (tmp_path / "cancelled").exists()
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)
    await tools.aclose()


async def test_opening_that_is_cancelled_leaves_nothing_open(tmp_path):
    gone = tmp_path / "gone"
    program = f"import sys, pathlib; sys.stdin.read(); pathlib.Path({str(gone)!r}).touch()"
    tools = mcp_tools(command=[sys.executable, "-c", program])

    async def opened():
        async with tools:
            raise AssertionError("it is no server")

    opening = asyncio.create_task(opened())
    await asyncio.sleep(0.5)
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(opening, kit.SECONDS)
    await kit.soon(gone)
