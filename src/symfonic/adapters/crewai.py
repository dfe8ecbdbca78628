"""Crews and agents of CrewAI as children."""

import asyncio
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

from symfonic.adapters.turns import turn
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.errors import ChildDeclarationError
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import ConfigurationError, SymfonicError
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.text import to_text

_PLACEHOLDER = re.compile(r"{([A-Za-z_][A-Za-z0-9_\-]*)}")
"""What a crew replaces in its texts; other braces it leaves alone."""


def adopt(name: str, child: Any) -> "CrewAIChild | None":
    """The crew or agent behind the runner contract; None for what is no part of theirs that works.

    Raises ChildDeclarationError for a crew whose inputs are not made of one task, for a task, a flow, and an agent that
    works only in a crew.
    """
    theirs = import_module("crewai")
    if isinstance(child, theirs.Crew | theirs.Agent):
        return CrewAIChild(name, child)
    base = import_module("crewai.agents.agent_builder.base_agent").BaseAgent
    if isinstance(child, theirs.Task | base):
        advice = "put it into a Crew"
    elif isinstance(child, theirs.Flow):
        advice = "put a function that starts a new one into from_callable(...)"
    else:
        return None
    told = f"the sub-agent {name!r} is a {type(child).__name__} of CrewAI, of which a Crew or an Agent can be adopted"
    raise ChildDeclarationError(f"{told}: {advice}")


