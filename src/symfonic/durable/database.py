"""The database behind durable trees: one file, or a PostgreSQL server."""

import sqlite3
import threading
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from symfonic.durable.settings import POLL, dbos
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.text import error_text

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CONNECTIONS, _PATIENCE = 20, 30
"""Connections at once, and seconds to wait for one or for a lock."""
_SCHEMA = "dbos"
"""Where DBOS has its tables on a server."""
_OUT_OF_REACH = ("08", "57P")
"""How SQL states begin that say of a connection that it is lost, or of a server that it ends or begins."""
_AS_URL = "it must be postgresql://USER@HOST:PORT/NAME, and what in a password is no letter or digit written as %XX"


class Database:
    """Where to find it. Raises ConfigurationError for what is neither a file nor a PostgreSQL URL."""

    def __init__(self, given: str) -> None:
        self.file: Path | None = None
        scheme, found, rest = given.partition("://")
        if found and scheme.partition("+")[0] in ("postgresql", "postgres"):
            self.url: str = _server_url(rest)
        elif not found and _looks_like_settings(given):
            raise ConfigurationError(f"the database is given as settings that a server takes: {_AS_URL}")
        elif not found or scheme == "sqlite":
            self.file = Path(rest.removeprefix("/") if found else given).expanduser().resolve()
            self.url = f"sqlite:///{self.file}"
        else:
            raise ConfigurationError(f"the database must be a file or a postgresql:// URL, got a {scheme}:// one")
        self._engines: dict[bool, Any] = {}

    def __str__(self) -> str:
        """Its place, without a password, and without what else is said to the server: one may be among that."""
        return str(self.file) if self.file else str(_sqlalchemy().make_url(self.url).set(query={}))

    def in_file(self) -> bool:
        """Whether it is a file. Raises ConfigurationError if that has no folder to be in, or is one."""
        if self.file is not None and not self.file.parent.is_dir():
            raise ConfigurationError(f"the database {self} cannot be used: there is no folder {self.file.parent}")
        if self.file is not None and self.file.is_dir():
            raise ConfigurationError(f"the database {self} cannot be used: it is a folder; name a file in it")
        return self.file is not None

    def prepare(self) -> None:
        """Create what is not there yet, once for all processes. Raises ConfigurationError if it cannot be reached."""
        self.in_file()
        try:
            if self.file is not None:
                _write_ahead(self.file)
            dbos().DBOS.migrate(self.url)
        except Exception as error:
            raise unusable(self, error) from error

    def holds_runs(self) -> bool:
        """Whether a tree has ever been kept there. Raises ConfigurationError if it cannot be looked at."""
        if self.file is not None and not self.file.exists():
            return False
        try:
            with self.engine(only_reads=True).connect() as connection:
                schema = None if self.file else _SCHEMA
                return bool(_sqlalchemy().inspect(connection).has_table("workflow_status", schema=schema))
        except Exception as error:
            raise unusable(self, error) from error

    def engine(self, *, only_reads: bool = False) -> Any:
        """The connections to it; the same each time. What only reads a file waits for nobody who writes.

        Nor for a connection: those that wait for their turn to write may have all that there are.
        """
        if self.file is None:
            only_reads = False
        if only_reads not in self._engines:
            made = _for_file(self.url, only_reads=only_reads) if self.file else _for_server(self.url)
            self._engines[only_reads] = made
        return self._engines[only_reads]

    def is_away(self, error: BaseException) -> bool:
        """Whether an error is that its server cannot be reached; that it refuses a statement is another."""
        if self.file is not None:
            return False
        cause = getattr(error, "orig", None) or error
        if not any(each.__name__ == "OperationalError" for each in type(cause).__mro__):
            return False
        state = getattr(cause, "sqlstate", None)
        return state is None or str(state).startswith(_OUT_OF_REACH)

    def listen(self, answered: Callable[..., None]) -> None:
        """Have this called after every statement that has succeeded."""
        for engine in {self.engine(), self.engine(only_reads=True)}:
            _sqlalchemy().event.listen(engine, "after_cursor_execute", answered)

    def close(self) -> None:
        """Close the connections."""
        engines, self._engines = self._engines, {}
        for engine in engines.values():
            engine.dispose()


