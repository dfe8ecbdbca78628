"""HTTP servers of tools that refuse: the model, and whoever opens them, are told how."""

from typing import Any

import pytest
from a2a_kit import served_here
from starlette.responses import Response

from symfonic import Agent
from symfonic.errors import DelegationError
from symfonic.remote.answer import RemoteError
from symfonic.remote.mcp import mcp_server, mcp_tools
from symfonic.testing import ScriptedModel, tool_call


class Refusing:
    """An application that answers with ``status`` while there is one."""

    def __init__(self, status: int, app: Any = None) -> None:
        self.status = status
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and self.status:
            await Response("no", self.status)(scope, receive, send)
        elif self._app is not None:
            await self._app(scope, receive, send)


STATUSES = [
    (401, r"it does not let this caller in \(401\): is headers="),
    (403, r"it does not let this caller in \(403\): is headers="),
    (404, r"Not Found \(404\): is the path right\? It often is /mcp"),
    (429, "it answered with HTTP status 429"),
    (500, "it answered with HTTP status 500"),
    (503, "it answered with HTTP status 503"),
]


@pytest.mark.parametrize(("status", "told"), STATUSES)
async def test_a_status_that_is_none_of_success_is_told_where_the_tools_are_opened(status: int, told: str) -> None:
    async with served_here(lambda _: Refusing(status)) as url:
        with pytest.raises(RemoteError, match=f"no connection to the MCP server {url}/mcp: {told}") as caught:
            async with mcp_tools(url=f"{url}/mcp", headers={"authorization": "Bearer hidden"}):
                pass
    assert isinstance(caught.value, DelegationError) is (status in (401, 403)), "whether it is worth another try"
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(("status", "told"), STATUSES[:2] + STATUSES[4:])
async def test_a_status_that_is_none_of_success_is_told_where_a_tool_is_called(status: int, told: str) -> None:
    served = mcp_server(Agent(ScriptedModel("hello"), name="greeter"))
    refusing = Refusing(0, served.streamable_http_app(streamable_http_path="/mcp"))
    async with served_here(lambda _: refusing) as url, mcp_tools(url=f"{url}/mcp") as tools:
        agent = Agent(ScriptedModel(tool_call("run_agent", name="greeter", task="Greet."), "over"), tools=tools)
        assert (await agent.run("Go.")).messages[2].text == "hello"
        refusing.status = status
        result = await agent.run("Go.")
        refusing.status = 0
    [record] = result.delegations
    assert result.messages[2].text.startswith(f"Sub-agent 'greeter' failed: the MCP server {url}/mcp: ")
    with pytest.raises(type(record.trace.error), match=told):
        raise record.trace.error
    assert record.trace.retryable is (status >= 500)
