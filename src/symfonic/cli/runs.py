"""``symfonic runs``, ``resume`` and ``cancel``: look at the runs in a database, and steer them."""

import asyncio
import json
import sys
from dataclasses import asdict
from datetime import UTC, datetime

from symfonic.cli.streams import Out, answers_only, short
from symfonic.durable import RunInfo, runs_in

DONE, FAILED = 0, 1


def show(database: str, run_id: str | None, limit: int, as_json: bool) -> int:
    """Print the latest runs, or one tree's; the exit status. Raises ConfigurationError if there is no database."""
    with answers_only() as out, runs_in(database) as runs:
        found = asyncio.run(runs.latest(limit) if run_id is None else runs.tree(run_id))
        if run_id is not None and not found:
            return _unknown(run_id, database)
        for each in found:
            out.line(json.dumps(asdict(each)) if as_json else _line(each, found[0].depth if run_id else each.depth))
    return DONE


def resume(database: str, run_id: str) -> int:
    """Let a run and those below it go on; the exit status. Raises ConfigurationError if there is no database."""
    with answers_only() as out, runs_in(database) as runs:
        found = asyncio.run(runs.tree(run_id))
        if not found:
            return _unknown(run_id, database)
        number = asyncio.run(runs.resume(run_id))
        if not number:
            return _ended(found[0])
        out.line(f"{number} run(s) of {run_id} go on, as soon as a worker takes them")
    return DONE


def cancel(database: str, run_id: str) -> int:
    """Cancel a run and those below it; the exit status. Raises ConfigurationError if there is no database."""
    with answers_only() as out, runs_in(database) as runs:
        found = asyncio.run(runs.tree(run_id))
        if not found:
            return _unknown(run_id, database)
        if not found[0].live:
            return _ended(found[0])
        asyncio.run(runs.cancel(run_id))
        out.line(f"cancelled {run_id} and everything below it")
    return DONE


def _line(run: RunInfo, top: int) -> str:
    """A run on one line, indented by its level below the one at the top."""
    when = datetime.fromtimestamp(run.created, UTC).strftime("%Y-%m-%d %H:%M:%S")
    who = f"executor {run.executor_id}" if run.executor_id else "no executor yet"
    told = f"{who}, version {run.version}, begun {run.executions} time(s)"
    line = f"{when}Z  {run.status:<9}  {'  ' * (run.depth - top)}{run.agent}  {run.run_id}  ({told})"
    return line if run.text is None else f"{line}: {short(run.text)}"


def _ended(run: RunInfo) -> int:
    Out(sys.stderr).line(f"symfonic: the run {run.run_id} has ended already ({run.status})")
    return FAILED


def _unknown(run_id: str, database: str) -> int:
    Out(sys.stderr).line(f"symfonic: there is no run {run_id!r} in that database")
    return FAILED
