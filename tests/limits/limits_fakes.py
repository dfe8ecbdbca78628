"""Children to be counted, and every path by which a run can start one."""

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import symfonic
from symfonic import Agent, DelegationOutcome, DelegationRecord, Limits, SubAgent
from symfonic.capabilities.delegation import ChildResponse, DelegationCapability, PrebuiltChild
from symfonic.capabilities.delegation.bounds import Bounds, ChildPolicy, Hook
from symfonic.errors import LimitReachedError, RunError
from symfonic.kernel.contracts.messages import Message
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import FunctionModel, tool_call

DELIVERED, REFUSED = DelegationOutcome.DELIVERED, DelegationOutcome.REFUSED_BUDGET
Delegate = Callable[[str, str], Awaitable[DelegationRecord]]


class Worker:
    """A child that is no agent of ours: does what it is told, and counts how it is used, from whatever thread.

    ``act`` is an async function of the task; its answer is the child's.
    """

    def __init__(self, act: Callable[[str], Awaitable[Any]] | None = None) -> None:
        self._act = act
        self._lock = threading.Lock()
        self.tasks: list[str] = []
        self.scopes: list[Any] = []
        self.running = self.peak = 0
        self.ended = threading.Event()

    async def run(self, query: str, *, scope: Any = None) -> ChildResponse:
        with self._lock:
            self.tasks.append(query)
            self.scopes.append(scope)
            self.running += 1
            self.peak = max(self.peak, self.running)
        try:
            for _ in range(3):  # one that should not run at the same time shows itself
                await asyncio.sleep(0)
            return ChildResponse("done" if self._act is None else await self._act(query))
        finally:
            with self._lock:
                self.running -= 1
            self.ended.set()


def crowd(size: int) -> Worker:
    """A child that ends once so many of its runs have been going on at once."""

    async def act(query: str) -> str:
        while worker.peak < size:  # noqa: ASYNC110 - they run on several event loops, which no event of asyncio spans
            await asyncio.sleep(0)
        for _ in range(5):  # one that should not be there shows itself
            await asyncio.sleep(0)
        return "done"

    worker = Worker(act)
    return worker


def hanging() -> Worker:
    """A child that never returns, and ends when it is cancelled."""

    async def act(query: str) -> str:
        await asyncio.Event().wait()
        return "never"

    return Worker(act)


def talking(input_tokens: int = 0, output_tokens: int = 0, said: list[Any] | None = None) -> Agent:
    """An agent whose one model call costs so much."""

    def reply(messages: Sequence[Message], tools: Any) -> ModelReply:
        if said is not None:
            said.append(messages[-1].text)
        return ModelReply("done", (), input_tokens, output_tokens)

    return Agent(FunctionModel(reply))


def child(agent: Any, name: str = "child", policy: ChildPolicy | None = None) -> SubAgent:
    return SubAgent(name, agent, f"Does {name}.", policy=policy)


def asks(name: str, tasks: Sequence[str], at_once: bool = False) -> FunctionModel:
    """A model that gives a child these tasks, one after another or all in one reply."""

    def fn(messages: Sequence[Message], tools: Any) -> Any:
        step = sum(message.role == "assistant" for message in messages)
        if at_once:
            return [tool_call("run_agent", name=name, task=task) for task in tasks] if not step else "done"
        return tool_call("run_agent", name=name, task=tasks[step]) if step < len(tasks) else "done"

    return FunctionModel(fn)


def calls(name: str) -> FunctionModel:
    """A model that calls one tool, once."""
    return FunctionModel(lambda messages, tools: "done" if messages[-1].role == "tool" else tool_call(name))


def bounded(
    *children: SubAgent | PrebuiltChild, limits: Limits | None = None, hooks: tuple[Hook, ...] = (), **scope: Any
) -> "Bounded":
    """The delegation tools over these children, in a run of these bounds."""
    capability = DelegationCapability.declare(children, max_depth=20)  # type: ignore[arg-type]
    return Bounded(capability, Bounds(limits=() if limits is None else (limits,), hooks=hooks), scope)


@dataclass
class Bounded:
    """``with bounded(...) as delegate:`` delegates inside a run of these bounds."""

    capability: DelegationCapability
    bounds: Bounds
    scope: dict[str, Any]

    def __enter__(self) -> Delegate:
        self._block = self.capability.context.run_scope(depth=0, bounds=self.bounds, **self.scope)
        self.run = self._block.__enter__()
        return self.capability.tools.delegate

    def __exit__(self, *ended: Any) -> None:
        self._block.__exit__(*ended)


async def at_once(delegate: Delegate, tasks: Sequence[str], name: str = "child") -> list[DelegationRecord]:
    """Delegate every task in a task of its own; the records in order."""
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(delegate(name, task)) for task in tasks]  # type: ignore[arg-type,var-annotated]
    return [each.result() for each in running]


