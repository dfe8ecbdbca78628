"""Runs every adapter in its own venv, round by round, and prints the tables.

    python run.py --venvs DIR [DIR ...] [--json FILE] [--markdown FILE] [--only a,b] [--quick]

Rounds are interleaved: each round measures every adapter once, in a fresh
process and in a new order, so a busy spell of the machine hits all of them
alike; a cell is the median of its rounds. An adapter whose venv is missing is
left out. Only the standard library is needed to run this file.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tables import markdown

HERE = Path(__file__).resolve().parent
TURNS = ("no_delegation", "one_delegation", "fan_out_16", "depth_8", "build")
SCENARIOS = (*TURNS, "concurrent_1000", "import")
READY = "import_ready"
"""Scenario ``import`` once more, for adapters with a ``ready_statement``: what builds an agent as well."""


class Adapter:
    """What run.py knows of an adapter without importing it (its framework is elsewhere)."""

    def __init__(self, path: Path) -> None:
        self.name = path.stem
        values: dict[str, Any] = {}
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ClassDef) and any(
                isinstance(base, ast.Name) and base.id == "Adapter" for base in node.bases
            ):
                for statement in node.body:
                    if isinstance(statement, ast.Assign):
                        try:
                            value = ast.literal_eval(statement.value)
                        except ValueError:
                            continue
                        values[statement.targets[0].id] = value
        self.title = values.get("title") or self.name
        self.venv = values.get("venv") or self.name
        self.import_statement = values.get("import_statement", "pass")
        self.ready_statement = values.get("ready_statement", "")
        self.notes = list(values.get("notes", ()))

    def python(self, venvs: list[Path]) -> Path:
        """The interpreter of its venv, in the first of the folders that has one."""
        pythons = [folder / self.venv / "bin" / "python" for folder in venvs]
        return next((python for python in pythons if python.exists()), pythons[0])


def environment(home: str) -> dict[str, str]:
    """No tracing switched on by accident, and a throw-away home for what is written there."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "LANGSMITH", "LANGCHAIN", "OTEL", "XDG_"))
    }
    return {**env, "HOME": home, "PYTHONHASHSEED": "0"}


def work(
    python: Path, adapter: Adapter, job: str, extra: list[str], limit: float, script: str = "worker.py"
) -> dict[str, Any]:
    """One worker process; its result, or the reason there is none under ``error``."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "out.json")
        command = [python, HERE / script, adapter.name, job, "--out", out, *extra]
        try:
            done = subprocess.run(
                command,
                cwd=folder,
                env=environment(folder),
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"error": f"no result within {limit:.0f} s"}
        if out.exists():
            return json.loads(out.read_text())
        return {"error": f"exit status {done.returncode}: {done.stdout[-2000:]}"}


IMPORT = """
import sys
{statement}
count = len(sys.modules)
peak = 0
try:
    with open("/proc/self/status") as status:
        peak = next(int(l.split()[1]) for l in status if l.startswith("VmHWM"))
