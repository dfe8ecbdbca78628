"""The commands and their arguments."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

import symfonic
from symfonic import ConfigurationError
from symfonic.cli.keeping import Keeping
from symfonic.cli.streams import Out
from symfonic.errors import TeamFileError
from symfonic.kernel.contracts.text import error_text

USAGE, INTERRUPTED = 2, 130

app: typer.Typer = typer.Typer(
    help="Agents that delegate: run and look at team files.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_TeamFile = Annotated[str, typer.Argument(metavar="TEAM.toml", help="The team file.")]
_Model = Annotated[
    str | None,
    typer.Option(help='Use this model for every agent: "offline", "openai:NAME" or "langchain:PROVIDER:NAME".'),
]
_VERSION = "SYMFONIC_TEAM_VERSION"
_ExecutorId = Annotated[
    str | None, typer.Option(help="With --durable: who carries out runs here.", show_default="local")
]


def _version(wanted: bool) -> None:
    if wanted:
        Out(sys.stdout).line(f"symfonic {symfonic.__version__}")
        raise typer.Exit


@app.callback()
def _common(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    """Agents that delegate: run and look at team files."""


@app.command()
def run(
    team: _TeamFile,
    task: Annotated[str, typer.Argument(help='What the lead is asked; "-" reads it from standard input.')],
    model: _Model = None,
    max_depth: Annotated[int | None, typer.Option(min=0, help="Tighten the ceiling of the whole run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the records and the result as JSON lines.")] = False,
    durable: Annotated[
        str | None,
        typer.Option(metavar="FILE_OR_URL", help="Keep the run in this database; SYMFONIC_DB does not stand for it."),
    ] = None,
    executor_id: _ExecutorId = None,
    run_id: Annotated[
        str | None,
        typer.Option(help="With --durable: the run's id; a known one goes on, unless it was cancelled (see resume)."),
    ] = None,
) -> None:
    """Run a team on a task.

    The answer goes to standard output, the tree of delegations to standard error. The exit status is 0 when an answer
    was delivered, 1 when the run failed, 2 for a mistake in the command or the team file, 130 after Ctrl-C. With
    --durable, SYMFONIC_TEAM_VERSION is the version of the team, as its workers have it.
    """
    from symfonic.cli.run import RunOrder
    from symfonic.cli.run import run as carry_out

    text = _task(task)
    if durable is None and run_id is not None:
        raise typer.BadParameter("goes with --durable", param_hint="--run-id")
    keeping = _keeping(durable, executor_id)
    with _told():
        raise typer.Exit(carry_out(RunOrder(team, text, model, max_depth, as_json, keeping, run_id)))


@app.command()
def show(team: _TeamFile, model: _Model = None) -> None:
    """Show a team as its models will read it, with depths and ceilings. Nothing is run."""
    from symfonic.cli.show import describe
    from symfonic.cli.streams import answers_only

    with _told(), answers_only() as out:
        for line in describe(symfonic.load_team(team, model=model)):
            out.line(line)


@app.command()
def serve(
    team: _TeamFile,
    a2a: Annotated[str | None, typer.Option(metavar="[HOST]:PORT", help="Serve the lead over A2A there.")] = None,
    mcp: Annotated[
        str | None,
        typer.Option(metavar="stdio|[HOST]:PORT", help="Serve it over MCP: to the client that starts this, or there."),
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="The address by which A2A callers reach it, if it is another.")
    ] = None,
    model: _Model = None,
    max_depth: Annotated[int | None, typer.Option(min=0, help="The deepest depth at which it may run.")] = None,
    durable: Annotated[
        str | None,
        typer.Option(
            metavar="FILE_OR_URL",
            help="With --a2a: keep the calls in this database; SYMFONIC_DB does not stand for it.",
        ),
    ] = None,
    executor_id: _ExecutorId = None,
) -> None:
    """Serve a team's lead to callers in other processes, until Ctrl-C or SIGTERM.

    With SYMFONIC_TOKEN in the environment, callers must send it as their bearer token; where others than this machine
    reach the server it must be set. Port 0 is a free one. With --durable, SYMFONIC_TEAM_VERSION is the version of the
    team.
    """
    from symfonic.cli.serve import A2AOrder, serve_a2a
    from symfonic.cli.serve_mcp import MCPOrder, serve_mcp

    keeping = _keeping(durable, executor_id)
    with _told():
        if (a2a is None) == (mcp is None):
            problem = "neither was given" if a2a is None else "both were given"
            raise ConfigurationError(f"--a2a [HOST]:PORT or --mcp stdio|[HOST]:PORT is needed; {problem}")
        for option, given in (("--url", url), ("--durable", durable)):
            if mcp is not None and given is not None:
                raise ConfigurationError(f"{option} goes with --a2a, not with --mcp")
        if mcp is not None:
            raise typer.Exit(serve_mcp(MCPOrder(team, mcp, model, max_depth)))
        assert a2a is not None  # noqa: S101 - one of them is there
        raise typer.Exit(serve_a2a(A2AOrder(team, a2a, url, model, max_depth, keeping)))


_Database = Annotated[
    str, typer.Option("--db", metavar="FILE_OR_URL", envvar="SYMFONIC_DB", help="The database of the runs.")
]
_Run = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]


@app.command()
def worker(
    team: Annotated[str, typer.Option(metavar="TEAM.toml", help="The team file.")],
    database: _Database,
    executor_id: Annotated[str, typer.Option(help="Who this is, now and after each restart; one process at a time.")],
    version: Annotated[
        str, typer.Option("--team-version", envvar=_VERSION, help="Take runs of this version of the team.")
    ] = "1",
    concurrency: Annotated[int | None, typer.Option(min=1, help="Runs of one depth at once, here.")] = None,
    global_concurrency: Annotated[int | None, typer.Option(min=1, help="The same, over all workers.")] = None,
    model: _Model = None,
) -> None:
    """Carry out the runs of a team that wait in a database, until SIGTERM or Ctrl-C."""
    from symfonic.cli.worker import WorkOrder, work

    keeping = Keeping(database, executor_id, version, concurrency, global_concurrency, "--db")
    with _told():
        raise typer.Exit(work(WorkOrder(team, keeping, model)))


@app.command()
def runs(
    database: _Database,
    run: Annotated[str | None, typer.Argument(metavar="[RUN]", help="Show this run and those below it.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many, the latest first.")] = 30,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON lines.")] = False,
) -> None:
    """Show the durable runs in a database."""
    from symfonic.cli.runs import show as show_runs

    with _told("--db"):
        raise typer.Exit(show_runs(database, run, limit, as_json))


@app.command()
def resume(run: _Run, database: _Database) -> None:
    """Let a run go on, with those below it, that was cancelled, given up, or left by a worker that is gone."""
    from symfonic.cli.runs import resume as resume_run

    with _told("--db"):
        raise typer.Exit(resume_run(database, run))


@app.command()
def cancel(run: _Run, database: _Database) -> None:
    """Cancel a run and everything below it."""
    from symfonic.cli.runs import cancel as cancel_run

    with _told("--db"):
        raise typer.Exit(cancel_run(database, run))


def _task(given: str) -> str:
    """The task's text, from standard input for ``-``. Exits with a usage error if it is blank."""
    if given == "-":
        given = sys.stdin.buffer.read().decode("utf-8", "replace").removesuffix("\n") if sys.stdin else ""
    if not given.strip():
        raise typer.BadParameter("expected a task, got a blank text", param_hint="TASK")
    return given


def _keeping(durable: str | None, executor_id: str | None) -> Keeping | None:
    """Where runs are kept, if they are. Exits with a usage error for what goes with ``--durable`` alone."""
    if durable is not None:
        return Keeping(durable, "local" if executor_id is None else executor_id, os.environ.get(_VERSION, "1"))
    if executor_id is not None:
        raise typer.BadParameter("goes with --durable", param_hint="--executor-id")
    return None


@contextmanager
def _told(blamed: str = "--model") -> Iterator[None]:
    """Mistakes in a team file, or in what the ``blamed`` option names, become a line each, and an exit status."""
    try:
        yield
    except TeamFileError as error:
        status, told = USAGE, str(error)
    except ConfigurationError as error:
        words = error_text(error)
        status, told = USAGE, f"symfonic: {words if words.startswith('--') else f'{blamed}: {words}'}"
    except KeyboardInterrupt:
        status, told = INTERRUPTED, "symfonic: interrupted by Ctrl-C"
    except OSError as error:  # standard output cannot be written to
        status, told = 1, f"symfonic: cannot write: {error_text(error)}"
    else:
        return
    Out(sys.stderr).line(told)
    raise typer.Exit(status)