async def in_turn(delegate: Delegate, tasks: Sequence[str], name: str = "child") -> list[DelegationRecord]:
    """Delegate one task after another."""
    return [await delegate(name, task) for task in tasks]


def in_threads(delegate: Delegate, tasks: Sequence[str], name: str = "child") -> list[DelegationRecord]:
    """Delegate each task from a thread of its own, with this context and an event loop of its own, all together."""
    together = threading.Barrier(len(tasks))
    records: dict[int, DelegationRecord] = {}

    def work(number: int, task: str) -> None:
        together.wait()
        records[number] = asyncio.run(delegate(name, task))  # type: ignore[arg-type]

    threads = [
        threading.Thread(target=contextvars.copy_context().run, args=(work, number, task))
        for number, task in enumerate(tasks)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [records[number] for number in range(len(tasks))]


@dataclass(frozen=True)
class Path:
    """A way to start a child. ``delegations`` and ``model_calls`` are what it costs besides."""

    name: str
    delegations: int = 0
    model_calls: int = 0


TOOL, DELEGATE, THREAD, TASK = Path("the tool"), Path("delegate()"), Path("a thread"), Path("a detached task")
FOREIGN, NESTED = Path("a foreign child calling back", 1), Path("a nested level", 1, 1)
IN_A_TOOL = Path("an agent run in a tool", 0, 1)
PATHS = (TOOL, DELEGATE, THREAD, TASK, FOREIGN, NESTED, IN_A_TOOL)


@dataclass
class Ended:
    """How a tree ended: the records of the child, in order, and the error of the root where there was one."""

    records: list[DelegationRecord] = field(default_factory=list)
    error: LimitReachedError | None = None

    @property
    def outcomes(self) -> list[DelegationOutcome]:
        return [record.outcome for record in self.records]

    @property
    def refusals(self) -> list[DelegationRecord]:
        return [record for record in self.records if record.outcome.refused]


async def run_by(path: Path, agent: Any, tasks: Sequence[str], *, limits: Limits, at_once: bool = False) -> Ended:
    """A tree under these limits, in which a child is given these tasks by this path."""
    ended = Ended()
    root = _root(path, child(agent), tasks, at_once, limits, ended.records)
    try:
        made: Sequence[DelegationRecord] = (await root.run("go")).delegations
    except LimitReachedError as error:
        ended.error, made = error, error.delegations
    if not ended.records:
        ended.records = [record for record in walk(made) if record.name == "child"]
    return ended


def _root(
    path: Path, worker: SubAgent, tasks: Sequence[str], at_once: bool, limits: Limits, found: list[DelegationRecord]
) -> Agent:
    if path is TOOL:
        return Agent(asks("child", tasks, at_once), sub_agents=[worker], limits=limits)
    middle = Agent(asks("child", tasks, at_once), sub_agents=[worker])
    if path is NESTED:
        return Agent(asks("middle", ["go"]), sub_agents=[child(middle, "middle")], limits=limits)

    async def all_of_them() -> None:
        assert root.engine.delegation is not None
        found.extend(await _each(root.engine.delegation.tools.delegate, tasks, at_once))

    async def call_back(query: str) -> str:
        await all_of_them()
        return "done"

    async def act() -> str:
        if path is TASK:
            over = asyncio.Event()
            task = asyncio.create_task(all_of_them())
            task.add_done_callback(lambda _: over.set())
            await over.wait()
        elif path is IN_A_TOOL:
            try:
                found.extend((await middle.run("go")).delegations)
            except RunError as error:
                found.extend(error.delegations)
                raise
        else:
            await all_of_them()
        return "done"

    def act_in_thread() -> str:
        asyncio.run(all_of_them())
        return "done"

    if path is FOREIGN:
        callers = [worker, child(Worker(call_back), "caller")]
        root = Agent(asks("caller", ["go"]), sub_agents=callers, limits=limits)
        return root
    tool = symfonic.tool(act_in_thread if path is THREAD else act, name="act", description="Acts.")
    root = Agent(calls("act"), tools=[tool], sub_agents=[worker], limits=limits)
    return root


async def _each(delegate: Delegate, tasks: Sequence[str], together: bool) -> list[DelegationRecord]:
    return await (at_once if together else in_turn)(delegate, tasks)


def walk(records: Sequence[DelegationRecord]) -> list[DelegationRecord]:
    """Every record of a tree, parents first."""
    return [each for record in records for each in (record, *walk(record.children))]


def reached(record: DelegationRecord) -> tuple[str, float]:
    """The limit that a record names."""
    error = record.trace.error if record.trace else None
    assert isinstance(error, LimitReachedError), record
    return error.limit, error.value
