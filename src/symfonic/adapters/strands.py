"""Agents of Strands as children, and our children as tools of its agents."""

from collections.abc import AsyncGenerator, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from symfonic.adapters.hosted import Hosted, tools_of
from symfonic.adapters.turns import turn
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import ConfigurationError, SymfonicError
from symfonic.kernel.contracts.ambient import Ambient
from symfonic.kernel.contracts.messages import Usage, current_tool_call
from symfonic.kernel.contracts.text import to_text
from symfonic.kernel.contracts.tool import Tool

if TYPE_CHECKING:
    from strands import Agent
    from strands.agent import AgentResult
    from strands.hooks import BeforeModelCallEvent
    from strands.types.tools import AgentTool, ToolSpec, ToolUse

_watched: "WeakSet[Agent]" = WeakSet()
_metered: Ambient["_Meter"] = Ambient("symfonic_strands_meter")


def adopt(name: str, child: Any) -> "StrandsChild | None":
    """The agent behind the runner contract; None for what is no instance of their ``Agent``."""
    from strands import Agent

    return StrandsChild(name, child) if isinstance(child, Agent) else None


class StrandsChild:
    """An agent of theirs. The answer is its structured output as JSON, else the text of its last message.

    It has one conversation: delegations to it wait for each other, wherever it is declared. Each begins with the
    conversation and the state that the agent has, and leaves them as they were; only an agent with a session manager
    keeps what was said. The whole ``AgentResult`` is kept. What its run has spent is counted however it ends.
    """

    __slots__ = ("_name", "agent")

    def __init__(self, name: str, agent: "Agent") -> None:
        self._name = name
        self.agent: Agent = agent

    async def run(self, query: str) -> ChildResponse:
        """Run the agent. Raises what it raises, InterruptException where it pauses, SymfonicError where it stops."""
        why = f"has one conversation: {self._name!r} cannot be called from below itself"
        async with turn(self._name, [self.agent], why):
            _watch(self.agent)
            result = await self._in_turn(query)
        if result.stop_reason == "interrupt":
            raise self._pause(result)
        if result.stop_reason in ("cancelled", "checkpoint"):
            said = _text_of(result.message).strip()
            raise SymfonicError(f"it stopped without an answer ({result.stop_reason})" + (f": {said}" if said else ""))
        answer = _text_of(result.message) if result.structured_output is None else to_text(result.structured_output)
        return ChildResponse(answer, result)

    async def _in_turn(self, query: str) -> "AgentResult":
        from strands.types.exceptions import ConcurrencyException, EventLoopException

        agent, meter, ours = self.agent, _Meter(self.agent, active_run()), True
        before = None if getattr(agent, "_session_manager", None) else agent.take_snapshot(preset="session")
        try:
            with _metered.open(meter):
                return await agent.invoke_async(query)
        except ConcurrencyException:  # somebody else is talking with it: what changes meanwhile is not of this run
            ours = False
            raise
        except EventLoopException as error:  # a wrapper of theirs, with the words of what it wraps
            raise error.original_exception from error
        finally:
            if ours:
                meter.read()
                if before is not None:
                    agent.load_snapshot(before)

    def _pause(self, result: "AgentResult") -> Exception:
        """Their signal, with words for where nobody takes it for one and it is the child's failure."""
        from strands.interrupt import Interrupt, InterruptException

        asked = list(result.interrupts or ()) or [Interrupt("", "an answer")]
        signal = InterruptException(asked[0])
        about = ", ".join(each.name + (f" ({to_text(each.reason)})" if each.reason else "") for each in asked)
        signal.args = (f"it waits for an answer to {about}, which nobody here can give",)
        return signal


def _text_of(message: Mapping[str, Any]) -> str:
    """What a message says, without what was only thought."""
    texts: list[str] = []
    for block in message.get("content") or ():
        said = [block, *((block.get("citationsContent") or {}).get("content") or ())]
        texts.extend(each["text"] for each in said if each.get("text"))
    return "\n".join(texts)


class _Meter:
    """Hands on what an invocation of theirs has spent since it was read last."""

    __slots__ = ("_calls", "_invocations", "_read", "_run", "_tools", "agent")

    def __init__(self, agent: "Agent", run: ActiveRun | None) -> None:
        self.agent: Agent = agent
        self._run = run
        self._calls = 0
        self._invocations = len(agent.event_loop_metrics.agent_invocations)
        self._tools = self._tool_calls()
        self._read = Usage()

    def _tool_calls(self) -> int:
        return sum(each.call_count for each in list(self.agent.event_loop_metrics.tool_metrics.values()))

    def read(self) -> None:
        """Count it as spent."""
        spent = [each.usage for each in self.agent.event_loop_metrics.agent_invocations[self._invocations :]]
        tokens = sum(each["inputTokens"] for each in spent), sum(each["outputTokens"] for each in spent)
        before, self._read = self._read, Usage(*tokens, self._calls, self._tool_calls() - self._tools)
        now = self._read
        if self._run is not None and now != before:
            self._run.spend(now - before)

    def admit(self) -> None:
        """Let the model be called. Raises LimitReachedError if the tree has no call left."""
        self.read()
        if self._run is not None:
            self._run.admit_model_call()
        self._calls += 1


def _watch(agent: "Agent") -> None:
    """In its turn: have it tell of its model calls, for good. Where no run of ours is around it nobody listens."""
    from strands.hooks import BeforeModelCallEvent

    if agent not in _watched:
        _watched.add(agent)
        agent.add_hook(_before_model_call, BeforeModelCallEvent)


def _before_model_call(event: "BeforeModelCallEvent") -> None:
    meter = _metered.get()
    if meter is not None and meter.agent is event.agent:
        meter.admit()


# Ours under theirs


def as_strands_tools(capability: Hosted) -> "list[AgentTool]":
    """The delegation tools of `symfonic.delegation(...)` for ``Agent(tools=[...])`` of theirs.

    Every refusal and every failure of a child is the tool's answer. Raises ConfigurationError if there is no Strands.
    """
    try:
        from strands.types.tools import AgentTool
    except ImportError as error:
        told = f"tools for Strands need strands-agents: pip install strands-agents ({error})"
        raise ConfigurationError(told) from error

    class DelegationTool(AgentTool):
        """One of the delegation tools, as their agents call tools."""

        def __init__(self, tool: Tool) -> None:
            super().__init__()
            self._tool = tool

        @property
        def tool_name(self) -> str:
            return self._tool.name

        @property
        def tool_spec(self) -> "ToolSpec":
            schema = {"json": deepcopy(dict(self._tool.parameters))}
            return {"name": self._tool.name, "description": self._tool.description, "inputSchema": schema}

        @property
        def tool_type(self) -> str:
            return "symfonic"

        async def stream(
            self, tool_use: "ToolUse", invocation_state: dict[str, Any], **kwargs: Any
        ) -> AsyncGenerator[Any, None]:
            call_id = str(tool_use["toolUseId"])
            token = current_tool_call.set(call_id)
            try:
                text = await capability.call(self._tool.name, tool_use.get("input"))
            finally:
                current_tool_call.reset(token)
            yield {"toolUseId": call_id, "status": "success", "content": [{"text": text}]}

    return [DelegationTool(tool) for tool in tools_of(capability)]
