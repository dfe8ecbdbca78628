"""The house as a picture: rooms as boxes with their modules in them, imports as arrows that point down."""

from collections.abc import Mapping
from html import escape
from pathlib import Path
from textwrap import wrap

from tools.house.counts import CODE
from tools.house.graph import between, graph, modules

ROOMS = {  # what a module is in, by the longest prefix of its name that fits
    "symfonic": "symfonic (root names)",
    "symfonic.cli": "cli",
    "symfonic.__main__": "cli",
    "symfonic.teams": "teams",
    "symfonic.agent": "agent (the doors)",
    "symfonic.agent.cutover": "agent/cutover (the composition root)",
    "symfonic.capabilities.delegation": "capabilities/delegation",
    "symfonic.kernel.runtime": "kernel/runtime",
    "symfonic.kernel.concurrency": "kernel/concurrency",
    "symfonic.kernel.contracts": "kernel/contracts",
    "symfonic.models": "models",
    "symfonic.adapters": "adapters",
    "symfonic.testing": "testing",
    "symfonic.errors": "errors",
    "symfonic._version": "errors",
}
_WIDTH, _PAD, _GAP, _LINE, _WRAP = 1240, 10, 46, 15, 30


def room(module: str) -> str:
    """The room that a module is in."""
    return ROOMS[max((prefix for prefix in ROOMS if f"{module}.".startswith(f"{prefix}.")), key=len)]


def rows(ways: Mapping[tuple[str, str], int], all_rooms: set[str]) -> list[list[str]]:
    """The rooms in rows, each above everything that it imports. Raises ValueError if they import in a circle."""
    height = dict.fromkeys(all_rooms, 0)
    for _ in all_rooms:
        for above, below in ways:
            height[below] = max(height[below], height[above] + 1)
    if any(height[below] <= height[above] for above, below in ways):
        raise ValueError("rooms import each other in a circle")
    return [sorted(each for each in all_rooms if height[each] == level) for level in range(max(height.values()) + 1)]


def needed(ways: Mapping[tuple[str, str], int]) -> set[tuple[str, str]]:
    """The ways that do not follow from others: what imports a room may import all that is below it."""
    below: dict[str, set[str]] = {}
    for above, under in ways:
        below.setdefault(above, set()).add(under)

    def reached(name: str) -> set[str]:
        direct = below.get(name, set())
        return direct.union(*(reached(each) for each in direct)) if direct else set()

    return {
        (above, under)
        for above, under in ways
        if not any(under in reached(other) for other in below[above] if other != under)
    }


def drawing(root: Path) -> str:
    """The picture, as SVG."""
    imports = graph(root / CODE)
    inside: dict[str, list[str]] = {}
    for module, path in modules(root / CODE).items():
        inside.setdefault(room(module), []).extend([module.rpartition(".")[2]] if path.name != "__init__.py" else [])
    ways = between(imports, {module: room(module) for module in imports})
    ways = {way: count for way, count in ways.items() if way[0] != ROOMS["symfonic"]}  # names, resolved when used
    boxes, height = _placed(rows(ways, set(inside)), inside)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
        ' font-family="sans-serif" font-size="12">',
        f'<rect width="{_WIDTH}" height="{height}" fill="white"/>',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 8 4 0 8z" fill="#999"/></marker></defs>',
    ]
    parts += [_arrow(boxes[above], boxes[below], ways[above, below]) for above, below in sorted(needed(ways))]
    parts += [_box(name, boxes[name], inside[name]) for name in sorted(boxes)]
    return "\n".join([*parts, "</svg>"]) + "\n"


Box = tuple[float, float, float, float]


def _placed(levels: list[list[str]], inside: Mapping[str, list[str]]) -> tuple[dict[str, Box], int]:
    boxes: dict[str, Box] = {}
    top = float(_PAD)
    for level in levels:
        width = min(260.0, (_WIDTH - 2 * _PAD) / len(level) - 2 * _PAD)
        tall = max(_LINE * (len(_lines(inside[name])) + 2) for name in level)
        step = (_WIDTH - 2 * _PAD) / len(level)
        for number, name in enumerate(level):
            boxes[name] = (_PAD + step * (number + 0.5) - width / 2, top, width, tall)
        top += tall + _GAP
    return boxes, int(top - _GAP + _PAD)


def _lines(names: list[str]) -> list[str]:
    return wrap(", ".join(names), _WRAP)


def _box(name: str, box: Box, names: list[str]) -> str:
    left, top, width, tall = box
    text = [f'<text x="{left + 8:.0f}" y="{top + 16:.0f}" font-weight="bold">{escape(name)}</text>']
    text += [
        f'<text x="{left + 8:.0f}" y="{top + 16 + _LINE * number:.0f}" fill="#444">{escape(line)}</text>'
        for number, line in enumerate(_lines(names), 1)
    ]
    frame = (
        f'<rect x="{left:.0f}" y="{top:.0f}" width="{width:.0f}" height="{tall}" rx="6" fill="#f4f6fa" stroke="#456"/>'
    )
    return "\n".join([frame, *text])


def _arrow(start: Box, end: Box, count: int) -> str:
    from_x, from_y = start[0] + start[2] / 2, start[1] + start[3]
    to_x, to_y = end[0] + end[2] / 2, end[1]
    thick = 0.8 + min(count, 30) / 12
    middle = f'x="{from_x + (to_x - from_x) * 0.3 + 3:.0f}" y="{from_y + (to_y - from_y) * 0.3:.0f}"'
    return (
        f'<line x1="{from_x:.0f}" y1="{from_y:.0f}" x2="{to_x:.0f}" y2="{to_y:.0f}" stroke="#999"'
        f' stroke-width="{thick:.1f}" marker-end="url(#tip)"/>'
        f'<text {middle} fill="#777" font-size="10">{count}</text>'
    )
