"""The commands and their arguments."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

import symfonic
from symfonic import ConfigurationError
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
) -> None:
    """Run a team on a task.

    The answer goes to standard output, the tree of delegations to standard error. The exit status is 0 when an answer
    was delivered, 1 when the run failed, 2 for a mistake in the command or the team file, 130 after Ctrl-C.
    """
    from symfonic.cli.run import RunOrder
    from symfonic.cli.run import run as carry_out

    text = _task(task)
    with _told():
        raise typer.Exit(carry_out(RunOrder(team, text, model, max_depth, as_json)))


@app.command()
def show(team: _TeamFile, model: _Model = None) -> None:
    """Show a team as its models will read it, with depths and ceilings. Nothing is run."""
    from symfonic.cli.show import describe
    from symfonic.cli.streams import answers_only

    with _told(), answers_only() as out:
        for line in describe(symfonic.load_team(team, model=model)):
            out.line(line)


def _task(given: str) -> str:
    """The task's text, from standard input for ``-``. Exits with a usage error if it is blank."""
    if given == "-":
        given = sys.stdin.buffer.read().decode("utf-8", "replace").removesuffix("\n") if sys.stdin else ""
    if not given.strip():
        raise typer.BadParameter("expected a task, got a blank text", param_hint="TASK")
    return given


@contextmanager
def _told() -> Iterator[None]:
    """Mistakes in a team file or a model's name become a line each, and an exit status."""
    try:
        yield
    except TeamFileError as error:
        status, told = USAGE, str(error)
    except ConfigurationError as error:
        status, told = USAGE, f"symfonic: --model: {error_text(error)}"
    except KeyboardInterrupt:
        status, told = INTERRUPTED, "symfonic: interrupted by Ctrl-C"
    except OSError as error:  # standard output cannot be written to
        status, told = 1, f"symfonic: cannot write: {error_text(error)}"
    else:
        return
    Out(sys.stderr).line(told)
    raise typer.Exit(status)
