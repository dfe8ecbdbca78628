"""Two ways to show the tree while it grows: redrawn in place on a terminal, else a line for each event."""

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Protocol, TextIO

from symfonic.cli.streams import Out, short
from symfonic.cli.tree import CANCELLED, DELIVERED, RUNNING, DelegationTree, Node
from symfonic.kernel.contracts.events import Event

if TYPE_CHECKING:
    from rich.console import Group

_STYLES = {DELIVERED: "green", RUNNING: "yellow", CANCELLED: "magenta"}
_MARKS = {DELIVERED: "<", RUNNING: ">"}


class View(Protocol):
    """Something that shows delegations."""

    def observe(self, event: Event) -> None:
        """Note what happened, and show it."""
        ...

    def shown(self) -> AbstractContextManager[object]:
        """Show what is observed inside the block."""
        ...

    def conclude(self) -> None:
        """Show the whole tree once more, where it has not been in view as a whole."""
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
            self._out.line(line(node, node.event.depth - 1))

    def shown(self) -> AbstractContextManager[object]:
        """For the time of the run: nothing to set up."""
        return nullcontext()

    def conclude(self) -> None:
        """The tree as a whole, for a run that did not get to its end."""
        for node, level in self._tree.walk():
            self._out.line(line(node, level))


class Live(View):
    """The tree, redrawn on a terminal as it grows."""

    def __init__(self, tree: DelegationTree, stream: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live as RichLive

        self._tree = tree
        self._live = RichLive(get_renderable=self._drawn, console=Console(file=stream), refresh_per_second=8)

    def observe(self, event: Event) -> None:
        """Note the event; the next redrawing shows it."""
        self._tree.note(event)

    def shown(self) -> AbstractContextManager[object]:
        """Draw inside the block; the last drawing stays."""
        return self._live

    def conclude(self) -> None:
        """The last drawing has said it all."""

    def _drawn(self) -> "Group":
        from rich.console import Group
        from rich.text import Text
        from rich.tree import Tree

        tops: list[Tree] = []
        trail: list[Tree] = []
        for node, level in self._tree.walk():
            style = _STYLES.get(node.outcome, "red")
            label = Text.assemble((short(node.event.name), "bold"), f"  {_task(node)}  ", (_state(node), style))
            del trail[level:]
            if trail:
                trail.append(trail[-1].add(label))
            else:
                tops.append(Tree(label))
                trail.append(tops[-1])
        return Group(*tops)


def view_for(tree: DelegationTree, stream: TextIO | None) -> View:
    """The livelier of the two that the stream can show."""
    if stream is not None and stream.isatty():
        return Live(tree, stream)
    return Lines(tree, Out(stream))


def line(node: Node, level: int) -> str:
    """A delegation on one line, indented by its level: ``>`` begins, ``<`` delivers, ``x`` does neither."""
    indent, mark = "  " * level, _MARKS.get(node.outcome, "x")
    return f"{indent}{mark} {short(node.event.name)}  {_task(node)}  {_state(node)}"


def _task(node: Node) -> str:
    return f'"{short(node.event.task)}"'


def _state(node: Node) -> str:
    """Depth, outcome and time, and why there is no answer."""
    told = node.message and node.outcome not in (DELIVERED, RUNNING)
    why = f": {short(node.message, 120)}" if told else ""
    return f"(depth {node.event.depth}) {node.outcome} {node.seconds():.2f} s{why}"
