"""The demo team on real repositories: who is asked, and whether every figure it tells is true."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from symfonic.teams import load_team

ROOT = Path(__file__).parent.parent
DEMO = ROOT / "demo"
QUESTION = "How large is the code by language, what changed last, and what does the README say about running the tests?"
IDENTITY = {
    "GIT_AUTHOR_NAME": "Ada Nym",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2024-02-29T12:30:00+01:00",
    "GIT_COMMITTER_NAME": "Ada Nym",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_COMMITTER_DATE": "2024-03-01T00:00:00Z",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
}
LANGUAGES = {
    ".py": "Python", ".md": "Markdown", ".toml": "TOML", ".go": "Go", ".yml": "YAML", ".json": "JSON", ".sh": "Shell",
    ".txt": "Text", ".cfg": "INI", ".ini": "INI", ".js": "JavaScript", ".html": "HTML", ".css": "CSS",
}  # fmt: skip
README = """# Sundial

Sundial tells the time, and its tests never sleep.

## Install

Run `make install`.

## Running the tests

The suite needs no network:

```console
$ make test        # everything
$ python -m pytest tests -x
```

## Licence

Tested and free.
"""
SUBJECT = "Say: 'more', \"much\" more — ¡7 times!"
SUNDIAL = {
    "src/dial.py": "a\nb\n\nno end",
    "src/empty.py": "",
    "src/windows.py": b"a\r\nb\r\n",
    "main.go": "package main\n",
    "run": "#!/usr/bin/env -S python3 -u\nprint()\n",
    "ci/go": "#!/bin/sh -e\ntrue\n",
    "Makefile": "all:\n\ttrue\n",
    "latin.txt": b"caf\xe9\n\xff\xfe\n",
    b"caf\xe9.md": "x\n",
    "logo.png": b"\x89PNG\0\n\n\n",
    "data": b"a\n" * 100_000,
}
REWORDED = [
    "What does the README say about running the tests, what changed last, and how large is the code by language?",
    "How big is the code base for each language? What was the last change? How do I run the tests, says the README?",
    "Count the lines of code by language; show the latest commit; quote what the README tells about the test suite.",
    "1. Lines of code per language\n2. What changed most recently?\n3. What the documentation says on running tests",
    "In this repository, how much code is there in each language, what was changed last, and how are the tests run?",
    "I'd like to know the size of the code by language, the most recent change, and the README's word on the tests.",
    "Hello! Please tell me how large the codebase is, by language. And who changed what last? Also, how do I run the "
    "tests? Thanks!",
]


def git(repo, *arguments):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    command = ["git", "-C", str(repo), "-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always", *arguments]
    return subprocess.run(command, check=True, capture_output=True, env=environment | IDENTITY).stdout


def write(repo, files):
    for name, content in files.items():
        path = repo / os.fsdecode(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def commit(repo, subject, files):
    write(repo, files)
    git(repo, "add", "--all")
    git(repo, "commit", "--quiet", "--allow-empty", "--no-gpg-sign", "-m", subject)


@pytest.fixture
def empty_repo(tmp_path):
    repo = tmp_path / "a repository"
    repo.mkdir()
    git(repo, "init", "--quiet")
    return repo


@pytest.fixture
def sundial(empty_repo):
    """A small repository with everything that makes counting hard."""
    commit(empty_repo, "Begin", {"gone.py": "1\n" * 40, "old name.py": "x = 1\n" * 30, "README.md": README})
    (empty_repo / "gone.py").unlink()
    (empty_repo / "old name.py").rename(empty_repo / "new\nname.py")
    commit(empty_repo, SUBJECT, SUNDIAL)
    (empty_repo / "link.py").symlink_to("src/dial.py")
    git(empty_repo, "add", "--all")
    git(empty_repo, "commit", "--quiet", "--amend", "--no-edit", "--no-gpg-sign")
    write(empty_repo, {"untracked.py": "1\n", "src/dial.py": "a\nb\n\nno end\nbut now\n"})
    return empty_repo


@pytest.fixture
def checkout(tmp_path):
    """This very repository, as it was committed last."""
    git(tmp_path, "clone", "--quiet", str(ROOT), "checkout")
    return tmp_path / "checkout"


@pytest.fixture
def tools(monkeypatch):
    """The module of the demo's tools, loaded from its file."""
    monkeypatch.syspath_prepend(str(DEMO))
    spec = importlib.util.spec_from_file_location("demo_tools_under_test", DEMO / "repo_tools.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    yield module
    sys.modules.pop("repo_readme", None)


async def run(monkeypatch, repo, question=QUESTION, team=DEMO / "team.toml"):
    monkeypatch.delenv("SYMFONIC_DEMO_REPO", raising=False)
    monkeypatch.chdir(repo)
    return await load_team(team).run(question)


def asked(records):
    return {record.name: asked(record.children) for record in records}


# What the answer tells, read back


def table(text):
    """{language: (files, lines)} of every table row."""
    return {name: (int(a), int(b)) for name, a, b in re.findall(r"^(\S+(?: \S+)*) +(\d+) +(\d+)$", text, re.M)}


def change(text):
    commit_line = re.search(r"^Last commit (\S+), (\S+), by (.+?): (.*)$", text, re.M)
    figures = re.search(r"^files changed: (\d+), insertions: (\d+), deletions: (\d+)$", text, re.M)
    return commit_line.groups(), tuple(map(int, figures.groups()))


def quotations(text):
    """(first line, last line, quoted lines) of every passage."""
    pattern = r"^README\.md, lines? (\d+)(?:-(\d+))?:\n((?:(?:  .*)?\n?)*)"
    for first, last, quoted in re.findall(pattern, text, re.M):
        yield int(first), int(last or first), [line[2:] for line in quoted.rstrip("\n").split("\n")]


# The same facts, found in another way


def counted(repo):
    files, lines = Counter(), Counter()
    for entry in git(repo, "ls-files", "--stage", "-z").split(b"\0")[:-1]:
        mode, name = entry.split(b" ", 1)[0], entry.split(b"\t", 1)[1]
        path = repo / os.fsdecode(name)
        if mode not in (b"100644", b"100755") or not path.exists() or b"\0" in path.read_bytes()[:8000]:
            continue
        language = language_of(path)
        files[language] += 1
        with path.open("rb") as file:
            lines[language] += sum(1 for _ in file)
    totals = {language: (files[language], lines[language]) for language in files}
    return totals | {"Total": (files.total(), lines.total())}


def language_of(path):
    with path.open("rb") as file:
        first = file.readline()
    if path.suffix in LANGUAGES:
        return LANGUAGES[path.suffix]
    if path.name in ("LICENSE", "Makefile"):
        return {"LICENSE": "Text", "Makefile": "Make"}[path.name]
    if first.startswith(b"#!"):
        return "Python" if b"python" in first else "Shell"
    return "Other"


def committed(repo):
    head = git(repo, "log", "-1", "--format=%h%n%aI%n%an%n%s").decode().rstrip("\n").split("\n")
    rows = git(repo, "show", "-M", "-m", "--first-parent", "--numstat", "--format=").decode().splitlines()
    added, removed = ([int(row.split("\t")[at].replace("-", "0")) for row in rows] for at in (0, 1))
    return tuple(head), (len(rows), sum(added), sum(removed))


def assert_true(answer, repo):
    """Every figure of the answer, recomputed."""
    assert table(answer) == counted(repo)
    assert change(answer) == committed(repo)
    readme = (repo / "README.md").read_text().splitlines()
    for first, last, quoted in quotations(answer):
        expected = [line.rstrip() for line in readme[first - 1 : last]]
        assert quoted[: len(expected)] == expected or quoted[:30] == expected[:30]


async def test_the_lead_delegates_the_parts_to_three_children_one_of_which_delegates_once_more(monkeypatch, sundial):
    result = await run(monkeypatch, sundial)
    assert asked(result.delegations) == {"surveyor": {"counter": {}}, "historian": {}, "reader": {}}
    assert {record.outcome for record in result.delegations} == {"delivered"}
    assert [record.trace.task for record in result.delegations] == [
        "How large is the code by language",
        "what changed last",
        "what does the README say about running the tests?",
    ]


async def test_every_figure_about_this_repository_is_true(monkeypatch, checkout):
    assert_true((await run(monkeypatch, checkout)).text, checkout)


async def test_every_figure_about_another_repository_is_true(monkeypatch, sundial):
    answer = (await run(monkeypatch, sundial)).text
    assert_true(answer, sundial)
    assert table(answer)["Python"] == (5, 39)
    assert "Binary files, not counted above: 1" in answer
    assert [(first, last) for first, last, _ in quotations(answer)] == [(9, 16)]
    assert answer.endswith("Test commands it names: `make test`, `python -m pytest tests -x`")


async def test_the_repository_can_be_named_by_the_environment(monkeypatch, sundial, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SYMFONIC_DEMO_REPO", str(sundial))
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    result = await load_team(DEMO / "team.toml").run(QUESTION)
    monkeypatch.delenv("GIT_DIR")
    assert_true(result.text, sundial)


@pytest.mark.parametrize("question", REWORDED)
async def test_a_reworded_question_gets_the_same_true_answer(monkeypatch, sundial, question):
    result = await run(monkeypatch, sundial, question)
    assert {record.name for record in result.delegations} == {"surveyor", "historian", "reader"}
    assert_true(result.text, sundial)
    assert len(list(quotations(result.text))) == 1
    assert "Nothing here fits" not in result.text


async def test_renamed_and_reordered_agents_give_the_same_true_answer(monkeypatch, sundial, tmp_path):
    names = {"lead": "w", "surveyor": "zeta", "counter": "q7", "historian": "Mx-Ähre", "reader": "b_4"}
    text = (DEMO / "team.toml").read_text()
    for old, new in names.items():
        text = re.sub(
            rf'(?<=\[agents\.){old}(?=\])|(?<=["]){old}(?=["])', f'"{new}"' if old == "historian" else new, text
        )
    text = text.replace('""Mx-Ähre""', '"Mx-Ähre"')
    head, *agents = text.split("\n[agents.")
    children = '["zeta", "Mx-Ähre", "b_4"]'
    assert children in agents[0]
    agents[0] = agents[0].replace(children, '["b_4", "zeta", "Mx-Ähre"]')
    team = tmp_path / "team.toml"
    team.write_text("\n[agents.".join([head, *agents[::-1]]), encoding="utf-8")
    for module in ("repo_tools.py", "repo_readme.py"):
        shutil.copy(DEMO / module, tmp_path)
    result = await run(monkeypatch, sundial, team=team)
    assert asked(result.delegations) == {"zeta": {"q7": {}}, "Mx-Ähre": {}, "b_4": {}}
    assert_true(result.text, sundial)


async def test_other_questions_reach_the_other_tools(monkeypatch, sundial):
    answer = (await run(monkeypatch, sundial, "How is the repository laid out, and show the last 2 commits")).text
    assert "(top level)  9\nci/  1\nsrc/  3" in answer
    assert re.findall(r"^\w+ 2024-02-29 (.*)$", answer, re.M) == [SUBJECT, "Begin"]
    outline = (await run(monkeypatch, sundial, "Which topics does the documentation cover?")).text
    assert outline == "Sundial\n  Install\n  Running the tests\n  Licence"


async def test_a_part_that_no_agent_can_answer_is_said_so_beside_the_true_figures(monkeypatch, sundial):
    result = await run(monkeypatch, sundial, "How large is the code by language, and what is the weather in Paris?")
    assert asked(result.delegations) == {"surveyor": {"counter": {}}}
    assert table(result.text) == counted(sundial)
    assert "what is the weather in Paris?\nNothing here fits this." in result.text


async def test_below_the_ceiling_nobody_counts_and_the_answer_says_so(monkeypatch, sundial):
    monkeypatch.chdir(sundial)
    result = await load_team(DEMO / "team.toml").run(QUESTION, max_depth=1)
    assert asked(result.delegations) == {"surveyor": {}, "historian": {}, "reader": {}}
    assert "Nothing here fits this." in result.text
    assert table(result.text) == {}
    assert change(result.text) == committed(sundial)


async def test_an_empty_repository_is_no_failure(monkeypatch, empty_repo):
    result = await run(monkeypatch, empty_repo)
    assert {record.outcome for record in result.delegations} == {"delivered"}
    assert "No text files are tracked here." in result.text
    assert "Nothing was committed yet." in result.text
    assert "There is no README here." in result.text


async def test_outside_any_repository_the_answer_says_so(monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    answer = (await run(monkeypatch, tmp_path)).text
    assert answer.count("not a git repository") == 3


def test_a_directory_that_is_not_there_is_named(monkeypatch, tools, tmp_path):
    monkeypatch.setenv("SYMFONIC_DEMO_REPO", str(tmp_path / "missing"))
    with pytest.raises(tools.RepositoryError, match=r"cannot be run in .*missing"):
        tools.last_change()


def test_a_merge_counts_what_it_brought_and_an_empty_commit_nothing(monkeypatch, tools, empty_repo):
    monkeypatch.chdir(empty_repo)
    commit(empty_repo, "Begin", {"a.py": "1\n"})
    git(empty_repo, "checkout", "--quiet", "-b", "side")
    commit(empty_repo, "Side", {"b.py": "1\n2\n3\n", "a.py": "2\n"})
    git(empty_repo, "checkout", "--quiet", "main")
    git(empty_repo, "merge", "--quiet", "--no-ff", "--no-gpg-sign", "-m", "Merge", "side")
    assert change(tools.last_change())[1] == (2, 4, 1)
    commit(empty_repo, "Nothing", {})
    assert change(tools.last_change())[1] == (0, 0, 0)


MAKE_TEST = "\n\nTest commands it names: `make test`"
PASSAGES = [
    ("README.md", "# Untested\n\nThe latest contest.\n", "README.md says nothing about tests."),
    (
        "README",
        "X\n=\n\nTesting\n-------\n\nRun tox.\n\nMore\n----\n",
        "README, lines 4-7:\n  Testing\n  -------\n\n  Run tox.",
    ),
    (
        "readme.rst",
        "To test, type::\n\n    make test\n\nBye.",
        "readme.rst, lines 1-3:\n  To test, type::\n\n      make test" + MAKE_TEST,
    ),
    ("README.md", "We test a lot.\n\nUse `make test`.", "README.md, line 3:\n  Use `make test`." + MAKE_TEST),
    (
        "README.md",
        "[![tests](badge.svg)](ci)\n\n```\nmake test",
        "README.md, lines 3-4:\n  ```\n  make test" + MAKE_TEST,
    ),
    ("README.md", b"\xef\xbb\xbf# T\xe9sts \xff\n\ntests \xe9\0", "README.md, line 3:\n  tests \ufffd\ufffd"),
    ("README.md", "# pytest-x\n\n## Usage\n\nSee tests.", "README.md, line 5:\n  See tests."),
]


@pytest.mark.parametrize(("name", "content", "expected"), PASSAGES)
def test_the_readme_passages_on_tests_are_found_in_every_common_form(
    monkeypatch, tools, empty_repo, name, content, expected
):
    monkeypatch.chdir(empty_repo)
    write(empty_repo, {name: content})
    assert tools.readme_on_tests() == expected


def test_a_long_passage_is_cut_and_says_so(monkeypatch, tools, empty_repo):
    monkeypatch.chdir(empty_repo)
    write(empty_repo, {"README.md": "# A\n\n## Tests\n\n" + "line\n" * 40})
    assert tools.readme_on_tests().endswith("  line\n  (cut; 12 more lines)")
