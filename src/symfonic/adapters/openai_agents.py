"""Agents of openai-agents as children, and our children as tools of its agents."""

import sys
from contextvars import ContextVar
from copy import deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

from symfonic.adapters.hosted import Hosted, tools_of
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import ConfigurationError, SymfonicError
from symfonic.kernel.contracts.messages import Usage, current_tool_call
from symfonic.kernel.contracts.text import to_text

if TYPE_CHECKING:
    from agents import Agent, FunctionTool, RunContextWrapper, RunHooks, RunResult
    from agents.tool_context import ToolContext

_host: "ContextVar[ToolContext[Any] | None]" = ContextVar("symfonic_openai_agents_host", default=None)

_OURS = ("starting_agent", "input", "context", "hooks")
"""What a delegation itself gives to a run of theirs."""


def adopt(name: str, child: Any) -> "OpenAIAgentsChild | None":
    """The agent behind the runner contract; None for what is no instance of their ``Agent``.

    Their package has a name that anybody's may have: nothing is imported, and what is loaded has to be theirs.
    """
    theirs = sys.modules.get("agents")
    if not all(isinstance(getattr(theirs, each, None), type) for each in ("Agent", "Runner", "RunContextWrapper")):
        return None
    return OpenAIAgentsChild(child) if isinstance(child, theirs.Agent) else None  # type: ignore[union-attr]


def host_context() -> "ToolContext[Any] | None":
    """The context of the call by which an agent of openai-agents delegated to the code around this, or None."""
    return _host.get()


class ApprovalNeededError(SymfonicError):
    """A run of theirs waits for approvals. ``result`` is that run: approve in its ``to_state()``, and run that on."""

    def __init__(self, result: "RunResult") -> None:
        self.result = result
        waits_for = ", ".join(f"{each.name}({each.arguments})" for each in result.interruptions)
        super().__init__(f"it waits for an approval of {waits_for}, which nobody here can give")


class OpenAIAgentsChild:
    """An agent of theirs. Its ``final_output`` is the answer: text as it is, any other value as JSON.

    Where that is None or blank, the last message of the run with text is, unless the run ends in a tool's output. Its
    context is the scope. ``options`` go to ``Runner.run``: ``max_turns``, ``run_config``, ``session``, and so on.
    The whole ``RunResult`` is kept. What its run has spent is counted however it ends.

    Raises ConfigurationError for an option that the delegation itself gives.
    """

    __slots__ = ("_options", "agent")

    def __init__(self, agent: "Agent[Any]", **options: Any) -> None:
        if taken := [each for each in _OURS if each in options]:
            raise ConfigurationError(f"a delegation itself gives {', '.join(taken)} to a run of openai-agents")
        self._options = options
        self.agent: Agent[Any] = agent

    async def run(self, query: str) -> ChildResponse:
        """Run the agent. Raises what it raises, and ApprovalNeededError where it pauses."""
        from agents import RunContextWrapper, Runner

        run = active_run()
        # a wrapper of ours, and not the scope itself, since an error need not carry what was spent before it
        context = RunContextWrapper(_unwrapped(run.scope if run else None))
        meter = _Meter(run, context)
        try:
            result = await Runner.run(self.agent, query, context=context, hooks=_hooks(meter), **self._options)
        except Exception as error:
            signal = _signal_in(error, run)
            if signal is not None:
                raise signal from signal.__cause__
            _explain(error)
            raise
        finally:
            meter.read()
        if result.interruptions:
            raise ApprovalNeededError(result)
        return ChildResponse(_answer(result), result)


def _unwrapped(scope: Any) -> Any:
    """The context itself, where the scope is a wrapper around one, which holds another run's approvals and usage."""
    from agents import RunContextWrapper

    return scope.context if isinstance(scope, RunContextWrapper) else scope


def _answer(result: "RunResult") -> str:
    from agents import ItemHelpers, MessageOutputItem, ToolCallOutputItem

    output = result.final_output
    text = "" if output is None else to_text(output)
    if text.strip() or (result.new_items and isinstance(result.new_items[-1], ToolCallOutputItem)):
        return text
    said = (ItemHelpers.text_message_output(each) for each in result.new_items if isinstance(each, MessageOutputItem))
    return next((each for each in reversed([*said]) if each.strip()), text)


