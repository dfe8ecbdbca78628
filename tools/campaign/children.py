"""A team as objects of the library: our agents over models played by functions, and foreign children."""

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import nullcontext
from typing import Any

from tools.campaign.faults import bad_reply, meet, rubbish
from tools.campaign.trees import Act, Node
from tools.campaign.world import CONTEXT, World, same_surroundings

from symfonic import Agent, SubAgent
from symfonic.capabilities.delegation.bounds import Bounds, Veto
from symfonic.capabilities.delegation.capability import DelegationCapability
from symfonic.capabilities.delegation.contracts import ChildSpec, PrebuiltChild
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.kernel.contracts.messages import Message, ToolCall, Usage
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.options import Options
from symfonic.kernel.contracts.run_identity import RunIdentity, run_identity_scope
from symfonic.kernel.contracts.tool import Tool
from symfonic.testing import FunctionModel

_CHILD = {"type": "object", "properties": {"child": {"type": "string"}}, "required": ["child"]}


class Team:
    """A team that can be run any number of times, once at a time; ``world`` is the run in progress."""

    def __init__(self, root: Node) -> None:
        self.world: World
        self.root = root
        self.agents: dict[str, Any] = {}
        self._keepers: dict[int, DelegationCapability] = {}
        self._build(root)

    async def play(self) -> Any:
        """Run the root to its end and return what it returns."""
        world, plan = self.world, self.world.plan
        observers: list[Any] = [world.events.append]
        observers += [self._async_observer] if "async" in plan.observers and self.root.kind == "agent" else []
        observers += [_raising_observer] if "raises" in plan.observers else []
        with same_surroundings(world, "the root"):
            if self.root.kind != "agent":
                return await self._play_capability(tuple(observers))
            agent, bounds = self.agents[self.root.name], {"max_depth": plan.max_depth, "limits": plan.limits}
            if plan.stop_after is None:
                return await agent.run("go", observers=tuple(observers), **bounds)
            async with agent.stream("go", observers=tuple(observers), **bounds) as stream:
                left = plan.stop_after
                async for _ in stream:
                    left -= 1
                    if not left:
                        world.cancelled = True
                        return None
                return stream.result

    async def _play_capability(self, observers: Any) -> None:
        """A root that is no agent: a program that delegates by itself."""
        world, plan = self.world, self.world.plan
        bounds = Bounds(plan.max_depth, () if plan.limits is None else (plan.limits,), observers)
        keeper, root = self._keeper(self.root), RunIdentity.root()
        with run_identity_scope(root):
            lifecycle = keeper.lifecycle if _owns(self.root) else nullcontext()
            async with keeper.run_scope(depth=0, bounds=bounds, agent=self.root.name), lifecycle:
                world.started(self.root)
                await self._foreign(self.root, keeper)

    async def _async_observer(self, event: Any) -> None:
        self.world.late_events.append(event)

    def _build(self, node: Node) -> None:
        for child in node.children:
            self._build(child)
        if node.kind == "agent":
            self.agents[node.name] = self._agent(node)
        elif node.parent is not None:
            self.agents[node.name] = _SHAPES[node.shape](self, node)
        if node.kind != "agent" and not _owns(node):
            self._keepers[node.number] = self._keeper(node)

    def _agent(self, node: Node) -> Agent:
        tools: list[Any] = []
        if any(child.via == "blocking" for child in node.children):

            def block(child: str) -> str:
                """Run an agent from synchronous code."""
                self.world.hit("blocking", node)
                return str(self.agents[child].run_sync("go").text)

            tools.append(block)
        if any(child.via == "awaited" for child in node.children):

            async def invoke(arguments: Any) -> str:
                with same_surroundings(self.world, f"a run inside a tool of {node.name}"):
                    return str((await self.agents[arguments["child"]].run("go")).text)

            tools.append(Tool("awaited", "Run an agent.", _CHILD, invoke))
        children = [
            SubAgent(child.name, self.agents[child.name], "A child.", policy=child.policy)
            for child in node.children
            if child.delegated
        ]
        return Agent(
            FunctionModel(lambda messages, _: self._think(node, messages)),
            name=node.name,
            tools=tools,
            sub_agents=children,
            max_depth=node.max_depth,
            limits=node.limits,
            options=Options(on_delegate=self._hook) if node.parent is None else None,
        )

    def _hook(self, request: Any) -> Any:
        hook = self.world.plan.hook
        if hook == "passes later":
            return _later()
        if hook in ("vetoes", "raises") and self.world.plan.acts[int(request.name[1:])].vetoed:
            if hook == "raises":
                raise PermissionError("cannot decide")
            return Veto("not this one")
        return None

    async def _think(self, node: Node, messages: Sequence[Message]) -> Any:
        """The model of an agent."""
        world = self.world
        act = world.plan.acts[node.number]
        step = sum(message.role == "assistant" for message in messages)
        if not step:
            world.started(node)
        ask = world.asked(node)
        with world.busy(node):
            calls: tuple[ToolCall, ...] = ()
            text = ""
            if step < len(act.rounds):
                if act.early and not step:
                    await self._fail(node, act)
                calls = tuple(map(_call, act.rounds[step])) + (_stray(act) if not step else ())
            elif act.fault == "rubbish":
                world.hit("rubbish", node)
                return bad_reply(act.flavour)
            else:
                text = await meet(world, node, act)
            ask.usage = Usage(act.tokens, act.flavour % 5, 1, len(calls))
            return ModelReply(text, calls, act.tokens, act.flavour % 5)

    async def _fail(self, node: Node, act: Act) -> None:
        if act.fault not in ("answer", "rubbish"):
            await meet(self.world, node, act)

    def foreign(self, node: Node, given: dict[str, Any]) -> Coroutine[Any, Any, Any]:
        """The body of a foreign child. It has started when this is called, also where nobody awaits what it returns."""
        self.world.started(node, given)
        return self._body(node)

    async def _body(self, node: Node) -> Any:
        world = self.world
        with world.inside(node):
            if node.children:
                world.hit("callback", node)
            keeper = self._keeper(node)
            async with keeper.lifecycle if _owns(node) else nullcontext():
                return await self._foreign(node, keeper)

    async def _foreign(self, node: Node, keeper: DelegationCapability) -> Any:
        world = self.world
        act = world.plan.acts[node.number]
        if act.early:
            with world.busy(node):
                await self._fail(node, act)
        for calls in act.rounds:
            await self._delegate(node, calls, keeper)
        with world.busy(node):
            if act.fault == "rubbish":
                world.hit("rubbish", node)
                return rubbish(act.flavour) if node.parent else None
            return ChildResponse(await meet(world, node, act))

    async def _delegate(self, node: Node, calls: Sequence[Node], keeper: DelegationCapability) -> None:
        """Call children: one after another, in tasks, in threads, and in tasks that nobody waits for."""
        world, run = self.world, CONTEXT.active_run()
        run_id = run.identity.run_id if run and run.identity else ""
        for child in calls:
            if child.via == "detached":
                world.hit("loose", child)
                world.loose.add(run_id)
                task = asyncio.get_running_loop().create_task(self._survive(child, keeper))
                if world.loop is asyncio.get_running_loop():
                    world.detached.add(task)
        waited = [self._survive(child, keeper) for child in calls if child.via == "task"]
        threads = [child for child in calls if child.via == "thread"]
        if threads:
            world.threaded = True
            together = threading.Barrier(len(threads))
            waited += [self._in_thread(child, keeper, together) for child in threads]
        try:
            await _all(waited)
        except BaseException:
            if threads:
                world.loose.add(run_id)
            raise
        for child in calls:
            if child.via == "inline":
                await self._one(child, keeper)

    async def _survive(self, child: Node, keeper: DelegationCapability) -> None:
        """One call in a task of its own: a child that cancels itself takes only this task along."""
        try:
            await self._one(child, keeper)
        except (asyncio.CancelledError, BaseExceptionGroup):
            return

    async def _in_thread(self, child: Node, keeper: DelegationCapability, together: threading.Barrier) -> None:
        self.world.hit("loose", child)
        loop, context = asyncio.get_running_loop(), contextvars.copy_context()
        ended: asyncio.Future[None] = loop.create_future()

        def body() -> None:
            try:
                together.wait(5)
                context.run(asyncio.run, self._survive(child, keeper))
            except (asyncio.CancelledError, threading.BrokenBarrierError):  # it cancelled its main task; it came late
                return
            finally:
                _tell(loop, ended)

        thread = threading.Thread(target=body, name="campaign", daemon=True)
        self.world.threads.append(thread)
        thread.start()
        await ended

    async def _one(self, child: Node, keeper: DelegationCapability) -> None:
        world, run = self.world, CONTEXT.active_run()
        with same_surroundings(world, f"the delegation to {child.name}"):
            record = await keeper.tools.delegate(child.name, "go")
        if run is not None and run.is_open and not any(each is record for each in run.records):
            world.complain(f"the record of {child.name} is not among its caller's")
        if record.name != child.name or record.depth != child.depth:
            world.complain(f"{child.name} at depth {child.depth} has the record of {record.name} at {record.depth}")

    def _keeper(self, node: Node) -> DelegationCapability:
        """The capability of a foreign caller; one that owns children is made for each of its runs."""
        ready = self._keepers.get(node.number)
        if ready is not None:
            return ready
        children: list[PrebuiltChild | ChildSpec] = []
        for child in node.children:
            runner = self.agents[child.name]
            if child.owned:
                build = lambda child=child, runner=runner: _Owned(self.world, child, runner)  # noqa: E731
                children.append(ChildSpec(child.name, build, "A child.", policy=child.policy))
            else:
                children.append(PrebuiltChild(child.name, runner, "A child.", policy=child.policy))
        return DelegationCapability.declare(children, max_depth=node.max_depth)


