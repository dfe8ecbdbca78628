"""What is said in the log while there are durable trees: of DBOS's lines those that are of use."""

import logging
import sys
import threading
import time
from typing import Any

from symfonic.durable.database import Database
from symfonic.durable.info import GAVE_UP
from symfonic.kernel.contracts.text import error_text

_QUIET = 1.0
"""Seconds without a failure after which a database is believed to be back."""
_AS_WANTED = ("Asyncio task cancelled for workflow or step", "Workflow already exists in queue")
_THE_URL = "Initializing DBOS system database with URL"
_NOT_OURS = ("Current version '", "Could not connect to postgres database to verify existence of ")
"""That teams have versions of their own, and a guess before what we say of the same database."""

_dbos = logging.getLogger("dbos")
_log = logging.getLogger("symfonic.durable")


class Log:
    """The filter of DBOS's log, and what is told in the place of what it holds back.

    A database that is away is told of once, and once that it is back: DBOS says it with every look at every queue.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._turn = threading.Lock()  # every queue has a thread
        self._away = False
        self._failed = 0.0

    def open(self) -> None:
        """Listen, to what DBOS says and to the database."""
        _dbos.addFilter(self._is_shown)
        self._database.listen(self._answered)

    def close(self) -> None:
        """Listen no more."""
        _dbos.removeFilter(self._is_shown)

    def _is_shown(self, record: logging.LogRecord) -> bool:
        """Whether a line is more than that a run was cancelled, or asked for again, as somebody wanted.

        What it says of the database's URL is not shown either: it knows of one password in it, where there may be more.
        """
        error = record.exc_info[1] if record.exc_info else sys.exc_info()[1]  # it is said where that is caught
        kind = type(error).__name__
        if kind == "MaxRecoveryAttemptsExceededError":
            _log.warning("the run %s goes on no more: %s", getattr(error, "workflow_id", ""), GAVE_UP)
            return False
        if str(record.msg).startswith((*_AS_WANTED, _THE_URL, *_NOT_OURS)):
            return False
        if record.exc_info and kind == "DBOSAwaitedWorkflowCancelledError":
            return False
        if error is None or record.levelno > logging.WARNING or not self._database.is_away(error):
            return True
        self._failed_with(error)
        return False

    def _failed_with(self, error: BaseException) -> None:
        with self._turn:
            self._failed, told, self._away = time.monotonic(), self._away, True
        if not told:
            why = " ".join(error_text(getattr(error, "orig", None) or error).split("\n", 1)[0].split())
            _log.warning("the database %s is away; waiting until it is back (%s)", self._database, why)

    def _answered(self, *_: Any) -> None:
        if not self._away:
            return
        with self._turn:
            back = self._away and time.monotonic() - self._failed > _QUIET
            self._away = self._away and not back
        if back:
            _log.warning("the database %s is back", self._database)
