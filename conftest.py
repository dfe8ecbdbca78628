"""Documentation that runs: every fenced block of the README and of docs/, in order, in a folder of its own.

``python`` is executed, ``text`` is what the Python before it prints, ``console`` are ``$ symfonic`` commands and the
lines they print: in any order, since parallel children end as they please, with other seconds, and where there is a
line of ``...`` with others between. A block that begins with the comment ``# NAME.toml`` or ``# NAME.py`` is saved as
that file.
"""

import re
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Generator
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from shlex import split
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from sybil import Document, Example, Sybil
from sybil.parsers.markdown import CodeBlockParser

_ROOT = Path(__file__).parent
_FILE = re.compile(r"# ([\w-]+\.(?:py|toml))\n")
_SECONDS = re.compile(r"\d+\.\d\d s\b")


def _saved(example: Example) -> bool:
    """Whether the block is a file, which now stands in the document's folder."""
    named = _FILE.match(example.parsed)
    if named:
        (_folder(example) / named[1]).write_text(example.parsed, encoding="utf-8")
    return named is not None


def _run_python(example: Example) -> None:
    if _saved(example):
        return
    lines_before = example.line + example.parsed.line_offset
    code = compile("\n" * lines_before + example.parsed, example.path, "exec", dont_inherit=True)
    with redirect_stdout(StringIO()) as printed, chdir(_folder(example)):
        exec(code, example.namespace)
    example.namespace["printed"] = printed.getvalue()


def _save_toml(example: Example) -> None:
    assert _saved(example), "a toml block must begin with the comment # NAME.toml"


def _compare_text(example: Example) -> None:
    printed = example.namespace.pop("printed", None)
    assert printed is not None, "a text block is what the python block before it prints; there is none"
    assert printed.rstrip() == example.parsed.rstrip()


def _run_console(example: Example) -> None:
    for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n?)*)", example.parsed, re.MULTILINE):
        program, *arguments = split(command)
        if program == "make":
            continue  # test_docs.py holds these against the Makefile and the demo
        assert program == "symfonic", f"a console block may run make and symfonic, not {program}"
        done = subprocess.run(
            [sys.executable, "-m", "symfonic", *arguments],
            cwd=_folder(example),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        printed, shown = _lines(done.stdout), _lines(expected)
        cut = shown.pop("...", 0)
        assert not shown - printed, f"not printed: {list(shown - printed)}; but: {done.stdout}"
        assert cut or not printed - shown, f"not shown: {list(printed - shown)}"


def _lines(text: str) -> Counter[str]:
    return Counter(line.rstrip() for line in _SECONDS.sub("? s", text).splitlines() if line.strip())


def _folder(example: Example) -> Path:
    return Path(example.namespace["folder"].name)


def _open_folder(namespace: dict[str, Any]) -> None:
    namespace["folder"] = TemporaryDirectory()


def _close_folder(namespace: dict[str, Any]) -> None:
    namespace["folder"].cleanup()


_collect = Sybil(
    parsers=[
        CodeBlockParser("python", _run_python),
        CodeBlockParser("text", _compare_text),
        CodeBlockParser("toml", _save_toml),
        CodeBlockParser("console", _run_console),
    ],
    patterns=["README.md", "docs/*.md", "docs/*/*.md"],
    document_types={".md": Document},
    setup=_open_folder,
    teardown=_close_folder,
).pytest()

_APART = ("docs/ecosystem/crewai.md", "docs/remote.md", "docs/durable.md")
"""Pages whose packages have an environment of their own: they run where they are named."""


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Any:
    page = file_path.relative_to(_ROOT).as_posix() if file_path.is_relative_to(_ROOT) else ""
    named = {Path(each).resolve() for each in parent.config.args}
    return None if page in _APART and file_path not in named else _collect(file_path, parent)


def pytest_configure() -> None:
    """What is started from a background job inherits that it ignores Ctrl-C, which some tests send.

    And no property holds only where a machine is quick: none has a deadline.
    """
    settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("unhurried")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--fail-on-skip", action="store_true", help="A test that is skipped fails.")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _forbid_skip(item.config, report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _forbid_skip(collector.config, report)
    return report


def _forbid_skip(config: pytest.Config, report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped and config.getoption("--fail-on-skip") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, and with --fail-on-skip nothing may be: {reason}"
