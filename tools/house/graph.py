"""Who imports whom, read from the source: imports inside functions and those for type checkers count like any other."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

Graph = Mapping[str, frozenset[str]]
"""Module -> the modules of the same package that it imports."""


def modules(package: Path) -> dict[str, Path]:
    """The modules of a package by dotted name."""
    paths = sorted(package.rglob("*.py"))
    return {
        ".".join(path.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


def graph(package: Path) -> Graph:
    """The imports of every module of a package."""
    found = modules(package)
    return {name: frozenset(_imports(name, path, found)) - {name} for name, path in found.items()}


def knots(imports: Graph) -> list[tuple[str, ...]]:
    """The groups of modules that import each other in a circle, largest first (Tarjan's algorithm)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    groups: list[tuple[str, ...]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for other in sorted(imports[name]):
            if other not in order:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], order[other])
        if low[name] == order[name]:
            at = stack.index(name)
            group, stack[at:] = tuple(stack[at:]), []
            if len(group) > 1:
                groups.append(tuple(sorted(group)))

    for name in sorted(imports):
        if name not in order:
            visit(name)
    return sorted(groups, key=len, reverse=True)


def between(imports: Graph, rooms: Mapping[str, str]) -> dict[tuple[str, str], int]:
    """How many imports lead from one room to another; ``rooms`` says where each module is."""
    counted: dict[tuple[str, str], int] = {}
    for name, others in imports.items():
        for other in others:
            way = (rooms[name], rooms[other])
            if way[0] != way[1]:
                counted[way] = counted.get(way, 0) + 1
    return counted


def _imports(name: str, path: Path, known: Mapping[str, Path]) -> Iterator[str]:
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif isinstance(node, ast.ImportFrom):
            up = package.split(".")
            base = up[: len(up) - node.level + 1] if node.level else []
            origin = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inside = f"{origin}.{alias.name}"
                if inside in known:
                    yield inside
                elif origin in known:
                    yield origin