class _Foreign:
    def __init__(self, team: Team, node: Node) -> None:
        self.team = team
        self.node = node


class _Open(_Foreign):
    async def run(self, query: str, **kwargs: Any) -> Any:
        return await self.team.foreign(self.node, kwargs)


class _Bare(_Foreign):
    async def run(self, query: str) -> Any:
        return await self.team.foreign(self.node, {})


class _Named(_Foreign):
    async def run(self, query: str, *, scope: Any, agent_depth: int, root_run_id: str, parent_run_id: str) -> Any:
        given = {"agent_depth": agent_depth, "root_run_id": root_run_id, "parent_run_id": parent_run_id}
        return await self.team.foreign(self.node, given | {"scope": scope})


class _Retired(_Foreign):
    def run(self, query: str, **state_overrides: Any) -> Coroutine[Any, Any, Any]:
        return self.team.foreign(self.node, state_overrides)


class _Pieces(_Foreign):
    async def run(self, query: str, **kwargs: Any) -> AsyncIterator[Any]:
        yield await self.team.foreign(self.node, kwargs)
        yield None


_SHAPES: dict[str, type[_Foreign]] = {
    "open": _Open,
    "bare": _Bare,
    "named": _Named,
    "retired": _Retired,
    "pieces": _Pieces,
}


