"""The password of a durable tree's database is in nothing that anybody is shown."""

import logging
import traceback

import pytest

from symfonic import Agent, ConfigurationError
from symfonic.durable import Settings, durable
from symfonic.durable.database import Database
from symfonic.testing import ScriptedModel

PASSWORD = "hunter2secret"
REACHES_NOBODY = [
    f"postgresql://till:{PASSWORD}@127.0.0.1:1/bank",
    f"postgres://:{PASSWORD}@127.0.0.1:1/bank",
    f"postgresql+psycopg://till:{PASSWORD}@127.0.0.1:1/bank",
    f"postgresql://till@127.0.0.1:1/bank?password={PASSWORD}",
    f"postgresql://127.0.0.1:1/bank?user=till&password={PASSWORD}",
    f"postgresql://127.0.0.1:1/bank?password={PASSWORD}",
    f"postgresql://till@127.0.0.1:1/bank?sslmode=require&sslpassword={PASSWORD}",
    f"postgresql://till@127.0.0.1:1/bank?passwort={PASSWORD}",
]
IS_NO_URL = [f"postgresql://till:{PASSWORD}/bank", f"postgresql://till:{PASSWORD}@127.0.0.1:port/bank"]


def shown(error):
    """All that is told of an error, less the lines of these tests."""
    return "\n".join(f"{type(each).__name__}: {each}" for each in causes(error))


def causes(error):
    while error is not None:
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


@pytest.fixture
def logged(caplog):
    """Everything is logged, also what is far from a warning."""
    log = logging.getLogger("dbos")
    before = log.level, log.propagate
    log.setLevel(logging.DEBUG)
    log.propagate = True
    caplog.set_level(logging.DEBUG)
    yield caplog
    log.setLevel(before[0])
    log.propagate = before[1]


@pytest.mark.parametrize("worker", [True, False])
@pytest.mark.parametrize("url", REACHES_NOBODY)
async def test_a_server_that_cannot_be_reached_is_told_of_without_the_password(url, worker, logged):
    tree = durable(Agent(ScriptedModel("Done."), name="lead"), url, worker=worker)
    try:
        with pytest.raises(ConfigurationError, match="two durable trees"):
            durable(Agent(ScriptedModel("Done."), name="lead"), url, worker=worker)
        with pytest.raises(ConfigurationError, match="a process has one database") as other:
            durable(Agent(ScriptedModel("Done."), name="other"), f"{url}x", worker=worker)
        with pytest.raises(ConfigurationError, match="/bank cannot be used") as refused:
            await tree.start()
    finally:
        await tree.aclose()
    told = [shown(other.value), shown(refused.value), repr(tree), repr(Settings(url)), str(Database(url)), logged.text]
    assert [each for each in told if PASSWORD in each] == []


@pytest.mark.parametrize("url", IS_NO_URL)
def test_what_is_no_url_is_refused_where_it_is_declared_without_its_words(url):
    with pytest.raises(ConfigurationError, match="the URL of the database cannot be read") as refused:
        durable(Agent(ScriptedModel("Done."), name="lead"), url)
    assert PASSWORD not in "".join(traceback.format_exception(refused.value)).replace(repr(url), "")


@pytest.mark.parametrize(
    "settings", [f"host=127.0.0.1 dbname=bank password={PASSWORD}", f"password={PASSWORD} service=till"]
)
def test_what_a_server_takes_as_settings_is_no_name_of_a_file(settings):
    with pytest.raises(ConfigurationError, match=r"it must be postgresql://USER@HOST:PORT/NAME") as refused:
        durable(Agent(ScriptedModel("Done."), name="lead"), settings)
    assert PASSWORD not in str(refused.value)


def test_a_password_among_the_options_is_the_one_that_is_used():
    kept = Database("postgresql://127.0.0.1:1/bank?user=till&password=p%40ss&sslmode=require")
    assert kept.url == "postgresql://till:p%40ss@127.0.0.1:1/bank?sslmode=require"
