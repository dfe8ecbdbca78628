"""``symfonic run``: run a team on a task, and show it."""

import os
import sys
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from symfonic import AgentResult, DelegationRecord, SymfonicError, load_team
from symfonic.capabilities.delegation.contracts import walk
from symfonic.cli.interrupt import InterruptedRunError, run_interruptibly
from symfonic.cli.keeping import Keeping, OptionError, kept
from symfonic.cli.records import result_lines, unfinished_lines
from symfonic.cli.streams import Out, answers_only, short
from symfonic.cli.tree import DelegationTree
from symfonic.cli.views import Lines, View, record_line, view_for
from symfonic.kernel.contracts.run_identity import new_run_id
from symfonic.kernel.contracts.text import error_text
from symfonic.teams import Team

DELIVERED, FAILED, INTERRUPTED = 0, 1, 130


@dataclass(frozen=True, slots=True)
class RunOrder:
    """What the command line asks for."""

    team: str
    task: str
    model: str | None = None
    max_depth: int | None = None
    as_json: bool = False
    keeping: Keeping | None = None
    run_id: str | None = None


def run(order: RunOrder) -> int:
    """Carry the order out; the exit status.

    Raises ConfigurationError if the team cannot be loaded, or its runs cannot be kept where they should be.
    """
    tree = DelegationTree()
    with answers_only() as out:
        view = Lines(tree, Out(None)) if order.as_json else view_for(tree, sys.stderr)
        team = load_team(order.team, model=order.model, observers=(view.observe,))
        # Tools that import a neighbour only when they are called find it, as they would in a script.
        sys.path.append(str(Path(order.team).resolve().parent))
        return _Report(order, out, tree, view).of(team)


class _Report:
    """Runs the team and tells how it went: answers and records on standard output, all else on standard error."""

    def __init__(self, order: RunOrder, out: Out, tree: DelegationTree, view: View) -> None:
        self._order = order
        self._out = out
        self._tree = tree
        self._view = view
        self._run_id = order.run_id or new_run_id()
        self._asked = False  # for a run that is kept

    def of(self, team: Team) -> int:
        try:
            with ExitStack() as shown:  # once it begins; not left where it is left behind
                try:
                    result = run_interruptibly(self._run(team, shown))
                finally:
                    self._tree.close()
        except InterruptedRunError:
            status = self._unfinished(INTERRUPTED, "cancelled", "interrupted by Ctrl-C")
            if self._asked:
                resumed = f"`symfonic resume {self._run_id}`, with --durable's database as its --db"
                again = f"in a worker, or in this command with --run-id {self._run_id}"
                Out(sys.stderr).line(f"symfonic: the run is kept; after {resumed}, it goes on {again}")
            return status
        except KeyboardInterrupt:
            self._unfinished(INTERRUPTED, "cancelled", "interrupted twice by Ctrl-C, and left behind")
            os._exit(INTERRUPTED)  # an orderly exit would wait for what did not let itself be cancelled
        except OptionError:
            raise
        except SymfonicError as error:
            return self._unfinished(FAILED, "failed", error_text(error), getattr(error, "delegations", ()))
        except Exception as error:  # the last line of defence: a run that failed is told, not traced
            return self._unfinished(FAILED, "failed", f"{type(error).__name__}: {error_text(error)}")
        if not result.text.strip():
            return self._unfinished(FAILED, "failed", "it returned no final response", result.delegations)
        if not self._order.as_json and not self._tree.walk():
            for record in walk(result.delegations):  # made in other processes, or before
                Out(sys.stderr).line(record_line(record))
        self._write(result_lines(result) if self._order.as_json else [result.text])
        return DELIVERED

    async def _run(self, team: Team, shown: ExitStack) -> AgentResult:
        order, title = self._order, f'{short(team.agent.name)}  "{short(self._order.task)}"'
        async with team:
            if order.keeping is None:
                shown.enter_context(self._view.shown(title))
                return await team.run(order.task, max_depth=order.max_depth)
            async with kept(team, order.keeping) as tree:
                self._asked = True
                Out(sys.stderr).line(f"run id: {self._run_id}")
                shown.enter_context(self._view.shown(title))
                return await tree.run(order.task, max_depth=order.max_depth, run_id=self._run_id)

    def _unfinished(self, status: int, kind: str, message: str, records: Sequence[DelegationRecord] = ()) -> int:
        elsewhere = self._order.keeping is not None and not self._tree.walk()  # or nowhere: who knows
        summary = "" if elsewhere else f" ({self._tree.summary()})"
        Out(sys.stderr).line(f"symfonic: {kind}: {message}{summary}")
        if self._order.as_json:
            self._write(unfinished_lines(self._tree, kind, message, records))
        else:
            self._view.conclude()
        return status

    def _write(self, lines: Iterable[str]) -> None:
        for line in lines:
            self._out.line(line)
