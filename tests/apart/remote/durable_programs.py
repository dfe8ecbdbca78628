"""The processes of the durable tests: a team whose members say in a file what they do, and stop where they are told to.

``python durable_programs.py MODE DATABASE FOLDER [KEY=VALUE ...]``: a caller that works as well (``root``), one that
only asks (``client``), or one that only works (``worker``).
"""

import asyncio
import json
import os
import random
import signal
import sys
import threading
import time
from pathlib import Path

from plan_kit import Planned

from symfonic import Agent, SubAgent, SymfonicError, from_callable
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.durable import Waits, durable
from symfonic.testing import FunctionModel, tool_call

LONGEST = 60.0


class Journal:
    """A file to which every process adds a line for everything that its agents do."""

    def __init__(self, folder, slow=0.0):
        self.folder, self.slow = Path(folder), slow

    def add(self, kind, name, **more):
        run = active_run()
        told = {"kind": kind, "name": name, "run": run.identity.run_id, "depth": run.depth, "pid": os.getpid()}
        line = json.dumps({**told, "at": time.monotonic(), **more}) + "\n"
        with open(self.folder / "journal", "ab", buffering=0) as file:
            file.write(line.encode())

    async def stop_at(self, name):
        """Wait while there is a file that says so; tell in the journal if that was cancelled."""
        held = self.folder / f"hold-{name}"
        until = time.monotonic() + LONGEST
        try:
            while held.exists():
                if time.monotonic() > until:
                    raise TimeoutError(f"nobody removed {held}")
                await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            self.add("cancelled", name)
            raise


def speaker(journal, name, *replies):
    """A model that says the replies in turn, and writes down each time that it is asked."""

    async def say(messages, tools):
        step = sum(each.role == "assistant" for each in messages)
        journal.add("model", name, step=step)
        await journal.stop_at(f"{name}-{step}")
        if (journal.folder / f"die-{name}").exists():
            os.kill(os.getpid(), signal.SIGKILL)
        if (journal.folder / f"fail-{name}").exists():
            raise OSError(f"{name} cannot go on")
        if journal.slow:
            await asyncio.sleep(journal.slow)
        journal.add("spoke", name, step=step)
        reply = replies[step]
        return reply(messages) if callable(reply) else reply

    return FunctionModel(say)


def asks(name, *tasks):
    return [tool_call("run_agent", name=name, task=task) for task in tasks]


def team(folder, *, fan_out=2, deep=1, slow=0.0, name="lead"):
    """A lead with researchers, who each have counters, and a function as a child."""
    journal = Journal(folder, slow)

    async def weigh(query: str) -> str:
        journal.add("function", "scale")
        await journal.stop_at("scale")
        return f"{query}: 3 kg"

    async def note(text: str) -> str:
        """Write a note."""
        journal.add("tool", "note")
        await journal.stop_at("note")
        return "noted"

    parts = [f"part {number}" for number in range(1, fan_out + 1)]
    below = Agent(speaker(journal, "counter", "12 lines"), name="counter")
    for level in range(deep):
        below = Agent(
            speaker(journal, "researcher", asks("below", *(parts if level else ["count"])), "counted"),
            name="researcher",
            sub_agents=[SubAgent("below", below, "Looks closer.")],
        )
    return Agent(
        speaker(
            journal,
            "lead",
            [*asks("researcher", *parts), *asks("scale", "the box"), tool_call("note", text="begun")],
            lambda messages: " and ".join(each.text for each in messages if each.role == "tool"),
        ),
        name=name,
        tools=[note],
        sub_agents=[
            SubAgent("researcher", below, "Looks things up."),
            SubAgent("scale", from_callable(weigh), "Weighs."),
        ],
        max_depth=deep + 1,
    )


def tell(**told):
    print(json.dumps(told), flush=True)


async def main(mode, database, folder, **said):
    settings = {key: int(said.pop(key)) for key in ("concurrency", "global_concurrency") if key in said}
    shape = {key: int(said.pop(key)) for key in ("fan_out", "deep") if key in said}
    shape |= {"slow": float(said.pop("slow"))} if "slow" in said else {}
    shape |= {"name": said.pop("name")} if "name" in said else {}
    waits = Waits(**{key: float(said.pop(key)) for key in ("start", "end") if key in said})
    run_id, task = said.pop("run_id", None), "Tell me all." + "." * int(said.pop("task_bytes", 0))
    number, seed = int(said.pop("number", 0)), int(said.pop("seed", 0))
    lead = Planned(Path(folder) / "plans", name="far").agent if said.pop("planned", None) else team(folder, **shape)
    tree = durable(lead, database, waits=waits, worker=mode in ("root", "worker"), **settings, **said)
    try:
        await tree.start()
    except SymfonicError as error:
        return tell(refused=str(error), kind=type(error).__name__)
    if mode in ("root", "client", "worker"):
        tell(ready=os.getpid())
    async with tree:
        if mode == "cancel":
            return tell(cancels=await cancelled_at_random(tree, number, random.Random(seed)))
        if mode == "resume":
            return tell(resumed=await tree.resume(run_id))
        if mode == "cancel-one":
            await tree.cancel(run_id)
            return tell(cancelled=run_id)
        if mode == "worker":
            return await asyncio.sleep(LONGEST * 5)  # until it is killed, or told to end
        try:
            result = await tree.run(task, run_id=run_id)
        except (SymfonicError, asyncio.CancelledError) as error:
            return tell(error=str(error), kind=type(error).__name__)
        return tell(at=time.monotonic(), text=result.text, result=result.to_dict())


async def cancelled_at_random(tree, number, dice):
    """Run so many, one after the other, and cancel each somewhere on its way: which, when, and how long that took."""
    began = time.monotonic()
    await tree.run("Tell me all.")
    whole = time.monotonic() - began
    return [await cancelled_after(tree, f"c{place}", dice.uniform(0, whole)) for place in range(number)]


async def cancelled_after(tree, name, moment):
    """Run for so long, and cancel. One that had ended by then is run again, and cancelled sooner."""
    for attempt in range(20):
        run_id = f"{name}-{attempt}"
        run = asyncio.create_task(tree.run("Tell me all.", run_id=run_id))
        if not (await asyncio.wait({run}, timeout=moment / 2**attempt))[0]:
            break
        run.result()
    at = time.monotonic()
    run.cancel()
    await asyncio.wait({run})
    return {"run": run_id, "cancelled": run.cancelled(), "at": at, "took": time.monotonic() - at}


def interrupted(*_):
    raise KeyboardInterrupt


def end_with_the_test():
    """Nobody is left behind where the tests themselves are killed."""
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupted)
    threading.Thread(target=end_with_the_test, daemon=True).start()
    mode, database, folder, *rest = sys.argv[1:]
    try:
        asyncio.run(main(mode, database, folder, **dict(each.split("=", 1) for each in rest)))
    except KeyboardInterrupt:
        sys.exit(130)
