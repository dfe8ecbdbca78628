"""Agents of smolagents as children."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from functools import partial
from importlib import import_module
from typing import Any
from weakref import WeakSet

from symfonic.adapters.turns import turn
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import SymfonicError
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.text import error_text, to_text

_watched: "WeakSet[Any]" = WeakSet()
_meter: "ContextVar[_Meter | None]" = ContextVar("symfonic_smolagents_meter", default=None)


def adopt(name: str, child: Any) -> "SmolagentsChild | None":
    """The agent behind the runner contract; None for what is no instance of their ``MultiStepAgent``."""
    return SmolagentsChild(name, child) if isinstance(child, _theirs().MultiStepAgent) else None


def _theirs() -> Any:
    return import_module("smolagents")  # it has no types of its own to import


class SmolagentsChild:
    """An agent of theirs, run in a thread. Its final answer is the answer: text as it is, any other value as JSON.

    The whole ``RunResult`` is kept. Its memory begins anew with every delegation, as in every run of theirs; its
    ``state``, and what the interpreter of a ``CodeAgent`` has defined, stay. It works on one delegation at a time,
    whoever asks, and further ones wait: its memory is its own. So it is with the agents that it manages.
    """

    __slots__ = ("_name", "agent")

    def __init__(self, name: str, agent: Any) -> None:
        self._name = name
        self.agent: Any = agent

    async def run(self, query: str) -> ChildResponse:
        """Run the agent. Raises what it raises, and SymfonicError where it is asked by way of itself.

        If this is cancelled the agent is interrupted: it ends after the step that it is in, and is busy until then.
        """
        agents = tuple(_family(self.agent, {}))
        run = active_run()
        meter = _Meter(run, self.agent)
        result = signal = None
        async with turn(self._name, agents) as mine:
            try:
                meter.begin()
                result = await mine.in_thread(lambda: self._work(query, agents, meter))
            except asyncio.CancelledError:
                meter.interrupted = True
                for agent in agents:
                    agent.interrupt()
                raise
            except Exception as error:
                signal = _signal(error, run.pass_through if run is not None else ())
                if signal is None:
                    words = _words(error)
                    if words is None:
                        raise
                    raise SymfonicError(words) from error
        if signal is not None:  # raised above, it would be in the context of what it is the cause of
            raise signal
        return ChildResponse(_answer(result), result)

    def _work(self, query: str, agents: Sequence[Any], meter: "_Meter") -> Any:
        _meter.set(meter)
        for agent in agents:
            _watch(agent)
        with _context_carried(agents):
            return self.agent.run(query, reset=True, return_full_result=True)


def _family(agent: Any, seen: dict[int, Any]) -> Iterator[Any]:
    """The agent, and those that it manages, each once."""
    if id(agent) not in seen:
        seen[id(agent)] = agent
        yield agent
        for managed in getattr(agent, "managed_agents", {}).values():
            if isinstance(managed, _theirs().MultiStepAgent):
                yield from _family(managed, seen)


# -------------------------------------------------------------------------------------------- inside, between the steps


class _Meter:
    """Counts what a run of theirs spends step by step, and admits the model calls to come.

    They can be told only between the steps. A managed agent's first call is admitted when it has been made.
    """

    __slots__ = ("_admitted", "_agent", "_run", "interrupted")

    def __init__(self, run: ActiveRun | None, agent: Any) -> None:
        self._run = run
        self._agent = agent
        self._admitted: set[int] = set()
        self.interrupted: bool = False

    def begin(self) -> None:
        """Admit the first model call. Raises LimitReachedError if the tree has none left."""
        self._admit(self._agent)

    def ended(self, step: Any, agent: Any) -> None:
        """Take note of a step. Raises LimitReachedError if there can be no next one, and signals to pass through."""
        if self.interrupted:  # its run may have begun after it was told
            agent.interrupt()
        if self._run is None:
            return
        tokens = step.token_usage
        self._run.spend(
            Usage(tokens.input_tokens if tokens else 0, tokens.output_tokens if tokens else 0, 1, _tool_calls(step))
        )
        signal = _signal(getattr(step, "error", None), self._run.pass_through)
        if signal is not None:
            raise signal
        if id(agent) in self._admitted:
            self._admitted.discard(id(agent))
        else:
            self._run.admit_model_call()
        if _goes_on(step) and not self.interrupted:
            self._admit(agent)

    def _admit(self, agent: Any) -> None:
        if self._run is not None:
            self._run.admit_model_call()
            self._admitted.add(id(agent))


def _watch(agent: Any) -> None:
    """In its turn: have it tell of its steps, for good. Where no run of ours is around it nobody listens."""
    registry = agent.step_callbacks
    if registry not in _watched:
        _watched.add(registry)
        for kind in (_theirs().ActionStep, _theirs().PlanningStep):
            registry.register(kind, _step_ended)


def _step_ended(step: Any, agent: Any) -> None:
    meter = _meter.get()
    if meter is not None:
        meter.ended(step, agent)


def _goes_on(step: Any) -> bool:
    """Whether a model call follows: after a plan, and after a reply that was not the last."""
    if isinstance(step, _theirs().PlanningStep):
        return True
    return step.model_output_message is not None and not step.is_final_answer


def _tool_calls(step: Any) -> int:
    """The calls that the model made, or the pieces of code that were run; to answer is no call."""
    said = getattr(step, "model_output_message", None)
    asked = [each.function.name for each in (said.tool_calls if said else None) or ()]
    asked = asked or [each.name for each in getattr(step, "tool_calls", None) or ()]
    return sum(name != "final_answer" for name in asked)


def _signal(error: BaseException | None, kinds: tuple[type[Exception], ...]) -> BaseException | None:
    """What was raised inside a tool, and is somebody's signal; theirs would go on as if the tool had failed."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, kinds):
            return error
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


@contextmanager
def _context_carried(agents: Sequence[Any]) -> Iterator[None]:
    """Let the tools of code agents have our context in the thread that their interpreter starts without it."""
    kind = _theirs().LocalPythonExecutor
    found = [getattr(agent, "python_executor", None) for agent in agents]
    executors: list[Any] = [executor for executor in found if isinstance(executor, kind)]
    for executor in executors:
        executor.send_tools = partial(_send_carried, executor)
    try:
        yield
    finally:
        for executor in executors:
            vars(executor).pop("send_tools", None)


def _send_carried(executor: Any, tools: dict[str, Any]) -> None:
    context = copy_context()

    def carried(tool: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *args, **kwargs: context.copy().run(tool, *args, **kwargs)  # one can be entered only once

    type(executor).send_tools(executor, {name: carried(tool) for name, tool in tools.items()})


# ---------------------------------------------------------------------------------------------------- how a run ended


def _answer(result: Any) -> str:
    """The final answer. Raises SymfonicError where after its last step not even one could be generated."""
    output = result.output
    if result.state == "max_steps_error" and isinstance(output, list):  # only what they write themselves has parts
        raise SymfonicError("it reached its max_steps: " + " ".join(str(part.get("text", "")) for part in output))
    if output is None:
        return ""
    if isinstance(output, _theirs().AgentText):
        return str(output)
    return str(output.to_string()) if isinstance(output, _theirs().AgentType) else to_text(output)


def _words(error: Exception) -> str | None:
    """Why it failed, where their text around an error without words would not say it."""
    cause = error.__cause__
    if cause is None or str(cause).strip() or not isinstance(error, _theirs().AgentError):
        return None
    return f"{error_text(error).rstrip()} {error_text(cause)}"
