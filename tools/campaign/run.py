"""Run trees, one after another, check each, and say what was found."""

import argparse
import asyncio
import gc
import logging
import os
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import stamina
from tools.campaign.check import check
from tools.campaign.children import Team
from tools.campaign.planted import replaced
from tools.campaign.trees import DEEPEST, FAULTS, PATHS, RUNS_PER_TEAM, Plan, draw_plan, draw_team, told
from tools.campaign.world import CANCEL_AGAIN, World, surroundings

from symfonic.capabilities.delegation import policies
from symfonic.kernel.concurrency import tasks
from symfonic.kernel.concurrency.places import Places

PATIENCE = 10.0
"""Seconds that a tree may take where nothing hangs without a time set; what takes longer has lost its way out."""
FEWEST_HITS = 50
LARGE = 10_000
"""From so many trees on every kind and depth must have been hit, and memory must have been flat."""
GROWTH = 1.05


@dataclass(slots=True)
class Report:
    """What a campaign did and found."""

    trees: int = 0
    seconds: float = 0.0
    hits: Counter[tuple[str, int]] = field(default_factory=Counter)
    cancelled: int = 0
    violations: list[str] = field(default_factory=list)
    memory: list[tuple[int, int]] = field(default_factory=list)

    def rare(self) -> list[str]:
        """Fault kinds and depths with too few hits."""
        counts = [(kind, sum(self.hits[kind, depth] for depth in range(DEEPEST + 2))) for kind in (*FAULTS, *PATHS)]
        counts += [(f"depth {depth}", self._at(depth)) for depth in range(DEEPEST + 1)]
        counts.append(("root cancelled", self.cancelled))
        return [f"{what}: {count} hits, expected {FEWEST_HITS}" for what, count in counts if count < FEWEST_HITS]

    def _at(self, depth: int) -> int:
        return sum(count for (_, at), count in self.hits.items() if at == depth)

    def growth(self) -> str | None:
        """What grew over the second half, if anything did."""
        if len(self.memory) < 2:
            return None
        (_, before), (_, after) = self.memory[0], self.memory[-1]
        return f"live objects grew from {before} to {after}" if after > before * GROWTH else None

    def lines(self) -> Iterator[str]:
        """The report."""
        yield f"trees run: {self.trees} in {self.seconds:.1f} s ({self.trees / max(self.seconds, 1e-9):.0f} a second)"
        yield f"roots cancelled: {self.cancelled}"
        yield "faults injected, by kind and depth:"
        yield f"  {'':<10}" + "".join(f"{depth:>8}" for depth in range(DEEPEST + 1)) + f"{'all':>9}"
        for kind in (*FAULTS, *PATHS):
            counts = [self.hits[kind, depth] for depth in range(DEEPEST + 1)]
            yield f"  {kind:<10}" + "".join(f"{count:>8}" for count in counts) + f"{sum(counts):>9}"
        counts = [self._at(depth) for depth in range(DEEPEST + 1)]
        yield f"  {'all':<10}" + "".join(f"{count:>8}" for count in counts) + f"{sum(counts):>9}"
        if len(self.memory) > 1:
            (rss, objects), (last_rss, last_objects) = self.memory[0], self.memory[-1]
            yield (
                f"memory over the second half: {rss / 1024:.1f} -> {last_rss / 1024:.1f} MiB resident,"
                f" {objects} -> {last_objects} live objects"
            )


async def campaign(
    *,
    seed: int = 0,
    trees: int | None = None,
    seconds: float | None = None,
    first: int = 0,
    stop: bool = False,
    patience: float = PATIENCE,
) -> Report:
    """Run so many trees, or for so long; with ``stop`` only up to the first violation."""
    report, began = Report(), time.monotonic()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(64, "campaign-pool"))
    team: Team | None = None
    with _prepared(report):
        for index in range(first, sys.maxsize):
            share = (index - first) / trees if trees is not None else (time.monotonic() - began) / (seconds or 1)
            if share >= 1 or (stop and report.violations):
                break
            if index % RUNS_PER_TEAM == 0 or team is None:
                team = None  # not in what is measured
                _CountedPlaces.made.clear()
                if share >= 0.5 and not report.memory:
                    report.memory.append(await _memory())
                team = Team(draw_team(Random(f"{seed}/team/{index // RUNS_PER_TEAM}")))
            await _tree(report, team, draw_plan(Random(f"{seed}/{index}"), team.root), f"{seed}/{index}", patience)
        team = None
        report.memory.append(await _memory())
    report.seconds = time.monotonic() - began
    return report


async def _tree(report: Report, team: Team, plan: Plan, label: str, patience: float) -> None:
    loop, others = asyncio.get_running_loop(), asyncio.all_tasks()
    world = team.world = World(plan)
    world.root = loop.create_task(team.play())
    if plan.cancel_after is not None:
        world.count_down(plan.cancel_after)
    result = await _ended(world, patience)
    world.release()
    await _settled(world)
    problems = check(world, result) + _left_behind(world, others)
    report.trees += 1
    report.hits += world.hits
    report.cancelled += world.cancelled
    report.violations += [f"tree {label}: {problem}" for problem in dict.fromkeys(problems)]
    if problems and os.environ.get("CAMPAIGN_PLANS"):
        print(*told(plan), sep="\n")


async def _ended(world: World, patience: float) -> Any:
    """What the root returned or raised; where it does not end by itself, that is a violation."""
    root = world.root
    if root is None:
        return None
    await asyncio.wait({root}, timeout=patience)
    if not root.done():
        world.complain(f"the tree did not end within {patience:g} s")
        world.cancelled = True
        for _ in range(1000):
            root.cancel()
            if (await asyncio.wait({root}, timeout=0.005))[0]:
                break
        else:
            world.complain("the tree did not end when it was cancelled")
            return None
    if root.cancelled():
        return None
    return root.exception() or root.result()


