"""What the children of one tree saw themselves, independently of what the library recorded."""

import asyncio
import contextvars
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from tools.campaign.trees import Node, Plan

from symfonic.capabilities.delegation.context import ActiveRun, DelegationContext
from symfonic.kernel.contracts.messages import NO_USAGE, Usage
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity

CONTEXT = DelegationContext()
CANCEL_AGAIN = 0.004
"""Seconds until a root that swallowed its cancellation is cancelled again."""


@dataclass(slots=True)
class Seen:
    """A run that reported itself."""

    node: Node
    identity: RunIdentity
    run: ActiveRun
    at: float


@dataclass(slots=True)
class Ask:
    """A call of a model; its usage is complete when the model has returned."""

    run_id: str
    usage: Usage


class World:
    """One tree in progress. Children on any loop and any thread write here."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.loop = asyncio.get_running_loop()
        self.root: asyncio.Task[Any] | None = None
        self.began = time.monotonic()
        self.lock = threading.Lock()
        self.wrong: list[str] = []
        self.events: list[Any] = []
        self.late_events: list[Any] = []
        self.starts: list[Seen] = []
        self.runs: dict[str, Seen] = {}
        self.asks: list[Ask] = []
        self.owned: list[Any] = []
        self.hits: Counter[tuple[str, int]] = Counter()
        self.loose: set[str] = set()
        self.threaded = self.cancelled = self.released = False
        self.detached: set[asyncio.Task[Any]] = set()
        self.threads: list[threading.Thread] = []
        self._hanging: list[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = []
        self._inside: Counter[int] = Counter()
        self._busy: Counter[str] = Counter()

    def complain(self, what: str) -> None:
        """Note a violation."""
        self.wrong.append(what)

    def hit(self, kind: str, node: Node) -> None:
        """A fault happens now."""
        with self.lock:
            self.hits[kind, node.depth] += 1

    def started(self, node: Node, given: dict[str, Any] | None = None) -> ActiveRun | None:
        """A run of this node begins, here. Checks where it finds itself, and what it was ``given``."""
        identity, run = current_run_identity(), CONTEXT.active_run()
        if identity is None or run is None:
            self.complain(f"{node.name} started outside any run: {identity}, {run}")
            return None
        with self.lock:
            self.starts.append(Seen(node, identity, run, time.monotonic()))
            if identity.run_id in self.runs:
                self.complain(f"{node.name} started twice as the same run")
            self.runs[identity.run_id] = self.starts[-1]
        if run.identity != identity or not run.is_open:
            self.complain(f"{node.name} is {identity}, and its run is {run.identity}, open: {run.is_open}")
        if run.depth != node.depth:
            self.complain(f"{node.name} belongs at depth {node.depth} and ran at {run.depth}")
        if self.plan.acts[node.number].vetoed and self.vetoes and node.delegated:
            self.complain(f"{node.name} ran and was vetoed")
        expected = {
            "agent_depth": node.depth,
            "root_run_id": identity.root_run_id,
            "parent_run_id": identity.parent_run_id,
            "scope": run.scope,
        }
        for key, value in (given or {}).items():
            if value != expected[key]:
                self.complain(f"{node.name} was given {key}={value!r}, expected {expected[key]!r}")
        return run

    @property
    def vetoes(self) -> bool:
        """Whether the hook of this plan refuses anything."""
        return self.plan.hook in ("vetoes", "raises")

    def asked(self, node: Node) -> Ask:
        """A model is asked, here. Checks that there were tokens left."""
        identity = current_run_identity()
        ask = Ask(identity.run_id if identity else "", Usage(model_calls=1))
        with self.lock:
            before = list(self.asks)
            self.asks.append(ask)
        if not self.threaded:  # else a call that has ended elsewhere may not be counted yet
            self._check_tokens(node, ask.run_id, before)
        return ask

    def _check_tokens(self, node: Node, run_id: str, before: list[Ask]) -> None:
        for owner in self.ancestors(run_id):
            for limits in self.plan.stated(self.runs[owner].node):
                if limits.max_tokens is None:
                    continue
                below = (each for each in before if owner in self.ancestors(each.run_id))
                spent = sum(each.usage.input_tokens + each.usage.output_tokens for each in below)
                if spent >= limits.max_tokens:
                    self.complain(f"{node.name} asked its model after {spent} tokens of {limits.max_tokens}")

    def ancestors(self, run_id: str | None) -> list[str]:
        """The run and those around it, as they reported themselves."""
        path = []
        while run_id is not None and run_id in self.runs:
            path.append(run_id)
            run_id = self.runs[run_id].identity.parent_run_id
        return path

    @contextmanager
    def inside(self, node: Node) -> Iterator[None]:
        """The whole of a foreign child; so many at once as its policy allows.

        Not where its caller declares its children anew in each run: the policy is then another one each time.
        """
        anew = node.parent is not None and any(child.owned for child in node.parent.children)
        most = node.policy.max_concurrency if node.policy and not anew else None
        with self.lock:
            self._inside[node.number] += 1
            if most is not None and self._inside[node.number] > most:
                self.complain(f"{node.name} ran {self._inside[node.number]} times at once, of {most}")
        try:
            yield
        finally:
            with self.lock:
                self._inside[node.number] -= 1

    @contextmanager
    def busy(self, node: Node) -> Iterator[None]:
        """A child at work: neither waiting for children nor for its turn."""
        counted = node.delegated and not any(child.via == "detached" for child in node.children)
        identity = current_run_identity() if counted else None
        levels = self.ancestors(identity.run_id)[1:] if identity else []
        with self.lock:
            for owner in levels:
                self._busy[owner] += 1
                most = [limits.max_concurrency for limits in self.plan.stated(self.runs[owner].node)]
                for each in most:
                    if each is not None and self._busy[owner] > each:
                        self.complain(f"{self._busy[owner]} children at work, of max_concurrency={each}")
        try:
            yield
        finally:
            with self.lock:
                for owner in levels:
                    self._busy[owner] -= 1

    async def hang(self, node: Node) -> None:
        """Wait for what never comes. Where no time is set, the root is cancelled soon."""
        if self.released:
            return
        loop = asyncio.get_running_loop()
        never = loop.create_future()
        self._hanging.append((loop, never))
        if not self.plan.ends_in_time(node):
            self.count_down(1 + self.plan.acts[node.number].flavour % 40)
        await never

    def release(self) -> None:
        """The tree is over: what hangs in threads of its own may go on."""
        self.released = True
        for loop, never in self._hanging:
            with suppress(RuntimeError):  # that loop has closed
                loop.call_soon_threadsafe(_settle, never)

    def count_down(self, iterations: int) -> None:
        """Cancel the root after so many iterations of its loop."""

        def step(left: int) -> None:
            if self.root is None or self.root.done():
                return
            if left:
                self.loop.call_soon(step, left - 1)
            else:
                self._cancel()

        self.loop.call_soon_threadsafe(step, iterations)

    def _cancel(self) -> None:
        if self.root is not None and not self.root.done():
            again = self.root.cancelling()
            self.cancelled = True
            self.root.cancel()
            if not again:
                self.loop.call_later(CANCEL_AGAIN, self._cancel_again)

    def _cancel_again(self) -> None:
        if self.root is not None and not self.root.done():
            self.root.cancel()
            self.loop.call_later(CANCEL_AGAIN, self._cancel_again)

    def usage_of(self, run_ids: set[str]) -> Usage:
        """What the models of these runs were asked and answered."""
        return sum((ask.usage for ask in self.asks if ask.run_id in run_ids), NO_USAGE)


def surroundings() -> dict[str, Any]:
    """What is ambient here of ours, by name."""
    CONTEXT.active_run(), current_run_identity()  # looking takes off what has ended
    ambient = {var.name: value for var, value in contextvars.copy_context().items() if value is not None}
    return {name: value for name, value in ambient.items() if name.startswith("symfonic")}


@contextmanager
def same_surroundings(world: World, who: str) -> Iterator[None]:
    """Whatever happens inside, everything ambient is as before."""
    before = surroundings()
    try:
        yield
    finally:
        after = surroundings()
        changed = [key for key in before.keys() | after.keys() if before.get(key) is not after.get(key)]
        if changed:
            world.complain(f"around {who}, left behind: {', '.join(sorted(changed))}")


def _settle(never: "asyncio.Future[None]") -> None:
    if not never.done():
        never.set_result(None)