except OSError:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(count, peak)
"""


def time_import(python: Path, statement: str) -> dict[str, Any]:
    """A fresh ``python -c IMPORT`` from start to exit."""
    command = [python, "-c", IMPORT.format(statement=statement)]
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        done = subprocess.run(
            command,
            cwd=folder,
            env=environment(folder),
            capture_output=True,
            text=True,
            check=False,
        )
        wall = time.perf_counter() - start
    if done.returncode:
        return {"error": done.stderr[-2000:]}
    count, peak = done.stdout.split()[-2:]
    return {"ms": wall * 1e3, "modules": int(count), "peak_rss_kib": int(peak)}


def summary(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """The median of each number over the rounds; the first refusal or failure otherwise."""
    for sample in samples:
        for key in ("unsupported", "error"):
            if key in sample:
                return {key: sample[key]}
    keys = [key for key, value in samples[0].items() if isinstance(value, (int, float))]
    return {
        **{key: statistics.median(sample[key] for sample in samples) for key in keys},
        "samples": samples,
    }


def measure(options: argparse.Namespace) -> dict[str, Any]:
    known = [Adapter(p) for p in sorted((HERE / "adapters").glob("*.py")) if p.stem != "__init__"]
    unknown = set(options.only) - {a.name for a in known}
    if unknown:
        raise SystemExit(f"no such adapter: {', '.join(sorted(unknown))}")
    chosen = [a for a in known if not options.only or a.name in options.only]
    here = [a for a in chosen if a.python(options.venvs).exists()]
    for adapter in chosen:
        if adapter not in here:
            print(f"{adapter.name}: left out, no venv {adapter.venv!r}", file=sys.stderr)
    if not here:
        raise SystemExit("no adapter has its venv; see setup.sh")

    described = {a.name: work(a.python(options.venvs), a, "describe", [], options.limit) for a in here}
    for adapter in list(here):
        if "error" in described[adapter.name]:
            print(f"{adapter.name}: {described[adapter.name]['error']}", file=sys.stderr)
            here.remove(adapter)

    samples: dict[str, dict[str, list[dict[str, Any]]]] = {
        a.name: {s: [] for s in (*options.scenarios, READY)} for a in here
    }
    extra = [
        f"--turns={options.turns}",
        f"--min-seconds={options.min_seconds}",
        f"--max-seconds={options.max_seconds}",
        f"--scenarios={','.join(s for s in options.scenarios if s in TURNS)}",
    ]
    shuffle = random.Random(0)
    for number in range(options.rounds):
        order = list(here)
        shuffle.shuffle(order)
        for adapter in order:
            started = time.perf_counter()
            python = adapter.python(options.venvs)
            jobs = []
            if any(s in TURNS for s in options.scenarios):
                jobs.append(("turns", extra))
            if "concurrent_1000" in options.scenarios:
                jobs.append(("concurrent", []))
            for job, arguments in jobs:
                result = work(python, adapter, job, arguments, options.limit)
                wanted = TURNS if job == "turns" else ("concurrent_1000",)
                for scenario in wanted:
                    if scenario in options.scenarios:
                        failed = {"error": result.get("error", "no result")}
                        samples[adapter.name][scenario].append(result.get(scenario, failed))
            took = time.perf_counter() - started
            print(f"round {number + 1}: {adapter.name} {took:.1f} s", file=sys.stderr)

    if "import" in options.scenarios:
        statements = [(a, "import", a.import_statement) for a in here]
        statements += [(a, READY, a.ready_statement) for a in here if a.ready_statement]
        for adapter, _, statement in statements:  # writes the .pyc files
            time_import(adapter.python(options.venvs), statement)
        for _ in range(options.imports):
            shuffle.shuffle(statements)
            for adapter, scenario, statement in statements:
                samples[adapter.name][scenario].append(time_import(adapter.python(options.venvs), statement))

    return {
        "machine": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "rounds": options.rounds,
            "turns": options.turns,
        },
        "adapters": {
            a.name: {
                "title": a.title,
                "import": a.import_statement,
                "notes": a.notes,
                "versions": described[a.name]["versions"],
                "results": {s: summary(v) for s, v in samples[a.name].items() if v},
            }
            for a in here
        },
    }


def names(text: str) -> list[str]:
    return [part for part in text.split(",") if part]


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venvs", type=Path, nargs="+", help="the folders that setup.sh filled; the first counts most")
    parser.add_argument("--only", type=names, default=[], help="adapters, by file name")
    parser.add_argument("--scenarios", type=names, default=list(SCENARIOS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--imports", type=int, default=7, help="fresh processes for import")
    parser.add_argument("--turns", type=int, default=200, help="turns in a batch, at least")
    parser.add_argument("--min-seconds", type=float, default=1.0, help="length of a batch, at least")
    parser.add_argument("--max-seconds", type=float, default=10.0, help="length of a batch, at most")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one process")
    parser.add_argument("--quick", action="store_true", help="one short round, to try things out")
    parser.add_argument("--json", type=Path, help="write every sample here")
    parser.add_argument("--markdown", type=Path, help="write the tables here as well")
    parser.add_argument("--from-json", type=Path, help="measure nothing, print this file's tables")
    return parser


def hurry(options: argparse.Namespace) -> None:
    """One short round where that is what was asked for."""
    if options.quick:
        options.rounds, options.imports = 1, 1
        options.turns, options.min_seconds, options.max_seconds = 20, 0.2, 2.0


def main() -> None:
    parser = arguments()
    options = parser.parse_args()
    if options.from_json:
        data = json.loads(options.from_json.read_text())
    else:
        if options.venvs is None:
            parser.error("--venvs is needed")
        unknown = set(options.scenarios) - set(SCENARIOS)
        if unknown:
            parser.error(f"no such scenario: {', '.join(sorted(unknown))}")
        options.venvs = [folder.absolute() for folder in options.venvs]
        hurry(options)
        data = measure(options)
    if options.json:
        options.json.write_text(json.dumps(data, indent=1))
    text = markdown(data)
    if options.markdown:
        options.markdown.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
