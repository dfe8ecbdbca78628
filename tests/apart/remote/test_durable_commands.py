"""The command line of durable trees: a worker, a run that waits for it, and what is seen and steered from outside."""

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from durable_kit import LONGEST, eventually, statuses

from symfonic.cli.app import app
from symfonic.remote.a2a import a2a_child

pytest_plugins = ["durable_fixtures"]

TEAM = """
lead = "lead"

[agents.lead]
model = "offline"
instructions = "Delegate."
sub_agents = ["counter"]

[agents.counter]
model = "offline"
description = "Counts the words of a text."
when_to_use = "for how many words there are"
tools = ["slow_tools:count_words"]
"""

TOOLS = '''
import os
import time

def count_words() -> str:
    """Count the words."""
    with open("counted", "a") as file:
        file.write("once\\n")
    while os.path.exists("hold"):
        time.sleep(0.02)
    return "There are 7 words."
'''


@pytest.fixture
def place(tmp_path, database):
    (tmp_path / "team.toml").write_text(TEAM)
    (tmp_path / "slow_tools.py").write_text(TOOLS)
    started = []

    def command(*words, wait=True):
        process = subprocess.Popen(
            [sys.executable, "-m", "symfonic", *words],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "SYMFONIC_DB": database},
        )
        started.append(process)
        if not wait:
            return process
        out, errors = process.communicate(timeout=LONGEST)
        return process.returncode, out, errors

    command.folder = tmp_path
    yield command
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=LONGEST)


def worker(place, *options, name="one"):
    process = place("worker", "--team", "team.toml", "--executor-id", name, *options, wait=False)
    version = os.environ.get("SYMFONIC_TEAM_VERSION", "1")
    assert process.stderr.readline() == f"{name} works for lead (version {version})\n"
    return process


def test_a_run_goes_to_whichever_process_works_for_the_team(place, database, monkeypatch):
    monkeypatch.setenv("SYMFONIC_TEAM_VERSION", "3")
    one = worker(place)
    ask = ("run", "--durable", database, "team.toml", "How many words are there?")
    status, out, errors = place(*ask)
    assert (status, out) == (0, "There are 7 words.\n"), errors
    first, run_id = errors.splitlines()[0].split(": ")
    assert first == "run id"
    status, again, errors = place(*ask, "--run-id", run_id)
    assert (status, again) == (0, out)
    told, title, delegation = errors.splitlines()  # nobody saw it here, so it is shown from the record
    assert (told, title) == (f"run id: {run_id}", 'lead  "How many words are there?"')
    assert delegation.startswith('  < counter  "How many words are there?"  (depth 1) delivered ')
    status, _, errors = place(*ask[:-1], "Other.", "--run-id", run_id)
    assert status == 1
    assert errors.splitlines()[-1] == (
        f"symfonic: failed: the run id '{run_id}' was used before, for another call"
        " (lead: 'How many words are there?'): take another id"
    )
    status, out, _ = place("runs")
    assert status == 0
    assert [line.split()[3] for line in out.splitlines()] == ["lead/counter", "lead"]
    one.send_signal(signal.SIGTERM)
    assert one.wait(LONGEST) == 0


def test_a_run_is_seen_cancelled_and_resumed_from_outside(place, database):
    (place.folder / "hold").touch()
    one = worker(place)
    asking = place(
        "run", "--durable", database, "--run-id", "r", "--executor-id", "two", "team.toml", "Count.", wait=False
    )
    counted = place.folder / "counted"
    eventually(counted.exists)
    status, out, _ = place("runs", "r", "--json")
    shown = [json.loads(line) for line in out.splitlines()]
    assert [(each["agent"], each["status"], each["depth"]) for each in shown] == [
        ("lead", "running", 0),
        ("lead/counter", "running", 1),
    ]
    assert place("cancel", "r")[:2] == (0, "cancelled r and everything below it\n")
    assert asking.wait(LONGEST) == 1
    assert "it was cancelled" in asking.stderr.read()
    assert statuses(database) == {"CANCELLED": 2}
    assert [line.partition(": ")[2] for line in place("runs", "r")[1].splitlines()] == ["it was cancelled"] * 2
    (place.folder / "hold").unlink()
    assert place("resume", "r")[:2] == (0, "2 run(s) of r go on, as soon as a worker takes them\n")
    eventually(lambda: statuses(database) == {"SUCCESS": 2})
    status, _, errors = place("cancel", "r")
    assert (status, errors) == (1, "symfonic: the run r has ended already (finished)\n")
    assert place("resume", "r")[::2] == (1, "symfonic: the run r has ended already (finished)\n")
    assert place("runs", "r")[1].splitlines()[0].endswith(": There are 7 words.")
    one.send_signal(signal.SIGINT)
    assert one.wait(LONGEST) == 130


def test_a_killed_run_goes_on_where_it_was_when_it_is_asked_for_again(place, database):
    (place.folder / "hold").touch()
    ask = ("run", "--durable", database, "--run-id", "r", "team.toml", "How many words are there?")
    asking = place(*ask, wait=False)
    eventually((place.folder / "counted").exists)
    asking.kill()
    asking.wait(LONGEST)
    (place.folder / "hold").unlink()
    assert place(*ask)[:2] == (0, "There are 7 words.\n")
    assert place(*ask)[:2] == (0, "There are 7 words.\n")
    assert (place.folder / "counted").read_text() == "once\n" * 2  # the step in flight, and no other


