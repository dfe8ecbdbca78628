"""The command line, as processes where the exit status or a signal matters, in this one otherwise."""

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
from contextlib import contextmanager
from functools import partial

import pytest

from symfonic import load_team
from symfonic.cli.run import RunOrder, run
from symfonic.testing import ScriptedModel, tool_call

TEAM = """
lead = "lead"
[agents.lead]
sub_agents = ["surveyor", "waiter", "breaker"]
max_depth = 2
[agents.surveyor]
description = "Counts the [files] of the project."
sub_agents = ["lead"]
tools = ["cli_tools:count"]
[agents.waiter]
description = "Waits patiently."
tools = ["cli_tools:wait"]
[agents.breaker]
description = "Breaks everything."
max_steps = 1
tools = ["cli_tools:smash"]
""".replace("[agents.lead]", '[agents.lead]\ndescription = "Leads."')
TOOLS = '''
import asyncio
from pathlib import Path
print("at import")

def count() -> str:
    """Count the files."""
    print("[in] a tool")
    return "42 [files] é"

async def cling() -> str:
    """Cling to life, stubbornly."""
    while True:
        (Path(__file__).parent / "waiting").write_text("yes")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass

async def wait() -> str:
    """Wait patiently."""
    (Path(__file__).parent / "waiting").write_text("yes")
    await asyncio.Event().wait()

def smash() -> str:
    """Break everything."""
    return "in pieces"
'''


@pytest.fixture
def team(tmp_path):
    (tmp_path / "cli_tools.py").write_text(TOOLS)
    path = tmp_path / "team.toml"
    path.write_text(TEAM)
    return path


def symfonic(*arguments, **options):
    options = {"capture_output": True, "encoding": "utf-8", "timeout": 60, **options}
    return subprocess.run([sys.executable, "-m", "symfonic", *map(str, arguments)], **options)


def test_an_answer_is_printed_alone_and_the_tree_beside_it(team, capsys):
    assert run(RunOrder(str(team), "Count the [bold]files[/bold].")) == 0
    out, err = capsys.readouterr()
    assert out == "42 [files] é\n"
    lines = err.splitlines()
    assert lines[0] == "at import"
    assert lines[1] == 'lead  "Count the [bold]files[/bold]."'
    assert lines[2].startswith('  > surveyor  "Count the [bold]files[/bold]."  (depth 1) running ')
    assert lines[3] == "[in] a tool"
    assert lines[4].startswith('  < surveyor  "Count the [bold]files[/bold]."  (depth 1) delivered ')
    assert len(lines) == 5


def test_json_is_a_line_for_each_record_and_one_for_the_result(team, capsys):
    assert run(RunOrder(str(team), "Count the files. Break everything.", as_json=True)) == 0
    out, err = capsys.readouterr()
    counted, broken, result = map(json.loads, out.splitlines())
    assert out.isascii()
    assert "running" not in err
    assert (counted["type"], counted["name"], counted["outcome"], counted["depth"], counted["message"]) == (
        "delegation", "surveyor", "delivered", 1, "42 [files] é",
    )  # fmt: skip
    assert (broken["name"], broken["outcome"]) == ("breaker", "child_failed")
    assert counted["task"] == "Count the files."
    assert counted["caller"]["run_id"] == broken["caller"]["run_id"] == result["run_id"] == result["root_run_id"]
    assert counted["usage"] == {"input_tokens": 0, "output_tokens": 0, "model_calls": 2, "tool_calls": 1}
    assert counted["started"] > 1_700_000_000
    assert broken["error"]["type"]
    assert result["tally"]["by_outcome"] == {"delivered": 1, "child_failed": 1}
    assert result["type"] == "result"
    assert result["parent_run_id"] is None
    assert result["delegated_to"] == ["surveyor"]
    assert "42 [files] é" in result["text"]
    assert result["usage"]["model_calls"] > 4


def test_json_lists_parents_before_their_children(tmp_path, capsys):
    path = tmp_path / "team.toml"
    path.write_text("""
    [agents.a.sub_agents.b]
    description = "Paints walls and counts bricks."
    [agents.a.sub_agents.b.sub_agents.c]
    description = "Counts bricks."
    tools = ["os:getpid"]
    """)
    run(RunOrder(str(path), "Count bricks.", as_json=True))
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each.get("name"), each.get("depth")) for each in records] == [("b", 1), ("c", 2), (None, None)]
    assert records[1]["parent_run_id"] == records[0]["run_id"]


def test_max_depth_tightens_the_ceiling_and_model_replaces_every_model(team, capsys):
    team.write_text(team.read_text().replace("max_depth = 2", 'model = "openai:none-such"'))
    assert run(RunOrder(str(team), "Count the files.", model="offline", max_depth=0)) == 0
    out, err = capsys.readouterr()
    assert "42" not in out
    assert "surveyor" not in err


