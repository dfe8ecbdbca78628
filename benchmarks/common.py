"""Shared pieces of the delegation benchmark: the work, and the adapter contract.

The work is the same for every framework. A *script* plays the part of the
language model: it is handed the text of the user message and the texts of the
tool results seen so far, and answers at once with either final text or a list
of delegations. An adapter only translates between a script and the message
types of its framework, so the frameworks differ in nothing but their own code.

Scripts keep no state between calls (they look only at the conversation), so
one fake model may serve any number of concurrent runs.
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

CHAIN_AGENTS = 8
"""depth_8: eight agents in a row, so seven delegations and fifteen model calls."""

FAN_OUT = 16
BUILD_CHILDREN = 10

_KEY = re.compile(r"job-[0-9.]*[0-9]")


class Delegate(NamedTuple):
    """One delegation the fake parent model asks for."""

    target: str
    task: str


Reply = str | list[Delegate]
Script = Callable[[str, Sequence[str]], Awaitable[Reply]]
Run = Callable[[str], Awaitable[str]]
"""One whole parent turn: takes the user prompt, returns the final text."""


class Counter:
    """Counts fake-model calls, so a run can prove how many it needed."""

    calls = 0


def key_of(text: str) -> str:
    """The job key inside a prompt, whatever a framework wrapped around it."""
    found = _KEY.search(text)
    if found is None:
        raise AssertionError(f"no job key in the text a model was given: {text!r}")
    return found.group()


_ids = itertools.count()


def call_id() -> str:
    """A tool-call id that is never used twice in one process."""
    return f"call_{next(_ids)}"


def prompt_for(number: int) -> str:
    return f"Please take care of job-{number} now."


# --- scripts -----------------------------------------------------------------


def answering(sleep: float = 0.0) -> Script:
    """A model that answers at once (or after ``sleep`` seconds)."""

    async def script(user_text: str, results: Sequence[str]) -> Reply:
        Counter.calls += 1
        if sleep:
            await asyncio.sleep(sleep)
        return f"done: {key_of(user_text)}"

    return script


def delegating(target: str, width: int = 1) -> Script:
    """A model that delegates ``width`` tasks to ``target``, then echoes the results."""

    async def script(user_text: str, results: Sequence[str]) -> Reply:
        Counter.calls += 1
        if results:
            return "result: " + " | ".join(results)
        key = key_of(user_text)
        if width == 1:
            return [Delegate(target, f"handle {key}")]
        return [Delegate(target, f"handle {key}.{i}") for i in range(width)]

    return script


def spreading(targets: Sequence[str]) -> Script:
    """Like ``delegating``, but each task goes to another child.

    For frameworks that refuse to run one agent object twice at the same time.
    """

    async def script(user_text: str, results: Sequence[str]) -> Reply:
        Counter.calls += 1
        if results:
            return "result: " + " | ".join(results)
        key = key_of(user_text)
        return [Delegate(t, f"handle {key}.{i}") for i, t in enumerate(targets)]

    return script


def run_now(coroutine: Any) -> Any:
    """Run a script that does not sleep, from synchronous code."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("this script sleeps; a synchronous model must do so itself")


# --- checks ------------------------------------------------------------------


def check_single(prompt: str, output: Any) -> None:
    _expect(f"done: {key_of(prompt)}", output)


def check_delegated(prompt: str, output: Any) -> None:
    _expect("result:", output)
    _expect(f"done: {key_of(prompt)}", output)


def check_fan_out(prompt: str, output: Any, width: int = FAN_OUT) -> None:
    key = key_of(prompt)
    for i in range(width):
        _expect(f"done: {key}.{i}", output)


def _expect(part: str, output: Any) -> None:
    if not isinstance(output, str) or part not in output:
        raise AssertionError(f"expected {part!r} in the answer, got {output!r}")


# --- the adapter contract ----------------------------------------------------


class Adapter:
    """What one framework has to offer. Subclass it as ``ADAPTER`` in adapters/NAME.py.

    Only ``single`` and ``delegation`` are needed; a method that raises
    ``Unsupported`` leaves its cell empty, with the reason as a note.
    """

    title: str = ""
    """Row title in the tables."""

    venv: str = ""
    """Folder under --venvs; defaults to the adapter's file name."""

    distributions: tuple[str, ...] = ()
    """Distributions whose versions are written down."""

    import_statement: str = "pass"
    """What a user writes to define an agent that delegates (scenario ``import``)."""

    notes: tuple[str, ...] = ()
    """Choices a reader must know: the idiom used, telemetry switched off, ..."""

    fresh_parent_per_turn: bool = False
    """True where one agent object cannot serve two turns at once. ``concurrent``
    then builds a parent for every turn (``concurrent`` is called once a turn)."""

    concurrent_turns: int = 1000
    """Lower it where a thousand turns would take minutes; tables show the number."""

    def prepare(self) -> None:
        """Called once, before anything else: switch telemetry off, and the like."""

    def single(self) -> Run:
        """One agent that answers at once."""
        raise Unsupported("not implemented")

    def delegation(self, child_sleep: float = 0.0) -> Run:
        """A parent with a child named ``worker``."""
        raise Unsupported("not implemented")

    def concurrent(self, child_sleep: float) -> Run:
        """What scenario ``concurrent`` runs; override it where ``delegation`` blocks."""
        return self.delegation(child_sleep)

    def fan_out(self, width: int, child_sleep: float) -> Run:
        """A parent whose model asks for ``width`` delegations in one reply."""
        raise Unsupported("not implemented")

    def chain(self, agents: int) -> Run:
        """``agents`` agents in a row, each delegating to the next; the last answers."""
        raise Unsupported("not implemented")

    def build(self, children: int) -> Run:
        """Build a parent with ``children`` children named child0, child1, ...

        The parent's model delegates to ``child0``. What is returned runs a turn.
        """
        raise Unsupported("not implemented")


class Unsupported(Exception):  # noqa: N818 - a statement about a framework, not an error
    """Raised by an adapter for a scenario its framework cannot run."""
