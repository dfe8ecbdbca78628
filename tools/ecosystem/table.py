"""The rows of the table: written after a run of the tests, and read to see whether they are still true."""

import re
from collections import Counter
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tools.ecosystem.checks import CHECKS, CHILD, FRAMEWORKS, HOST

PAGE = Path(__file__).parent.parent.parent / "docs" / "ecosystem.md"
_PLACE = re.compile(r"(<!-- ecosystem: table -->\n).*?(<!-- end: table -->)", re.DOTALL)
_HEAD = ("framework", "version", "", *CHECKS, "failed")


def rows(page: str) -> dict[tuple[str, str], list[str]]:
    """The rows of the page, by framework and direction: the version, the cells, and how many failed."""
    found = _PLACE.search(page)
    read = {}
    for line in found[0].splitlines() if found else ():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        linked = re.match(r"\[(.*)\]", cells[0])
        if linked and len(cells) == len(_HEAD):
            read[linked[1], cells[2]] = [cells[1], *cells[3:]]
    return read


def row(behind: Counter[str], failed: int, installed: str) -> list[str]:
    """One row: the version, the tests behind each check, and how many failed."""
    return [installed, *(str(behind[check]) if behind[check] else "–" for check in CHECKS), str(failed)]


def write(passed: Mapping[tuple[str, str], Counter[str]], failed: Mapping[tuple[str, str], Counter[str]]) -> None:
    """Renew the rows of the frameworks that were tested; the others, tested elsewhere, stay."""
    page = PAGE.read_text("utf-8")
    known = rows(page)
    for framework in FRAMEWORKS:
        for key in ((framework.title, CHILD), (framework.title, HOST)):
            if key in passed or key in failed:
                wrong = failed.get(key, Counter())
                known[key] = row(passed.get(key, Counter()), wrong.total(), _version(framework.distribution))
    lines = [_line(_HEAD), _line(["---"] * len(_HEAD))]
    for framework in FRAMEWORKS:
        for direction in (CHILD, HOST):
            if (framework.title, direction) in known:
                told = known[framework.title, direction]
                lines.append(
                    _line([f"[{framework.title}](ecosystem/{framework.page}.md)", told[0], direction, *told[1:]])
                )
    text = "\n".join(["", *lines, "", ""])
    PAGE.write_text(_PLACE.sub(lambda found: f"{found[1]}{text}{found[2]}", page), "utf-8")


def _line(cells: "list[str] | tuple[str, ...]") -> str:
    return "| " + " | ".join(cells) + " |"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "missing"
