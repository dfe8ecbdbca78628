"""What the durable tests share: databases, processes that are killed for real, and the journal of what was done."""

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from shutil import chown
from tempfile import TemporaryDirectory
from uuid import uuid4

PROGRAM = Path(__file__).parent / "durable_programs.py"
SERVERS = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda each: int(each.parts[-3]))
"""The PostgreSQL servers that are installed, the newest last."""
LONGEST = 60.0


def eventually(what, seconds=60.0):
    """The first true answer of ``what()``, asked again and again."""
    until = time.monotonic() + seconds
    while True:
        answer = what()
        if answer:
            return answer
        assert time.monotonic() < until, f"it did not come about within {seconds} s"
        time.sleep(0.02)


class Process:
    """One of the programs, and what it says. It ends when whoever started it is gone."""

    def __init__(self, folder, *arguments, program=PROGRAM):
        self._log = Path(folder) / f"log-{uuid4().hex[:8]}"
        with open(self._log, "ab") as log:
            command = [sys.executable, str(program), *map(str, arguments)]
            self.out = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.pid = self.out.pid
        self._said = b""

    def line(self, seconds=LONGEST):
        """The next line, read. It fails with the process's log if there is none."""
        until = time.monotonic() + seconds
        while b"\n" not in self._said:
            ready, _, _ = select.select([self.out.stdout], [], [], max(0, until - time.monotonic()))
            more = os.read(self.out.stdout.fileno(), 65536) if ready else b""
            assert more, f"it said nothing within {seconds} s, or ended ({self.out.poll()}): {self.errors()[-3000:]}"
            self._said += more
        line, _, self._said = self._said.partition(b"\n")
        return json.loads(line)

    def kill(self, how=signal.SIGKILL):
        if self.out.poll() is None:
            self.out.send_signal(how)

    def gone(self):
        """Wait for its end; the status."""
        return self.out.wait(LONGEST)

    def errors(self):
        """What it has written to standard error."""
        return self._log.read_text()

    def close(self):
        if self.out.poll() is None:
            self.out.kill()
            self.out.send_signal(signal.SIGCONT)
            self.out.wait(LONGEST)
        self.out.stdin.close()
        self.out.stdout.close()


class Stage:
    """A folder, a database, and the processes that were started on them."""

    def __init__(self, folder, database):
        self.folder, self.database = Path(folder), database
        self.processes = []

    def start(self, mode, ready=True, **said):
        given = [f"{key}={value}" for key, value in said.items()]
        process = Process(self.folder, mode, self.database, self.folder, *given)
        self.processes.append(process)
        if ready:
            assert process.line() == {"ready": process.pid}
        return process

    def hold(self, name):
        """Whoever comes there waits."""
        (self.folder / f"hold-{name}").touch()

    def go_on(self, name):
        (self.folder / f"hold-{name}").unlink()

    def journal(self, kind=None, name=None):
        """What was done, oldest first."""
        path = self.folder / "journal"
        lines = [json.loads(each) for each in path.read_text().splitlines()] if path.exists() else []
        return [each for each in lines if kind in (None, each["kind"]) and name in (None, each["name"])]

    def times(self, kind, name):
        """How often it was done, by run, and for a model by its step as well."""
        return Counter((each["run"], each.get("step")) for each in self.journal(kind, name))

    def close(self):
        for process in self.processes:
            process.close()


class Server:
    """A PostgreSQL of its own on a free port of this machine."""

    def __init__(self, folder):
        self.folder = Path(folder)
        self.port = _free_port()
        self._numbers = count(1)
        if os.geteuid() == 0:
            chown(self.folder, "postgres")
        self._run("initdb", "-D", self.folder / "data", "-A", "trust", "-U", "postgres", "--no-sync")
        with open(self.folder / "data" / "postgresql.conf", "a") as settings:
            settings.write(
                f"listen_addresses = '127.0.0.1'\nport = {self.port}\nunix_socket_directories = ''\n"
                "max_connections = 400\n"
            )

    def start(self):
        self._run("pg_ctl", "-D", self.folder / "data", "-l", self.folder / "log", "-w", "-t", "60", "start")

    def stop(self, how="fast"):
        self._run("pg_ctl", "-D", self.folder / "data", "-m", how, "-w", "-t", "60", "stop")

    def new_database(self):
        return f"postgresql://postgres@127.0.0.1:{self.port}/tree_{uuid4().hex[:12]}_{next(self._numbers)}"

    def _run(self, program, *arguments):
        command = [str(SERVERS[-1].with_name(program)), *map(str, arguments)]
        if os.geteuid() == 0:  # as whom it refuses to run
            command = ["runuser", "-u", "postgres", "--", *command]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd="/", check=False
        )
        assert done.returncode == 0, f"{program}: {done.stdout}"


@contextmanager
def running_server():
    with TemporaryDirectory(prefix="symfonic-pg-", ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        server = Server(folder)
        server.start()
        try:
            yield server
        finally:
            server.stop("immediate")


def _free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def rows(database, statement):
    """What the database has, past everything of ours."""
    import sqlalchemy

    url = f"sqlite:///{database}" if "://" not in database else database.replace("postgresql:", "postgresql+psycopg:")
    schema = "" if "://" not in database else "dbos."
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    try:
        with engine.connect() as connection:
            return connection.exec_driver_sql(statement.replace("{}", schema)).fetchall()
    finally:
        engine.dispose()


def statuses(database):
    """How many runs there are of each status."""
    return Counter(status for (status,) in rows(database, "SELECT status FROM {}workflow_status"))


def written_down(stage, step):
    """Whether a step of that name has been kept: what was in flight when its process was stopped is done again."""
    steps = rows(stage.database, "SELECT function_name FROM {}operation_outputs")
    return any(name.startswith(step) for (name,) in steps)


def only_the_scale_is_left(stage):
    """Whether the function is under way, and all that the tree has to do beside it is written down."""
    return stage.journal("function") and statuses(stage.database)["SUCCESS"] == 4 and written_down(stage, "tool note")
