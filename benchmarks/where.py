"""Where the microseconds of a turn go: by part of the path, in one table.

    python -m benchmarks.where [--py-spy PATH]

Time is sampled by py-spy where it is there, since cProfile charges small functions for its own work; without it the
shares are cProfile's. Calls are cProfile's in both cases. Work in C, and in generated constructors, is charged to the
code that called it.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import functools
import importlib.util
import json
import os
import pstats
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
if str(HERE) not in sys.path:
    sys.path.insert(0, str(HERE))

from common import Run, prompt_for  # noqa: E402

ASYNCIO = Path(asyncio.__file__).resolve().parent
PARTS = {  # what a file belongs to, by the first prefix that fits its path in the package
    "agent/cutover": "composition root: arguments admitted, bounds, the run's place in the tree",
    "agent": "facade and engine: the call, the tally, the result",
    "kernel/runtime": "turn loop: model asked, reply checked, tools found",
    "kernel/concurrency": "tasks of the tool calls, and their cancellation",
    "capabilities/delegation/active_run": "delegation: scopes, tallies, usage",
    "capabilities/delegation/context": "delegation: scopes, tallies, usage",
    "capabilities/delegation/lineage": "delegation: scopes, tallies, usage",
    "capabilities/delegation/budget": "delegation: scopes, tallies, usage",
    "capabilities/delegation": "delegation: decision, roster, child called, record",
    "kernel/contracts/run_identity": "run identities",
    "kernel/contracts": "messages, usage, ambient blocks, safe text",
    "": "other modules of the library",
}
SCRIPT, LOOP, REST = "the benchmark's own model and loop", "asyncio", "the rest of the standard library"
_FRAME = re.compile(r"(.*) \((.*?)(?::\d+)?\)$")


def part(filename: str) -> str | None:
    """The part of the path that a code file belongs to; None for generated code and C."""
    if filename.startswith(("<", "~")):
        return None
    path = Path(filename)
    if path.is_relative_to(package()):
        inside = path.relative_to(package()).as_posix()
        return next(label for prefix, label in PARTS.items() if inside.startswith(prefix))
    if path.is_relative_to(HERE):
        return SCRIPT
    return LOOP if path.is_relative_to(ASYNCIO) else REST


@functools.cache
def package() -> Path:
    """The folder of the library that is measured; whoever only makes the table needs no library."""
    found = importlib.util.find_spec("symfonic")
    if found is None or found.origin is None:
        raise SystemExit("symfonic is not installed for this Python")
    return Path(found.origin).resolve().parent


async def turning(run: Run, turns: int) -> float:
    """Seconds for ``turns`` turns."""
    start = time.perf_counter()
    for number in range(turns):
        await run(prompt_for(number))
    return time.perf_counter() - start


def turn(job: str) -> Run:
    from adapters.symfonic import ADAPTER

    return {"one_delegation": ADAPTER.delegation, "no_delegation": ADAPTER.single}[job]()


def profiled(job: str, turns: int) -> tuple[dict[str, float], dict[str, float], float]:
    """Calls per turn and shares by part (cProfile), and the microseconds of a turn without a profiler."""
    run, profiler = turn(job), cProfile.Profile()

    async def everything() -> float:
        await turning(run, turns)
        best = min([await turning(run, turns // 10) for _ in range(10)]) / (turns // 10)
        profiler.enable()
        await turning(run, turns)
        profiler.disable()
        return best * 1e6

    us = asyncio.run(everything())
    calls: Counter[str] = Counter()
    spent: Counter[str] = Counter()
    for (filename, _, _), (_, count, own, _, callers) in pstats.Stats(profiler).stats.items():
        label = part(filename)
        if label is not None:
            calls[label] += count
            spent[label] += own
        for (caller, _, _), (_, count, share, _) in callers.items() if label is None else ():
            calls[part(caller) or LOOP] += count
            spent[part(caller) or LOOP] += share
    total = sum(spent.values())
    return (
        {label: count / turns for label, count in calls.items()},
        {label: own / total for label, own in spent.items()},
        us,
    )


def sampled(job: str, py_spy: str, seconds: float) -> dict[str, float] | None:
    """Shares by part, from py-spy's samples of a process that does nothing but turns; None where it may not look."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "stacks.txt")
        spin = [sys.executable, str(HERE / "where.py"), "symfonic", job, "--spin", str(seconds)]
        record = [py_spy, "record", "--rate=500", "--format=raw", "--full-filenames", "--output", str(out), "--"]
        env = {**os.environ, "PYTHONPATH": str(package().parent)}
        done = subprocess.run([*record, *spin], capture_output=True, text=True, check=False, env=env)
        if done.returncode or not out.exists():
            print(f"py-spy: {done.stderr[-500:]}", file=sys.stderr)
            return None
        return shares(out.read_text())


def shares(stacks: str) -> dict[str, float]:
    """Shares by part from folded stacks, ``frame;frame;frame COUNT``, of those inside `turning`."""
    seen: Counter[str] = Counter()
    for line in stacks.splitlines():
        frames, _, count = line.rpartition(" ")
        files = [found[2] for frame in frames.split(";") if (found := _FRAME.match(frame))]
        if "turning (" in frames or "_run_once (" in frames:
            seen[next((label for file in reversed(files) if (label := part(file))), REST)] += int(count)
    total = sum(seen.values())
    return {label: count / total for label, count in seen.items()}


def measure(job: str, py_spy: str | None, turns: int, seconds: float) -> dict[str, Any]:
    calls, shares_of_calls, us = profiled(job, turns)
    shares_of_time = sampled(job, py_spy, seconds) if py_spy else None
    return {"job": job, "us": us, "calls": calls, "cprofile": shares_of_calls, "py_spy": shares_of_time}


def table(found: dict[str, Any]) -> str:
    """The table, as Markdown."""
    used = found["py_spy"] or found["cprofile"]
    told = "py-spy" if found["py_spy"] else "cProfile"
    lines = [f"| part of a turn | µs | share ({told}) | share (cProfile) | calls |", "|---|---|---|---|---|"]
    for label in sorted({*used, *found["calls"]}, key=lambda each: -used.get(each, 0)):
        share, profile, calls = used.get(label, 0), found["cprofile"].get(label, 0), found["calls"].get(label, 0)
        lines.append(f"| {label} | {share * found['us']:.1f} | {share:.1%} | {profile:.1%} | {calls:.0f} |")
    lines.append(f"| **a whole turn** | {found['us']:.1f} | 100% | 100% | {sum(found['calls'].values()):.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("adapter", nargs="?", default="symfonic", choices=("symfonic",))
    parser.add_argument("job", nargs="?", default="one_delegation", choices=("one_delegation", "no_delegation"))
    parser.add_argument("--py-spy", default=shutil.which("py-spy"), help="the program; found on the path by itself")
    parser.add_argument("--turns", type=int, default=3000)
    parser.add_argument("--seconds", type=float, default=8.0, help="how long py-spy looks")
    parser.add_argument("--spin", type=float, help="do turns for so many seconds, to be looked at from outside")
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    options = parser.parse_args()
    if options.spin:
        run, until = turn(options.job), time.perf_counter() + options.spin

        async def spin() -> None:
            while time.perf_counter() < until:
                await turning(run, 100)

        asyncio.run(spin())
        return
    found = measure(options.job, options.py_spy, options.turns, options.seconds)
    if options.out:
        options.out.write_text(json.dumps(found))
    else:
        print(table(found))


if __name__ == "__main__":
    main()