def test_what_is_said_after_ctrl_c_lets_the_run_go_on(place, database):
    (place.folder / "hold").touch()
    ask = ("run", "--durable", database, "team.toml", "How many words are there?")
    asking = place(*ask, wait=False)
    run_id = asking.stderr.readline().removeprefix("run id: ").strip()
    eventually((place.folder / "counted").exists)
    asking.send_signal(signal.SIGINT)
    _, errors = asking.communicate(timeout=LONGEST)
    assert asking.returncode == 130
    again = f"`symfonic resume {run_id}`, with --durable's database as its --db"
    assert (
        f"the run is kept; after {again}, it goes on in a worker, or in this command with --run-id {run_id}" in errors
    )
    (place.folder / "hold").unlink()
    assert place("resume", run_id)[0] == 0
    assert place(*ask, "--run-id", run_id)[:2] == (0, "There are 7 words.\n")


def served(place, database, where):
    """A server of the team, and its address."""
    process = place("serve", "team.toml", "--a2a", where, "--durable", database, "--executor-id", "one", wait=False)
    line = process.stderr.readline()
    assert line.startswith("lead is served at http://127.0.0.1:"), line + process.stderr.read()
    return process, line.split()[-1]


def test_a_call_outlives_the_server_that_it_was_made_to(place, database):
    (place.folder / "hold").touch()
    first, url = served(place, database, ":0")
    where = f":{url.rstrip('/').rpartition(':')[2]}"
    with ThreadPoolExecutor() as pool:
        child = a2a_child(url, timeout=LONGEST)
        asking = pool.submit(lambda: asyncio.run(child.run("How many words are there?")))
        eventually((place.folder / "counted").exists)
        status, _, told = place("serve", "team.toml", "--a2a", ":0", "--durable", database, "--executor-id", "one")
        assert status == 2
        assert "the executor id 'one' is taken" in told
        first.kill()
        first.wait(LONGEST)
        (place.folder / "hold").unlink()
        second, _ = served(place, database, where)
        assert asking.result(LONGEST).final_response == "There are 7 words."
    assert (place.folder / "counted").read_text() == "once\n" * 2  # the step in flight, and no other
    assert statuses(database) == {"SUCCESS": 2}
    second.send_signal(signal.SIGINT)
    assert second.wait(LONGEST) == 0


RUN = ("run", "team.toml", "Count.")
SERVE = ("serve", "team.toml", "--a2a", ":0")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--durable", "text.db"), "--durable: the database .*text.db cannot be used: file is not a database"),
        (("--durable", "nowhere/a.db"), "--durable: the database .*a.db cannot be used: there is no folder .*nowhere"),
        (("--durable", "."), "--durable: the database .* cannot be used: it is a folder; name a file in it"),
        (("--durable", ""), "--durable: must be the name of a file or a postgresql:// URL, got a blank text"),
        (("--durable", "mysql://h/d"), "--durable: the database must be a file or a postgresql:// URL, got a mysql"),
        (("--durable", "a.db", "--executor-id", ""), "--executor-id: must be a string of 1 to 200 printable"),
    ],
)
@pytest.mark.parametrize("command", [RUN, SERVE])
def test_a_mistake_in_where_runs_are_kept_is_one_in_the_command(tmp_path, capfd, command, options, told, monkeypatch):
    (tmp_path / "team.toml").write_text(TEAM)
    (tmp_path / "slow_tools.py").write_text(TOOLS)
    (tmp_path / "text.db").write_text("no database " * 100)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        app([*command, *options])
    out, errors = capfd.readouterr()
    assert (caught.value.code, out, errors.count("\n")) == (2, "", 1), errors
    assert re.match(f"symfonic: {told}", errors)


def test_mistakes_are_told_in_a_line(place, database, monkeypatch):
    if "://" not in database:
        status, _, errors = place("runs", "--db", "nowhere.db")
        assert (status, errors.count("\n")) == (2, 1)
        assert "there is no database" in errors
        (place.folder / "text.db").write_text("no database " * 100)
        for command in (("runs",), ("cancel", "r"), ("resume", "r")):
            status, _, errors = place(*command, "--db", "text.db")
            assert (status, errors.count("\n")) == (2, 1)
            assert errors.startswith("symfonic: --db: the database ")
    for option in ("--run-id", "--executor-id"):
        status, _, errors = place("run", "team.toml", "Count.", option, "x")
        assert status == 2
        assert f"{option}: goes with --durable" in errors
    status, _, errors = place("serve", "team.toml", "--a2a", ":0", "--executor-id", "local")
    assert (status, "--executor-id: goes with --durable" in errors) == (2, True)
    with monkeypatch.context() as wrong:
        wrong.setenv("SYMFONIC_TEAM_VERSION", "\t")
        for command in (RUN, SERVE):
            status, _, errors = place(*command, "--durable", "a.db")
            assert (status, errors.count("\n")) == (2, 1)
            assert errors.startswith("symfonic: --team-version (SYMFONIC_TEAM_VERSION): must be a string")
    one = worker(place)
    for command, option in ((("worker", "--team", "team.toml"), "--db"), (RUN, "--durable"), (SERVE, "--durable")):
        kept = ("--durable", database) if option == "--durable" else ()
        status, _, errors = place(*command, *kept, "--executor-id", "one")
        assert (status, errors.count("\n")) == (2, 1)
        assert errors.startswith(f"symfonic: {option}: the executor id 'one' is taken")
    status, _, errors = place("resume", "nothing")
    assert (status, errors) == (1, "symfonic: there is no run 'nothing' in that database\n")
    assert one.poll() is None
