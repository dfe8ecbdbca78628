"""Agents of Microsoft's agent-framework as children, and our children as tools of its agents."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, NoReturn

from symfonic.adapters.hosted import Hosted, tools_of
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import ChildDeclarationError, ConfigurationError, SymfonicError
from symfonic.kernel.contracts.ambient import Ambient
from symfonic.kernel.contracts.messages import Usage, current_tool_call
from symfonic.kernel.contracts.text import to_text

if TYPE_CHECKING:
    from agent_framework import (
        AgentResponse,
        AgentSession,
        ChatContext,
        Content,
        FunctionInvocationContext,
        FunctionTool,
        SupportsAgentRun,
    )
    from pydantic import BaseModel

_metered: Ambient["_Meter"] = Ambient("symfonic_agent_framework_meter")

_APPROVAL, _CALL = "function_approval_request", "function_call"
_WORKFLOWS = ("WorkflowAgent", "FunctionalWorkflowAgent")


def adopt(name: str, child: Any) -> "AgentFrameworkChild | None":
    """The agent behind the runner contract; None for what is no agent of theirs.

    Raises ChildDeclarationError for a workflow, whose one instance goes on from where its last run has ended.
    """
    from agent_framework import SupportsAgentRun

    if isinstance(child, _kinds("Workflow", "FunctionalWorkflow", "FunctionalWorkflowDefinition", *_WORKFLOWS)):
        raise ChildDeclarationError(
            f"the sub-agent {name!r} is a {type(child).__name__}, one instance of which keeps what was said and runs"
            " one task at a time; give what builds one, as AgentFrameworkChild(lambda: build().as_agent()) of"
            " symfonic.adapters.agent_framework. What can be adopted as it stands: an Agent, or what else has their run"
        )
    if isinstance(child, type) or not isinstance(child, SupportsAgentRun):
        return None
    return AgentFrameworkChild(lambda: child)


class InputNeededError(SymfonicError):
    """A run of theirs waits for an approval or for another input: ``response.user_input_requests``.

    To go on, run ``agent`` with the answers to them, in ``session``.
    """

    def __init__(self, agent: "SupportsAgentRun", session: "AgentSession", response: "AgentResponse[Any]") -> None:
        self.agent: SupportsAgentRun = agent
        self.session: AgentSession = session
        self.response: AgentResponse[Any] = response
        super().__init__(_words(response.user_input_requests))


class AgentFrameworkChild:
    """An agent of theirs, which ``make`` gives for each delegation: the same one, or a new one each time.

    The answer is the ``value`` of its response as JSON, where it has a response format; else the text of its last
    message that has some, unless its run ends in a tool's result. A workflow's answer is the text of all that it puts
    out. The whole ``AgentResponse`` is kept. Every delegation has a session of its own. What its run has spent is
    counted however it ends; an agent that cannot be looked into counts as one model call.
    """

    __slots__ = ("make",)

    def __init__(self, make: "Callable[[], SupportsAgentRun]") -> None:
        self.make: Callable[[], SupportsAgentRun] = make

    async def run(self, query: str) -> ChildResponse:
        """Run the agent. Raises what it raises, InputNeededError where it pauses, SymfonicError where it goes on.

        A pause is UserInputRequiredException instead where that is a signal, unless it is about a call of a tool: their
        loop, told so by a child, would look for that call among its own.
        """
        agent, run = self.make(), active_run()
        session, meter, attached = agent.create_session(), _Meter(run), _attached(agent)
        if not attached:
            meter.admit()
        ask: Callable[..., Awaitable[AgentResponse[Any]]] = agent.run
        try:
            with _metered.open(meter):
                response = await ask(query, session=session, **attached)
        except Exception as error:
            signal = _signal_in(error, run)
            if signal is not None:
                raise signal from signal.__cause__
            _explain(error)
            raise
        meter.settle(response)
        if response.user_input_requests:
            raise _pause(run, InputNeededError(agent, session, response))
        if response.continuation_token is not None:
            raise SymfonicError("it goes on in the background, and its answer is not there yet")
        return ChildResponse(_answer(agent, response), response)


def _kinds(*names: str) -> tuple[type, ...]:
    """Those of their types that there are: they call some of them experimental."""
    import agent_framework

    found = (getattr(agent_framework, name, None) for name in names)
    return tuple(each for each in found if isinstance(each, type))


def _answer(agent: Any, response: "AgentResponse[Any]") -> str:
    if response.value is not None:
        return to_text(response.value)
    messages = response.messages
    if isinstance(agent, _kinds(*_WORKFLOWS)):
        return "\n\n".join(each.text for each in messages if each.role == "assistant" and each.text.strip())
    if not messages or messages[-1].role == "tool":
        return ""
    return next((each.text for each in reversed(messages) if each.role == "assistant" and each.text.strip()), "")


# Pauses and errors


def _pause(run: ActiveRun | None, needed: InputNeededError) -> Exception:
    from agent_framework.exceptions import UserInputRequiredException

    requests = needed.response.user_input_requests
    theirs = run is not None and issubclass(UserInputRequiredException, run.pass_through)
    if not theirs or any(each.type in (_APPROVAL, _CALL) for each in requests):
        return needed
    return UserInputRequiredException(requests, str(needed))


def _words(requests: "Sequence[Content]") -> str:
    return f"it waits for {', '.join(map(_asked, requests))}, which nobody here can give"


def _asked(request: "Content") -> str:
    call = request.function_call if request.type == _APPROVAL else request
    if call is None or call.type != _CALL:
        return f"an answer to {request.type}"
    what = "an approval of" if request.type == _APPROVAL else "a result from outside of"
    return f"{what} {call.name}({to_text(call.arguments or {})})"


def _signal_in(error: Exception, run: ActiveRun | None) -> BaseException | None:
    """The signal for which a run of theirs was ended, where somebody waits for one."""
    from agent_framework import MiddlewareFailure

    cause = error.__cause__
    wrapped = run is not None and isinstance(error, MiddlewareFailure) and isinstance(cause, run.pass_through)
    return cause if wrapped else None


def _explain(error: Exception) -> None:
    """Leave an error of theirs its words: they are followed by the error that it stands for, as an object."""
    from agent_framework.exceptions import AgentFrameworkException

    if isinstance(error, AgentFrameworkException) and len(error.args) > 1 and isinstance(error.args[1], Exception):
        error.__cause__ = error.__cause__ or error.args[1]
        error.args = error.args[:1]


# What its run does and spends


class _Meter:
    """Counts what a run of theirs does."""

    __slots__ = ("_run", "_spent")

    def __init__(self, run: ActiveRun | None) -> None:
        self._run = run
        self._spent = Usage()

    def admit(self) -> None:
        """Let the model be called. Raises LimitReachedError if the tree has no call left."""
        if self._run is not None:
            self._run.admit_model_call()
        self.count(model_calls=1)

    def count(self, usage_details: Any = None, *, model_calls: int = 0, tool_calls: int = 0) -> None:
        """Count it as spent."""
        self._add(Usage(*_tokens(usage_details), model_calls, tool_calls))

    def settle(self, response: "AgentResponse[Any]") -> None:
        """Count what the response tells and was not seen: of a model behind a middleware that answers for ours."""
        told, seen = _tokens(response.usage_details), self._spent
        rest = max(0, told[0] - seen.input_tokens), max(0, told[1] - seen.output_tokens)
        self._add(Usage(*rest, int(any(told) and not seen.model_calls)))

    def is_signal(self, error: Exception) -> bool:
        """Whether it is one, which a tool is not to have for its result."""
        return self._run is not None and isinstance(error, self._run.pass_through)

    def _add(self, usage: Usage) -> None:
        if usage != Usage():
            self._spent += usage
            if self._run is not None:
                self._run.spend(usage)


def _tokens(usage_details: Any) -> tuple[int, int]:
    told = usage_details or {}
    return told.get("input_token_count") or 0, told.get("output_token_count") or 0


class _ModelCalls:
    """Middleware around each model call. It is callable, and is known for what it is by its first annotation's name."""

    async def __call__(self, context: "ChatContext", call_next: Callable[[], Awaitable[None]]) -> None:
        meter = _metered.get()
        if meter is not None:
            meter.admit()
        await call_next()
        if meter is not None:
            meter.count(getattr(context.result, "usage_details", None))


