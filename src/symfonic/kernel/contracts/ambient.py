"""What is current for the code being executed, restored on every exit."""

import asyncio
import threading
import weakref
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")

_here: ContextVar[None] = ContextVar("symfonic_here", default=None)
"""Marks contexts: a token of it can be reset in the very context that made it, and in no copy of that."""


class Ambient(Generic[T]):
    """A value that is current inside a ``with`` block, in its tasks and in its threads' contexts.

    A context variable alone is not enough. Its token cannot be reset from another context, and that
    is where a generator's block ends when the garbage collector or another task closes it; and resetting
    blocks out of order would uncover a block that is over or hide one that is not. So a block is marked
    when it ends, and whoever opened it looks past it, and takes it off, the next time it looks. A task or thread
    that was *started* inside the block keeps seeing it, also after its end: where a piece of work came from does
    not change.
    """

    __slots__ = ("_var",)

    def __init__(self, name: str) -> None:
        self._var: ContextVar[Block[T] | None] = ContextVar(name, default=None)

    def get(self) -> T | None:
        """The innermost open value, or None."""
        block = settled(self._var)
        return None if block is None else block.value

    def open(self, value: T) -> "Block[T]":
        """A context manager that makes ``value`` current."""
        return Block(self._var, value)


class Block(Generic[T]):
    """One stretch of execution in which a value is current. Used once."""

    __slots__ = ("_mark", "_var", "ended", "opener", "outer", "thread", "value")

    def __init__(self, var: "ContextVar[Block[T] | None]", value: T) -> None:
        self._var = var
        self.value: T = value
        self.ended: bool = False
        self._mark: Token[None] | None = None

    def __enter__(self) -> T:
        self.opener: weakref.ref[asyncio.Task[Any]] | None = _task()
        self.thread: int = threading.get_ident()
        self.outer: Block[T] | None = settled(self._var)
        self._mark = _here.set(None)
        self._var.set(self)
        return self.value

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended = True
        block = self._var.get()
        if block is self:
            self._var.set(self.outer)
            self.taken_off()
            return
        while block is not None and block.opener == self.opener and block.thread == self.thread:
            if block.outer is self:  # ended before one that was opened inside it: nothing leads back here
                block.outer = self.outer
                return
            block = block.outer

    def taken_off(self) -> bool:
        """Whether this is the context that opened the block, which is over; yes at most once.

        Neither a task nor a thread would be such a mark: a pool's thread runs other people's work next.
        """
        if self._mark is None:
            return False
        try:
            _here.reset(self._mark)
        except ValueError:
            return False
        self._mark = None
        return True


def settled(var: "ContextVar[Block[T] | None]") -> "Block[T] | None":
    """The innermost block; those that ended elsewhere and were opened here are taken off first.

    Tasks started later would otherwise take them for the ones that they were started in.
    """
    top = block = var.get()
    if block is None or not block.ended:
        return block
    while block is not None and block.ended and block.taken_off():
        block = block.outer
    if block is not top:
        var.set(block)
    return block


def _task() -> "weakref.ref[asyncio.Task[Any]] | None":
    """The task that executes this code, or None outside any.

    Weak references compare by what they point at, and once it is gone by themselves, so a later task at the same
    address is never mistaken for it.
    """
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    return None if task is None else weakref.ref(task)
