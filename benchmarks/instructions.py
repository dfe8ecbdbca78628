"""The processor's instructions that a turn takes, beside the floor's: a ratio that no busy machine changes.

    python -m benchmarks.instructions

Counted by valgrind (``apt install valgrind``), which runs the interpreter on a processor of its own, slowly. What a
turn takes is the difference between a long run and a short one, so that neither start nor imports are in it. A real
processor takes longer over the same number of instructions the more code and memory they touch.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCENARIOS = {"S1 one delegation": (100, 300), "S2 no delegation": (200, 600), "S5 eight agents in a row": (30, 90)}
"""Turns of the short run and of the long one."""


def collected(adapter: str, scenario: str, turns: int) -> int:
    """The instructions of a process that runs so many turns. Raises RuntimeError if they cannot be counted."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    clean |= {"PYTHONHASHSEED": "0", "PYTHONPATH": str(HERE.parent / "src")}
    count = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    command = [*count, sys.executable, str(HERE / "instructions.py"), adapter, scenario, str(turns)]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, check=False)
    found = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or found is None:
        raise RuntimeError(f"valgrind could not count: {done.stderr[-2000:]}")
    return int(found[1])


async def turns_here(adapter: str, scenario: str, turns: int) -> None:
    """Run the turns in this process."""
    from common import check_delegated, check_single, prompt_for

    if adapter == "floor":
        from adapters.floor import ADAPTER
    else:
        from adapters.symfonic import ADAPTER  # type: ignore[assignment]
    run = {"S1": ADAPTER.delegation, "S2": ADAPTER.single, "S5": lambda: ADAPTER.chain(8)}[scenario[:2]]()
    prompt, answer = prompt_for(1), ""
    for _ in range(turns):
        answer = await run(prompt)
    (check_single if scenario.startswith("S2") else check_delegated)(prompt, answer)


def main() -> None:
    """Count, and print a table."""
    if len(sys.argv) == 4:
        adapter, scenario, turns = sys.argv[1:]
        asyncio.run(turns_here(adapter, scenario, int(turns)))
        return
    if shutil.which("valgrind") is None:
        sys.exit("this needs valgrind on the path: apt install valgrind")
    print(f"Python {sys.version.split()[0]}, thousands of instructions a turn\n")
    print("| scenario | symfonic | floor | ratio |\n|---|---|---|---|")
    for scenario, (few, many) in SCENARIOS.items():
        ours, floor = (
            (collected(each, scenario, many) - collected(each, scenario, few)) / (many - few) / 1000
            for each in ("symfonic", "floor")
        )
        print(f"| {scenario} | {ours:,.0f} | {floor:,.1f} | {ours / floor:.2f}× |")


if __name__ == "__main__":
    main()
