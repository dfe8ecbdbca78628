"""The databases of the durable tests, each on a stage of its own: a file always, PostgreSQL where it is installed."""

import pytest
from durable_kit import SERVERS, Stage, running_server


def pytest_report_header():
    return [] if SERVERS else ["durable trees: PostgreSQL is not installed, so they are tested on files alone"]


@pytest.fixture(scope="session")
def server():
    with running_server() as running:
        yield running


@pytest.fixture(params=["file", "postgresql"] if SERVERS else ["file"])
def database(request, tmp_path):
    """A database that nobody has used yet."""
    if request.param == "file":
        return str(tmp_path / "tree.db")
    return request.getfixturevalue("server").new_database()


@pytest.fixture
def stage(database, tmp_path):
    made = Stage(tmp_path, database)
    yield made
    made.close()
