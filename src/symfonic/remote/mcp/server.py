"""An agent as a server's tools: ``list_agents`` and ``run_agent``."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from symfonic.errors import EnvelopeError
from symfonic.kernel.contracts.limits import Limits
from symfonic.remote.answer import Answer
from symfonic.remote.envelope import Envelope, Lineage
from symfonic.remote.mcp.attendance import attended
from symfonic.remote.mcp.wire import AGENTS, ANSWER, ENVELOPE, LIST, RUN, arrived, need_mcp
from symfonic.remote.reception import Reception, who_answers

if TYPE_CHECKING:
    from mcp.server import Server, ServerRequestContext
    from mcp.types import CallToolRequestParams, CallToolResult, ListToolsResult, PaginatedRequestParams, Tool

_GUIDE = """\
Give a task to an agent and read its answer. The agent works on its own and does not see this conversation: put \
everything it needs into the task. A refusal is final: do not repeat the call; go on with what you have.

Agents:
"""


def mcp_server(
    agent: object,
    *,
    name: str | None = None,
    description: str | None = None,
    max_depth: int | None = None,
    limits: Limits | None = None,
) -> "Server[dict[str, Any]]":
    """A server of theirs, not yet running, whose tools are an agent; for a team, its lead.

    ``name`` is what callers call the agent, and the name of the server; without one it is the agent's own.
    ``description`` is what their models choose by. ``max_depth`` is the deepest depth at which the agent may run here,
    ``limits`` what one call may spend; both only tighten what a caller brings along. The agent stays its owner's to
    close. Raises ConfigurationError if there is no mcp or the bounds are none, ChildDeclarationError for an agent that
    cannot be adopted.
    """
    need_mcp()
    from mcp.server import Server

    lead, called, told = _introduced(agent)
    called = called if name is None else name
    desk = _Desk(called, who_answers(lead), told if description is None else description, max_depth, limits)
    return Server(called, on_list_tools=desk.list_tools, on_call_tool=desk.call_tool)


def _introduced(agent: Any) -> tuple[Any, str, str]:
    """Who is served, with a name and a description. A team is known by its file's ``spec``."""
    spec = getattr(agent, "spec", None)
    if spec is None or not hasattr(spec, "lead"):
        name = getattr(agent, "name", None)
        return agent, name if isinstance(name, str) and name else "agent", ""
    return agent.agent, agent.agent.name, spec.agents[spec.lead].card.description or ""


class _Desk:
    """Answers the requests of one server's callers."""

    def __init__(self, name: str, agent: Any, description: str, max_depth: int | None, limits: Limits | None) -> None:
        self._reception = Reception({name: agent}, max_depth=max_depth, limits=limits)
        self._agents = {each: description or f"The agent {each}." for each in self._reception.names()}
        self._roster = "\n".join(f"  - {each}: {told}" for each, told in self._agents.items())
        self._tools = {tool.name: tool for tool in (_listing(), _running(self._agents, _GUIDE + self._roster))}

    async def list_tools(
        self, context: "ServerRequestContext[dict[str, Any]]", params: "PaginatedRequestParams | None"
    ) -> "ListToolsResult":
        from mcp.types import ListToolsResult

        return ListToolsResult(tools=list(self._tools.values()))

    async def call_tool(
        self, context: "ServerRequestContext[dict[str, Any]]", params: "CallToolRequestParams"
    ) -> "CallToolResult":
        """Carry a call out. Raises the protocol's error for a tool that there is not, and for nothing else."""
        if params.name == LIST:
            listed = [{"name": name, "description": told} for name, told in self._agents.items()]
            return _result(f"Agents:\n{self._roster}", {"agents": listed})
        if params.name != RUN:
            from mcp import MCPError
            from mcp.types import INVALID_PARAMS

            raise MCPError(INVALID_PARAMS, f"Unknown tool: {params.name}")
        try:
            name, task = _texts(params.arguments or {})
            envelope = arrived(context.meta, name, task)
        except EnvelopeError as error:
            return _failed(str(error))
        return _told(await self._answer(context, envelope), ENVELOPE in (context.meta or {}))

    async def _answer(self, context: "ServerRequestContext[dict[str, Any]]", envelope: Envelope) -> Answer:
        """The answer; for a caller who has gone, that the run was cancelled."""
        answer = await attended(context, lambda observers: self._reception.answer(envelope, observers))
        return answer or Answer(status="cancelled", text="its caller has gone", lineage=envelope.lineage)


def _texts(arguments: Mapping[str, Any]) -> tuple[str, str]:
    """The two arguments. Raises EnvelopeError if one is missing, or is no text."""
    for key in ("name", "task"):
        if not isinstance(arguments.get(key), str):
            found = f"got {type(arguments[key]).__name__}" if key in arguments else "it is missing"
            raise EnvelopeError(f"{RUN} was not called: its argument {key!r} must be a text; {found}")
    return arguments["name"], arguments["task"]


def _failed(text: str) -> "CallToolResult":
    return _result(text, {"outcome": "failed", "answer": text}, is_error=True)


def _told(answer: Answer, to_ours: bool) -> "CallToolResult":
    """An answer as a result: for every client in structured output, and whole for one that said where its run stands.

    A refusal is no error of the call.
    """
    ids: Lineage = answer.lineage
    told = {
        "outcome": answer.status,
        "answer": answer.text,
        "run_id": ids.run_id,
        "root_run_id": ids.root_run_id,
        "delegations": answer.delegations,
        "usage": answer.spent.plain(),
    }
    if ids.parent_run_id is not None:
        told["parent_run_id"] = ids.parent_run_id
    whole = {ANSWER: answer.plain()} if to_ours else None
    return _result(answer.text, told, answer.status not in ("finished", "refused"), whole)


def _result(
    text: str, told: dict[str, Any], is_error: bool = False, meta: dict[str, Any] | None = None
) -> "CallToolResult":
    from mcp.types import CallToolResult, TextContent

    return CallToolResult(
        content=[TextContent(type="text", text=text)], structured_content=told, is_error=is_error, _meta=meta
    )


def _listing() -> "Tool":
    from mcp.types import Tool

    each = {"name": _TEXT, "description": _TEXT}
    return Tool(
        name=LIST,
        description="List the agents that tasks can be given to.",
        input_schema=_object({}),
        output_schema=_object({"agents": {"type": "array", "items": _object(each, list(each))}}, ["agents"]),
    )


def _running(agents: Mapping[str, str], guide: str) -> "Tool":
    from mcp.types import Tool

    takes = {
        "name": {"type": "string", "enum": list(agents), "description": "Who is to do it."},
        "task": {"type": "string", "description": "All that the agent needs to know."},
    }
    spent = ("input_tokens", "output_tokens", "model_calls", "tool_calls")
    returns = {
        "outcome": {"type": "string", "enum": ["finished", "refused", "failed", "timed_out", "cancelled"]},
        "answer": {"type": "string", "description": "The answer, or why there is none."},
        **dict.fromkeys(("run_id", "root_run_id", "parent_run_id"), _TEXT),
        "delegations": _COUNT,
        "usage": _object(dict.fromkeys(spent, _COUNT)),
    }
    return Tool(
        name=RUN,
        description=guide,
        input_schema=_object(takes, list(takes)),
        output_schema=_object(returns, ["outcome", "answer"]),
        _meta={AGENTS: dict(agents)},
    )


_TEXT, _COUNT = {"type": "string"}, {"type": "integer", "minimum": 0}


def _object(properties: dict[str, Any], required: list[str] | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": properties}
    return {**made, "required": required} if required else made
