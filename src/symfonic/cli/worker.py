"""``symfonic worker``: carry out the runs of a team that wait in a database."""

import asyncio
import signal
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from symfonic import load_team
from symfonic.cli.interrupt import InterruptedRunError, run_interruptibly
from symfonic.cli.keeping import Keeping, kept
from symfonic.cli.streams import Out
from symfonic.teams import Team

ENDED, INTERRUPTED = 0, 130


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What the command line asks for."""

    team: str
    keeping: Keeping
    model: str | None = None


def work(order: WorkOrder) -> int:
    """Work until SIGTERM or Ctrl-C; the exit status. What is not finished then goes on when the worker is back.

    Raises ConfigurationError if the team cannot be loaded, or the database or the executor's id cannot be had.
    """
    say = Out(sys.stderr).line
    with redirect_stdout(sys.stderr):  # what tools print is no answer
        team = load_team(order.team, model=order.model)
        sys.path.append(str(Path(order.team).resolve().parent))
        try:
            run_interruptibly(_working(team, order))
        except InterruptedRunError:
            say("symfonic: interrupted by Ctrl-C; what is not finished goes on when this worker is back")
            return INTERRUPTED
    return ENDED


async def _working(team: Team, order: WorkOrder) -> None:
    keeping = order.keeping
    async with team, kept(team, keeping) as tree:
        Out(sys.stderr).line(f"{keeping.executor_id} works for {tree.name} (version {keeping.version})")
        await _told_to_end()


async def _told_to_end() -> None:
    """Wait for SIGTERM, which is how a supervisor ends a worker."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    try:
        await told.wait()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
