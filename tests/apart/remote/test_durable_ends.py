"""What becomes of a durable tree that is closed, cancelled or forked while it is used."""

import asyncio
import os
import threading

import pytest
from durable_kit import statuses

from symfonic import Agent, SymfonicError
from symfonic.durable import Waits, durable
from symfonic.durable.engine import Engine
from symfonic.durable.settings import Settings
from symfonic.testing import FunctionModel, ScriptedModel

pytest_plugins = ["durable_fixtures"]

SOON = Waits(end=20, start=15)


async def test_whoever_waits_for_a_run_is_told_when_the_tree_is_closed_and_the_run_goes_on_in_the_next(database):
    begun = threading.Event()

    async def never(messages, tools):
        begun.set()
        await asyncio.Event().wait()

    tree = durable(Agent(FunctionModel(never), name="lead"), database, waits=SOON)
    asking = asyncio.create_task(tree.run("Go.", run_id="r"))
    await asyncio.to_thread(begun.wait, 20)
    await tree.aclose()
    with pytest.raises(SymfonicError, match=r"has been closed: its runs go on in the next process"):
        await asyncio.wait_for(asking, 5)
    assert statuses(database) == {"PENDING": 1}
    async with durable(Agent(ScriptedModel("Here."), name="lead"), database, waits=SOON) as tree:
        assert (await tree.run("Go.", run_id="r")).text == "Here."


def test_what_was_left_before_it_had_started_does_not_start(tmp_path):
    engine = Engine(Settings(str(tmp_path / "tree.db")))
    engine.stop()
    with pytest.raises(SymfonicError, match="closed"):
        engine.start()


def in_a_child(what):
    """What ``what`` raises in a forked process."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        said = b"nothing was raised"
        try:
            what()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}".encode()
        finally:
            os.write(into, said)
            os._exit(0)
    os.close(into)
    with open(out) as read:
        told = read.read()
    os.waitpid(child, 0)
    return told


def on_a_thread(work):
    """Run in a thread: the one that was forked may have a loop that runs."""
    raised = []

    def run():
        try:
            asyncio.run(work())
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(20)
    if raised:
        raise raised[0]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_forked_process_has_no_part_in_the_tree_and_its_parent_goes_on(database):
    lead = Agent(ScriptedModel("Here."), name="lead")
    async with durable(lead, database, waits=SOON) as tree:
        assert (await tree.run("Go.")).text == "Here."
        told = in_a_child(lambda: on_a_thread(lambda: tree.run("Go.")))
        assert told.startswith("SymfonicError: this process was forked from one with durable trees")
        told = in_a_child(lambda: on_a_thread(tree.aclose))
        assert told == "nothing was raised"
        told = in_a_child(lambda: durable(Agent(ScriptedModel("No."), name="other"), database))
        assert told.startswith("ConfigurationError: this process was forked")
        assert (await tree.run("Go.")).text == "Here."


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
async def test_a_forked_process_does_not_hold_the_executors_id(tmp_path):
    out, into = os.pipe()
    async with durable(Agent(ScriptedModel("Here."), name="lead"), tmp_path / "tree.db") as tree:
        await tree.start()
        child = os.fork()
        if not child:
            os.close(into)
            os.read(out, 1)  # until its parent says so, or is gone
            os._exit(0)
    try:
        async with durable(Agent(ScriptedModel("Again."), name="lead"), tmp_path / "tree.db") as tree:
            assert (await tree.run("Go.")).text == "Again."
    finally:
        os.close(into)
        os.close(out)
        await asyncio.to_thread(os.waitpid, child, 0)


async def test_a_tree_that_was_declared_and_not_used_is_used_in_a_forked_process(tmp_path):
    tree = durable(Agent(ScriptedModel("Here."), name="lead"), tmp_path / "tree.db", waits=SOON)

    async def runs():
        raise LookupError((await tree.run("Go.")).text)

    assert in_a_child(lambda: on_a_thread(runs)) == "LookupError: Here."
    await tree.aclose()
