"""Durable trees over several processes: cancelled, refused, out of order, and with few places."""

import json
import signal
import time

from durable_kit import LONGEST, eventually, rows, statuses
from patience import patience

from symfonic.remote.envelope import MOST_BYTES

pytest_plugins = ["durable_fixtures"]

LIVE = ("ENQUEUED", "PENDING", "DELAYED")
CANCELS = 40


def live(stage):
    return sum(statuses(stage.database)[each] for each in LIVE)


def test_cancelling_the_root_ends_everything_below_it(stage):
    stage.hold("counter-0")
    stage.hold("scale")
    stage.start("worker", executor_id="one")  # one place a depth, shared by all, would keep the third child waiting
    stage.start("worker", executor_id="two")
    client = stage.start("client", run_id="t")
    eventually(lambda: len(stage.journal("model", "counter")) == 2 and stage.journal("function"))
    done_before = len(stage.journal("model"))
    began = time.monotonic()
    client.kill(signal.SIGINT)
    ends = eventually(lambda: len(stage.journal("cancelled")) == 3 and stage.journal("cancelled"))
    assert max(each["at"] for each in ends) - began < 2 * patience()
    client.gone()
    assert statuses(stage.database) == {"CANCELLED": 6}
    stage.go_on("counter-0")
    stage.go_on("scale")
    time.sleep(1)  # in which nothing happens
    assert len(stage.journal("model")) == done_before
    assert statuses(stage.database) == {"CANCELLED": 6}


def test_cancelled_at_any_moment_a_tree_leaves_nothing_running(stage):
    stage.start("worker", executor_id="one")
    stage.start("worker", executor_id="two")
    canceller = stage.start("cancel", ready=False, number=CANCELS, seed=7)
    cancels = {each["run"]: each for each in canceller.line(2 * LONGEST)["cancels"]}
    assert [each["cancelled"] for each in cancels.values()] == [True] * CANCELS
    assert max(each["took"] for each in cancels.values()) < 2 * patience()
    eventually(lambda: live(stage) == 0)
    begun = stage.journal()
    time.sleep(1)  # in which nothing happens
    assert stage.journal() == begun
    late = [each["at"] - cancels[root]["at"] for each in begun if (root := each["run"].partition(".")[0]) in cancels]
    assert max(late) < 2 * patience(), "something was done that had long been cancelled"
    found = dict(rows(stage.database, "SELECT workflow_uuid, status FROM {}workflow_status"))
    assert set(found.values()) == {"CANCELLED", "SUCCESS"}
    assert (
        sum(found.get(run) == "CANCELLED" for run in cancels) > CANCELS / 2
    )  # the others had just ended, or were not even begun


def test_a_wide_and_deep_tree_ends_with_one_worker_and_one_place_a_depth(stage):
    stage.start("worker", executor_id="one", concurrency=1, fan_out=8, deep=2)
    client = stage.start("client", run_id="t", fan_out=8, deep=2)
    assert client.line(100)["text"].count("counted") == 8
    assert statuses(stage.database) == {"SUCCESS": 1 + 8 + 8 * 8 + 8 * 8 + 1}


def test_where_there_is_no_worker_the_wait_ends_and_names_the_versions(stage):
    client = stage.start("client", run_id="t", start=1, version="2")
    told = client.line()
    assert told["kind"] == "RemoteError"
    assert "version '2'" in told["error"]
    assert told["error"].endswith("are: none")
    assert statuses(stage.database) == {"CANCELLED": 1}


def test_where_the_worker_has_another_version_the_wait_ends_and_names_both(stage):
    stage.start("worker", executor_id="one", version="1")
    told = stage.start("client", run_id="t", start=1, version="2").line()
    assert told["kind"] == "RemoteError"
    assert "version '2'" in told["error"]
    assert told["error"].endswith("are: '1'")
    assert stage.journal() == []


def test_an_agent_that_the_worker_does_not_have_is_refused_as_a_value(stage):
    stage.start("worker", executor_id="one", name="boss")
    told = stage.start("client", run_id="t").line()
    assert told["kind"] == "DelegationError"
    assert told["error"] == (
        "there is no agent 'lead' in the process that took the run; its trees are: 'boss'."
        " Teams that share a database need a version each"
    )


def test_a_run_that_stands_behind_others_is_not_given_up(stage):
    stage.hold("counter-0")
    stage.start("worker", executor_id="one", concurrency=1)
    client = stage.start("client", run_id="t", start=0.5)
    other = stage.start("client", run_id="u", start=0.5)
    eventually(lambda: len(stage.journal("model", "counter")) == 1)
    time.sleep(1.5)
    stage.go_on("counter-0")
    assert "text" in client.line()
    assert "text" in other.line()


def test_a_second_process_with_a_live_executor_id_refuses_to_start(stage):
    first = stage.start("worker", executor_id="one")
    second = stage.start("worker", ready=False, executor_id="one").line()
    assert second["kind"] == "ConfigurationError"
    assert "'one' is taken" in second["refused"]
    first.kill(signal.SIGSTOP)
    assert "is taken" in stage.start("worker", ready=False, executor_id="one").line()["refused"]
    first.kill()
    first.kill(signal.SIGCONT)
    first.gone()
    stage.start("worker", executor_id="one")


def test_a_task_that_is_too_large_is_refused_before_it_is_enqueued(stage):
    stage.start("worker", executor_id="one")
    told = stage.start("client", run_id="t", task_bytes=MOST_BYTES).line()
    assert told["kind"] == "UnsendableError"
    assert "of at most" in told["error"]
    assert statuses(stage.database) == {}


def test_nothing_in_the_database_is_pickled(stage):
    (stage.folder / "fail-counter").touch()
    told = stage.start("root", run_id="t").line()
    assert "text" in told
    kinds = set()
    for table, columns in {
        "workflow_status": "serialization",
        "operation_outputs": "serialization, output, error",
        "workflow_input": "NULL, inputs",
        "workflow_output": "NULL, output, error",
    }.items():
        for kind, *values in rows(stage.database, f"SELECT {columns} FROM {{}}{table}"):
            kinds.add(kind)
            for value in values:
                if value is not None:
                    json.loads(value)
    assert kinds - {None} == {"portable_json"}
