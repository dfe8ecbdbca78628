"""What happens to a durable tree when its processes are killed."""

import asyncio
import signal
import time

from durable_kit import eventually, rows, statuses, written_down
from patience import patience

from symfonic.durable import runs_in

pytest_plugins = ["durable_fixtures"]

ANSWER = "counted and counted and the box: 3 kg and noted"
RUNS = {
    "t",
    "t.call_1_1",
    "t.call_1_2",
    "t.call_1_3",
    "t.call_1_1.call_1_1",
    "t.call_1_2.call_1_1",
}


def done_once(stage, *, twice=()):
    """Every model call, tool call and function was done once; those named at most twice."""
    for kind in ("model", "tool", "function"):
        for (run, step), times in stage.times(kind, None).items():
            allowed = 2 if (kind, run, step) in twice else 1
            assert times <= allowed, f"{kind} of {run}, step {step}: {times} times"


def test_a_tree_runs_and_its_runs_have_derived_ids(stage):
    root = stage.start("root", run_id="t")
    told = root.line()
    assert told["text"] == ANSWER
    assert {row[0] for row in rows(stage.database, "SELECT workflow_uuid FROM {}workflow_status")} == RUNS
    records = told["result"]["delegations"]
    assert [(each["name"], each["outcome"], each["depth"]) for each in records] == [
        ("researcher", "delivered", 1),
        ("researcher", "delivered", 1),
        ("scale", "delivered", 1),
    ]
    assert [each["children"][0]["name"] for each in records[:2]] == ["below", "below"]
    assert records[0]["children"][0]["child"]["root_run_id"] == "t"
    assert told["result"]["usage"]["model_calls"] == 2 + 2 * (2 + 1)
    done_once(stage)


def test_when_the_worker_is_killed_finished_children_do_not_run_again(stage):
    stage.hold("researcher-1")
    stage.hold("scale")
    worker = stage.start("worker", executor_id="worker")
    client = stage.start("client", run_id="t")
    eventually(lambda: len(stage.journal("model", "researcher")) == 4 and stage.journal("function"))
    eventually(lambda: written_down(stage, "tool note"))
    worker.kill()
    worker.gone()
    stage.go_on("researcher-1")
    stage.go_on("scale")
    began = time.monotonic()
    stage.start("worker", executor_id="worker")
    told = client.line()
    assert told["text"] == ANSWER
    assert told["at"] - began < 10 * patience()
    assert sorted(stage.times("model", "counter").values()) == [1, 1]
    in_flight = {("model", "t.call_1_1", 1), ("model", "t.call_1_2", 1), ("function", "t.call_1_3", None)}
    done_once(stage, twice=in_flight)
    assert statuses(stage.database) == {"SUCCESS": len(RUNS)}


def test_when_the_root_process_is_killed_its_children_are_untouched(stage):
    stage.hold("lead-1")
    root = stage.start("root", executor_id="root", run_id="t")
    eventually(lambda: len(stage.journal("model", "lead")) == 2)
    root.kill()
    root.gone()
    stage.go_on("lead-1")
    began = time.monotonic()
    told = stage.start("root", executor_id="root", run_id="t").line()
    assert told["text"] == ANSWER
    assert told["at"] - began < 10 * patience()
    done_once(stage, twice={("model", "t", 1)})
    assert stage.times("model", "lead")["t", 1] == 2


def test_a_run_that_has_ended_answers_again_and_is_not_run_again(stage):
    first = stage.start("root", run_id="t").line()
    again = stage.start("root", executor_id="another", run_id="t").line()
    assert again["text"] == first["text"] == ANSWER
    assert [each["name"] for each in again["result"]["delegations"]] == ["researcher", "researcher", "scale"]
    done_once(stage)


def test_a_process_that_ends_in_order_leaves_its_runs_to_the_next(stage):
    stage.hold("counter-0")
    worker = stage.start("worker", executor_id="worker")
    client = stage.start("client", run_id="t")
    eventually(lambda: len(stage.journal("model", "counter")) == 2)
    worker.kill(signal.SIGTERM)
    assert worker.gone() == 130
    assert statuses(stage.database)["CANCELLED"] == 0
    stage.go_on("counter-0")
    stage.start("worker", executor_id="worker")
    assert client.line()["text"] == ANSWER


def test_a_run_that_kills_its_worker_each_time_is_given_up(stage):
    (stage.folder / "die-counter").touch()
    client = stage.start("client", run_id="t", fan_out=1)
    for _ in range(5):
        worker = stage.start("worker", executor_id="worker", fan_out=1)
        eventually(lambda worker=worker: worker.out.poll() is not None or not live(stage))
    assert worker.out.poll() is None, "the last one lives: nothing is left that kills it"
    told = client.line()  # the lead's own run was given up as well, or it lived to be told of what is below it
    assert "given up: 4 times" in (told["error"] if told.get("kind") == "RemoteError" else told["text"])
    assert max(stage.times("model", "counter").values()) == 4
    with runs_in(stage.database) as runs:
        of_t = {each.status: each.text for each in asyncio.run(runs.tree("t"))}
    assert of_t["given_up"] == "it was given up: 4 times its worker was gone before it had ended"


def live(stage):
    return sum(statuses(stage.database)[each] for each in ("ENQUEUED", "PENDING"))
