"""Agents of pydantic-ai as children, and our children as a toolset of its agents."""

import json
from collections.abc import Callable
from contextvars import ContextVar
from copy import deepcopy
from typing import TYPE_CHECKING, Any, get_origin

from symfonic.adapters.hosted import Hosted, tools_of
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.messages import Usage, current_tool_call
from symfonic.kernel.contracts.text import to_text

if TYPE_CHECKING:
    from pydantic_ai import RunContext
    from pydantic_ai.agent import AbstractAgent
    from pydantic_ai.capabilities import AgentCapability
    from pydantic_ai.tools import DeferredToolRequests
    from pydantic_ai.toolsets import AbstractToolset
    from pydantic_ai.usage import RunUsage

_host: "ContextVar[RunContext[Any] | None]" = ContextVar("symfonic_pydantic_ai_host", default=None)


def adopt(name: str, child: Any) -> "PydanticAIChild | None":
    """The agent behind the runner contract; None for what is no instance of their ``AbstractAgent``."""
    from pydantic_ai.agent import AbstractAgent

    return PydanticAIChild(name, child) if isinstance(child, AbstractAgent) else None


def host_context() -> "RunContext[Any] | None":
    """The context of the pydantic-ai run whose model called the delegation tools around this code, or None."""
    return _host.get()


class PydanticAIChild:
    """An agent of theirs. Its ``output`` is the answer: text as it is, None as no answer, any other value as JSON.

    Its ``deps`` are the scope where that is an instance of its ``deps_type``, else the host's where those are. The
    whole ``AgentRunResult`` is kept. What its run has spent is counted however it ends.
    """

    __slots__ = ("_name", "agent")

    def __init__(self, name: str, agent: "AbstractAgent[Any, Any]") -> None:
        self._name = name
        self.agent: AbstractAgent[Any, Any] = agent

    async def run(self, query: str) -> ChildResponse:
        """Run the agent. Raises what it raises, and ApprovalRequired or CallDeferred where it pauses."""
        from pydantic_ai.tools import DeferredToolRequests
        from pydantic_ai.usage import RunUsage

        run, usage = active_run(), RunUsage()
        meter = _Meter(run, usage)
        try:
            # without infer_name=False it would name itself after a variable of ours
            result = await self.agent.run(
                query, deps=self._deps(run), usage=usage, infer_name=False, capabilities=self._attached(run, meter)
            )
        finally:
            meter.read()
        if isinstance(result.output, DeferredToolRequests):
            raise self._pause(result.output)
        return ChildResponse("" if result.output is None else to_text(result.output), result)

    def _deps(self, run: ActiveRun | None) -> Any:
        if self.agent.deps_type is object:  # nothing was declared, and what may hold credentials is not given unasked
            return None
        host = _host.get()
        offered = (run.scope if run else None, host.deps if host else None)
        return next((each for each in offered if each is not None and _fits(each, self.agent.deps_type)), None)

    def _attached(self, run: ActiveRun | None, meter: "_Meter") -> "list[AgentCapability[Any]] | None":
        """What is asked in the middle of its run, where somebody wants to know: limits, and who takes signals."""
        from pydantic_ai.capabilities import HandleDeferredToolCalls, Hooks
        from pydantic_ai.exceptions import ApprovalRequired, CallDeferred

        attached: list[AgentCapability[Any]] = []
        if run is not None and run.budget is not None:
            attached.append(Hooks(before_model_request=meter.before_model_request))
        if run is not None and any(issubclass(each, run.pass_through) for each in (ApprovalRequired, CallDeferred)):
            attached.append(HandleDeferredToolCalls(handler=self._deferred))
        return attached or None

    def _deferred(self, context: "RunContext[Any]", requests: "DeferredToolRequests") -> None:
        raise self._pause(requests)

    def _pause(self, requests: "DeferredToolRequests") -> Exception:
        """Their signal, of the whole run: raised by one of its tools, it would only be a question to its caller.

        It has words, for where nobody takes it for a signal and it is the child's failure.
        """
        from pydantic_ai.exceptions import ApprovalRequired, CallDeferred

        waits_for = requests.approvals or requests.calls
        metadata = {"sub_agent": self._name, "requests": requests}
        signal = ApprovalRequired(metadata) if requests.approvals else CallDeferred(metadata)
        what = "an approval of" if requests.approvals else "a result from outside of"
        tools = ", ".join(f"{call.tool_name}({call.args_as_json_str()})" for call in waits_for)
        signal.args = (f"it waits for {what} {tools}, which nobody here can give",)
        return signal


