"""Agents of Google's ADK as children, and our children as tools of its agents."""

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from copy import copy, deepcopy
from functools import cache
from typing import TYPE_CHECKING, Any

from symfonic.adapters.hosted import Hosted, tools_of
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.errors import ChildDeclarationError
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import ConfigurationError, LimitReachedError, SymfonicError
from symfonic.kernel.contracts.messages import NO_USAGE, Usage, current_tool_call
from symfonic.kernel.contracts.text import to_text
from symfonic.kernel.contracts.tool import Tool

if TYPE_CHECKING:
    from google.adk.agents import RunConfig
    from google.adk.apps import App
    from google.adk.events import Event
    from google.adk.plugins import BasePlugin
    from google.adk.runners import Runner
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.tool_context import ToolContext
    from google.adk.workflow import BaseNode
    from google.genai.types import FunctionCall

_host: "ContextVar[ToolContext | None]" = ContextVar("symfonic_google_adk_host", default=None)

_told: "ContextVar[Usage]" = ContextVar("symfonic_google_adk_told", default=NO_USAGE)
"""What the model call that goes on has reported so far."""

_NOTHING_SAID = "MODEL_RETURNED_NO_CONTENT"
"""The error code that theirs gives an empty reply of a model."""


def adopt(name: str, child: Any) -> "GoogleADKChild | None":
    """The child behind the runner contract; None for what is no agent, node, ``App`` or ``Runner`` of theirs.

    Many packages are below ``google``: nothing is imported for what is of another one. Raises ChildDeclarationError for
    what theirs would not run.
    """
    if not any(str(each.__module__).startswith("google.adk.") for each in type(child).__mro__):
        return None
    from google.adk.apps import App
    from google.adk.runners import Runner
    from google.adk.workflow import BaseNode

    return GoogleADKChild(name, child) if isinstance(child, BaseNode | App | Runner) else None


def host_context() -> "ToolContext | None":
    """The context of the call by which an agent of theirs delegated to the code around this, or None."""
    return _host.get()


class InputNeededError(SymfonicError):
    """A run of theirs waits for a confirmation, credentials or another answer.

    ``calls`` are the function calls that wait. To go on with the run, answer them in a message to ``runner``, in the
    session ``session_id`` of ``user_id``.
    """

    def __init__(self, calls: "Sequence[FunctionCall]", runner: "Runner", user_id: str, session_id: str) -> None:
        self.calls: tuple[FunctionCall, ...] = tuple(calls)
        self.runner: Runner = runner
        self.user_id: str = user_id
        self.session_id: str = session_id
        super().__init__(f"it waits for {', '.join(map(_wanted, calls))}, which nobody here can give")


class GoogleADKChild:
    """An agent, a ``Workflow`` or another node, an ``App`` or a ``Runner`` of theirs.

    The answer is the last output of a node, or what the last final response says, whichever is later: text as it is,
    without thoughts, any other value as JSON. Of agents below a ``ParallelAgent`` it is what each said last, ordered by
    their names. Where no final response says anything, it is the last text beside a call. A run that ends in a tool's
    response has no answer. The run's events are kept, as a tuple. What it spends is counted however it ends.

    Every delegation has a session, artifacts and a memory of its own. A ``Runner`` has its own services instead: there
    a delegation is a new session, or that of the scope's ``session_id`` (a key or an attribute). The user is the
    scope's ``user_id``, else "user".

    ``run_config`` is given to each run. Raises ChildDeclarationError for what theirs would not run.
    """

    __slots__ = ("_run_config", "_runner", "agent")

    def __init__(self, name: str, agent: "BaseNode | App | Runner", *, run_config: "RunConfig | None" = None) -> None:
        self.agent: BaseNode | App | Runner = agent
        self._run_config = run_config
        self._runner = _runner_of(name, agent)

    async def run(self, query: str) -> ChildResponse:
        """Run it. Raises what it raises, InputNeededError where it pauses, SymfonicError for an error of a model."""
        run = active_run()
        scope = run.scope if run is not None else None
        runner, user_id = self._for_one(run), _named(scope, "user_id") or "user"
        session_id = _named(scope, "session_id")
        if session_id is None:
            made = await runner.session_service.create_session(app_name=runner.app_name, user_id=user_id)
            session_id = made.id
        try:
            events = await self._events(runner, user_id, session_id, query)
        except RuntimeError as error:
            if isinstance(error.__cause__, LimitReachedError):  # theirs wraps what a plugin raises
                raise error.__cause__ from None
            raise
        waiting = _waiting(events)
        if waiting:
            runner.plugin_manager = self._runner.plugin_manager  # whoever goes on with it is in no run of ours
            raise InputNeededError(waiting, runner, user_id, session_id)
        return ChildResponse(_answer(events), events)

    async def _events(self, runner: "Runner", user_id: str, session_id: str, query: str) -> "tuple[Event, ...]":
        from google.genai.types import Content, Part

        message = Content(role="user", parts=[Part(text=query)])
        running = runner.run_async(
            user_id=user_id, session_id=session_id, new_message=message, run_config=self._run_config
        )
        return tuple([event async for event in running])

    def _for_one(self, run: ActiveRun | None) -> "Runner":
        """The runner of one delegation, which counts what is spent. There is nothing in it to close."""
        from google.adk.artifacts import InMemoryArtifactService
        from google.adk.memory import InMemoryMemoryService
        from google.adk.plugins import PluginManager
        from google.adk.sessions import InMemorySessionService

        runner = copy(self._runner)
        if self._runner is not self.agent:
            runner.session_service = InMemorySessionService()
            runner.artifact_service = InMemoryArtifactService()
            runner.memory_service = InMemoryMemoryService()
        runner.auto_create_session = True
        if run is not None:
            first, last = _meter(run)
            runner.plugin_manager = PluginManager([first, *self._runner.plugin_manager.plugins, last])
        return runner


