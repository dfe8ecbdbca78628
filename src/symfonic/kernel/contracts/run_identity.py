"""Who a run is: its own id, its root's and its parent's."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

from symfonic.kernel.contracts.ambient import Block, Named, current_name, names
from symfonic.kernel.contracts.facts import fact

_clock = threading.RLock()  # re-entrant: the garbage collector may run a finalizer that makes an id as well
_last_tick = 0
_random: Iterator[int] = iter(())
_LONGEST = 256
_AT_ONCE = 4096
"""Bytes of random numbers that are asked of the system at once: asking costs more than everything else in an id."""


@fact
class RunIdentity:
    """Where a run stands in its tree. Ids are UUIDv7 text; ``parent_run_id`` is None for a root."""

    run_id: str
    root_run_id: str
    parent_run_id: str | None

    @classmethod
    def root(cls) -> "RunIdentity":
        """A new lineage: the run is its own root and has no parent."""
        run_id = new_run_id()
        return cls(run_id, run_id, None)

    @classmethod
    def under(cls, root_run_id: str | None, parent_run_id: str | None, run_id: str | None = None) -> "RunIdentity":
        """A run in a lineage that a caller hands over; what it leaves out is the run's own, its id a new one."""
        run_id = run_id or new_run_id()
        return cls(run_id, root_run_id or parent_run_id or run_id, parent_run_id or None)

    def id_below(self, call: str) -> str:
        """The id of the run that a call of this one starts: always the same, and that of no other run's call.

        What in the call's id could be taken for a part of the way is written in another form, and what is too long to
        be sent along by its digest.
        """
        from urllib.parse import quote

        named = quote(call, safe="", errors="replace").replace(".", "%2E").replace("~", "%7E")
        derived = f"{self.run_id}.{named}"
        if len(derived) <= _LONGEST:
            return derived
        return f"{beginning(self.root_run_id)}.{_digest(derived)}"

    def child(self) -> "RunIdentity":
        """A new run under this one, with the same root."""
        return RunIdentity(new_run_id(), self.root_run_id, self.run_id)


def beginning(root_run_id: str) -> str:
    """What the ids of a tree that are a digest begin with: the root's id, or a digest as well."""
    return root_run_id if len(root_run_id) <= _LONGEST else _digest(root_run_id)


def _digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode("utf-8", "replace")).hexdigest()


def current_run_identity() -> RunIdentity | None:
    """The identity of the run that this code is executing in, or None outside any."""
    identity: RunIdentity | None = current_name()
    return identity


class IdentityScope(Block[Named]):
    """A block in which an identity is current, inside the run around it."""

    __slots__ = ()

    def __init__(self, identity: RunIdentity) -> None:
        Block.__init__(self, names.var, Named(identity))

    def __enter__(self) -> RunIdentity:  # type: ignore[override]
        identity: RunIdentity = Block.__enter__(self).identity
        return identity


def run_identity_scope(identity: RunIdentity) -> AbstractContextManager[RunIdentity]:
    """Make ``identity`` current inside the block; the previous one is restored on every exit."""
    return IdentityScope(identity)


def new_run_id() -> str:
    """A UUIDv7 (RFC 9562, method 3): later ids sort later, also within one tick of the clock.

    The 60 bits of time count 1/4096 ms. Where the clock stands still or steps back they go on counting.
    """
    global _last_tick, _random
    tick = time.time_ns() * 4096 // 1_000_000
    with _clock:
        if tick <= _last_tick:
            tick = _last_tick + 1
        _last_tick = tick
        tail = next(_random, None)
        if tail is None:
            _random = iter(memoryview(os.urandom(_AT_ONCE)).cast("Q"))
            tail = next(_random)
    time_part = (tick >> 12) << 16 | 0x7000 | tick & 0xFFF
    text = time_part.to_bytes(8).hex()
    rest = (1 << 63 | tail >> 2).to_bytes(8).hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:]}-{rest[:4]}-{rest[4:]}"


def _forked() -> None:
    """A child process has random numbers of its own, and no thread of its parent's that could hold the lock."""
    global _clock, _random
    _clock, _random = threading.RLock(), iter(())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
