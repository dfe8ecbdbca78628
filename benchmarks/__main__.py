"""`make bench`: everything side by side in one run, then the page, its images and the raw results.

    python -m benchmarks --venvs DIR [DIR ...] [--quick] [--into DIR]
    python -m benchmarks --from-json benchmarks/results.json      the page once more, measuring nothing

A quick run writes into build/bench, so that its figures are not taken for real ones.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

import curves
import report
import run

ROOT = Path(__file__).resolve().parent.parent


def cpu() -> str:
    """What the processor is called, where the system says."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


def measure(venvs: list[Path], quick: bool, only: str) -> dict[str, Any]:
    """Floors, ours and the peers that are there; the curves; the profile."""
    words = ["--venvs", *map(str, venvs), *(["--quick"] if quick else []), *(["--only", only] if only else [])]
    options = run.arguments().parse_args(words)
    options.venvs = [folder.absolute() for folder in options.venvs]
    run.hurry(options)
    data = run.measure(options)
    data["machine"] |= {"cpu": cpu(), "quick": quick}
    data["curves"] = curves.measure(options.venvs, quick)
    ours = run.Adapter(run.HERE / "adapters" / "symfonic.py")
    pace = ["--turns=300", "--seconds=2"] if quick else []
    spies = [folder / "report" / "bin" / "py-spy" for folder in options.venvs]
    pace += [f"--py-spy={spy}" for spy in spies if spy.exists()][:1]
    found = run.work(ours.python(options.venvs), ours, "one_delegation", pace, 300.0, "where.py")
    if "error" in found:
        raise SystemExit(found["error"])
    data["where"] = found
    return data


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--venvs", type=Path, nargs="+", help="folders of environments; the first counts most")
    parser.add_argument("--only", default="", help="adapters, by file name, with commas between")
    parser.add_argument("--quick", action="store_true", help="one short round, written into build/bench")
    parser.add_argument("--into", type=Path, help="a folder other than this checkout (or build/bench)")
    parser.add_argument("--from-json", type=Path, help="measure nothing, write the page from this file")
    options = parser.parse_args()
    into: Path = options.into or (ROOT / "build" / "bench" if options.quick else ROOT)
    if options.from_json:
        data = json.loads(options.from_json.read_text("utf-8"))
    elif options.venvs:
        data = measure(options.venvs, options.quick, options.only)
    else:
        parser.error("--venvs is needed")
    page, results = into / "docs" / "performance.md", into / "benchmarks" / "results.json"
    for path in (page, results):
        path.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if into.resolve() != ROOT:
        shutil.copyfile(ROOT / "docs" / "performance.md", page)
    curves.draw(data["curves"], into / "docs" / "images")
    report.update(page, data)
    print(report.targets(data))
    print(f"\nwritten: {page} and {results}")


if __name__ == "__main__":
    main()
