"""``symfonic worker``: carry out the runs of a team that wait in a database."""

import asyncio
import signal
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from symfonic import ConfigurationError, load_team
from symfonic.cli.interrupt import InterruptedRunError, run_interruptibly
from symfonic.cli.streams import Out
from symfonic.durable import Durable, durable
from symfonic.kernel.contracts.text import error_text
from symfonic.teams import Team

ENDED, FAILED, INTERRUPTED = 0, 1, 130


@dataclass(frozen=True, slots=True)
class WorkOrder:
    """What the command line asks for."""

    team: str
    database: str
    executor_id: str
    version: str = "1"
    concurrency: int | None = None
    global_concurrency: int | None = None
    model: str | None = None


def work(order: WorkOrder) -> int:
    """Work until SIGTERM or Ctrl-C; the exit status. What is not finished then goes on when the worker is back.

    Raises ConfigurationError if the team cannot be loaded.
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
        except ConfigurationError as error:
            say(f"symfonic: {error_text(error)}")
            return FAILED
    return ENDED


async def _working(team: Team, order: WorkOrder) -> None:
    tree = durable(
        team.agent,
        order.database,
        executor_id=order.executor_id,
        version=order.version,
        concurrency=order.concurrency,
        global_concurrency=order.global_concurrency,
    )
    async with team, tree:
        await tree.start()
        Out(sys.stderr).line(f"{order.executor_id} works for {tree.name} (version {order.version})")
        await _told_to_end(tree)


async def _told_to_end(tree: Durable) -> None:
    """Wait for SIGTERM, which is how a supervisor ends a worker."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGTERM, told.set)
    try:
        await told.wait()
    finally:
        loop.remove_signal_handler(signal.SIGTERM)