class FeedbackNeededError(SymfonicError):
    """A task of theirs waits for a person's feedback (``human_input``) on its ``answer``."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        super().__init__(f"it waits for a person's feedback, which nobody here can give, on its answer: {answer}")


class CrewAIChild:
    """A crew or an agent of theirs, run in a thread.

    The task is the input of a crew that its texts have a placeholder for, or the message to an agent. The answer is the
    structured output (``pydantic``, else ``json_dict``) as JSON, else ``raw``. The whole ``CrewOutput`` or
    ``LiteAgentOutput`` is kept. It works on one delegation at a time, whoever asks, and further ones wait: so does
    each agent, in whatever crew.

    ``options`` go to ``kickoff``: ``inputs`` of a crew besides the task, ``response_format`` of an agent, and so on.
    Raises ChildDeclarationError if there is not one input left for the task, ConfigurationError for an option that the
    delegation itself gives.
    """

    __slots__ = ("_input", "_name", "_options", "agent")

    def __init__(self, name: str, agent: Any, **options: Any) -> None:
        if taken := {"messages", "from_checkpoint"} & options.keys():
            raise ConfigurationError(f"a delegation itself gives {', '.join(sorted(taken))} to a kickoff of CrewAI")
        self._name = name
        self._options = options
        self.agent: Any = agent
        is_crew = isinstance(agent, import_module("crewai").Crew)
        self._input: str | None = _input_of(name, agent, options.get("inputs") or {}) if is_crew else None

    async def run(self, query: str) -> ChildResponse:
        """Run it. Raises what it raises, FeedbackNeededError where it pauses, SymfonicError if asked by way of itself.

        If this is cancelled it makes no more model calls and calls no more tools: it ends after the one that it is in,
        and is busy until then.
        """
        run = active_run()
        meter = _Meter(run)
        async with turn(self._name, _family(self.agent)) as mine:
            try:
                result = await mine.in_thread(lambda: self._work(query, meter))
            except asyncio.CancelledError:
                meter.over = True
                raise
            except Exception as error:
                ended = meter.ended_by or _signal_in(error, meter.signals)
                if ended is None or ended is error:
                    raise
                raise ended from ended.__cause__
        if meter.signal is not None:  # where theirs went on without another model call
            raise meter.signal
        return ChildResponse(_answer(result), result)

    def _work(self, query: str, meter: "_Meter") -> Any:
        given = self._options
        try:
            with _told(meter):
                if self._input is None:
                    return self.agent.kickoff(query, **given)
                inputs = {**(given.get("inputs") or {}), self._input: query}
                return _drained(self.agent.kickoff(**{**given, "inputs": inputs}))
        finally:
            meter.over = True  # for what it began in threads of its own


def _family(agent: Any) -> list[Any]:
    """A crew and all the agents at work in it, or one agent."""
    found = [agent, *getattr(agent, "agents", ()), getattr(agent, "manager_agent", None)]
    found += [task.agent for task in getattr(agent, "tasks", ())]
    return [each for each in found if each is not None]


def _input_of(name: str, crew: Any, given: Mapping[str, Any]) -> str:
    """The input of a crew that the task is. Raises ChildDeclarationError if that is not told by its placeholders."""
    wanted = [each for each in dict.fromkeys(_placeholders(crew)) if each not in given]
    if len(wanted) == 1:
        return wanted[0]
    if not wanted:
        told = "whose tasks and agents have no placeholder, so no task would reach it: write {task} into one of them"
    else:
        told = f"with the inputs {', '.join(wanted)}, and a delegation has one task: give it the others, with"
        told += f" CrewAIChild({name!r}, crew, inputs={{{wanted[-1]!r}: ...}}) of symfonic.adapters.crewai"
    raise ChildDeclarationError(f"the sub-agent {name!r} is a crew {told}")


def _placeholders(crew: Any) -> Iterator[str]:
    """The names in its texts, as they were before it was run the first time, which replaces them."""
    texts = [(task, ("description", "expected_output", "output_file")) for task in crew.tasks]
    texts += [(agent, ("role", "goal", "backstory")) for agent in crew.agents]
    for each, fields in texts:
        for field in fields:
            text = getattr(each, f"_original_{field}", None) or getattr(each, field, None)
            yield from _PLACEHOLDER.findall(text or "")


def _drained(result: Any) -> Any:
    """The result itself, where a crew streams."""
    if not isinstance(result, import_module("crewai.types.streaming").CrewStreamingOutput):
        return result
    for _ in result:
        continue
    return result.result


def _answer(result: Any) -> str:
    structured = result.pydantic if result.pydantic is not None else getattr(result, "json_dict", None)
    return str(result.raw or "") if structured is None else to_text(structured)


# ------------------------------------------------------------------------------------- inside: usage, limits, signals


class _Meter:
    """Counts what a run of theirs spends, admits its model calls, and ends it at the next one where it is to end."""

    __slots__ = ("_run", "ended_by", "over", "signal", "signals")

    def __init__(self, run: ActiveRun | None) -> None:
        self._run = run
        self.signals: tuple[type[Exception], ...] = run.pass_through if run is not None else ()
        self.over: bool = False
        self.signal: BaseException | None = None
        self.ended_by: BaseException | None = None

    def before_model_call(self, _: Any) -> None:
        """Let the call be made, or end the run: for a cancellation, a signal, or a limit."""
        if not self._is_its_own():
            return
        if self.over:
            raise _stop("nobody waits for it any more")
        if self.signal is not None:
            self.end(self.signal)
        if self._run is not None:
            try:
                self._run.admit_model_call()
            except SymfonicError as error:
                self.end(error)
            self._run.spend(Usage(model_calls=1))

    def before_tool_call(self, context: Any) -> None:
        """Let a tool be called that there is."""
        if not self._is_its_own():
            return
        if self.over:
            raise _stop("nobody waits for it any more")
        if self._run is not None and context.tool is not None:
            self._run.spend(Usage(tool_calls=1))

    def note(self, _: Any, event: Any) -> None:
        """Take note of an event of theirs: the tokens of a model call, and an error that they tell only the model."""
        if self._run is None or not self._is_its_own():
            return
        if event.type == "llm_call_completed":
            spent = import_module("crewai.types.usage_metrics").UsageMetrics.from_provider_dict(event.usage)
            if spent is not None:
                self._run.spend(Usage(spent.prompt_tokens, spent.completion_tokens))
        elif event.type == "tool_usage_error":
            self.signal = self.signal or _signal_in(event.error, self.signals)

    def end(self, why: BaseException) -> None:
        """End the run. Raises what theirs let through."""
        self.ended_by = why
        raise _stop(str(why))

    def _is_its_own(self) -> bool:
        """What runs of ours below count themselves is left to them."""
        run = active_run()
        return run is self._run or (run is not None and self._run is not None and run.identity == self._run.identity)


def _signal_in(error: BaseException | None, kinds: tuple[type[Exception], ...]) -> BaseException | None:
    """What somebody takes for a signal, among an error and what it was raised from."""
    return next((each for each in _behind(error) if isinstance(each, kinds)), None)


def _behind(error: BaseException | None) -> Iterator[BaseException]:
    told: list[BaseException] = []
    while isinstance(error, BaseException) and error not in told:
        yield error
        told.append(error)
        error = error.__cause__ or error.__context__


@contextmanager
def _told(meter: _Meter) -> Iterator[None]:
    """Have their hooks and events reach the meter, in this context and those copied from it, besides who is there."""
    hooks, people = import_module("crewai.hooks.dispatch"), import_module("crewai.core.providers.human_input")
    points = hooks.InterceptionPoint
    scoped = {point: hooks.get_scoped_hooks(point) for point in points}
    scoped[points.PRE_MODEL_CALL].append(meter.before_model_call)
    scoped[points.PRE_TOOL_CALL].append(meter.before_tool_call)
    import_module("crewai.events.stream_context").add_stream_sink(meter.note)  # the context ends with the thread
    if type(people.get_provider()) is people.SyncHumanInputProvider:
        people.set_provider(_nobody_class()(meter))
    with hooks.scoped_hooks(scoped):
        yield


@cache
def _nobody_class() -> Any:
    """The class of those who are asked for a person's feedback where it would be read from the console."""
    base: Any = import_module("crewai.core.providers.human_input").SyncHumanInputProvider

    class Nobody(base):  # type: ignore[misc, unused-ignore]
        def __init__(self, meter: _Meter) -> None:
            self._meter = meter

        def handle_feedback(self, formatted_answer: Any, context: Any) -> Any:
            self._meter.end(FeedbackNeededError(to_text(formatted_answer.output)))

        async def handle_feedback_async(self, formatted_answer: Any, context: Any) -> Any:
            self.handle_feedback(formatted_answer, context)

    return Nobody


def _stop(why: str) -> Exception:
    """Their exception that ends a run: any other is swallowed by a hook, or retried by an agent."""
    error: Exception = import_module("crewai.hooks.dispatch").HookAborted(why, "symfonic")
    return error
