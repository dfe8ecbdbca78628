"""What a durable tree has in its database, and who waits for whom there."""

import asyncio
import sqlite3
import threading
from contextlib import closing

import pytest
from durable_kit import LONGEST, eventually, rows

from symfonic import Agent, AgentRef, DelegationOutcome, SubAgent
from symfonic.durable import durable, runs_in
from symfonic.errors import ConfigurationError
from symfonic.testing import FunctionModel, tool_call

pytest_plugins = ["durable_fixtures"]


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "tree.db")


def writing(file):
    """A connection in the midst of a transaction that writes, as that of another process."""
    connection = sqlite3.connect(file, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    return closing(connection)


async def test_whoever_only_looks_waits_for_nobody_who_writes(file):
    async with durable(Agent(FunctionModel(lambda messages, tools: "ready")), file) as tree:
        await tree.run("Go.", run_id="t")
        with writing(file):
            looking = asyncio.gather(*(tree.runs(run_id="t") for _ in range(30)))
            looks = await asyncio.wait_for(looking, LONGEST)
    assert [[each.text for each in look] for look in looks] == [["ready"]] * 30


async def test_whoever_only_looks_waits_for_no_connection_that_a_writer_has(file):
    tree = durable(Agent(FunctionModel(lambda messages, tools: messages[-1].text)), file)
    texts = []
    threads = [threading.Thread(target=lambda: texts.append(tree.run_sync("ready").text)) for _ in range(40)]
    async with tree:
        await tree.run("ready", run_id="t")
        with writing(file):
            for thread in threads:
                thread.start()
            calls = len(threads)
            await asyncio.to_thread(
                eventually, lambda: sum("asyncio" in each.name for each in threading.enumerate()) > calls
            )
            for _ in range(20):
                assert [each.text for each in await asyncio.wait_for(tree.runs(run_id="t"), 10)] == ["ready"]
        for thread in threads:
            await asyncio.to_thread(thread.join, LONGEST)
    assert texts == ["ready"] * len(threads)


async def test_runs_that_wait_for_another_writer_all_go_on_when_it_has_done(file):
    async with durable(Agent(FunctionModel(lambda messages, tools: messages[-1].text)), file) as tree:
        await tree.run("Go.")
        with writing(file):
            runs = [asyncio.create_task(tree.run(str(number))) for number in range(30)]
            assert not (await asyncio.wait(runs, timeout=0.5))[0]
        assert [(await run).text for run in runs] == [str(number) for number in range(30)]


async def test_a_database_that_cannot_be_written_to_is_told_of_in_words_and_used_again_when_it_can(file):
    async with durable(Agent(FunctionModel(lambda messages, tools: messages[-1].text)), file) as tree:
        await tree.run("Go.", run_id="t")
        with closing(sqlite3.connect(file)) as connection:  # as a full disk would
            connection.execute(
                "CREATE TRIGGER full BEFORE INSERT ON workflow_status BEGIN SELECT RAISE(FAIL, 'it is full'); END"
            )
            told = await asyncio.gather(*(tree.run(str(each)) for each in range(30)), return_exceptions=True)
            assert {type(each) for each in told} == {ConfigurationError}
            assert {str(each) for each in told} == {f"the database {file} cannot be used: it is full"}
            connection.execute("DROP TRIGGER full")
        assert (await asyncio.wait_for(tree.run("again"), LONGEST)).text == "again"


async def test_a_database_that_has_lost_its_runs_is_told_of_in_words(file):
    async with durable(Agent(FunctionModel(lambda messages, tools: messages[-1].text)), file) as tree:
        await tree.run("Go.", run_id="t")
        with closing(sqlite3.connect(file)) as connection:
            connection.execute("ALTER TABLE workflow_status RENAME TO lost")
            for call in (tree.run("Again."), tree.cancel("t"), tree.resume("t"), tree.runs(), tree.runs(run_id="t")):
                with pytest.raises(ConfigurationError) as told:
                    await asyncio.wait_for(call, LONGEST)
                assert str(told.value).startswith(f"the database {file} cannot be used: no such table: ")
                assert "SELECT" not in str(told.value)
            connection.execute("ALTER TABLE lost RENAME TO workflow_status")
        assert (await asyncio.wait_for(tree.run("again"), LONGEST)).text == "again"


async def test_a_writer_that_fails_leaves_the_turn_to_the_next(file):
    """Many at once, each cancelled somewhere on its way to the database: what comes after them has its turn."""
    async with durable(Agent(FunctionModel(lambda messages, tools: messages[-1].text)), file) as tree:
        for number in range(20):
            runs = [asyncio.create_task(tree.run(f"{number}")) for _ in range(5)]
            await asyncio.wait(runs, timeout=number / 200)
            for run in runs:
                run.cancel()
            await asyncio.wait(runs)
        assert (await asyncio.wait_for(tree.run("still here"), LONGEST)).text == "still here"


def passes_on(messages, tools):
    return "passed on" if messages[-1].role == "tool" else tool_call("run_agent", name="below", task="Go.")


def chain(length):
    agent = Agent(FunctionModel(lambda messages, tools: "done"), name="end")
    for _ in range(length):
        children = [SubAgent("below", agent, "Is below.")]
        agent = Agent(FunctionModel(passes_on), name="above", sub_agents=children, max_depth=9)
    return agent


def cycle():
    agent = Agent(
        FunctionModel(passes_on), name="round", sub_agents=[SubAgent("below", AgentRef(lambda: agent), "It.")]
    )
    return agent


@pytest.mark.parametrize(
    ("team", "deepest"), [(lambda: chain(0), 0), (lambda: chain(1), 1), (lambda: chain(3), 3), (cycle, 2)]
)
async def test_a_worker_looks_at_the_queues_that_its_tree_has_children_for(database, team, deepest):
    async with durable(team(), database) as tree:
        await tree.start()
        queues = rows(database, "SELECT name FROM {}queues")
        assert {name for (name,) in queues} == {f"symfonic-{depth}" for depth in range(deepest + 1)}
        assert (await tree.run("Go.")).tally.by_outcome[DelegationOutcome.DELIVERED] == deepest
        assert rows(database, "SELECT name FROM {}queues") == queues


NOT_THERE = r"there is no database of durable trees at|does not exist"


def test_who_only_looks_creates_nothing(database):
    for _ in range(2):  # nor had the first time
        with pytest.raises(ConfigurationError, match=NOT_THERE), runs_in(database):
            pass


def test_whoever_has_looked_is_in_nobodys_way(tmp_path):
    for name in ("one", "other"):
        tree = durable(Agent(FunctionModel(lambda messages, tools: "ready")), tmp_path / name)
        assert tree.run_sync("Go.", run_id=name).text == "ready"
        asyncio.run(tree.aclose())
        with runs_in(str(tmp_path / name)) as runs:
            assert [each.run_id for each in asyncio.run(runs.latest(10))] == [name]


def test_a_file_of_others_is_left_as_it_is(file):
    with closing(sqlite3.connect(file)) as others:
        others.execute("CREATE TABLE theirs (id)").close()
        with pytest.raises(ConfigurationError, match=NOT_THERE), runs_in(file):
            pass
        assert others.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]
