"""Of an error, a model reads no credential; its program has the original."""

import re
import time

import pytest
from events_kit import Watcher, boss, child, leaf
from hypothesis import given
from hypothesis import strategies as st

from symfonic import Agent
from symfonic.kernel.contracts.events import DelegationFinished, ModelAnswered, RunFinished
from symfonic.kernel.contracts.text import error_text
from symfonic.testing import FunctionModel, ScriptedModel, tool_call

KEY = "abcDEF1234567890"
SECRETS = {
    "postgres://user:SECRET@host/db": "hunter2",
    "redis://:SECRET@host:6379": "hunter2",
    "GET https://api.example/v1?key=SECRET&q=1 failed": KEY,
    "https://store.example/blob?se=1&sig=SECRET": "a%2Fb%3D",
    "Authorization: Bearer SECRET": KEY,
    "{'Authorization': 'Basic SECRET'}": "dXNlcjpwYXNz",
    '"authorization": "token SECRET"': "short",
    "sent Bearer SECRET to the server": "eyA.b1C-d_e~f+g/h==",
    "sent Bearer SECRET and so on": "abcdefghIJKLMNOPqrst",
    "api_key=SECRET is wrong": "x",
    "connect failed: host=h password=SECRET user=u": "hunter2",
    "Password = SECRET;Server=h": "hunter2",
    "password='SECRET' is wrong": "two words",
    'secret="SECRET': "cut off",
    "AccountKey=SECRET;EndpointSuffix=e": "abc==",
    '{"client_secret": "SECRET", "n": 1}': "two words",
    "{'api-key': 'SECRET'}": KEY,
    "x-api-key: SECRET": KEY,
    "Incorrect API key provided: sk-SECRET.": "proj-abcDEF_1234567890",
    "stripe said no to sk_live_SECRET": "abcDEF1234567890gh",
    "bad credentials ghp_SECRET": "abcdefghij1234567890ABCDEFGHIJ",
    "bad credentials github_pat_SECRET": "11ABCDEFG0abcdefghijk_lmn",
    "glpat-SECRET": "abcdefghij1234567890",
    "hf_SECRET": "abcdefghijABCDEFGHIJabcdefghij",
    "xoxb-SECRET": "123456789012-abcdefghijkl",
    "key AKIASECRET is disabled": "IOSFODNN7EXAMPLE",
    "key AIzaSECRET": "SyA1234567890abcdefghijklmnopqrstuv",
    "token eyJSECRET": "hbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-d_e",
}
ORDINARY = [
    "the limit max_tokens=100 is reached",
    "unexpected token: foo at line 12",
    "token: 12",
    "'}' is no valid token",
    "api_key=None",
    "token=\"\" and password='' are empty",
    "Missing required argument: 'api_key'",
    "the api_key client option must be set either by passing api_key to the client or by setting OPENAI_API_KEY",
    "invalid password: too short",
    "if password == other:",
    "secret must not be empty",
    "the bearer authentication scheme is not supported",
    "basic internationalization in python3.11",
    "no module named sk-learn-contrib-package-name",
    "hf_hub_download_v2 and npm_config_cache2dir are settings",
    "see https://example.com/a/b?page=2&sort=name#top",
    "http://localhost:8080/v1/models answered 404",
    "mail me@example.com at 10:30",
    "f(x=1, y=2) got an unexpected keyword argument 'z'",
    "KeyError: 'token'",
    "3 of 4 tokens used; 1: left",
    "task-1234567890abcdef is risk-free",
]
WORDS = [
    "token",
    "bearer",
    "Basic",
    "secret",
    "password",
    "the",
    "api key",
    "sk-",
    "key",
    "is",
    "wrong:",
    "max_tokens=9",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_credential_is_masked_and_the_rest_stays(text: str) -> None:
    secret = SECRETS[text]
    told = error_text(ValueError(text.replace("SECRET", secret)))

    assert secret not in told
    before, after = (part.strip("\"';.") for part in text.split("SECRET"))
    assert before in told
    assert after in told
    assert "***" in told


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert error_text(ValueError(text)) == text


@given(st.lists(st.sampled_from(WORDS) | st.text("abcdefghij ", max_size=9), max_size=30).map(" ".join))
def test_words_about_credentials_are_no_credentials(text: str) -> None:
    if text.strip():
        assert error_text(ValueError(text)) == text


PIECES = [
    "://",
    ":",
    "@",
    "bearer ",
    "token",
    "=",
    '"',
    "'",
    "api_key",
    "sk-",
    "ghp_",
    "eyJ",
    ".",
    "AKIA",
    "?key=",
    "a1",
    " ",
]


@given(st.lists(st.sampled_from(PIECES) | st.text(max_size=5), max_size=40).map("".join))
def test_whatever_the_text_masking_gives_one_that_can_be_read(text: str) -> None:
    told = error_text(ValueError(text))
    assert told.strip()
    told.encode()


@given(st.sampled_from(sorted(SECRETS)), st.text(max_size=20), st.text(max_size=20))
def test_a_credential_between_other_lines_is_masked(text: str, before: str, after: str) -> None:
    secret = "hunter2hunter2hunter2" if SECRETS[text] in ("x", "short") else SECRETS[text]
    told = error_text(ValueError(f"{before}\n{text.replace('SECRET', secret)}\n{after}"))
    assert re.sub(re.escape(before) + "|" + re.escape(after) if before and after else "$^", "", told).count(secret) == 0


@pytest.mark.parametrize(
    "piece", [*PIECES, "token ", "token: a", '"token":"', "sk-a", "eyJaaaaaaaaa.", "a", "bearer a"]
)
def test_masking_takes_time_in_proportion_to_the_text(piece: str) -> None:
    began = time.perf_counter()
    error_text(ValueError(piece * (200_000 // len(piece))))
    assert time.perf_counter() - began < 2, "a pattern that tries again from every place takes minutes"


async def test_neither_the_parents_model_nor_an_observer_reads_a_childs_credential() -> None:
    def raising(messages: object, tools: object) -> str:
        raise ConnectionError(f"postgres://u:pw-{KEY}@h refused (api_key={KEY})")

    seen = Watcher()
    result = await boss(child("bank", Agent(FunctionModel(raising)))).run("go", observers=(seen,))
    [record] = result.delegations
    texts = [message.text for message in result.messages] + [record.message, result.to_json()]
    texts += [event.text for event in seen.of(RunFinished)] + [event.message for event in seen.of(DelegationFinished)]
    texts += [event.error or "" for event in seen.of(ModelAnswered)]

    assert not [text for text in texts if KEY in text]
    assert "ConnectionError: postgres://u:***@h refused (api_key=***)" in record.message
    cause = record.trace.error.__cause__  # type: ignore[union-attr]
    assert isinstance(cause, ConnectionError)
    assert KEY in str(cause)


async def test_a_tool_that_fails_with_a_credential_does_not_tell_it_to_the_model() -> None:
    def look() -> str:
        raise PermissionError(f"Bearer {KEY} was refused")

    result = await Agent(ScriptedModel(tool_call("look"), "done"), tools=[look]).run("go")
    assert result.messages[-2].text == "Tool 'look' failed: Bearer *** was refused"


async def test_an_answer_is_not_an_error_and_stays_as_it_is() -> None:
    result = await boss(child("leaf", leaf(f"api_key={KEY}"))).run("go")
    assert result.delegations[0].message == f"api_key={KEY}"
