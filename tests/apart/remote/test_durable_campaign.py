"""Everything is killed at a random moment, and started again: ``DURABLE_SEEDS=30`` for a long campaign."""

import os
import random
import time
from collections import Counter

import pytest
from durable_kit import rows, statuses
from test_durable_recovery import ANSWER, RUNS

pytest_plugins = ["durable_fixtures"]

SEEDS = int(os.environ.get("DURABLE_SEEDS", "3"))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_killed_at_any_moment_a_tree_ends_as_ever(stage, seed):
    dice = random.Random(seed)
    crew = start(stage)
    time.sleep(dice.uniform(0, 1.6))
    dice.shuffle(crew)
    for process in crew:
        process.kill()
    for process in crew:
        process.gone()
    kept = steps_kept(stage)
    before = {process.pid for process in crew}
    client = start(stage)[-1]
    assert client.line()["text"] == ANSWER
    assert statuses(stage.database) == {"SUCCESS": len(RUNS)}
    assert {row[0] for row in rows(stage.database, "SELECT workflow_uuid FROM {}workflow_status")} == RUNS
    assert rows(stage.database, "SELECT count(*) FROM {}workflow_output") == [(len(RUNS),)]
    again = Counter(each["run"] for each in stage.journal("model") if each["pid"] not in before)
    asked = {run: 1 if "." in run.removeprefix("t.call_1_") else 2 for run in RUNS - {"t.call_1_3"}}
    for run, times in again.items():
        assert times <= asked[run] - kept["model", run], f"{run} did again what was kept"
    for kind in ("model", "tool", "function"):
        assert all(times <= 2 for times in stage.times(kind, None).values())


def start(stage):
    workers = [stage.start("worker", ready=False, executor_id=name) for name in ("one", "two")]
    for worker in workers:
        assert worker.line() == {"ready": worker.pid}
    return [*workers, stage.start("client", run_id="t")]


def steps_kept(stage):
    """How many steps of which kind the journals of the runs hold."""
    if not stage.database.startswith("postgresql") and not os.path.exists(stage.database):
        return Counter()
    found = rows(stage.database, "SELECT workflow_uuid, function_name FROM {}operation_outputs")
    return Counter((name.split()[0], run) for run, name in found)
