"""A durable tree whose worker stands still, whose server is away, and whose runs are counted over all workers."""

import signal
import sqlite3
from contextlib import closing, contextmanager
from itertools import pairwise

from durable_kit import SERVERS, Stage, eventually, only_the_scale_is_left, running_server, statuses
from test_durable_recovery import ANSWER, RUNS, done_once

pytest_plugins = ["durable_fixtures"]


def test_a_run_that_is_carried_out_elsewhere_has_one_outcome(stage):
    stage.hold("scale")
    frozen = stage.start("worker", executor_id="frozen")
    client = stage.start("client", run_id="t")
    eventually(lambda: only_the_scale_is_left(stage))
    freeze(frozen, stage.database)
    stage.start("worker", executor_id="other")
    assert stage.start("resume", ready=False, run_id="t").line() == {"resumed": 2}
    eventually(lambda: len(stage.journal("function")) == 2)
    stage.go_on("scale")
    assert client.line()["text"] == ANSWER
    frozen.kill(signal.SIGCONT)
    eventually(lambda: "no longer owned" in frozen.errors())
    assert statuses(stage.database) == {"SUCCESS": len(RUNS)}
    done_once(stage, twice={("function", "t.call_1_3", None)})


def freeze(process, database):
    """Stop a process where it stands, though not with the one lock of a file in its hands: there all would stand."""
    while True:
        process.kill(signal.SIGSTOP)
        if "://" in database:
            return
        try:
            with closing(sqlite3.connect(database, timeout=0.2, isolation_level=None)) as other:
                other.execute("BEGIN IMMEDIATE")
                other.execute("ROLLBACK")
            return
        except sqlite3.OperationalError:
            process.kill(signal.SIGCONT)


def test_a_cancelled_run_goes_on_when_it_is_resumed_and_does_nothing_again(stage):
    stage.hold("scale")
    stage.start("worker", executor_id="one")
    client = stage.start("client", run_id="t")
    eventually(lambda: only_the_scale_is_left(stage))
    assert stage.start("cancel-one", ready=False, run_id="t").line() == {"cancelled": "t"}
    told = client.line()
    assert told["kind"] == "RemoteError"
    assert told["error"].startswith("it was cancelled; resume('t')")
    assert statuses(stage.database) == {"SUCCESS": 4, "CANCELLED": 2}
    eventually(lambda: stage.journal("cancelled", "scale"))
    stage.go_on("scale")
    assert stage.start("resume", ready=False, run_id="t").line() == {"resumed": 2}
    assert stage.start("client", run_id="t").line()["text"] == ANSWER
    done_once(stage, twice={("function", "t.call_1_3", None)})


def test_with_one_place_over_all_workers_never_two_run_at_once(stage):
    for name in ("one", "two", "three"):
        stage.start("worker", executor_id=name, global_concurrency=1, slow=0.02)
    clients = [stage.start("client", run_id=f"r{number}") for number in range(4)]
    for client in clients:
        assert client.line()["text"] == ANSWER
    spans = {}
    for each in stage.journal("model", "counter"):
        spans.setdefault(each["run"], []).append(each["at"])
    ends = {each["run"]: each["at"] for each in stage.journal("spoke", "counter")}
    inside = sorted((began[0], ends[run]) for run, began in spans.items())
    assert len(inside) == 8
    overlaps = sum(one[1] > other[0] for one, other in pairwise(inside))
    assert overlaps == 0


@contextmanager
def on_a_server_of_its_own(folder):
    """A server that may be stopped, and a stage on it."""
    with running_server() as own:
        stage = Stage(folder, own.new_database())
        try:
            yield own, stage
        finally:
            stage.close()


def outage(server):
    server.stop("immediate")
    server.start()


if SERVERS:

    def test_when_the_server_is_stopped_hard_and_is_back_the_tree_ends_and_nothing_is_done_twice(tmp_path):
        with on_a_server_of_its_own(tmp_path) as (own, stage):
            stage.hold("scale")
            worker = stage.start("worker", executor_id="one")
            client = stage.start("client", run_id="t")
            eventually(lambda: only_the_scale_is_left(stage))
            outage(own)
            stage.go_on("scale")
            assert client.line()["text"] == ANSWER
            done_once(stage)
            assert statuses(stage.database) == {"SUCCESS": len(RUNS)}
            assert worker.out.poll() is None

    def test_runs_that_are_begun_at_once_after_an_outage_are_all_begun(tmp_path):
        with on_a_server_of_its_own(tmp_path) as (own, stage):
            worker = stage.start("worker", executor_id="one")
            worker.kill(signal.SIGSTOP)
            outage(own)
            clients = [stage.start("client", run_id=f"r{number}") for number in range(4)]
            eventually(lambda: statuses(stage.database) == {"ENQUEUED": len(clients)})
            worker.kill(signal.SIGCONT)
            assert [client.line()["text"] for client in clients] == [ANSWER] * len(clients)
            assert statuses(stage.database) == {"SUCCESS": len(clients) * len(RUNS)}

    def test_a_run_whose_worker_has_lost_its_id_meanwhile_is_begun_when_it_has_it_again(tmp_path):
        with on_a_server_of_its_own(tmp_path) as (own, stage):
            first = stage.start("worker", executor_id="one")
            first.kill(signal.SIGSTOP)
            outage(own)
            second = stage.start("worker", executor_id="one")
            second.kill(signal.SIGSTOP)
            client = stage.start("client", run_id="t")
            first.kill(signal.SIGCONT)
            eventually(lambda: "works under the executor id 'one'" in first.errors())
            assert statuses(stage.database) == {"PENDING": 1}
            assert not stage.journal()
            second.kill()
            assert client.line()["text"] == ANSWER
            done_once(stage)
