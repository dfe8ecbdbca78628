"""How many calls one turn with one delegation makes: a figure that no busy machine changes.

    python -m benchmarks.count            what it is here and now, and what is committed
    python -m benchmarks.count --write    commit to what it is

Counted with ``sys.setprofile`` in a fresh interpreter: fixed hash seed, no coverage, imports and caches warmed by some
turns before, the garbage collector off. Calls of Python functions (also each time a coroutine goes on) and of
functions in C are counted apart. Bounds are kept for each minor version of Python, which differ in what they call.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COMMITTED = HERE.parent / "tests" / "call_counts.json"
ALLOWED = 1.03
"""What is measured may be this much more than what is committed: patch versions of Python differ a little."""
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
WARM_UP = 20


def counted() -> dict[str, int]:
    """The calls of one turn, counted in a fresh interpreter. Raises RuntimeError if that fails."""
    import symfonic

    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "COVERAGE", "COV_"))}
    clean |= {"PYTHONHASHSEED": "0", "PYTHONPATH": str(Path(symfonic.__file__).resolve().parent.parent)}
    command = [sys.executable, str(HERE / "count.py"), "--here"]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the counting interpreter failed: {done.stderr}")
    counts: dict[str, int] = json.loads(done.stdout)
    return counts


async def count_here() -> dict[str, int]:
    """The calls of one turn, counted in this process."""
    from adapters.symfonic import ADAPTER
    from common import check_delegated, prompt_for

    calls = {"python": 0, "c": 0}

    def see(frame: Any, event: str, argument: Any) -> None:
        if event == "call":
            calls["python"] += 1
        elif event == "c_call":
            calls["c"] += 1

    run, prompt = ADAPTER.delegation(), prompt_for(1)
    for _ in range(WARM_UP):
        await run(prompt)
    gc.collect()
    gc.disable()
    sys.setprofile(see)
    answer = await run(prompt)
    sys.setprofile(None)
    check_delegated(prompt, answer)
    return calls


def bound(committed: dict[str, dict[str, int]], version: str = VERSION) -> float:
    """The most calls that a turn may make on this version of Python, or on the newest one that is committed."""
    newest = max(committed, key=lambda each: tuple(map(int, each.split("."))))
    return sum(committed.get(version, committed[newest]).values()) * ALLOWED


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write what is measured into tests/{COMMITTED.name}")
    parser.add_argument("--here", action="store_true", help="count in this process, and print JSON")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(asyncio.run(count_here())))
        return
    committed = json.loads(COMMITTED.read_text("utf-8")) if COMMITTED.exists() else {}
    measured = counted()
    print(f"Python {VERSION}: measured {measured}, committed {committed.get(VERSION)}")
    if options.write:
        committed[VERSION] = measured
        ordered = dict(sorted(committed.items(), key=lambda entry: tuple(map(int, entry[0].split(".")))))
        COMMITTED.write_text(json.dumps(ordered, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