@pytest.mark.parametrize("as_json", [False, True])
def test_a_run_that_fails_is_told_with_what_was_done(team, capsys, monkeypatch, as_json):
    failing = ScriptedModel(tool_call("run_agent", name="surveyor", task="Count the files."), OSError("model gone"))
    loaded = partial(load_team, str(team))
    monkeypatch.setattr(
        "symfonic.cli.run.load_team", lambda *_, **options: loaded(**options).override({"lead": failing})
    )
    assert run(RunOrder(str(team), "Count the files.", as_json=as_json)) == 1
    out, err = capsys.readouterr()
    assert "symfonic: failed: " in err
    assert "(1 delivered)" in err
    if as_json:
        record, failure = map(json.loads, out.splitlines())
        assert (record["name"], record["outcome"], record["message"]) == ("surveyor", "delivered", "42 [files] é")
        assert (failure["type"], "model gone" in failure["message"]) == ("failed", True)
    else:
        assert out == ""
        assert err.splitlines()[-1].endswith(" s: 42 [files] é")


def test_a_root_that_answers_nothing_has_failed(tmp_path, capsys, monkeypatch):
    path = tmp_path / "team.toml"
    path.write_text("[agents.lead]\n")
    monkeypatch.setattr("symfonic.cli.run.load_team", lambda *_, **__: load_team(path, model=ScriptedModel("  ")))
    assert run(RunOrder(str(path), "anything")) == 1
    assert capsys.readouterr().err.endswith("symfonic: failed: it returned no final response (no delegations)\n")


def test_the_records_of_a_run_that_answered_nothing_are_whole(team, capsys, monkeypatch):
    silent = ScriptedModel(tool_call("run_agent", name="surveyor", task="Count the files."), "  ")
    loaded = partial(load_team, str(team))
    monkeypatch.setattr(
        "symfonic.cli.run.load_team", lambda *_, **options: loaded(**options).override({"lead": silent})
    )
    assert run(RunOrder(str(team), "Count the files.", as_json=True)) == 1
    record, failure = map(json.loads, capsys.readouterr().out.splitlines())
    assert record["usage"]["model_calls"] == 2
    assert failure == {"type": "failed", "message": "it returned no final response"}


def test_an_error_that_is_not_ours_is_told_in_a_line(tmp_path, capsys, monkeypatch):
    async def fail(self, task, **options):
        raise OverflowError("too much")

    path = tmp_path / "team.toml"
    path.write_text("[agents.lead]\n")
    monkeypatch.setattr("symfonic.teams.Team.run", fail)
    assert run(RunOrder(str(path), "anything")) == 1
    assert capsys.readouterr().err.endswith("symfonic: failed: OverflowError: too much (no delegations)\n")


@pytest.fixture
def waiting(team):
    """What the tool that waits for ever writes to once it is being run."""
    path = team.parent / "waiting"
    os.mkfifo(path)
    ours = os.open(path, os.O_RDWR)  # a writer too, so that it is not at its end between two writers
    yield ours
    os.close(ours)


@contextmanager
def started(team, task, *options):
    arguments = [sys.executable, "-m", "symfonic", "run", str(team), task, *options]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8") as process:
        try:
            yield process
        finally:
            process.kill()  # only if the test failed is there something to kill


def is_waiting(waiting):
    return bool(select.select([waiting], [], [], 30)[0])


def test_ctrl_c_cancels_the_tree_and_tells_what_was_done(team, waiting):
    with started(team, "Count the files. Wait patiently.") as process:
        assert is_waiting(waiting)
        seen = next(line for line in process.stderr if line.startswith("  < surveyor"))
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (130, "")
    *_, summary, first, second = err.splitlines()
    assert summary == "symfonic: cancelled: interrupted by Ctrl-C (1 delivered, 1 cancelled)"
    assert first == seen.rstrip() + ": 42 [files] é"
    assert second.startswith('  x waiter  "Wait patiently."  (depth 1) cancelled')
    assert "Traceback" not in err


def test_ctrl_c_leaves_json_lines_of_what_was_done(team, waiting):
    with started(team, "Wait patiently.", "--json") as process:
        assert is_waiting(waiting)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    record, last = map(json.loads, out.splitlines())
    assert (record["name"], record["outcome"], record["task"]) == ("waiter", "child_cancelled", "Wait patiently.")
    assert last == {"type": "cancelled", "message": "interrupted by Ctrl-C"}
    assert err.endswith("symfonic: cancelled: interrupted by Ctrl-C (1 cancelled)\n")