def _runner_of(name: str, child: "BaseNode | App | Runner") -> "Runner":
    """The runner itself, or one for an agent. Raises ChildDeclarationError for what theirs would not run."""
    from google.adk.apps import App
    from google.adk.runners import InMemoryRunner, Runner

    root: Any = child.agent if isinstance(child, Runner) else child.root_agent if isinstance(child, App) else child
    if getattr(root, "mode", None) == "single_turn":
        raise ChildDeclarationError(
            f"the sub-agent {name!r} is an agent of Google's ADK in mode 'single_turn', which runs only inside another:"
            " leave the mode out, or put it into a Workflow"
        )
    if isinstance(child, Runner):
        return child
    try:
        if isinstance(child, App):
            return InMemoryRunner(app=child)
        return InMemoryRunner(node=child, app_name=child.name)
    except ValueError as error:
        raise ChildDeclarationError(f"the sub-agent {name!r} cannot be run by Google's ADK: {error}") from error


def _named(scope: Any, name: str) -> str | None:
    value = scope.get(name) if isinstance(scope, Mapping) else getattr(scope, name, None)
    return None if value is None or value == "" else str(value)


# ----------------------------------------------------------------------------------------------------------- the answer


def _answer(events: "Sequence[Event]") -> str:
    """The text of the answer, blank where there is none. Raises SymfonicError if a model's error is the last word."""
    ended = [
        each for each in events if not each.partial and (each.output is not None or each.content or each.error_code)
    ]
    last = ended[-1] if ended else None
    if last is not None and last.error_code and last.error_code != _NOTHING_SAID:
        raise SymfonicError(_words(last))
    if last is not None and last.get_function_responses() and last.output is None and not last.is_final_response():
        return ""
    said = [each for each in ended if _said(each).strip()]
    final = [each for each in said if each.output is not None or each.is_final_response()]
    if final:
        return "\n\n".join(_said(each) for each in _beside(final))
    if not said and last is not None and last.error_code:
        raise SymfonicError(_words(last))
    return _said(said[-1]) if said else ""


def _beside(final: "Sequence[Event]") -> "list[Event]":
    """The last event, with the last ones of those that ran in parallel with it; a branch with an @ is none of these."""
    branches = {each.branch or "": each for each in final}
    last = final[-1].branch or ""
    group = last.partition(".")[0]
    beside = sorted(each for each in branches if each.partition(".")[0] == group and "@" not in each)
    return [branches[each] for each in beside] if last in beside else [final[-1]]


def _said(event: "Event") -> str:
    """What an event says; of a tool's response that is shown as it is, the result."""
    if event.output is not None:
        return to_text(event.output)
    parts = (event.content.parts if event.content else None) or []
    text = "".join(each.text for each in parts if each.text and not each.thought)
    if text.strip() or not event.actions.skip_summarization:
        return text
    results = [(each.response or {}).get("result", each.response) for each in event.get_function_responses()]
    return "\n\n".join(to_text(each) for each in results if each is not None)


