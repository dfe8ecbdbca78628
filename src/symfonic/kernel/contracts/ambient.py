"""What is current for the code being executed, restored on every exit."""

from collections.abc import Callable
from contextvars import ContextVar, Token
from itertools import count
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Ambient(Generic[T]):
    """A value that is current inside a ``with`` block, in its tasks and in its threads' contexts.

    A context variable alone is not enough. Its token cannot be reset from another context, and that is where a
    generator's block ends when the garbage collector or another task closes it; and resetting blocks out of order would
    uncover a block that is over or hide one that is not. So a block is marked when it ends, and the context that opened
    it takes it off the next time it looks. A task or thread that was *started* inside the block keeps seeing it, also
    after its end: where a piece of work came from does not change.
    """

    __slots__ = ("var",)

    def __init__(self, name: str) -> None:
        self.var: ContextVar[Block[T] | None] = ContextVar(name, default=None)

    def get(self) -> T | None:
        """The innermost open value, or None."""
        block = self.var.get()
        if block is not None and block.ended:
            block = settle(self.var, block)
        return None if block is None else block.value

    def open(self, value: T) -> "Block[T]":
        """A context manager that makes ``value`` current."""
        return Block(self.var, value)


class Block(Generic[T]):
    """One stretch of execution in which a value is current. Used once; ``ended`` is None until it is."""

    __slots__ = ("ended", "outer", "token", "value", "var")

    def __init__(self, var: "ContextVar[Block[T] | None]", value: T) -> None:
        self.var: ContextVar[Block[T] | None] = var
        self.value: T = value
        self.ended: bool | None = None

    def __enter__(self) -> T:
        if self.ended is not None:
            raise RuntimeError("this scope was entered before: open another")
        self.ended = False
        outer = self.var.get()
        self.outer: Block[T] | None = settle(self.var, outer) if outer is not None and outer.ended else outer
        self.token: Token[Block[T] | None] = self.var.set(self)
        return self.value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended = True
        if self.var.get() is self:
            self.var.set(self.outer)
            if self.outer is not None and self.outer.ended:
                settle(self.var, self.outer)


def settle(var: "ContextVar[Block[T] | None]", top: "Block[T]") -> "Block[T] | None":
    """Take off the blocks that ended elsewhere, or out of order, and were opened in this very context.

    A token knows that: it can be reset in the context that made it, and in no copy of that. Neither a task nor a thread
    would be such a mark: a pool's thread runs other people's work next.
    """
    block: Block[T] | None = top
    while block is not None and block.ended:
        try:
            var.reset(block.token)
        except (ValueError, RuntimeError):  # made in another context, or taken off before
            break
        block = block.outer
    var.set(block)
    return block


later: Callable[[], int] = count(1).__next__
"""A number for an identity that is made current; the higher one of two is the inner one's."""


class Named:
    """An identity that was made current without a run."""

    __slots__ = ("identity", "serial")

    def __init__(self, identity: Any) -> None:
        self.identity: Any = identity
        self.serial: int = later()


runs: Ambient[Any] = Ambient("symfonic_active_run")
"""The innermost run: an object whose ``named`` is the innermost identity of it and of the runs around it, or None, and
whose ``serial`` is that one's number."""

names: Ambient[Named] = Ambient("symfonic_run_identity")
"""The innermost identity that was made current without a run."""


def current_name() -> Any:
    """The identity that is current, or None: a run's, or one made current inside it, whichever is the inner one."""
    block = runs.var.get()
    run = None if block is None else runs.get() if block.ended else block.value
    alone = names.get() if names.var.get() is not None else None
    if run is None:
        return None if alone is None else alone.identity
    return run.named if alone is None or run.serial > alone.serial else alone.identity