async def _settled(world: World) -> None:
    """Wait for what was started to outlive its run, and for threads that were left."""
    until = time.monotonic() + PATIENCE
    while calls := [task for task in world.detached if not task.done()]:  # they may start more of their kind
        if time.monotonic() > until:
            world.complain(f"{len(calls)} detached calls did not end")
            break
        await asyncio.wait(calls, timeout=PATIENCE)
    while threads := _threads(world):
        if time.monotonic() > until:
            world.complain(f"threads are left: {threads}")
            break
        await asyncio.sleep(0.0005)
    await asyncio.sleep(0)  # what threads had to say on their way out


def _threads(world: World) -> list[threading.Thread]:
    named = [each for each in threading.enumerate() if each.name.startswith("symfonic-")]
    return named + [each for each in world.threads if each.is_alive()]


def _left_behind(world: World, others: "set[asyncio.Task[Any]]") -> list[str]:
    found = [f"a task is left: {task}" for task in asyncio.all_tasks() - others]
    if surroundings().keys() - {"symfonic_way_back"}:
        found.append(f"ambient, after the tree: {surroundings()}")
    for owned in world.owned:
        if owned.closed != 1:
            found.append(f"the owned child {owned.node.name} was closed {owned.closed} times")
    budgets = {id(budget): budget for seen in world.starts for budget in _budgets(seen.run.budget)}
    for budget in budgets.values():
        if budget._running or budget._queue:
            found.append(f"a budget still counts {budget._running} running, {len(budget._queue)} waiting")
    found += [f"a place of {places} is left" for places in _CountedPlaces.made if places.taken]
    if any(seen.run.slot is not None and seen.run.slot._held for seen in world.starts):
        found.append("a run that is over holds its place")
    return found


def _budgets(budget: Any) -> Iterator[Any]:
    while budget is not None:
        yield budget
        budget = budget._outer


class _CountedPlaces(Places):
    """The places of a child policy, known to the campaign."""

    made: "list[_CountedPlaces]" = []  # noqa: RUF012 - emptied by every campaign

    def __init__(self, most: int) -> None:
        super().__init__(most)
        self.most = most
        self.made.append(self)

    @property
    def taken(self) -> int:
        """Places not given back."""
        return self.most - self._free


@contextmanager
def _prepared(report: Report) -> Iterator[None]:
    """Nothing waits for real, nothing is logged, and what only the loop or a thread hears of is a violation."""
    loop, log = asyncio.get_running_loop(), logging.getLogger("symfonic")
    hook, level = threading.excepthook, log.level
    log.setLevel(logging.CRITICAL + 1)

    def unheard(_: Any, told_of: dict[str, Any]) -> None:
        report.violations.append(f"near tree {report.trees}: the loop was told {told_of}")

    def in_thread(args: threading.ExceptHookArgs) -> None:
        report.violations.append(f"near tree {report.trees}: {args.thread} raised {args.exc_value!r}")

    stamina.instrumentation.set_on_retry_hooks(())

    def warned(message: Any, category: Any, *where: Any, **_: Any) -> None:
        report.violations.append(f"near tree {report.trees}: {category.__name__}: {message}")

    loop.set_exception_handler(unheard)
    threading.excepthook = in_thread
    try:
        with (
            stamina.set_testing(True, attempts=9, cap=True),
            replaced(policies, "Places", _CountedPlaces),
            replaced(tasks, "FIRST_PAUSE", 0.002),
            replaced(tasks, "LONGEST_PAUSE", 0.004),
            replaced(tasks, "MOST_ROUNDS", 500),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("always")
            warnings.showwarning = warned
            yield
            gc.collect()  # what was left behind complains when it is collected
    finally:
        stamina.instrumentation.set_on_retry_hooks(None)
        loop.set_exception_handler(None)
        threading.excepthook = hook
        log.setLevel(level)
        _CountedPlaces.made.clear()


async def _memory() -> tuple[int, int]:
    """KiB resident and live objects, when the last tree is forgotten."""
    await asyncio.sleep(5 * CANCEL_AGAIN)  # timers still hold it
    gc.collect()
    return _resident(), len(gc.get_objects())


def _resident() -> int:
    """KiB resident; 0 where the system does not tell."""
    try:
        pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    except OSError:
        return 0
    return int(pages) * os.sysconf("SC_PAGE_SIZE") // 1024


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status: 1 where something is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.campaign", description=__doc__)
    length = parser.add_mutually_exclusive_group()
    length.add_argument("--trees", type=int, help="how many trees (default 10000)")
    length.add_argument("--seconds", type=float, help="for how long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the first tree: the number in a violation, to repeat it")
    parser.add_argument("--thorough", action="store_true", help="too few hits or growing memory fail a short campaign")
    parser.add_argument("--stop", action="store_true", help="stop at the first violation")
    asked = parser.parse_args(arguments)
    trees = LARGE if asked.trees is None and asked.seconds is None else asked.trees
    options = {"seed": asked.seed, "seconds": asked.seconds, "first": asked.first, "stop": asked.stop}
    report = asyncio.run(campaign(trees=trees, **options))
    print(*report.lines(), sep="\n")
    if asked.thorough or report.trees >= LARGE:
        report.violations += [*report.rare(), *filter(None, [report.growth()])]
    print(*report.violations[:50], sep="\n", end="\n" if report.violations else "")
    print(f"violations: {len(report.violations)}")
    return 1 if report.violations else 0