def _signal_in(error: Exception, run: ActiveRun | None) -> BaseException | None:
    """The signal that a tool of theirs has raised, where somebody waits for one: their loop wraps it."""
    from agents import UserError

    cause = error.__cause__
    wrapped = run is not None and isinstance(error, UserError) and isinstance(cause, run.pass_through)
    return cause if wrapped else None


def _explain(error: Exception) -> None:
    """Put into the error of a guardrail which one it was and what it found: theirs tells only its class."""
    from agents import InputGuardrailTripwireTriggered, OutputGuardrailTripwireTriggered

    if isinstance(error, InputGuardrailTripwireTriggered | OutputGuardrailTripwireTriggered):
        found = error.guardrail_result
        what = "input" if isinstance(error, InputGuardrailTripwireTriggered) else "output"
        told, info = f"its {what} guardrail {found.guardrail.get_name()!r} refused", found.output.output_info
        error.args = (told if info is None else f"{told}: {to_text(info)}",)


class _Meter:
    """Hands on what a run of theirs has spent since it was read last. Tool calls are those that their hooks see."""

    __slots__ = ("_context", "_read", "_run", "tool_calls")

    def __init__(self, run: ActiveRun | None, context: "RunContextWrapper[Any]") -> None:
        self._run = run
        self._context = context
        self._read = Usage()
        self.tool_calls = 0

    def read(self) -> None:
        """Count it as spent."""
        theirs, before = self._context.usage, self._read
        self._read = now = Usage(theirs.input_tokens, theirs.output_tokens, theirs.requests, self.tool_calls)
        if self._run is not None and now != before:
            self._run.spend(now - before)

    def before_model_call(self) -> None:
        """Let the call be made. Raises LimitReachedError if the tree has none left."""
        if self._run is not None and self._run.budget is not None:
            self.read()
            self._run.admit_model_call()


def _hooks(meter: _Meter) -> "RunHooks[Any]":
    hooks: RunHooks[Any] = _hooks_class()(meter)
    return hooks


@cache
def _hooks_class() -> Any:
    from agents import RunHooks

    class Metered(RunHooks[Any]):
        """Tells the meter what a run does."""

        def __init__(self, meter: _Meter) -> None:
            self._meter = meter

        async def on_llm_start(self, *_: Any, **__: Any) -> None:
            self._meter.before_model_call()

        async def on_tool_start(self, *_: Any, **__: Any) -> None:
            self._meter.tool_calls += 1

    return Metered


def as_openai_agents_tools(capability: Hosted) -> "list[FunctionTool]":
    """The delegation tools of `symfonic.delegation(...)` for ``Agent(..., tools=[...])`` of theirs.

    Every refusal, every failure of a child and arguments that do not fit are the tool's answer. Raises
    ConfigurationError if there is no openai-agents.
    """
    try:
        from agents import FunctionTool
    except ImportError as error:
        told = f"tools for openai-agents need openai-agents: pip install openai-agents ({error})"
        raise ConfigurationError(told) from error
    return [
        FunctionTool(
            name=each.name,
            description=each.description,
            params_json_schema=deepcopy(dict(each.parameters)),
            on_invoke_tool=_Call(capability, each.name),
            # their strict form would require a context from every call
            strict_json_schema=False,
        )
        for each in tools_of(capability)
    ]


class _Call:
    """Carries out the calls of one tool, with the context of each for `host_context`."""

    __slots__ = ("_capability", "_name")

    def __init__(self, capability: Hosted, name: str) -> None:
        self._capability = capability
        self._name = name

    async def __call__(self, context: "ToolContext[Any]", arguments: str) -> str:
        host, call = _host.set(context), current_tool_call.set(context.tool_call_id)
        try:
            return await self._capability.call(self._name, arguments)
        finally:
            current_tool_call.reset(call)
            _host.reset(host)