class _ToolCalls:
    """Middleware around each tool call."""

    async def __call__(self, context: "FunctionInvocationContext", call_next: Callable[[], Awaitable[None]]) -> None:
        meter = _metered.get()
        if meter is not None:
            meter.count(tool_calls=1)
        try:
            await call_next()
        except Exception as error:
            if meter is not None and meter.is_signal(error):
                _end_with(error)
            raise


_MIDDLEWARE = (_ModelCalls(), _ToolCalls())
"""The same for all runs, so that each client keeps one pipeline; whose run it is they are told by the context."""


def _end_with(signal: Exception) -> NoReturn:
    """Raise it as what their loop does not take for a tool's result: a pause of its own, or an end of the whole run."""
    from agent_framework import MiddlewareFailure
    from agent_framework.exceptions import UserInputRequiredException

    if isinstance(signal, MiddlewareFailure | UserInputRequiredException):
        raise signal
    raise MiddlewareFailure(str(signal)) from signal


def _attached(agent: Any) -> dict[str, Any]:
    """What to run the agent with so that its model and tool calls are seen; nothing where that cannot be."""
    from agent_framework import (
        AgentMiddlewareLayer,
        ChatMiddlewareLayer,
        RawAgent,
        WorkflowAgent,
        register_checkpoint_type,
    )

    ours = [*_MIDDLEWARE]
    below = {"client_kwargs": {"middleware": ours}}
    if isinstance(agent, WorkflowAgent):
        for each in ours:  # they become part of what the workflow saves
            register_checkpoint_type(type(each))
        return below
    if not isinstance(agent, RawAgent) or not isinstance(agent.client, ChatMiddlewareLayer):
        return {}
    return {"middleware": ours} if isinstance(agent, AgentMiddlewareLayer) else below


