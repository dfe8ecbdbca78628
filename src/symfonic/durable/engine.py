"""The one engine of a process: its DBOS, its trees, and the body of every workflow."""

import asyncio
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from functools import cache
from typing import Any

from symfonic.capabilities.delegation.depth import DEFAULT_MAX_DEPTH
from symfonic.durable.database import Database, unusable
from symfonic.durable.journal import JournalLostError, survived
from symfonic.durable.log import Log
from symfonic.durable.ownership import Ownership, own
from symfonic.durable.paths import Tree, levels, ours
from symfonic.durable.runs import APPLICATION, WORKFLOW, Runs, queue_of
from symfonic.durable.settings import MOST_RECOVERIES, Settings, dbos
from symfonic.errors import ConfigurationError, DelegationError, EnvelopeError, SymfonicError
from symfonic.kernel.concurrency.threads import run_in_thread
from symfonic.kernel.contracts.text import error_text
from symfonic.remote.answer import Answer
from symfonic.remote.envelope import Envelope

_log = logging.getLogger("symfonic.durable")
_MOST_QUEUES = 32
_BETWEEN_LOOKS = 1.0
"""Seconds between two looks whether the executor's id is this process's again."""
_SETTINGS = [each.name for each in fields(Settings)]
_CLOSED = "the durable tree has been closed"
_FORKED = (
    "this process was forked from one with durable trees and can have none: start it another way (spawn), and declare"
    " them there, with an executor_id of its own"
)
_LAUNCHED = "this program launches DBOS itself: name no database, and its own is used"