class _Owned:
    """A child that the framework builds and closes; it forwards, and counts how often it is closed."""

    def __init__(self, world: World, node: Node, runner: Any) -> None:
        self.node = node
        self.closed = 0
        self._runner = runner
        world.owned.append(self)

    async def run(self, query: str, *, agent_depth: int, root_run_id: str, parent_run_id: str) -> Any:
        given: dict[str, Any] = {"agent_depth": agent_depth, "parent_run_id": parent_run_id}
        if isinstance(self._runner, Agent):
            result = await self._runner.run(query, root_run_id=root_run_id, **given)
            return ChildResponse(result.text, result, result.run_id, result.root_run_id, result.parent_run_id)
        return await self._runner.team.foreign(self.node, given | {"root_run_id": root_run_id})

    async def aclose(self) -> None:
        self.closed += 1
        await asyncio.sleep(0)
        if self.node.number % 4 == 0:
            raise OSError("it did not close well")


def _owns(node: Node) -> bool:
    return any(child.owned for child in node.children)


async def _all(calls: Sequence[Coroutine[Any, Any, None]]) -> None:
    """Wait for every call; on the way out cancel them until they have ended."""
    if not calls:
        return
    tasks = [asyncio.get_running_loop().create_task(call) for call in calls]
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        while pending := [task for task in tasks if not task.done()]:
            for task in pending:
                task.cancel()
            try:
                await asyncio.wait(pending, timeout=0.002)
            except asyncio.CancelledError:
                continue
        raise


async def _later() -> None:
    await asyncio.sleep(0)


def _raising_observer(event: Any) -> None:
    raise ValueError(event)


def _call(child: Node) -> ToolCall:
    if child.delegated:
        return ToolCall("", "run_agent", {"name": child.name, "task": "go"})
    return ToolCall("", "block" if child.via == "blocking" else "awaited", {"child": child.name})


def _stray(act: Act) -> tuple[ToolCall, ...]:
    stray = {
        "child": ToolCall("", "run_agent", {"name": "nobody", "task": "go"}),
        "tool": ToolCall("", "no_such_tool", {}),
        "arguments": ToolCall("", "run_agent", "{not json"),
    }
    return (stray[act.stray],) if act.stray else ()


def _tell(loop: asyncio.AbstractEventLoop, ended: "asyncio.Future[None]") -> None:
    try:
        loop.call_soon_threadsafe(lambda: None if ended.done() else ended.set_result(None))
    except RuntimeError:  # a loop of a thread, which has gone
        return
