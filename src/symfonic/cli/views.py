"""Two ways to show the tree while it grows: redrawn in place on a terminal, else a line for each event."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol, TextIO

from symfonic import DelegationRecord
from symfonic.cli.streams import Out, short
from symfonic.cli.tree import CANCELLED, DELIVERED, RUNNING, DelegationTree, Node
from symfonic.kernel.contracts.events import Event

if TYPE_CHECKING:
    from rich.tree import Tree

_STYLES = {DELIVERED: "green", RUNNING: "yellow", CANCELLED: "magenta"}
_MARKS = {DELIVERED: "<", RUNNING: ">"}


class View(Protocol):
    """Something that shows delegations."""

    def observe(self, event: Event) -> None:
        """Note what happened, and show it."""
        ...

    def shown(self, title: str) -> AbstractContextManager[object]:
        """Show what is observed inside the block, under a title: the root and its task."""
        ...

    def conclude(self) -> None:
        """Show what was done before a run ended without an answer."""
        ...


class Lines(View):
    """A line when a delegation begins, one when it ends; no redrawing."""

    def __init__(self, tree: DelegationTree, out: Out) -> None:
        self._tree = tree
        self._out = out

    def observe(self, event: Event) -> None:
        """Note the event and tell it."""
        node = self._tree.note(event)
        if node is not None:
            self._out.line(line(node, node.depth))

    def shown(self, title: str) -> AbstractContextManager[object]:
        """Tell the title; there is nothing to set up."""
        self._out.line(title)
        return nullcontext()

    def conclude(self) -> None:
        """The tree as a whole, with the answers there are."""
        for node, level in self._tree.walk():
            answer = f": {short(node.message)}" if node.outcome == DELIVERED else ""
            self._out.line(f"{line(node, level + 1)}{answer}")


class Live(View):
    """The tree, redrawn on a terminal as it grows."""

    def __init__(self, tree: DelegationTree, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._tree = tree
        self._title = ""
        self._live = RichLive(get_renderable=self._drawn, console=Console(file=stream), refresh_per_second=8)

    def observe(self, event: Event) -> None:
        """Note the event; the next redrawing shows it."""
        self._tree.note(event)

    def shown(self, title: str) -> AbstractContextManager[object]:
        """Draw inside the block; the last drawing stays."""
        self._title = title
        return self._live

    def conclude(self) -> None:
        """Nothing more: the last drawing is still in view."""

    def _drawn(self) -> "Tree":
        from rich.text import Text
        from rich.tree import Tree

        trail = [Tree(Text(self._title))]
        for node, level in self._tree.walk():
            style = _STYLES.get(node.outcome, "red")
            label = Text.assemble((short(node.event.name), "bold"), f"  {_task(node)}  ", (_state(node), style))
            del trail[level + 1 :]
            trail.append(trail[-1].add(label))
        return trail[0]


def view_for(tree: DelegationTree, stream: TextIO | None) -> View:
    """The livelier of the two that the stream can show."""
    if stream is not None and stream.isatty():
        return Live(tree, stream)
    return Lines(tree, Out(stream))


def line(node: Node, level: int) -> str:
    """A delegation on one line, indented by its level: ``>`` begins, ``<`` delivers, ``x`` does neither."""
    return _line(level, node.event.name, node.outcome, f"{_task(node)}  {_state(node)}")


def record_line(record: DelegationRecord) -> str:
    """The same of a delegation that nobody here saw: it was made in another process, or before."""
    task, seconds = (record.trace.task, record.trace.timing.duration) if record.trace else ("", 0.0)
    state = _told(record.depth, record.outcome.value, seconds, record.message)
    return _line(record.depth, record.name, record.outcome.value, f'"{short(task)}"  {state}')


def _line(level: int, name: str, outcome: str, told: str) -> str:
    return f"{'  ' * level}{_MARKS.get(outcome, 'x')} {short(name)}  {told}"


def _task(node: Node) -> str:
    return f'"{short(node.event.task)}"'


def _state(node: Node) -> str:
    return _told(node.depth, node.outcome, node.seconds(), node.message)


def _told(depth: int, outcome: str, seconds: float, message: str) -> str:
    """Depth, outcome and time, and why there is no answer."""
    why = f": {short(message, 120)}" if message and outcome not in (DELIVERED, RUNNING) else ""
    return f"(depth {depth}) {outcome} {seconds:.2f} s{why}"