# Ours under theirs


def as_agent_framework_tools(capability: Hosted) -> "list[FunctionTool]":
    """The delegation tools of `symfonic.delegation(...)` for ``Agent(..., tools=[...])`` of theirs.

    Every refusal, every failure of a child and arguments that do not fit are the tool's answer. Raises
    ConfigurationError if there is no agent-framework.
    """
    try:
        from agent_framework import FunctionTool
    except ImportError as error:
        told = f"tools for agent-framework need agent-framework-core: pip install agent-framework-core ({error})"
        raise ConfigurationError(told) from error

    class DelegationTool(FunctionTool):
        """One of the delegation tools, as their loop calls tools."""

        async def invoke(self, *, tool_call_id: str | None = None, **settings: Any) -> Any:
            token = current_tool_call.set(tool_call_id)
            try:
                return await super().invoke(tool_call_id=tool_call_id, **settings)
            finally:
                current_tool_call.reset(token)

    return [
        DelegationTool(
            name=each.name,
            description=each.description,
            func=_calling(capability, each.name),
            input_model=_unjudged(each.parameters),
        )
        for each in tools_of(capability)
    ]


def _calling(capability: Hosted, name: str) -> Callable[..., Awaitable[str]]:
    async def call(**arguments: Any) -> str:
        try:
            return await capability.call(name, arguments)
        except Exception as signal:
            _end_with(signal)

    return call


def _unjudged(schema: Mapping[str, Any]) -> "type[BaseModel]":
    """A schema that lets any arguments through: the call itself answers with what is wrong, and theirs does not."""
    from pydantic import BaseModel

    class Arguments(BaseModel, extra="allow"):
        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return deepcopy(dict(schema))

    return Arguments
