"""Two revisions beside each other: whether a change made turns faster or slower, or neither.

    python -m benchmarks.beside REVISION REVISION [--rounds N]

Each round measures both, and the floor, in fresh processes one after another, in the order and then the other way
round; the medians are printed, and the quartiles, for what lies between them is noise.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCENARIOS = {"one_delegation": "S1", "no_delegation": "S2", "depth_8": "S5", "build": "S7"}


def exported(revision: str, folder: Path) -> Path:
    """The library as it was, in a folder of its own."""
    command = ["git", "archive", revision, "src"]
    archive = subprocess.run(command, cwd=HERE.parent, capture_output=True, check=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as packed:
        packed.extractall(folder, filter="data")
    return folder / "src"


def measured(adapter: str, source: Path | None, out: Path) -> dict[str, float]:
    """Microseconds of each scenario, by one fresh process."""
    environment = {**os.environ, **({"PYTHONPATH": str(source)} if source else {})}
    command = [sys.executable, "worker.py", adapter, "turns", "--out", str(out), "--scenarios", ",".join(SCENARIOS)]
    command += ["--min-seconds", "0.3", "--max-seconds", "1", "--warm-up", "0.2"]
    subprocess.run(command, cwd=HERE, env=environment, check=True)
    return {name: result["us"] for name, result in json.loads(out.read_text()).items()}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("revisions", nargs=2)
    parser.add_argument("--rounds", type=int, default=12)
    options = parser.parse_args()
    samples: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        trees = {each: exported(each, Path(folder) / str(place)) for place, each in enumerate(options.revisions)}
        order: list[tuple[str, str, Path | None]] = [("floor", "floor", None)]
        order += [(revision, "symfonic", tree) for revision, tree in trees.items()]
        for number in range(options.rounds):
            for name, adapter, tree in order if number % 2 == 0 else reversed(order):
                for scenario, us in measured(adapter, tree, Path(folder) / "out.json").items():
                    samples.setdefault((scenario, name), []).append(us)
    for scenario, title in SCENARIOS.items():
        for name, _, _ in order:
            low, middle, high = statistics.quantiles(samples[scenario, name], n=4)
            print(f"{title} {name:12} {middle:9.2f} us   quartiles {low:.2f}-{high:.2f}")


if __name__ == "__main__":
    main()
