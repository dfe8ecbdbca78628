"""What durability costs: a step, and a child through its queue, beside the same tree in one process.

``python benchmarks/durable.py [--database URL] [--times N]``: on a new file, and on an empty PostgreSQL database: the
one that is named, else one of a server that is started for it, where PostgreSQL is installed. Needs ``pip install
"symfonic-delegation[dbos]"``.
"""

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from symfonic import Agent, SubAgent
from symfonic.durable import durable
from symfonic.kernel.contracts.messages import Message
from symfonic.testing import FunctionModel, tool_call

CHILDREN, STEPS, BUDGET_CHILD, BUDGET_STEP = 24, 40, 100.0, 10.0
"""How many of each a run has, and the milliseconds that each may take."""


def _asked(messages: list[Message]) -> int:
    return sum(each.role == "assistant" for each in messages)


def _lead(replies: Callable[[int], Any], name: str) -> Agent:
    clerk = SubAgent("clerk", Agent(FunctionModel(lambda messages, tools: "12"), name="clerk"), "Counts.")

    async def note() -> str:
        """Note it."""
        return "noted"

    model = FunctionModel(lambda messages, tools: replies(_asked(list(messages))))
    return Agent(model, name=name, tools=[note], sub_agents=[clerk])


def _trees() -> dict[str, tuple[Agent, int]]:
    """What is measured, with the number of things that its time is divided by."""
    child = tool_call("run_agent", name="clerk", task="Count.")
    return {
        "a step": (_lead(lambda step: tool_call("note") if step < STEPS else "done", "steps"), 2 * STEPS + 1),
        "a child, one after another": (_lead(lambda step: child if step < CHILDREN else "done", "chain"), CHILDREN),
        "a child, all at once": (_lead(lambda step: [child] * CHILDREN if not step else "done", "wide"), CHILDREN),
    }


async def _milliseconds(run: Callable[[], Awaitable[Any]], count: int, times: int) -> float:
    spans = []
    for _ in range(times):
        began = time.perf_counter()
        await run()
        spans.append((time.perf_counter() - began) * 1000 / count)
    return statistics.median(spans)


async def _measured(database: str | None, times: int) -> dict[str, float]:
    found = {}
    for name, (agent, count) in _trees().items():
        if database is None:
            found[name] = await _milliseconds(lambda agent=agent: agent.run("Go."), count, times)
            continue
        async with durable(agent, database) as tree:
            await tree.run("Go.")  # what is made once is not what is measured
            found[name] = await _milliseconds(lambda tree=tree: tree.run("Go."), count, times)
    return found


@contextmanager
def _server_database(named: str | None) -> Iterator[str | None]:
    """A database on a server; None where there is no server."""
    sys.path.append(str(Path(__file__).resolve().parent.parent / "tests" / "apart" / "remote"))
    from durable_kit import SERVERS, running_server

    if named or not SERVERS:
        yield named
        return
    with running_server() as server:
        yield server.new_database()


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--database", help="a PostgreSQL database to measure as well")
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, _server_database(given.database) as database:
        places = {"in one process": None, "SQLite": str(Path(folder) / "tree.db"), "PostgreSQL": database}
        if database is None:
            del places["PostgreSQL"]
        found = {place: asyncio.run(_measured(where, given.times)) for place, where in places.items()}
    print(f"Milliseconds, medians of {given.times} runs; a child has a model call of its own.\n")
    print(f"| | {' | '.join(found)} | at most |")
    print(f"|---|{'---|' * len(found)}---|")
    for name in _trees():
        most = BUDGET_STEP if name == "a step" else BUDGET_CHILD
        print(f"| {name} | {' | '.join(f'{each[name]:.2f}' for each in found.values())} | {most:.0f} |")


if __name__ == "__main__":
    main()
