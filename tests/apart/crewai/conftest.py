"""These tests run in an environment of their own, with CrewAI, which goes with nothing else that is tested here.

Elsewhere nothing of this directory is collected.
"""

import atexit
import os
import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

collect_ignore_glob = ["*"]

if find_spec("crewai"):
    collect_ignore_glob = []
    sys.path.append(str(Path(__file__).parents[2] / "adapters"))  # adapter_kit
    storage = tempfile.TemporaryDirectory(prefix="symfonic-crewai-")
    atexit.register(storage.cleanup)
    os.environ.update(
        CREWAI_DISABLE_TELEMETRY="true",
        CREWAI_DISABLE_VERSION_CHECK="true",
        CREWAI_STORAGE_DIR=storage.name,
        CREWAI_TESTING="true",  # it asks nobody on the console
        CREWAI_TRACING_ENABLED="false",
        HOME=storage.name,
        OTEL_SDK_DISABLED="true",
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ImportWarning)  # a package of theirs that takes no attributes
        import crewai  # noqa: F401


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("filterwarnings", "ignore::DeprecationWarning:crewai")  # theirs to mend


@pytest.fixture(autouse=True)
def _nothing_reaches_the_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    reached: list[Any] = []
    connect, look_up = socket.socket.connect, socket.getaddrinfo

    def refuse(self: socket.socket, address: Any) -> None:
        if self.family == socket.AF_UNIX:
            return connect(self, address)
        reached.append(address)
        raise OSError(f"a test wanted to reach {address}")

    def refuse_name(host: Any, *rest: Any, **more: Any) -> Any:
        if host in (None, "localhost", "127.0.0.1", "::1"):
            return look_up(host, *rest, **more)
        reached.append(host)
        raise OSError(f"a test wanted to look up {host}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse_name)
    yield
    assert reached == []
