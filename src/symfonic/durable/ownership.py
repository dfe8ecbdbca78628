"""Who works under an executor's id: one process at a time, since that one takes up the runs of the last."""

import hashlib
import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import quote

from symfonic.durable.database import Database, unusable
from symfonic.errors import ConfigurationError

_BETWEEN_CHECKS = 1.0
"""Seconds for which a server is believed to keep a lock."""


class Ownership(Protocol):
    """An id that is held until it is released or the process is gone, however it went."""

    def held(self) -> bool:
        """Whether it is still held; one that was lost with its server is taken again."""
        ...

    def release(self) -> None:
        """Give it up."""
        ...

    def forked(self) -> None:
        """Let a child process not hold what only its parent may."""
        ...


def own(database: Database, executor_id: str) -> Ownership:
    """The sole right to an executor's id. Raises ConfigurationError if another process has it."""
    if database.file is not None:
        return _FileLock(database.file, executor_id)
    return _ServerLock(database, executor_id)


def _taken(database: Any, executor_id: str) -> ConfigurationError:
    return ConfigurationError(
        f"the executor id {executor_id!r} is taken: another process works under it on {database}, and two would do each"
        " other's work twice; give this one an id of its own (executor_id=..., --executor-id), and keep it: after a"
        " crash its runs go on when a process with the same id starts"
    )


class _FileLock:
    """A lock on a file beside the database; the system lets it go with the process."""

    def __init__(self, database: Path, executor_id: str) -> None:
        import fcntl  # not on every system, and nothing else here needs it

        path = f"{database}.{quote(executor_id, safe=' ')}.lock"
        try:
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise unusable(database, error) from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._file)
            raise _taken(database, executor_id) from error

    def held(self) -> bool:
        return True

    def release(self) -> None:
        os.close(self._file)

    def forked(self) -> None:
        os.close(self._file)  # which the parent has open as well, and so the lock


class _ServerLock:
    """An advisory lock of one connection; the server lets it go with the connection."""

    def __init__(self, database: Database, executor_id: str) -> None:
        self._database, self._executor_id = database, executor_id
        digest = hashlib.sha256(f"symfonic executor {executor_id}".encode()).digest()
        self._key = int.from_bytes(digest[:8], "big", signed=True)
        self._connection: Any = None
        self._checked = 0.0
        self._released = False
        self._turn = threading.Lock()  # runs that begin at once ask at once, each in a thread
        if not self._take():
            raise _taken(database, executor_id)

    def held(self) -> bool:
        with self._turn:
            if self._released:
                return False
            return time.monotonic() - self._checked < _BETWEEN_CHECKS or self._still_or_again()

    def _still_or_again(self) -> bool:
        try:
            self._connection.exec_driver_sql("SELECT 1")
            self._checked = time.monotonic()
            return True
        except Exception:  # the server has gone, and the lock with it
            self._drop()
        try:
            return self._take()
        except Exception:  # nor is it back yet: whatever is begun meanwhile waits for it as well
            self._checked = time.monotonic()
            return True

    def release(self) -> None:
        with self._turn:
            self._released = True
            self._drop()

    def forked(self) -> None:
        """Its connection is the parent's; said good-bye to, it would be closed for that one as well."""

    def _take(self) -> bool:
        connection = self._database.engine().connect().execution_options(isolation_level="AUTOCOMMIT")
        try:
            got = connection.exec_driver_sql(f"SELECT pg_try_advisory_lock({self._key})").scalar()
        except BaseException:
            connection.close()
            raise
        connection.detach()  # it is this lock's, and goes back to no pool
        self._connection = connection
        if got:
            self._checked = time.monotonic()
        else:
            self._drop()
        return bool(got)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):  # it may be gone, which is all the same
                connection.close()