class _Meter:
    """Hands on what a run of theirs has spent since it was read last."""

    __slots__ = ("_read", "_run", "_usage")

    def __init__(self, run: ActiveRun | None, usage: "RunUsage") -> None:
        self._run = run
        self._usage = usage
        self._read = Usage()

    def read(self) -> None:
        """Count it as spent."""
        theirs, before = self._usage, self._read
        self._read = now = Usage(theirs.input_tokens, theirs.output_tokens, theirs.requests, theirs.tool_calls)
        if self._run is not None and now != before:
            self._run.spend(now - before)

    def before_model_request(self, context: Any, request: Any) -> Any:
        """Let the request be made. Raises LimitReachedError if the tree has none left."""
        self.read()
        if self._run is not None:
            self._run.admit_model_call()
        return request


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value is of the kind; where that cannot be asked of a kind, of what it is made from."""
    if kind is Any:
        return True
    try:
        return isinstance(value, kind)
    except TypeError:
        origin = get_origin(kind)
        return isinstance(origin, type) and isinstance(value, origin)


def as_pydantic_ai_toolset(capability: Hosted, *, toolset_id: str | None = None) -> "AbstractToolset[Any]":
    """The delegation tools of `symfonic.delegation(...)` as a toolset for ``Agent(..., toolsets=[...])`` of theirs.

    Every refusal and every failure of a child is the tool's answer. ``toolset_id`` is its name in durable runs of
    theirs. Raises ConfigurationError if there is no pydantic-ai.
    """
    return _toolset_class()(capability, toolset_id)


def _toolset_class() -> "Callable[[Hosted, str | None], AbstractToolset[Any]]":
    try:
        from pydantic_ai.tools import ToolDefinition
        from pydantic_ai.toolsets import AbstractToolset
        from pydantic_ai.toolsets.abstract import ToolsetTool
    except ImportError as error:
        told = f"a toolset for pydantic-ai needs pydantic-ai-slim: pip install pydantic-ai-slim ({error})"
        raise ConfigurationError(told) from error

    class DelegationToolset(AbstractToolset[Any]):
        """The delegation tools, as their agents list and call tools."""

        def __init__(self, capability: Hosted, toolset_id: str | None) -> None:
            self._capability = capability
            self._id = toolset_id
            self._definitions = [
                ToolDefinition(
                    name=each.name, description=each.description, parameters_json_schema=deepcopy(dict(each.parameters))
                )
                for each in tools_of(capability)
            ]

        @property
        def id(self) -> str | None:
            return self._id

        async def get_tools(self, ctx: "RunContext[Any]") -> "dict[str, ToolsetTool[Any]]":
            return {
                each.name: ToolsetTool(
                    toolset=self, tool_def=each, max_retries=ctx.max_retries, args_validator=_Unjudged()
                )
                for each in self._definitions
            }

        async def call_tool(
            self, name: str, tool_args: dict[str, Any], ctx: "RunContext[Any]", tool: "ToolsetTool[Any]"
        ) -> str:
            host, call = _host.set(ctx), current_tool_call.set(ctx.tool_call_id)
            try:
                return await self._capability.call(name, tool_args.get(_UNREAD, tool_args))
            finally:
                current_tool_call.reset(call)
                _host.reset(host)

    return DelegationToolset


_UNREAD = "\0unread"


class _Unjudged:
    """Lets any arguments through, also those that are no JSON object: the call itself answers with what is wrong.

    Theirs would ask the model again, and end the whole run of the host when it has done so often enough.
    """

    def validate_json(self, input: str | bytes | bytearray, **_: Any) -> Any:  # noqa: A002 - their name
        """The object that the text is, or the text put into one."""
        try:
            return self.validate_python(json.loads(input))
        except (ValueError, RecursionError):
            return {_UNREAD: input if isinstance(input, str) else input.decode(errors="replace")}

    def validate_python(self, input: Any, **_: Any) -> Any:  # noqa: A002
        """The object, or the text of what there is in its place put into one."""
        return input if isinstance(input, dict) else {_UNREAD: to_text(input)}
