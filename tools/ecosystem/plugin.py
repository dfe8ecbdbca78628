"""Writes the table of docs/ecosystem.md after a run: ``pytest -p tools.ecosystem.plugin tests/adapters``."""

import pytest
from tools.ecosystem.checks import counted
from tools.ecosystem.table import write

_passed: list[str] = []
_failed: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" and report.passed:
        _passed.append(report.nodeid)
    elif not report.passed:  # skipped counts as failed: nothing was shown
        _failed.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        write(counted(_passed), counted(_failed))