def _words(event: "Event") -> str:
    code = str(getattr(event.error_code, "value", event.error_code))
    return f"its model gave no answer ({code})" + (f": {event.error_message}" if event.error_message else "")


def _waiting(events: "Sequence[Event]") -> "list[FunctionCall]":
    """The calls that a run waits for: those that take long and have had no response."""
    waiting: dict[str | None, FunctionCall] = {}
    for event in events:
        long = event.long_running_tool_ids or ()
        waiting.update({each.id: each for each in event.get_function_calls() if each.id in long})
        for response in event.get_function_responses():
            waiting.pop(response.id, None)
    return list(waiting.values())


def _wanted(call: "FunctionCall") -> str:
    """What a call waits for. Of credentials, the arguments may hold secrets."""
    given = call.args or {}
    if call.name == "adk_request_credential":
        return "credentials"
    if call.name == "adk_request_input":
        return f"an answer to {to_text(given.get('message') or 'a question')}"
    if call.name == "adk_request_confirmation":
        asked = given.get("originalFunctionCall") or {}
        return f"a confirmation of {asked.get('name')}({to_text(asked.get('args') or {})})"
    return f"a result of {call.name}({to_text(given)})"


# ---------------------------------------------------------------------------------------------------------------- usage


def _meter(run: ActiveRun) -> "tuple[BasePlugin, BasePlugin]":
    """Plugins for a run of theirs: the first of all, which counts, and the last, which lets models be called.

    Those between them may answer in a model's place, which is no call of a model, or change what one has said.
    """
    counts, admits = _plugin_classes()
    return counts(run), admits(run)


@cache
def _plugin_classes() -> tuple[Any, Any]:
    from google.adk.plugins import BasePlugin

    class Counts(BasePlugin):
        def __init__(self, run: ActiveRun) -> None:
            super().__init__("symfonic_counts")
            self._run = run

        async def after_model_callback(self, *, llm_response: Any, **_: Any) -> None:
            if llm_response.usage_metadata is not None:
                before, now = _told.get(), _tokens(llm_response.usage_metadata)
                _told.set(now)
                self._run.spend(now - before)

        async def before_tool_callback(self, **_: Any) -> None:
            self._run.spend(Usage(tool_calls=1))

    class Admits(BasePlugin):
        def __init__(self, run: ActiveRun) -> None:
            super().__init__("symfonic_admits")
            self._run = run

        async def before_model_callback(self, **_: Any) -> None:
            self._run.admit_model_call()
            self._run.spend(Usage(model_calls=1))
            _told.set(NO_USAGE)

    return Counts, Admits


def _tokens(told: Any) -> Usage:
    """What a model has reported of one call: of several reports, each is of all of it."""
    return Usage(
        (told.prompt_token_count or 0) + (told.tool_use_prompt_token_count or 0),
        (told.candidates_token_count or 0) + (told.thoughts_token_count or 0),
    )


# --------------------------------------------------------------------------------------------------- ours under theirs


def as_adk_tools(capability: Hosted) -> "list[BaseTool]":
    """The delegation tools of `symfonic.delegation(...)` for ``LlmAgent(tools=[...])`` of theirs.

    Every refusal, every failure of a child and arguments that do not fit are the tool's answer. Raises
    ConfigurationError if there is no google-adk.
    """
    try:
        from google.adk.tools.base_tool import BaseTool
        from google.genai.types import FunctionDeclaration
    except ImportError as error:
        told = f"tools for Google's ADK need google-adk: pip install google-adk ({error})"
        raise ConfigurationError(told) from error

    class DelegationTool(BaseTool):
        """One of the delegation tools, as their agents call tools."""

        def __init__(self, tool: Tool) -> None:
            super().__init__(name=tool.name, description=tool.description)
            self._parameters = deepcopy(dict(tool.parameters))

        def _get_declaration(self) -> FunctionDeclaration:
            parameters = deepcopy(self._parameters)
            return FunctionDeclaration(name=self.name, description=self.description, parameters_json_schema=parameters)

        async def run_async(self, *, args: dict[str, Any], tool_context: "ToolContext") -> str:
            host, call = _host.set(tool_context), current_tool_call.set(tool_context.function_call_id)
            try:
                return await capability.call(self.name, args)
            finally:
                current_tool_call.reset(call)
                _host.reset(host)

    return [DelegationTool(each) for each in tools_of(capability)]
