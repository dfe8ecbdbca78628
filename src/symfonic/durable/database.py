"""The database behind durable trees: one file, or a PostgreSQL server."""

import sqlite3
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from symfonic.durable.settings import POLL, dbos
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.text import error_text

_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_CONNECTIONS, _PATIENCE = 20, 30
"""Connections at once, and seconds to wait for one or for a lock."""


class Database:
    """Where to find it. Raises ConfigurationError for what is neither a file nor a PostgreSQL URL."""

    def __init__(self, given: str) -> None:
        self.file: Path | None = None
        scheme, found, rest = given.partition("://")
        if found and scheme.partition("+")[0] in ("postgresql", "postgres"):
            self.url: str = _server_url(rest)
        elif not found or scheme == "sqlite":
            self.file = Path(rest.removeprefix("/") if found else given).expanduser().resolve()
            self.url = f"sqlite:///{self.file}"
        else:
            raise ConfigurationError(f"the database must be a file or a postgresql:// URL, got a {scheme}:// one")
        self._engine: Any = None

    def __str__(self) -> str:
        """Its place, without a password, and without what else is said to the server: one may be among that."""
        return str(self.file) if self.file else str(_sqlalchemy().make_url(self.url).set(query={}))

    def in_file(self) -> bool:
        """Whether it is a file. Raises ConfigurationError if that has no folder to be in."""
        if self.file is not None and not self.file.parent.is_dir():
            raise ConfigurationError(f"the database {self} cannot be used: there is no folder {self.file.parent}")
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

    def engine(self) -> Any:
        """The connections to it; the same each time."""
        if self._engine is None:
            self._engine = _for_file(self.url) if self.file else _for_server(self.url)
        return self._engine

    def close(self) -> None:
        """Close the connections."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.dispose()


def unusable(database: Any, error: BaseException) -> ConfigurationError:
    """What is told of a database that cannot be reached or written to, in its own words without the statement."""
    cause = getattr(error, "orig", None)
    return ConfigurationError(f"the database {database} cannot be used: {error_text(cause or error)}")


def _server_url(rest: str) -> str:
    """The URL, with its password where everybody who shows it looks for it. Raises ConfigurationError if it is none."""
    sa = _sqlalchemy()
    try:
        url = sa.make_url(f"postgresql://{rest}")
    except (ValueError, sa.exc.ArgumentError):  # whose words may be a part of a password
        told = (
            "it must be postgresql://USER@HOST:PORT/NAME, and what in a password is no letter or digit written as %XX"
        )
        raise ConfigurationError(f"the URL of the database cannot be read: {told}") from None
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


def _for_file(url: str) -> Any:
    """Every transaction takes the write lock as it begins: what one reads and then decides by stays true.

    DBOS's own settings count what is running outside the lock, and let more run at once than may.
    """
    sa = _sqlalchemy()
    engine = sa.create_engine(
        url,
        pool_size=_CONNECTIONS,
        max_overflow=0,
        pool_timeout=_PATIENCE,
        connect_args={"check_same_thread": False, "timeout": _PATIENCE},
    )

    def connected(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # so that SQLAlchemy's begin is the one below
        for pragma in (f"busy_timeout={_PATIENCE * 1000}", "synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {pragma}").close()

    sa.event.listen(engine, "connect", connected)
    sa.event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN IMMEDIATE"))
    return engine