class Engine:
    """What the trees of a process share. It is started when the first of them is used, and stopped with the last."""

    def __init__(self, settings: Settings) -> None:
        self.settings: Settings = settings
        self.trees: dict[str, Tree] = {}
        self._turn = threading.Lock()  # whoever asks first starts it, from whatever loop or thread
        self._runs: Runs | None = None
        self._clients: list[Any] = []
        self._launched = False
        self._ended: str = ""
        self._database = None if settings.database is None else Database(settings.database)
        self._log = None if self._database is None else Log(self._database)
        self._ownership: Ownership | None = None
        _workflow()

    @property
    def runs(self) -> Runs:
        """The runs in its database. Raises SymfonicError before the engine is started and after it is stopped."""
        if self._runs is None:
            raise SymfonicError(self._ended or _CLOSED)
        return self._runs

    def start(self) -> None:
        """Be ready; once. Blocks. Raises ConfigurationError if the database or the executor's id cannot be had.

        Then it holds up no other: trees may be declared on another database.
        """
        with self._turn:
            if self._runs is not None:
                return
            if self._ended:  # it was left while this was on its way here
                raise SymfonicError(self._ended)
            _take_over(self)
            try:
                self._start()
            except BaseException as error:
                self._stop()
                _forget(self)
                if isinstance(error, Exception) and not isinstance(error, SymfonicError) and self._database is not None:
                    raise unusable(self._database, error) from error
                raise

    def stop(self) -> None:
        """Let go of everything. Blocks. What is running stays as it is, for the next process with this id."""
        with self._turn:
            if self._ended == _FORKED:
                return
            self._ended = _CLOSED
            self._stop()

    def forked(self) -> bool:
        """This is a child process: whether it was begun in the parent, and so is not the child's to use.

        Nothing is closed then that the parent uses.
        """
        begun = self._runs is not None or self._turn.locked()
        self._turn = threading.Lock()
        if begun:
            self._ended, self._runs = _FORKED, None
            if self._ownership is not None:
                self._ownership.forked()
        return begun

    async def through(self, envelope: Envelope) -> Answer:
        """See `Runs.through`."""
        return await self.runs.through(envelope)

    async def carry_out(self, sent: dict[str, Any]) -> dict[str, Any]:
        """The body of a workflow: one run, from its envelope to its answer."""
        envelope = Envelope.read(sent)
        if envelope.lineage.run_id != dbos().DBOS.workflow_id:
            raise EnvelopeError("the envelope is that of another run")
        await self._still_own()
        await self.runs.admit(envelope)
        tree = self.trees.get(envelope.agent.partition("/")[0])
        try:
            if tree is None:
                known = _names(self.trees) or "none"
                raise DelegationError(
                    f"there is no agent {envelope.agent!r} in the process that took the run; its trees are: {known}."
                    " Teams that share a database need a version each"
                )
            return (await survived(lambda: tree.answer(envelope))).plain()
        except JournalLostError as lost:
            raise lost.__cause__ or RuntimeError(str(lost)) from lost
        except DelegationError as error:
            return Answer(status="refused", text=error_text(error), lineage=envelope.lineage).plain()
        except SymfonicError as error:
            return Answer(status="failed", text=error_text(error), lineage=envelope.lineage).plain()

    async def _still_own(self) -> None:
        """Nothing is begun under an id that another process has taken while this one's server was away.

        It is begun when that one is gone: given up here, nobody would take it up again.
        """
        ownership, told = self._ownership, False
        while ownership is not None and not await run_in_thread(ownership.held, "ownership"):
            if not told:
                told = True
                _log.warning(
                    "another process works under the executor id %r by now: what this one has taken waits until it is"
                    " gone",
                    self.settings.executor_id,
                )
            await asyncio.sleep(_BETWEEN_LOOKS)

    def _start(self) -> None:
        api, settings, launched = dbos(), self.settings, _program_has_launched()
        if self._database is None or self._log is None:
            if not launched:
                raise ConfigurationError("there is no database: name one, or launch DBOS before the first run")
            settings = self.settings = replace(settings, version=str(api.DBOS.application_version))
            for queue in self._queues():
                api.DBOS.register_queue(queue, **settings.queue())
            self._runs = Runs(api.DBOS, settings)
            return
        if launched:
            raise ConfigurationError(_LAUNCHED)
        if settings.worker and self._database.in_file():  # first: who has the id may be stopped with the file locked
            self._ownership = own(self._database, settings.executor_id)
        self._log.open()
        self._database.prepare()
        if settings.worker and self._ownership is None:  # on a server, whose database may only be there now
            self._ownership = own(self._database, settings.executor_id)
        serializer = api.DBOSPortableJSONSerializer()  # the default one makes objects of what is in the database
        self._clients = [
            api.DBOSClient(system_database_engine=each, serializer=serializer, application_name=APPLICATION)
            for each in (self._database.engine(), self._database.engine(only_reads=True))
        ]
        runs = Runs(self._clients[0], settings, self._clients[1])
        if settings.worker:
            self._refuse_others(runs)
            for queue in self._queues():  # before the launch, so that they are listened to at once
                self._clients[0].register_queue(queue, **settings.queue())
            api.DBOS(config=self._config(serializer))
            if (api.DBOS.application_version, api.DBOS.executor_id) != (settings.version, settings.executor_id):
                raise ConfigurationError(_LAUNCHED)  # it was made, and waits to be launched
            self._launched = True
            self._runs = runs  # the launch takes up what was left
            api.DBOS.launch()
        self._runs = runs

    def _refuse_others(self, runs: Runs) -> None:
        """A worker takes every run of its version: one of another team would fail in its hands."""
        other = runs.of_others(self.trees)
        if other is not None:
            raise ConfigurationError(
                f"the database {self._database} holds a run of {other.tree!r} that has not ended, {other.run_id!r} of"
                f" the version {other.version!r}, and this process has only {_names(self.trees)}: give each team a"
                " database or a version of its own, and the same team a new version when its lead is another"
            )

    def _config(self, serializer: Any) -> dict[str, Any]:
        assert self._database is not None  # noqa: S101 - asked for only where there is one
        return {
            "name": APPLICATION,
            "system_database_engine": self._database.engine(),
            "serializer": serializer,
            "application_version": self.settings.version,
            "executor_id": self.settings.executor_id,
            "run_migrations": False,
            "log_level": "WARNING",
        }

    def _queues(self) -> Iterator[str]:
        """A queue for every depth that the trees reach, and no more: each is looked at all the time."""
        return (queue_of(depth) for depth in range(max(map(_reach, self.trees.values()), default=0) + 1))

    def _stop(self) -> None:
        runs, clients, ownership = self._runs, self._clients, self._ownership
        if runs is not None:
            runs.closing = True
        if self._database is not None and self._log is not None:
            if self._launched:
                dbos().DBOS.destroy()
                self._launched = False
            self._log.close()
            for client in clients:
                client.destroy()
            if ownership is not None:
                ownership.release()
            self._database.close()
        self._runs = self._ownership = None
        self._clients = []


