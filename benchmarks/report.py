"""The targets, met or missed, and the parts of docs/performance.md that `make bench` writes."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import curves
import where
from tables import markdown, number, table, value_of

FLOOR, OURS, CORE = "floor", "symfonic", "floor_langchain_core"


class Figure(NamedTuple):
    """What was measured: ours, what it is held against, and their ratio."""

    ours: str
    base: str
    ratio: float


class Target(NamedTuple):
    """A ratio that is to be at most ``bound``. ``figure`` is None where nothing was measured."""

    what: str
    bound: float
    figure: Callable[[dict[str, Any]], Figure | None]


def against(scenario: str, key: str, unit: str, ours: str = OURS, base: str = FLOOR) -> Callable[..., Figure | None]:
    """One adapter's value beside another's; ``ready`` beside the floor's plain import."""
    of_base = "import" if scenario == "import_ready" else scenario

    def figure(data: dict[str, Any]) -> Figure | None:
        if not {ours, base} <= data["adapters"].keys():
            return None
        value, floor = value_of(data["adapters"][ours], scenario, key), value_of(data["adapters"][base], of_base, key)
        if value is None or not floor:
            return None
        return Figure(f"{number(value)} {unit}", f"{number(floor)} {unit}", value / floor)

    return figure


def growth(data: dict[str, Any]) -> Figure | None:
    """Memory that a thousand turns at once add."""
    added = []
    for name in (OURS, FLOOR):
        entry = data["adapters"].get(name, {"results": {}})
        peak, before = (value_of(entry, "concurrent_1000", key) for key in ("peak_rss_kib", "rss_before_kib"))
        if peak is None or before is None:
            return None
        added.append((peak - before) / 1024)
    return Figure(f"+{number(added[0])} MiB", f"+{number(added[1])} MiB", added[0] / max(added[1], 1 / 1024))


def per_unit(curve: str, small: int, large: int, unit: str) -> Callable[..., Figure | None]:
    """Ours at a large size beside ours at a small one, each divided by its size."""

    def figure(data: dict[str, Any]) -> Figure | None:
        if not data.get("curves"):
            return None
        values = dict(curves.points(data["curves"], curve, OURS))
        big, little = values[large] / large, values[small] / small
        return Figure(f"{number(big)} {unit}", f"{number(little)} {unit}", big / little)

    return figure


def cliff(data: dict[str, Any]) -> Figure | None:
    """How much dearer a turn gets from a thousand at once to ten thousand, beside the same rise of the floor."""
    if not data.get("curves"):
        return None
    rises = []
    for name in (OURS, FLOOR):
        seconds = dict(curves.points(data["curves"], "concurrent", name))
        rises.append((seconds[10_000] / 10) / seconds[1000])
    return Figure(f"{rises[0]:.2f}×", f"{rises[1]:.2f}×", rises[0] / rises[1])


TARGETS = (
    Target("S1 one delegation", 10, against("one_delegation", "us", "µs")),
    Target("S2 no delegation", 10, against("no_delegation", "us", "µs")),
    Target("S3 16 at once, 10 ms each", 1.1, against("fan_out_16", "us", "µs")),
    Target("S4 1,000 concurrent turns, wall", 1.5, against("concurrent_1000", "seconds", "s")),
    Target("S4 growth in memory", 3, growth),
    Target("S4 rise of a turn's CPU from 1,000 to 10,000, beside the floor's rise", 1.25, cliff),
    Target(
        "S4 10,000 concurrent: memory a turn, beside that of 1,000", 1.5, per_unit("memory", 1000, 10000, "MiB a turn")
    ),
    Target("S5 eight agents in a row", 10, against("depth_8", "us", "µs")),
    Target("S5 cost a level at depth 100, beside that at depth 8", 1.25, per_unit("depth", 8, 100, "µs a level")),
    Target("S6 `import symfonic`", 1.25, against("import", "ms", "ms")),
    Target("S6 import, names resolved, one agent built", 1.25, against("import_ready", "ms", "ms")),
    Target("S7 build with ten children", 20, against("build", "us", "µs")),
    Target("S7 build and first turn", 20, against("build", "first_turn_us", "µs")),
    Target(
        "S1 over a LangChain model, beside floor (langchain-core)",
        1.15,
        against("one_delegation", "us", "µs", "symfonic_langchain", CORE),
    ),
    Target(
        "S1 over a LangChain model and StructuredTool, beside floor (langchain-core)",
        1.15,
        against("one_delegation", "us", "µs", "symfonic_structured_tool", CORE),
    ),
)


def targets(data: dict[str, Any]) -> str:
    """The table of targets, as Markdown."""
    rows = []
    for target in TARGETS:
        figure = target.figure(data)
        if figure is None:
            rows.append([target.what, "–", "–", "–", f"≤ {target.bound:g}×", "not measured"])
            continue
        verdict = "met" if figure.ratio <= target.bound else f"**missed**, {figure.ratio / target.bound:.2f} times over"
        ratio = f"{number(figure.ratio)}×" if figure.ratio >= 10 else f"{figure.ratio:.2f}×"
        rows.append([target.what, figure.ours, figure.base, ratio, f"≤ {target.bound:g}×", verdict])
    return table(["scenario", "symfonic", "beside", "ratio", "target", ""], rows)


def machine(data: dict[str, Any]) -> str:
    """What it ran on, and how long."""
    told = data["machine"]
    line = (
        f"Python {told['python']}, {told['system']}, {told.get('cpu') or 'CPU unknown'}, {told['cores']} cores; "
        f"{told['rounds']} rounds."
    )
    return f"{line} **A quick run: one short round, to see that everything works.**" if told.get("quick") else line


def parts(data: dict[str, Any]) -> dict[str, str]:
    """The generated parts of the page, by name."""
    made = {"machine": machine(data), "targets": targets(data), "tables": markdown(data).strip()}
    if data.get("curves"):
        made["curves"] = curves.table(data["curves"])
    if data.get("where"):
        made["where"] = where.table(data["where"])
    return made


def written(page: str, made: dict[str, str]) -> str:
    """The page with each part put between its markers. Raises ValueError if a part has no place in it."""
    for name, text in made.items():
        place = re.compile(f"(<!-- bench: {name} -->\n).*?(<!-- end: {name} -->)", re.DOTALL)
        page, count = place.subn(lambda found, text=text: f"{found[1]}\n{text}\n\n{found[2]}", page)
        if count != 1:
            raise ValueError(f"the page has {count} places for the part {name!r}, expected one pair of markers")
    return page


def update(path: Path, data: dict[str, Any]) -> None:
    """Write the parts into the page at ``path``."""
    path.write_text(written(path.read_text("utf-8"), parts(data)), encoding="utf-8")
