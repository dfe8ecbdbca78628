"""A program that uses DBOS itself: its durable trees are kept there."""

import asyncio

import pytest
from dbos import DBOS

from symfonic import Agent, ConfigurationError, SubAgent
from symfonic.durable import durable
from symfonic.testing import ScriptedModel, tool_call


def lead(name="lead"):
    clerk = SubAgent("clerk", Agent(ScriptedModel("12 invoices.")), "Knows.")
    return Agent(
        ScriptedModel(tool_call("run_agent", name="clerk", task="Look."), "12."), name=name, sub_agents=[clerk]
    )


@pytest.fixture
def launched(tmp_path):
    trees = []

    def launch(*made):
        trees.extend(made)
        config = {
            "name": "theirs",
            "system_database_url": f"sqlite:///{tmp_path / 'theirs.db'}",
            "application_version": "7",
            "executor_id": "they",
        }
        DBOS(config=config)
        DBOS.launch()

    yield launch
    for tree in trees:
        asyncio.run(tree.aclose())
    DBOS.destroy()


def test_a_tree_without_a_database_is_kept_by_the_dbos_that_the_program_launched(launched):
    tree = durable(lead())
    launched(tree)
    assert tree.run_sync("How many?", run_id="r").text == "12."
    kept = DBOS.list_workflows()
    assert {each.workflow_id for each in kept} == {"r", "r.call_1_1"}
    assert {(each.app_version, each.executor_id) for each in kept} == {("7", "they")}


def test_closing_the_tree_leaves_the_programs_dbos_alone(launched):
    launched()
    tree = durable(lead())
    assert tree.run_sync("How many?").text == "12."
    asyncio.run(tree.aclose())
    assert len(DBOS.list_workflows()) == 2


def test_a_database_besides_the_programs_own_is_refused(launched, tmp_path):
    tree = durable(lead(), str(tmp_path / "tree.db"))
    launched(tree)
    with pytest.raises(ConfigurationError, match="name no database"):
        tree.run_sync("How many?")


def test_without_any_database_a_tree_says_so():
    tree = durable(lead())
    with pytest.raises(ConfigurationError, match="there is no database"):
        tree.run_sync("How many?")
    asyncio.run(tree.aclose())