_lock = threading.Lock()
_engine: Engine | None = None
_parents: Engine | None = None
"""That of the process which this one was forked from: never used, and kept, since its connections are the parent's."""


def enter(name: str, root: Any, settings: Settings) -> Engine:
    """The engine of this process, with one more tree.

    Raises ConfigurationError if it has other settings, or another tree of that name.
    """
    global _engine
    if _parents is not None:
        raise ConfigurationError(_FORKED)
    with _lock:
        engine = _engine
        if engine is None:
            engine = Engine(settings)
        elif engine.settings != settings and (settings.database is not None or engine.settings.database is not None):
            other = next(each for each in _SETTINGS if getattr(engine.settings, each) != getattr(settings, each))
            raise ConfigurationError(
                "a process has one database and one executor's settings for all of its durable trees:"
                f" {_names(engine.trees)} has {other}={_shown(engine.settings, other)}, and {name!r} asks for"
                f" {other}={_shown(settings, other)}; use the same, or close the one before the other"
            )
        tree = Tree(name, root, engine.through)
        if tree.path in engine.trees:
            raise ConfigurationError(f"two durable trees are named {name!r}: give one of their agents another name")
        engine.trees[tree.path] = tree
        _engine = engine
        return engine


def leave(engine: Engine, path: str) -> None:
    """One tree less; with the last one the engine stops. Blocks."""
    global _engine
    with _lock:
        if engine.trees.pop(path, None) is None or engine.trees:
            return
        if _engine is engine:
            _engine = None
    engine.stop()


def _reach(tree: Tree) -> int:
    """The depth of the deepest run that a tree has a child for, from a root at depth 0."""
    agent = ours(tree.root)
    ceiling = None if agent is None else agent.kernel.bounds.max_depth
    return levels(tree.root, min(DEFAULT_MAX_DEPTH if ceiling is None else ceiling, _MOST_QUEUES))


def _names(trees: dict[str, Tree]) -> str:
    return ", ".join(map(repr, trees))


def _shown(settings: Settings, name: str) -> str:
    """A setting, without the password of a database."""
    value = getattr(settings, name)
    return str(Database(value)) if name == "database" and value is not None else repr(value)


def _take_over(engine: Engine) -> None:
    """The engine that starts is the one of this process. Raises ConfigurationError if there is another meanwhile."""
    global _engine
    with _lock:
        if _engine not in (None, engine):
            raise ConfigurationError(
                f"{_names(engine.trees)} could not be started before, and this process has the durable trees"
                f" {_names(_engine.trees)} by now: close those first"
            )
        _engine = engine


def _forget(engine: Engine) -> None:
    global _engine
    with _lock:
        if _engine is engine:
            _engine = None


def _forked() -> None:
    """A child process has no thread of its parent's that could hold the lock, and not its engine."""
    global _engine, _lock, _parents
    _lock = threading.Lock()
    if _engine is not None and _engine.forked():
        _parents, _engine = _engine, None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


@cache
def _workflow() -> Any:
    """The one workflow, registered: whose launch finds it there can take up what was left."""
    api = dbos()

    async def run_agent(envelope: dict[str, Any]) -> dict[str, Any]:
        return await _current().carry_out(envelope)

    kept = {"max_recovery_attempts": MOST_RECOVERIES, "serialization_type": api.WorkflowSerializationFormat.PORTABLE}
    return api.DBOS.workflow(name=WORKFLOW, **kept)(run_agent)


def _current() -> Engine:
    if _engine is None:
        raise SymfonicError("this process has no durable tree any more")
    return _engine


def _program_has_launched() -> bool:
    """Whether there is a DBOS already: it has no other public way to say so."""
    api = dbos()
    try:
        api.DBOS.list_queues()
    except api.error.DBOSException:
        return False
    return True


@contextmanager
def runs_in(database: str) -> Iterator[Runs]:
    """The runs in a database, for whoever only looks and steers. Blocks. Raises ConfigurationError if there is none."""
    kept = Database(database)
    try:
        if not kept.holds_runs():  # nothing is created for who only looks
            raise ConfigurationError(f"there is no database of durable trees at {kept}")
    finally:
        kept.close()
    engine = Engine(Settings(database, worker=False))
    engine.start()
    try:
        yield engine.runs
    finally:
        engine.stop()
        _forget(engine)
