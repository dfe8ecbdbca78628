"""What the README and the other pages promise beyond their snippets, which run as tests of their own."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
QUESTION = re.search(r"^QUESTION \?= (.*)$", MAKEFILE, re.M)[1]
TREE = re.compile(r'^( *)([<>x]) (\S+)  "(.*)"  \(depth (\d+)\) (\w+) ', re.M)
SKIPPING = {
    "a test": "import pytest\n\n\n@pytest.mark.skip(reason='no time')\ndef test_is_skipped():\n    pass\n",
    "a module": "import pytest\n\npytest.skip('no time', allow_module_level=True)\n",
}


def plain(text: str) -> str:
    return " ".join(text.replace("`", "").split())


def test_the_readmes_demo_is_what_make_demo_runs():
    recipe = re.search(r"^demo:.*\n\t@?(.*)$", MAKEFILE, re.M)[1]
    assert recipe == '$(DEMO)/bin/symfonic run demo/team.toml "$(QUESTION)"'
    assert f'"{QUESTION}"' in plain(README)
    assert 'symfonic run demo/team.toml "…"' in README


def test_the_readme_names_every_program_that_make_test_runs():
    done = subprocess.run(["make", "-n", "test"], cwd=ROOT, capture_output=True, text=True, check=True)
    told = README.partition("## Running the tests")[2].partition("\n## ")[0]
    for step in ("ruff check", "ruff format --check", "mypy", "basedpyright", "pytest"):
        assert step in done.stdout
        assert f"`{step}`" in told


def test_the_tree_in_the_readme_is_the_one_that_the_demo_prints():
    shown = README.partition("$ make demo\n")[2].partition("```")[0]
    done = subprocess.run(
        [sys.executable, "-m", "symfonic", "run", "demo/team.toml", QUESTION],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(TREE.findall(shown)) == sorted(TREE.findall(done.stderr))
    assert len(TREE.findall(shown)) == 8
    assert shown.splitlines()[0] == done.stderr.splitlines()[0]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_and_path_of_a_page_leads_somewhere(page):
    text = page.read_text("utf-8")
    links = re.findall(r"\]\((?!https?:)([^)#]+)", text)
    paths = re.findall(r"`((?:src|tests|docs|demo|\.ci)/[\w./-]+)`", text)
    paths += [f"src/symfonic/{path}" for path in re.findall(r"`(kernel/[\w./-]+|agent/[\w./-]+)`", text)]
    assert [link for link in links if not (page.parent / link).exists()] == []
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_every_snippet_about_other_processes_is_whole():
    """Each is for a file, or a process, of its own; only the server that one starts, and how, is there for others."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / "remote.md").read_text("utf-8"), re.M | re.S)
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--select",
        "F821,F401",
        "--output-format",
        "concise",
    ]
    told = [subprocess.run([*command, "-"], input=each, capture_output=True, text=True).stdout for each in blocks]
    assert len(blocks) > 5
    missing = [line for each in told for line in each.splitlines() if " F" in line]
    assert [line for line in missing if not line.endswith(("`server`", "`serve`"))] == []


@pytest.mark.parametrize("skipped", SKIPPING)
def test_what_is_skipped_fails_where_the_makefile_runs_the_tests(skipped, tmp_path):
    assert "--fail-on-skip" in MAKEFILE
    shutil.copy(ROOT / "conftest.py", tmp_path)
    (tmp_path / "test_it.py").write_text(SKIPPING[skipped])
    (tmp_path / "test_other.py").write_text("def test_runs():\n    pass\n")
    command = [sys.executable, "-m", "pytest", "-q", "-c", ROOT / "pyproject.toml", "--rootdir", tmp_path, tmp_path]
    lenient = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert lenient.returncode == 0
    assert "1 passed, 1 skipped" in lenient.stdout
    strict = subprocess.run([*command, "--fail-on-skip"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert strict.returncode != 0
    assert "with --fail-on-skip nothing may be: Skipped: no time" in strict.stdout


def test_the_contributors_page_fits_on_one_screen():
    assert len((ROOT / "CONTRIBUTING.md").read_text("utf-8").splitlines()) <= 40
