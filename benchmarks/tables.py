"""The tables of a run's results, as Markdown. Only the standard library is needed."""

from __future__ import annotations

import statistics
from typing import Any

ORDER = (
    "floor",
    "symfonic",
    "floor_structured_tool",
    "floor_langchain_core",
    "symfonic_langchain",
    "symfonic_structured_tool",
)
"""These come first in the tables; the others follow, fastest one_delegation first."""


def number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def value_of(entry: dict[str, Any], scenario: str, key: str) -> float | None:
    return entry["results"].get(scenario, {}).get(key)


def times(entry: dict[str, Any], floor: dict[str, Any] | None, scenario: str, key: str) -> str:
    """A value and its ratio to the floor's."""
    value = value_of(entry, scenario, key)
    if value is None:
        result = entry["results"].get(scenario, {})
        return "n/a" if "unsupported" in result else "failed" if "error" in result else "–"
    base = value_of(floor, scenario, key) if floor else None
    if base is None or floor is entry:
        return number(value)
    return f"{number(value)} ({number(value / base)}×)"


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines)


def markdown(data: dict[str, Any]) -> str:
    adapters = data["adapters"]
    floor = adapters.get("floor")

    def rank(name: str) -> tuple[int, float]:
        if name in ORDER:
            return ORDER.index(name), 0.0
        entry = adapters[name]
        return len(ORDER), value_of(entry, "one_delegation", "us") or float("inf")

    names = sorted(adapters, key=rank)
    entries = [adapters[name] for name in names]
    machine = data["machine"]
    parts = [
        f"Python {machine['python']}, {machine['system']}, {machine['cores']} cores; "
        f"median of {machine['rounds']} interleaved rounds; (n×) is the ratio to the floor.",
        "### Whole turns, wall time",
        table(
            [
                "framework",
                "S1 one_delegation µs",
                "S2 no_delegation µs",
                "S5 depth_8 µs",
                "S3 fan_out_16 ms",
                "over the ideal 10 ms",
            ],
            [
                [
                    e["title"],
                    times(e, floor, "one_delegation", "us"),
                    times(e, floor, "no_delegation", "us"),
                    times(e, floor, "depth_8", "us"),
                    fan_out(e),
                    fan_out(e, ideal=10.0),
                ]
                for e in entries
            ],
        ),
        "### Concurrency, import, build",
        table(
            [
                "framework",
                "S4 concurrent_1000 s",
                "S4 peak RSS MiB (growth)",
                "S6 import ms",
                "S6 RSS MiB",
                "S6 modules",
                "S7 build µs",
                "S7 build + first turn µs",
            ],
            [
                [
                    e["title"],
                    concurrent(e),
                    concurrent_memory(e),
                    times(e, floor, "import", "ms"),
                    mebibytes(value_of(e, "import", "peak_rss_kib")),
                    plain(value_of(e, "import", "modules")),
                    times(e, floor, "build", "us"),
                    times(e, floor, "build", "first_turn_us"),
                ]
                for e in entries
            ],
        ),
        "### CPU time per turn, µs, and noise",
        table(
            ["framework", "S1 CPU", "S2 CPU", "S5 CPU", "S1 best chunk", "S1 min–max of rounds"],
            [
                [
                    e["title"],
                    times(e, floor, "one_delegation", "cpu_us"),
                    times(e, floor, "no_delegation", "cpu_us"),
                    times(e, floor, "depth_8", "cpu_us"),
                    times(e, floor, "one_delegation", "best_us"),
                    spread(e, "one_delegation", "us"),
                ]
                for e in entries
            ],
        ),
        busy(data),
        "### Versions and choices",
        *(
            f"- **{e['title']}** "
            + ", ".join(f"{name} {version}" for name, version in e["versions"].items())
            + ": "
            + " ".join([*e["notes"], *refusals(e)])
            for e in entries
        ),
    ]
    return "\n\n".join(parts[: -len(entries)]) + "\n\n" + "\n".join(parts[-len(entries) :]) + "\n"


def plain(value: float | None) -> str:
    return "–" if value is None else number(value)


def mebibytes(value: float | None) -> str:
    return "–" if value is None else number(value / 1024)


def fan_out(entry: dict[str, Any], ideal: float | None = None) -> str:
    value = value_of(entry, "fan_out_16", "us")
    if value is None:
        return times(entry, None, "fan_out_16", "us")
    return number(value / 1e3) if ideal is None else f"+{number(value / 1e3 - ideal)}"


def concurrent(entry: dict[str, Any]) -> str:
    value = value_of(entry, "concurrent_1000", "seconds")
    if value is None:
        return times(entry, None, "concurrent_1000", "seconds")
    count = value_of(entry, "concurrent_1000", "turns")
    return number(value) if count == 1000 else f"{number(value)} (only {count:.0f} turns)"


def concurrent_memory(entry: dict[str, Any]) -> str:
    peak = value_of(entry, "concurrent_1000", "peak_rss_kib")
    if peak is None:
        return "–"
    before = value_of(entry, "concurrent_1000", "rss_before_kib")
    growth = "" if before is None else f" (+{number((peak - before) / 1024)})"
    return mebibytes(peak) + growth


def spread(entry: dict[str, Any], scenario: str, key: str) -> str:
    samples = [s[key] for s in entry["results"].get(scenario, {}).get("samples", ())]
    return f"{number(min(samples))}–{number(max(samples))}" if samples else "–"


def busy(data: dict[str, Any]) -> str:
    spins = [
        sample["spin_ms"]
        for entry in data["adapters"].values()
        for result in entry["results"].values()
        for sample in result.get("samples", ())
        if "spin_ms" in sample
    ]
    if len(spins) < 2:
        return ""
    cuts = statistics.quantiles(spins, n=20)
    return (
        f"The fixed calibration loop before each batch took {min(spins):.1f} ms at best, "
        f"{statistics.median(spins):.1f} ms in the middle, {cuts[-1]:.1f} ms at the 95th centile."
    )


def refusals(entry: dict[str, Any]) -> list[str]:
    lines = []
    for scenario, result in entry["results"].items():
        if "unsupported" in result:
            lines.append(f"{scenario}: not possible ({result['unsupported']}).")
        elif "error" in result:
            lines.append(f"{scenario}: FAILED ({result['error'].strip().splitlines()[-1]}).")
    return lines