def unusable(database: Any, error: BaseException) -> ConfigurationError:
    """What is told of a database that cannot be reached or written to, in its own words without the statement."""
    cause = getattr(error, "orig", None)
    return ConfigurationError(f"the database {database} cannot be used: {error_text(cause or error)}")


def database_errors() -> tuple[type[Exception], ...]:
    """What is raised by a database that cannot be read or written to: by SQLAlchemy, and by what it does not wrap."""
    return _sqlalchemy().exc.SQLAlchemyError, sqlite3.Error


def _looks_like_settings(given: str) -> bool:
    """Whether this is ``host=… dbname=…``, which is no name of a file."""
    keys = {each.partition("=")[0] for each in given.split() if "=" in each}
    return not keys.isdisjoint({"dbname", "host", "hostaddr", "service"})


def _server_url(rest: str) -> str:
    """The URL, with its password where everybody who shows it looks for it. Raises ConfigurationError if it is none."""
    sa = _sqlalchemy()
    try:
        url = sa.make_url(f"postgresql://{rest}")
    except (ValueError, sa.exc.ArgumentError):  # whose words may be a part of a password
        raise ConfigurationError(f"the URL of the database cannot be read: {_AS_URL}") from None
    password, user = url.query.get("password"), url.username or url.query.get("user")
    if isinstance(password, str) and isinstance(user, str):
        url = url.difference_update_query(["password", "user"]).set(username=user, password=password)
    return str(url.render_as_string(hide_password=False))


def _sqlalchemy() -> Any:
    dbos()
    return import_module("sqlalchemy")


def _write_ahead(file: Path) -> None:
    """Let readers and the writer of a file not wait for each other; it stays so. Whoever else begins may be in the way.

    Raises sqlite3.OperationalError if somebody is for too long.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        connection = sqlite3.connect(file, timeout=_PATIENCE)
        try:
            connection.execute("PRAGMA journal_mode=WAL").close()
            return
        except sqlite3.OperationalError as error:  # for this it does not wait by itself
            if time.monotonic() > until or (error.sqlite_errorcode & 0xFF) not in _BUSY:
                raise
            time.sleep(POLL)
        finally:
            connection.close()


def _for_server(url: str) -> Any:
    sa = _sqlalchemy()
    return sa.create_engine(
        sa.make_url(url).set(drivername="postgresql+psycopg"),
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=_PATIENCE,
        pool_pre_ping=True,
        connect_args={"connect_timeout": 10, "application_name": "symfonic"},
    )


def _for_file(url: str, *, only_reads: bool) -> Any:
    """Every transaction that may write takes the write lock as it begins: what it reads and decides by stays true.

    DBOS's own settings count what is running outside the lock, and let more run at once than may. The threads of this
    process wait for each other before they ask for that lock: SQLite's own waiting is a sleep, and longer each time.
    """
    sa = _sqlalchemy()
    turn = threading.Lock()
    engine = sa.create_engine(
        url,
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=_PATIENCE,
        connect_args={
            "check_same_thread": False,
            "timeout": _PATIENCE,
            "isolation_level": None,  # so that SQLAlchemy's begin is the one below
            "factory": partial(_Connection, turn),
        },
    )

    def connected(connection: Any, record: Any) -> None:
        for pragma in (f"busy_timeout={_PATIENCE * 1000}", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    def begins(connection: Any) -> None:
        connection.connection.dbapi_connection.begin(only_reads=only_reads)

    sa.event.listen(engine, "connect", connected)
    sa.event.listen(engine, "begin", begins)
    return engine


class _Connection(sqlite3.Connection):
    """A connection whose transactions take turns with those of the process's others, unless they only read."""

    def __init__(self, turn: threading.Lock, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._turn = turn
        self._mine = False

    def begin(self, *, only_reads: bool) -> None:
        if only_reads:
            self.execute("BEGIN").close()
            return
        if not self._turn.acquire(timeout=_PATIENCE):
            raise sqlite3.OperationalError("database is locked")
        self._mine = True
        try:
            self.execute("BEGIN IMMEDIATE").close()
        except BaseException:
            self._over()
            raise

    def commit(self) -> None:
        try:
            super().commit()
        finally:
            if not self.in_transaction:
                self._over()

    def rollback(self) -> None:
        try:
            super().rollback()
        finally:
            self._over()

    def close(self) -> None:
        try:
            super().close()
        finally:
            self._over()

    def _over(self) -> None:
        if self._mine:
            self._mine = False
            self._turn.release()
