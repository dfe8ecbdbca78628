"""Cost against size: measures the curves of the library and of the floor, fits their growth, and draws them.

The growth order is the slope of a straight line through the logarithms of the last decade of sizes: 0 is constant,
1 is linear, 2 is quadratic. A point is the mean CPU time of some turns, and the median of the rounds: nothing sleeps in
them, and unlike wall time it does not rise when others use the machine.
"""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path
from typing import Any, NamedTuple

from run import HERE, Adapter, work

ADAPTERS = ("floor", "symfonic")
COLOURS = {"floor": "#8a8a8a", "symfonic": "#2563c9"}
LINEAR, CONSTANT, SAME = 1.15, 0.15, 0.1
"""Up to these slopes a curve is called linear, or constant, and so near the floor's it is called the same."""


class Curve(NamedTuple):
    """One panel of an image: ``key`` of the points that ``job`` measures, shown times ``scale``."""

    job: str
    key: str
    title: str
    x: str
    y: str
    scale: float = 1.0


CURVES = {
    "depth": Curve("depth", "cpu_us", "Cost of a turn against depth", "delegations in a row", "µs"),
    "fan_out": Curve("fan_out", "cpu_us", "Cost of a turn against fan-out", "delegations in one reply", "µs"),
    "conversation": Curve(
        "conversation", "cpu_us", "Cost of a turn against conversation length", "messages at its end", "µs"
    ),
    "roster": Curve("roster", "cpu_us", "Cost of a turn against roster size", "children declared", "µs"),
    "roster_build": Curve("roster", "build_us", "Cost of building against roster size", "children declared", "µs"),
    "memory": Curve("concurrent", "growth_kib", "Memory against concurrent runs", "turns at once", "MiB", 1 / 1024),
    "concurrent": Curve("concurrent", "cpu_seconds", "CPU time against concurrent runs", "turns at once", "s"),
}
SIZES = {
    "depth": (1, 2, 4, 8, 10, 16, 32, 50, 64, 100),
    "fan_out": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    "conversation": (2, 4, 10, 20, 50, 100, 200, 500, 1000),
    "roster": (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
    "concurrent": (1, 10, 100, 1000, 2000, 5000, 10000),
}
IMAGES = {
    "perf-depth.svg": ("depth",),
    "perf-fan-out.svg": ("fan_out",),
    "perf-conversation.svg": ("conversation",),
    "perf-roster.svg": ("roster", "roster_build"),
    "perf-concurrent.svg": ("memory", "concurrent"),
}


def measure(venvs: list[Path], quick: bool, rounds: int = 3, limit: float = 600.0) -> dict[str, Any]:
    """Every job of every adapter, interleaved: ``{job: {adapter: [point, ...]}}``.

    Raises RuntimeError, with what the worker said, if a point cannot be measured.
    """
    adapters = [Adapter(HERE / "adapters" / f"{name}.py") for name in ADAPTERS]
    pace = ["--turns=3", "--seconds=0.05"] if quick else ["--turns=20", "--seconds=0.3"]
    samples: dict[str, dict[str, list[Any]]] = {job: {name: [] for name in ADAPTERS} for job in SIZES}
    for number in range(1 if quick else rounds):
        for job, sizes in SIZES.items():
            for adapter in adapters if number % 2 else adapters[::-1]:
                points: list[Any] = []
                for batch in _batches(job, sizes):
                    extra = [f"--sizes={batch}", *pace]
                    done = work(adapter.python(venvs), adapter, job, extra, limit, "sweep.py")
                    if "points" not in done:
                        raise RuntimeError(f"curve {job} of {adapter.name}: {done['error']}")
                    points += done["points"]
                samples[job][adapter.name].append(points)
        print(f"curves, round {number + 1}", file=sys.stderr)
    return {job: {name: _medians(rounds) for name, rounds in each.items()} for job, each in samples.items()}


def _batches(job: str, sizes: tuple[int, ...]) -> list[str]:
    """Memory is a process's peak, so each of those points has a process of its own."""
    return [str(size) for size in sizes] if job == "concurrent" else [",".join(map(str, sizes))]


def _medians(rounds: list[list[dict[str, float]]]) -> list[dict[str, float]]:
    return [
        {key: statistics.median(point[key] for point in same) for key in same[0]} for same in zip(*rounds, strict=True)
    ]


def points(curves: dict[str, Any], name: str, adapter: str) -> list[tuple[int, float]]:
    """``(size, value)`` of one curve."""
    curve = CURVES[name]
    return [(int(p["size"]), p[curve.key] * curve.scale) for p in curves[curve.job][adapter]]


def slope(points: list[tuple[int, float]]) -> float:
    """The growth order over the last decade of sizes."""
    last = [(size, value) for size, value in points if size * 10 >= points[-1][0] and value > 0]
    if len(last) < 2:
        return 0.0
    return statistics.linear_regression([math.log(size) for size, _ in last], [math.log(v) for _, v in last]).slope


def order(growth: float, floor: float) -> str:
    """The slope in words. The floor's own slope tells what the work, the event loop and the collector add."""
    if growth <= CONSTANT:
        return "constant"
    if growth <= LINEAR:
        return "at most linear"
    return "as the floor's own" if growth <= floor + SAME else "worse than linear"


def table(curves: dict[str, Any]) -> str:
    """The growth orders, as Markdown."""
    lines = ["| curve | sizes | smallest | largest | slope | order | floor's slope |", "|---|---|---|---|---|---|---|"]
    for name, curve in CURVES.items():
        ours, floor = points(curves, name, "symfonic"), points(curves, name, "floor")
        (smallest, least), (largest, most) = ours[0], ours[-1]
        lines.append(
            f"| {curve.title} | {smallest}–{largest} | {least:,.4g} {curve.y} | {most:,.4g} {curve.y} "
            f"| {slope(ours):.2f} | {order(slope(ours), slope(floor))} | {slope(floor):.2f} |"
        )
    return "\n".join(lines)


def draw(curves: dict[str, Any], folder: Path) -> None:
    """The images, written into ``folder``; the same figures give the same bytes."""
    import matplotlib as mpl

    mpl.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "symfonic", "svg.fonttype": "none", "font.family": "sans-serif"})
    folder.mkdir(parents=True, exist_ok=True)
    for image, names in IMAGES.items():
        figure, axes = plt.subplots(1, len(names), figsize=(6.2 * len(names), 4.2), squeeze=False)
        for axis, name in zip(axes[0], names, strict=True):
            _panel(axis, curves, name)
        figure.tight_layout()
        figure.savefig(folder / image, metadata={"Date": None})
        plt.close(figure)


def _panel(axis: Any, curves: dict[str, Any], name: str) -> None:
    curve = CURVES[name]
    for adapter in ADAPTERS:
        shown = [(size, value) for size, value in points(curves, name, adapter) if value > 0]
        label = f"{adapter} (slope {slope(shown):.2f})"
        axis.plot(*zip(*shown, strict=True), marker="o", ms=4, color=COLOURS[adapter], label=label)
        size, value = shown[-1]
        guide = [(small, value * small / size) for small in (size / 10, size)]
        axis.plot(*zip(*guide, strict=True), ls=":", lw=1, color=COLOURS[adapter])
    axis.plot([], [], ls=":", lw=1, color="#555555", label="linear, for comparison")
    axis.set(title=curve.title, xlabel=curve.x, ylabel=curve.y, xscale="log", yscale="log")
    axis.grid(which="major", color="#e3e3e3", lw=0.7)
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, fontsize=9)
