"""Measures one adapter in one process; run.py starts it with the venv's own Python.

    python worker.py NAME {turns,concurrent,describe} --out FILE [--options]

Every answer is checked, and so is the number of fake-model calls in a turn, so
a framework that skips work, or does some twice, fails instead of looking fast.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from common import (
    BUILD_CHILDREN,
    CHAIN_AGENTS,
    FAN_OUT,
    Adapter,
    Counter,
    Run,
    Unsupported,
    check_delegated,
    check_fan_out,
    check_single,
    prompt_for,
)

Check = Callable[[str, Any], None]
CHUNK = 10


def memory_kib(field: str) -> int | None:
    """VmHWM (peak) or VmRSS (now) of this process; per exec, unlike ru_maxrss."""
    try:
        with open("/proc/self/status") as status:
            for line in status:
                if line.startswith(field + ":"):
                    return int(line.split()[1])
    except OSError:
        pass
    if field != "VmHWM":
        return None
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak // 1024 if sys.platform == "darwin" else peak


def spin() -> float:
    """Milliseconds for a fixed piece of pure Python: shows how busy the machine is."""
    start = time.perf_counter()
    total = 0
    for i in range(300_000):
        total += i & 7
    return (time.perf_counter() - start) * 1e3


class Turns:
    """A running count of prompts, so that no two turns are given the same one."""

    def __init__(self) -> None:
        self.number = 0

    def next(self) -> str:
        self.number += 1
        return prompt_for(self.number)


async def measure(
    run: Run,
    check: Check,
    calls: int,
    turns: int,
    seconds: tuple[float, float],
    warm_up: float,
) -> dict[str, Any]:
    """Time whole turns, one after another, until ``turns`` and ``seconds`` are reached."""
    prompts = Turns()

    async def chunk(size: int) -> tuple[float, float]:
        batch = [prompts.next() for _ in range(size)]
        answers = []
        cpu, wall = time.process_time(), time.perf_counter()
        for prompt in batch:
            answers.append(await run(prompt))
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        for prompt, answer in zip(batch, answers, strict=True):
            check(prompt, answer)
        return wall, cpu

    before = Counter.calls
    await chunk(1)
    if Counter.calls - before != calls:
        raise AssertionError(f"{Counter.calls - before} model calls in a turn, not {calls}")
    size, until = 1, time.perf_counter() + warm_up
    while time.perf_counter() < until:
        wall, _ = await chunk(size)
        size = CHUNK if wall / size > 1e-3 else 10 * CHUNK

    gc.collect()
    busy = spin()
    wall = cpu = 0.0
    done = 0
    best = float("inf")
    while wall < seconds[1] and (done < turns or wall < seconds[0]):
        w, c = await chunk(size)
        wall, cpu, done = wall + w, cpu + c, done + size
        best = min(best, w / size)
    return {
        "us": wall / done * 1e6,
        "cpu_us": cpu / done * 1e6,
        "best_us": best * 1e6,
        "turns": done,
        "spin_ms": busy,
    }


async def measure_build(adapter: Adapter, seconds: float) -> dict[str, Any]:
    """Time building a parent with its children, and building plus one first turn."""
    prompts = Turns()
    kept: list[Run] = []

    async def build(first_turn: bool) -> tuple[float, float]:
        prompt = prompts.next()
        cpu, wall = time.process_time(), time.perf_counter()
        run = adapter.build(BUILD_CHILDREN)
        answer = await run(prompt) if first_turn else None
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if first_turn:
            check_delegated(prompt, answer)
        kept[:] = [run]
        return wall, cpu

    for _ in range(3):
        await build(True)
    result: dict[str, Any] = {"spin_ms": spin()}
    for key, first_turn in (("", False), ("first_turn_", True)):
        gc.collect()
        wall = cpu = 0.0
        done = 0
        while wall < seconds or done < 5:
            w, c = await build(first_turn)
            wall, cpu, done = wall + w, cpu + c, done + 1
        result |= {
            f"{key}us": wall / done * 1e6,
            f"{key}cpu_us": cpu / done * 1e6,
            f"{key}builds": done,
        }
    return result


async def turns(adapter: Adapter, options: argparse.Namespace) -> dict[str, Any]:
    seconds = (options.min_seconds, options.max_seconds)
    sleep = 0.010
    plan: dict[str, Callable[[], Any]] = {
        "no_delegation": lambda: measure(adapter.single(), check_single, 1, options.turns, seconds, options.warm_up),
        "one_delegation": lambda: measure(
            adapter.delegation(), check_delegated, 3, options.turns, seconds, options.warm_up
        ),
        "fan_out_16": lambda: measure(
            adapter.fan_out(FAN_OUT, sleep),
            check_fan_out,
            FAN_OUT + 2,
            20,
            seconds,
            options.warm_up,
        ),
        "depth_8": lambda: measure(
            adapter.chain(CHAIN_AGENTS),
            check_delegated,
            2 * CHAIN_AGENTS - 1,
            options.turns,
            seconds,
            options.warm_up,
        ),
        "build": lambda: measure_build(adapter, options.min_seconds),
    }
    return {name: await cell(plan[name]) for name in options.scenarios if name in plan}


async def concurrent(adapter: Adapter, options: argparse.Namespace) -> dict[str, Any]:
    return {"concurrent_1000": await cell(partial(gather, adapter, adapter.concurrent_turns))}


async def gather(adapter: Adapter, count: int) -> dict[str, Any]:
    sleep = 0.050
    shared = None if adapter.fresh_parent_per_turn else adapter.concurrent(sleep)

    async def turn(number: int) -> None:
        prompt = prompt_for(number)
        run = shared or adapter.concurrent(sleep)
        check_delegated(prompt, await run(prompt))

    await asyncio.gather(*(turn(i) for i in range(5)))
    await asyncio.gather(*(turn(i) for i in range(5)))
    gc.collect()
    busy, before, resident = spin(), Counter.calls, memory_kib("VmRSS")
    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(turn(i) for i in range(count)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    calls = Counter.calls - before
    if calls != 3 * count:
        raise AssertionError(f"{calls} model calls, not {3 * count}")
    return {
        "seconds": wall,
        "cpu_seconds": cpu,
        "turns": count,
        "rss_before_kib": resident,
        "peak_rss_kib": memory_kib("VmHWM"),
        "spin_ms": busy,
    }


async def cell(job: Callable[[], Any]) -> dict[str, Any]:
    try:
        return await job()
    except Unsupported as reason:
        return {"unsupported": str(reason)}
    except Exception:
        return {"error": traceback.format_exc()}


async def describe(adapter: Adapter, options: argparse.Namespace) -> dict[str, Any]:
    versions = {}
    for name in adapter.distributions:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "not installed"
    return {"versions": versions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("adapter")
    parser.add_argument("job", choices=("turns", "concurrent", "describe"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--scenarios", type=lambda text: text.split(","), default=[])
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--min-seconds", type=float, default=1.0)
    parser.add_argument("--max-seconds", type=float, default=10.0)
    parser.add_argument("--warm-up", type=float, default=0.5)
    options = parser.parse_args()
    adapter = importlib.import_module(f"adapters.{options.adapter}").ADAPTER
    adapter.prepare()
    job = {"turns": turns, "concurrent": concurrent, "describe": describe}[options.job]
    result = asyncio.run(job(adapter, options))
    with open(options.out, "w") as out:
        json.dump(result, out)


if __name__ == "__main__":
    main()