def test_a_second_ctrl_c_gives_up_waiting_for_what_will_not_be_cancelled(team, waiting):
    team.write_text(team.read_text().replace("cli_tools:wait", "cli_tools:cling"))
    with started(team, "Wait patiently, cling to life.") as process:
        for _ in range(2):
            assert is_waiting(waiting)
            os.read(waiting, 100)
            process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "symfonic: cancelled: interrupted twice by Ctrl-C, and left behind (1 cancelled)" in err
    assert "Traceback" not in err


async def test_a_run_from_another_thread_needs_no_signals(team, capsys):
    assert await asyncio.to_thread(run, RunOrder(str(team), "Count the files.")) == 0
    assert capsys.readouterr().out == "42 [files] é\n"


def test_on_a_terminal_the_tree_is_redrawn_in_place(team):
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "symfonic", "run", str(team), "Count the [b]files[/b]."],
        stdout=subprocess.PIPE, stderr=theirs, env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )  # fmt: skip
    os.close(theirs)
    drawn = b""
    while chunk := read(ours):
        drawn += chunk
    out, _ = process.communicate(timeout=30)
    os.close(ours)
    assert (process.returncode, out.decode()) == (0, "42 [files] é\n")
    last = drawn.decode().rsplit("lead  ", 1)[1]
    assert '"Count the [b]files[/b]."' in last
    assert "└── " in last
    assert "delivered" in last


def read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that the other side has closed it
        return b""


def test_show_runs_nothing_and_says_so_on_standard_output(team):
    done = symfonic("show", team, "--model", "offline")
    assert (done.returncode, done.stderr) == (0, "at import\n")
    assert done.stdout.startswith(f"{team}: 4 agent(s)")


def test_ctrl_c_while_a_team_is_loaded_is_status_130(team, tmp_path):
    (tmp_path / "cli_tools.py").write_text("raise KeyboardInterrupt")
    done = symfonic("show", team)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "symfonic: interrupted by Ctrl-C\n")


def test_a_mistake_in_the_team_file_is_one_line_and_status_2(team):
    for command in (["show", team], ["run", team, "Go."]):
        team.write_text("[agents.lead]\nmax_depth = 'two'\n")
        done = symfonic(*command)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"{team}: agents.lead.max_depth: expected an integer >= 0, got the text 'two'\n"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run"], "Missing argument"),
        (["run", "TEAM", "Go.", "--nonsense"], "--nonsense"),
        (["run", "TEAM", "Go.", "--max-depth", "-1"], "--max-depth"),
        (["run", "TEAM", " "], "expected a task, got a blank text"),
        (
            ["run", "TEAM", "Go.", "--model", "nonsense"],
            "symfonic: --model: model 'nonsense' is none of those accepted",
        ),
        (["dance"], "dance"),
    ],
)
def test_a_mistake_in_the_command_is_status_2(team, arguments, told):
    done = symfonic(*[team if each == "TEAM" else each for each in arguments])
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert "Traceback" not in done.stderr


def test_the_task_may_come_from_standard_input(team):
    done = symfonic("run", team, "-", input="Count the files.\n")
    assert (done.returncode, done.stdout) == (0, "42 [files] é\n")
    assert '"Count the files."' in done.stderr
    assert symfonic("run", team, "-", input="").returncode == 2


def test_a_terminal_without_unicode_and_a_reader_that_left_do_no_harm(team):
    ascii_only = symfonic("run", team, "Count the files, déjà vu.", env={**os.environ, "PYTHONIOENCODING": "ascii"})
    assert (ascii_only.returncode, ascii_only.stdout) == (0, "42 [files] ?\n")
    ours, theirs = os.pipe()
    os.close(ours)
    deaf = symfonic("run", team, "Count the files.", capture_output=False, stdout=theirs, stderr=subprocess.PIPE)
    os.close(theirs)
    assert deaf.returncode == 0
    assert deaf.stderr.splitlines()[-1].startswith("  < surveyor")


def test_output_that_cannot_be_written_is_told(team):
    with open("/dev/full", "w") as full:
        done = symfonic("show", team, capture_output=False, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("symfonic: cannot write: ")


def test_the_version_is_told():
    from symfonic import __version__

    assert symfonic("--version").stdout == f"symfonic {__version__}\n"


@pytest.mark.parametrize("missing", ["typer", "rich"])
def test_without_typer_or_rich_one_line_says_what_to_install(tmp_path, missing):
    (tmp_path / f"{missing}.py").write_text(f"raise ModuleNotFoundError(\"No module named '{missing}'\")\n")
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = symfonic("--version", env={**os.environ, "PYTHONPATH": path})
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.endswith(': pip install "symfonic-delegation[cli]"\n')
    assert len(done.stderr.splitlines()) == 1
