"""What a worker says in its log: of its database's absence once, and nothing of DBOS's that is not so here."""

import logging

import pytest
from durable_kit import SERVERS, Stage, eventually, running_server, statuses
from test_durable_recovery import ANSWER

from symfonic import Agent, ConfigurationError
from symfonic.durable import durable
from symfonic.testing import ScriptedModel

pytest_plugins = ["durable_fixtures"]


def test_a_worker_of_another_version_than_the_last_one_says_nothing_of_it(stage):
    for version in ("1", "3"):
        stage.start("worker", executor_id=version, version=version)
    early = stage.start("worker", executor_id="early", version="1")
    client = stage.start("client", run_id="t", version="1")
    assert client.line()["text"] == ANSWER
    assert early.errors() == ""


def test_a_run_that_is_given_up_is_told_of_in_our_words_alone(stage):
    (stage.folder / "die-lead").touch()
    client = stage.start("client", run_id="t")
    for _ in range(4):
        stage.start("worker", executor_id="one").gone()
    last = stage.start("worker", executor_id="one")
    assert "given up: 4 times" in client.line()["error"]
    assert last.errors().splitlines() == [
        "the run t goes on no more: it was given up: 4 times its worker was gone before it had ended"
    ]


async def test_a_server_that_cannot_be_reached_at_the_start_is_told_of_in_our_words_alone(caplog):
    log = logging.getLogger("dbos")
    propagated, log.propagate = log.propagate, True
    tree = durable(Agent(ScriptedModel("Done."), name="lead"), "postgresql://ann@127.0.0.1:9/trees")
    try:
        with pytest.raises(ConfigurationError, match="cannot be used"):
            await tree.start()
    finally:
        await tree.aclose()
        log.propagate = propagated
    assert [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING] == []


if SERVERS:

    def test_a_server_that_is_away_is_told_of_once_and_once_that_it_is_back(tmp_path):
        with running_server() as own:
            stage = Stage(tmp_path, own.new_database())
            try:
                idle = stage.start("worker", executor_id="idle")
                for outage in (1, 2):
                    own.stop("immediate")
                    eventually(lambda n=outage: idle.errors().count("is away; waiting until it is back") == n)
                    own.start()
                    eventually(lambda n=outage: idle.errors().count("is back\n") == n)
                    lines = [each.partition(" (")[0] for each in idle.errors().splitlines()]
                    told = f"the database {stage.database} is away; waiting until it is back"
                    assert lines == [told, f"the database {stage.database} is back"] * outage
                client = stage.start("client", run_id="t")
                assert client.line()["text"] == ANSWER
                assert len(idle.errors().splitlines()) == 4
            finally:
                stage.close()

    def test_a_server_that_is_away_while_a_tree_is_under_way_is_told_of_once_by_everybody(tmp_path):
        with running_server() as own:
            stage = Stage(tmp_path, own.new_database())
            try:
                stage.hold("scale")
                stage.hold("researcher-1")
                busy = stage.start("worker", executor_id="busy")
                client = stage.start("client", run_id="t")
                eventually(lambda: stage.journal("function") and len(stage.journal("model", "researcher")) == 4)
                own.stop("immediate")
                stage.go_on("scale")
                stage.go_on("researcher-1")
                eventually(lambda: len(stage.journal("spoke", "researcher")) == 4)
                own.start()
                assert client.line()["text"] == ANSWER
                eventually(lambda: statuses(stage.database)["PENDING"] == 0)
                for process in (busy, client):
                    eventually(lambda log=process: log.out.poll() is not None or log.errors().endswith("is back\n"))
                    assert len(process.errors().splitlines()) <= 2, process.errors()
            finally:
                stage.close()
