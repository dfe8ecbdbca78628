"""The wheel, as a user has it: installed into a new environment, outside the checkout."""

import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE, PRINTED = re.findall(r"^```(?:python|text)\n(.*?)^```", (ROOT / "README.md").read_text("utf-8"), re.S | re.M)[
    :2
]
CONSUMER = '''
"""Uses what a user uses, with every type stated."""

import asyncio

from symfonic import Agent, AgentResult, DelegationOutcome, DelegationRecord, Options, SubAgent
from symfonic.kernel.contracts.messages import Message, Usage
from symfonic.testing import ScriptedModel, check_child_runner, tool_call


class Found:
    final_response: str = "found"


class Archive:
    async def run(self, query: str) -> Found:
        return Found()


def double(number: int) -> int:
    """Twice the number."""
    return 2 * number


model = ScriptedModel(tool_call("run_agent", name="archive", task="look"), "done")
agent: Agent = Agent(
    model,
    name="lead",
    tools=[double],
    sub_agents=[SubAgent("archive", Archive(), "Searches.", examples=("find it",))],
    max_depth=3,
    options=Options(max_steps=5),
)


async def main() -> str:
    async with agent:
        result: AgentResult = await agent.run("go", scope={"tenant": 1}, max_depth=1)
    await check_child_runner(Archive)
    records: tuple[DelegationRecord, ...] = result.delegations
    outcome: DelegationOutcome = records[0].outcome
    usage: Usage = result.usage
    messages: tuple[Message, ...] = result.messages
    below: tuple[DelegationRecord, ...] = records[0].children
    names: tuple[str, ...] = result.delegated_to
    assert outcome.refused is False and usage.model_calls == 2 and messages and not below
    return f"{result.text} {names} {result.run_id == result.root_run_id} {result.parent_run_id}"


print(asyncio.run(main()))
'''
MISTAKEN = """
from symfonic import Agent
from symfonic.testing import ScriptedModel

text: int = Agent(ScriptedModel("hi")).run_sync("hello").text
Agent(ScriptedModel("hi"), max_depht=2)
"""


def run(*command: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    outside = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "MYPYPATH")}
    return subprocess.run(command, cwd=cwd, env=outside, capture_output=True, text=True, check=False)


def succeed(*command: str | Path, cwd: Path) -> str:
    done = run(*command, cwd=cwd)
    assert done.returncode == 0, f"{command} said\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from that."""
    folder = tmp_path_factory.mktemp("dist")
    succeed(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def outside(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder elsewhere, with an environment ``env`` that holds the wheel and its dependencies."""
    folder = tmp_path_factory.mktemp("outside")
    venv.create(folder / "env", with_pip=True, symlinks=os.name != "nt")
    [wheel] = distributions.glob("*.whl")
    succeed(folder / "env/bin/python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return folder


def test_the_wheel_holds_the_package_its_types_and_its_licence_and_nothing_else(distributions):
    [wheel] = distributions.glob("*.whl")
    names = ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"symfonic", "symfonic_delegation"}
    assert "symfonic/py.typed" in names
    assert any(name.endswith("/licenses/LICENSE") for name in names)
    here = {f"symfonic/{path.relative_to(ROOT / 'src/symfonic')}" for path in (ROOT / "src/symfonic").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == here


def test_the_readmes_example_runs_from_the_wheel_and_prints_what_the_readme_says(outside):
    (outside / "example.py").write_text(EXAMPLE, encoding="utf-8")
    python = outside / "env/bin/python"
    assert succeed(python, "-W", "error", "example.py", cwd=outside) == PRINTED
    where = succeed(python, "-c", "import symfonic; print(symfonic.__file__)", cwd=outside)
    assert Path(where.strip()).is_relative_to(outside / "env")


def test_a_consumer_runs_and_type_checks_strictly_against_the_wheel(outside):
    (outside / "consumer.py").write_text(CONSUMER, encoding="utf-8")
    (outside / "example.py").write_text(EXAMPLE, encoding="utf-8")
    assert succeed(outside / "env/bin/python", "consumer.py", cwd=outside) == "done ('archive',) True None\n"
    succeed(*mypy(outside), "consumer.py", "example.py", cwd=outside)


def test_a_consumers_mistakes_are_seen_by_the_type_checker(outside):
    (outside / "mistaken.py").write_text(MISTAKEN, encoding="utf-8")
    told = run(*mypy(outside), "mistaken.py", cwd=outside).stdout
    assert "mistaken.py:5: error: Incompatible types in assignment" in told
    assert 'mistaken.py:6: error: Unexpected keyword argument "max_depht"' in told


def test_the_command_line_without_its_extra_says_what_to_install(outside):
    done = run(outside / "env/bin/symfonic", "show", "team.toml", cwd=outside)
    assert done.returncode == 2
    assert 'pip install "symfonic-delegation[cli]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_every_public_name_has_a_complete_type():
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = [sys.executable, "-m", "basedpyright", "--verifytypes", "symfonic", "--ignoreexternal", "--outputjson"]
    told = subprocess.run(command, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False).stdout
    report = json.loads(told)["typeCompleteness"]
    incomplete = [symbol["name"] for symbol in report["symbols"] if symbol["isExported"] and not symbol["isTypeKnown"]]
    assert incomplete == []
    assert report["completenessScore"] == 1


def mypy(outside: Path) -> list[str | Path]:
    """The type checker of this environment, looking at the other one."""
    return [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-incremental",
        "--python-executable",
        outside / "env/bin/python",
    ]
