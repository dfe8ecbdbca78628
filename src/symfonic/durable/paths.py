"""Agents by their path: ``lead``, ``lead/researcher`` and so on, the same in every process that has the same tree."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any

from symfonic.agent.engine import SymfonicAgent
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.capabilities.delegation.declarations import AgentRef, SubAgent
from symfonic.capabilities.delegation.runner_adapter import AdaptedAgent, ChildResponse, how_to_call
from symfonic.durable.body import Body
from symfonic.errors import DelegationError
from symfonic.kernel.concurrency.awaitables import is_awaitable
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.text import encodable, task_text
from symfonic.remote.answer import Answer
from symfonic.remote.crossing import leaving
from symfonic.remote.envelope import Envelope

KEPT = 1024
"""Paths whose agents are kept ready."""


def part(name: str) -> str:
    """A name as a part of a path, without what a database could not keep."""
    return encodable(name).replace("%", "%25").replace("/", "%2F").replace("\x00", "%00")


class DurableChild:
    """A child that runs as a workflow of its own, in whatever process takes it out of its queue."""

    def __init__(self, path: str, through: Callable[[Envelope], Awaitable[Answer]]) -> None:
        self._path, self._through = path, through

    async def run(self, query: str) -> ChildResponse:
        """Have it run, and wait. Raises what `Out.returned` raises, and EnvelopeError for a task that is too large."""
        with leaving(self._path, query) as out:
            return out.returned(await self._through(out.envelope))


class WholeCall:
    """A child that is no agent of ours: all of its work is one step."""

    def __init__(self, name: str, runner: Any) -> None:
        self._name = name
        self._plan, self._target = how_to_call(runner)

    async def run(
        self,
        query: str,
        *,
        agent_depth: int | None = None,
        root_run_id: str | None = None,
        parent_run_id: str | None = None,
    ) -> ChildResponse:
        """Call the child, or read what it said when it was called before."""
        run = active_run()
        journal = run.journal if run is not None else None
        if run is None or journal is None:
            raise DelegationError(f"{self._name!r} is called outside a workflow")
        context = {
            "scope": None,
            "agent_depth": agent_depth,
            "root_run_id": root_run_id,
            "parent_run_id": parent_run_id,
        }
        called_now: list[bool] = []

        async def called() -> dict[str, Any]:
            run.journal = None  # what it does inside is part of this step
            try:
                response = await self._plan.answer(self._target, query, context)
            finally:
                run.journal = journal
            called_now.append(True)
            final, spent = getattr(response, "final_response", ""), run.usage
            if is_awaitable(final):
                raise TypeError(f"its final_response is a {type(final).__name__}: it must be a value")
            counts = (spent.input_tokens, spent.output_tokens, spent.model_calls, spent.tool_calls)
            return {"text": task_text(final).strip() if final else "", "spent": list(counts)}

        said = await journal.step(f"child {self._name}", called)
        if not called_now:
            run.charge(Usage(*said["spent"]), 0)
        return ChildResponse(said["text"])


class Rooted:
    """What stands for the agent at the root of a tree of its own; inside another tree it is that agent."""

    root: Any


class Tree:
    """The agents under one root. ``through`` is how a child's envelope becomes its answer."""

    def __init__(self, name: str, root: Any, through: Callable[[Envelope], Awaitable[Answer]]) -> None:
        self.name: str = name
        self.path: str = part(name)
        self.root: Any = root
        self._through = through
        self._bodies: OrderedDict[str, Body] = OrderedDict()

    async def answer(self, envelope: Envelope) -> Answer:
        """Carry a call out as the agent of its path. Raises DelegationError if there is none at that path."""
        if envelope.agent not in self._bodies:
            name, runner = await self._found(envelope.agent)
            self._bodies[envelope.agent] = Body(name, runner)
            if len(self._bodies) > KEPT:
                self._bodies.popitem(last=False)
        return await self._bodies[envelope.agent].answer(envelope)

    async def _found(self, path: str) -> tuple[str, Any]:
        """The agent at a path, with the observers and hooks of those above it: they are told and asked as ever."""
        name, runner, above = self.name, await _settled(self.root), Bounds()
        for step in path.split("/")[1:]:
            agent = ours(runner)
            roster = agent.delegation.roster if agent is not None and agent.delegation is not None else ()
            entry = next((each for each in roster if part(each.name) == step), None)
            if agent is None or entry is None:
                raise DelegationError(f"there is no agent {path!r} in this process: {name!r} has no child {step!r}")
            above = _with(above, agent.kernel.bounds)
            name, runner = entry.name, await _settled(entry.runner)
        agent = ours(runner)
        return name, WholeCall(name, runner) if agent is None else self._copy(agent, path, above)

    def _copy(self, agent: SymfonicAgent, path: str, above: Bounds) -> SymfonicAgent:
        """The same agent, whose children run as workflows."""
        kernel, delegation = agent.kernel, agent.delegation
        contributed = {spec.name for spec in delegation.tool_specs()} if delegation is not None else set()
        children = [
            SubAgent(
                each.name,
                DurableChild(f"{path}/{part(each.name)}", self._through),
                each.description,
                each.when_to_use,
                examples=each.examples,
                policy=each.policy,
            )
            for each in (delegation.roster if delegation is not None else ())
        ]
        made = SymfonicAgent(
            kernel.model,
            name=kernel.name,
            instructions=kernel.instructions,
            tools=[tool for tool in kernel.plan.offer() if tool.name not in contributed],
            sub_agents=children,
            max_depth=kernel.bounds.max_depth,
            options=kernel.options,
        )
        made.kernel.bounds = _with(above, kernel.bounds, whole=True)
        return made


def ours(runner: Any) -> SymfonicAgent | None:
    """The agent of ours behind a runner; None for any other, and for one whose class has a ``run`` of its own."""
    agent = runner.agent if isinstance(runner, AdaptedAgent) else runner
    engine = getattr(agent, "engine", agent)
    plain = str(getattr(getattr(type(agent), "run", None), "__module__", "")).startswith("symfonic.agent.")
    return engine if plain and isinstance(engine, SymfonicAgent) else None


def levels(root: Any, most: int) -> int:
    """How many levels of children there are below an agent; ``most`` where there are more, or it cannot be told."""
    here = [root]
    for level in range(most):
        below = {id(child): child for runner in here for child in _children(runner)}
        if not below:
            return level
        if any(isinstance(child, AgentRef) for child in below.values()):
            return most
        here = list(below.values())
    return most


def _children(runner: Any) -> list[Any]:
    agent = ours(runner.root if isinstance(runner, Rooted) else runner)
    roster = agent.delegation.roster if agent is not None and agent.delegation is not None else ()
    return [each.runner.agent if isinstance(each.runner, AdaptedAgent) else each.runner for each in roster]


async def _settled(runner: Any) -> Any:
    """The runner itself, or the one that a reference stands for."""
    for _ in range(100):
        inner = runner.agent if isinstance(runner, AdaptedAgent) else runner
        if isinstance(inner, AgentRef):
            runner = await inner.target()
        elif isinstance(inner, Rooted):
            runner = inner.root
        else:
            return runner
    raise DelegationError("a reference to an agent leads to itself")


def _with(above: Bounds, own: Bounds, *, whole: bool = False) -> Bounds:
    """The observers and hooks of both, outermost first; of the inner one everything where it is ``whole``."""
    return Bounds(
        own.max_depth if whole else None,
        own.limits if whole else (),
        (*above.observers, *own.observers),
        (*above.hooks, *own.hooks),
    )
