"""``symfonic serve --a2a``, and children that are declared by their address."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from a2a_kit import until

from symfonic import ConfigurationError, SubAgent
from symfonic.kernel.concurrency.tasks import started
from symfonic.remote.a2a import A2AChild, a2a_child
from symfonic.remote.answer import RemoteError

TEAM = 'lead = "boss"\n[agents.boss]\nmodel = "offline"\n'
WAITING = f'{TEAM}tools = ["gate:wait_at_the_gate"]\n'
GATE = """
import asyncio
from pathlib import Path

async def wait_at_the_gate() -> str:
    "Wait at the gate."
    Path("began").touch()
    try:
        while not Path("go").exists():
            await asyncio.sleep(0.02)
    finally:
        Path("ended").touch()
    return "open"
"""


@asynccontextmanager
async def serving(
    folder: Path, *options: str, token: str = "", team: str = TEAM
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """The command, and the address that it says it serves at."""
    (folder / "team.toml").write_text(team)
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "symfonic", "serve", "team.toml", *options),
        cwd=folder,
        env={**os.environ, "SYMFONIC_TOKEN": token},
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stderr is not None
        line = (await asyncio.wait_for(process.stderr.readline(), 20)).decode()
        yield process, line.rpartition(" ")[2].strip()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def refused(folder: Path, *options: str) -> str:
    (folder / "team.toml").write_text(TEAM)
    done = subprocess.run(
        [sys.executable, "-m", "symfonic", "serve", "team.toml", *options],
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "SYMFONIC_TOKEN"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    return done.stderr


async def ended(process: asyncio.subprocess.Process) -> str:
    """What a server that was told to end has said since it serves; it ended well."""
    assert process.stderr is not None
    said = await asyncio.wait_for(process.stderr.read(), 30)
    assert await asyncio.wait_for(process.wait(), 30) == 0, said
    return said.decode()


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
async def test_a_team_is_served_until_it_is_told_to_end(tmp_path: Path, told: signal.Signals) -> None:
    async with serving(tmp_path, "--a2a", ":0") as (process, url):
        async with a2a_child(url) as child:
            assert (await child.run("What do you do?")).final_response
        process.send_signal(told)
        assert await ended(process) == ""


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("in_time", [True, False])
async def test_calls_in_progress_have_a_while_to_end_and_are_then_cancelled(
    tmp_path: Path, told: signal.Signals, in_time: bool
) -> None:
    (tmp_path / "gate.py").write_text(GATE)
    async with serving(tmp_path, "--a2a", ":0", team=WAITING) as (process, url), a2a_child(url) as child:
        call = started(child.run("Wait at the gate."))
        await until((tmp_path / "began").exists)
        process.send_signal(told)
        if in_time:
            await until(lambda: refuses(url))
            (tmp_path / "go").touch()
            assert (await call).final_response == "open"
        else:
            with pytest.raises(RemoteError, match="was cancelled"):
                await call
        assert await ended(process) == ""
    assert (tmp_path / "ended").exists()


def refuses(url: str) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", int(url.rstrip("/").rpartition(":")[2]))) != 0


async def test_callers_need_the_token_where_there_is_one(tmp_path: Path) -> None:
    async with serving(tmp_path, "--a2a", "0.0.0.0:0", "--url", "http://127.0.0.1:1/", token="pass") as (process, url):
        assert url == "http://127.0.0.1:1/"
        process.send_signal(signal.SIGTERM)
        assert await ended(process) == ""
    async with serving(tmp_path, "--a2a", "127.0.0.1:0", token="pass") as (_, url):
        with pytest.raises(RemoteError, match="401"):
            async with a2a_child(url, auth="wrong") as child:
                await child.run("What do you do?")
        async with a2a_child(url, auth="pass") as child:
            assert (await child.run("What do you do?")).final_response


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ((), "symfonic: --a2a [HOST]:PORT or --mcp stdio|[HOST]:PORT is needed; neither was given\n"),
        (("--a2a", "there"), "--a2a: expected [HOST]:PORT, got 'there'"),
        (("--a2a", ":99999"), "--a2a: expected a port of at most 65535, got ':99999'"),
        (("--a2a", "0.0.0.0:0"), "others reach it there, so set SYMFONIC_TOKEN"),
        (("--a2a", ":0", "--model", "no-such:model"), "symfonic: --model: "),
    ],
)
def test_mistakes_in_the_command_are_told_in_a_line(tmp_path: Path, options: tuple[str, ...], told: str) -> None:
    assert told in refused(tmp_path, *options)


def test_an_address_is_a_child_and_nothing_of_the_sdk_is_loaded_for_it(tmp_path: Path) -> None:
    program = """
import sys
from symfonic import Agent, SubAgent
from symfonic.testing import ScriptedModel
lead = Agent(ScriptedModel("x"), sub_agents=[SubAgent("legal", "https://agents.example/legal/", "Knows the law.")])
print(*sorted({"a2a", "httpx", "starlette", "google"} & {name.partition(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "\n"


def test_an_address_is_adopted_as_the_child_that_it_is_and_refused_where_it_is_none() -> None:
    from symfonic.capabilities.delegation.runner_adapter import adapt_child

    child = adapt_child("legal", "https://agents.example/legal/")
    assert isinstance(child, A2AChild)
    assert child.url == "https://agents.example/legal"
    assert repr(child) == "A2AChild('https://agents.example/legal')"
    assert isinstance(adapt_child("legal", "HTTPS://agents.example/legal/"), A2AChild), "a scheme has no case"
    for wrong in ("https://", "https://ann:pw@agents.example/", "agents.example"):
        with pytest.raises(ConfigurationError) as error:
            SubAgent("legal", wrong, "Knows the law.")
        assert "pw" not in str(error.value)
