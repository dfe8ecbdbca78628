"""The table of docs/ecosystem.md says what the tests show; what is tested apart is counted there as well."""

import subprocess
import sys
from pathlib import Path

import pytest
from tools.ecosystem.checks import CHILD, FRAMEWORKS, counted
from tools.ecosystem.table import PAGE, row, rows

ROOT = Path(__file__).parent.parent
ADAPTERS = list((ROOT / "tests" / "adapters").glob("test_*.py"))


@pytest.fixture(scope="module")
def table() -> dict[tuple[str, str], list[str]]:
    return rows(PAGE.read_text("utf-8"))


def nodes(session: pytest.Session) -> list[str]:
    """The ids of all tests of adapters: those of this very run, where they are among them."""
    here = [item.nodeid for item in session.items if item.nodeid.startswith("tests/adapters/")]
    if {node.partition("::")[0] for node in here} >= {f"tests/adapters/{path.name}" for path in ADAPTERS}:
        return here
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:xdist", "tests/adapters"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def test_its_numbers_are_those_of_the_tests(
    table: dict[tuple[str, str], list[str]], request: pytest.FixtureRequest
) -> None:
    counts = counted(nodes(request.session))
    assert len(counts) > 10
    told = {key: row(behind, 0, table[key][0] if key in table else "") for key, behind in counts.items()}
    assert {key: table.get(key) for key in told} == told, "run `make ecosystem`"


@pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda each: each.page)
def test_every_framework_is_in_it_with_a_page_and_nothing_fails(framework, table) -> None:
    assert (ROOT / "docs" / "ecosystem" / f"{framework.page}.md").exists()
    assert (framework.title, CHILD) in table
    assert [cells[-1] for (title, _), cells in table.items() if title == framework.title] in (["0"], ["0", "0"])
