"""What is imported, and when: fresh interpreters, and what is in their ``sys.modules`` afterwards."""

import subprocess
import sys
from pathlib import Path

import pytest

import symfonic

SRC = Path(symfonic.__file__).parent
DELEGATION = sorted(
    ".".join(path.relative_to(SRC.parent).with_suffix("").parts).removesuffix(".__init__")
    for path in (SRC / "capabilities" / "delegation").glob("*.py")
)
HEAVY = {"griffe", "griffelib", "langchain", "langchain_core", "openai", "pydantic", "rich", "stamina", "typer"}
A_TEAM_OF_AGENTS = """
from symfonic import Agent, SubAgent
from symfonic.testing import ScriptedModel, tool_call
child = Agent(ScriptedModel("done"))
lead = Agent(
    ScriptedModel(tool_call("run_agent", name="child", task="do it"), "it is done"),
    sub_agents=[SubAgent("child", child, "Does it.")],
)
assert lead.run_sync("go").delegated_to == ("child",)
"""
A_BOUNDED_TEAM = """
from symfonic import Agent, ChildPolicy, Limits, Options, SubAgent
from symfonic.testing import ScriptedModel, tool_call
events = []
policy = ChildPolicy(timeout=60, max_concurrency=1, scope=lambda scope: scope)
lead = Agent(
    ScriptedModel(tool_call("run_agent", name="child", task="do it"), "it is done"),
    sub_agents=[SubAgent("child", Agent(ScriptedModel("done")), "Does it.", policy=policy)],
    limits=Limits(max_delegations=1, max_concurrency=1, max_tokens=9, timeout=60, max_answer_chars=9),
    options=Options(observers=(events.append,), on_delegate=lambda request: None),
)
assert lead.run_sync("go").delegated_to == ("child",) and events
"""
AN_OFFLINE_TEAM = """
from symfonic import Agent, SubAgent
child = SubAgent("echo", Agent("offline"), "Repeats what it is told.", examples=("Repeat this",))
assert Agent("offline", sub_agents=[child]).run_sync("Repeat this").delegated_to == ("echo",)
"""


def imported_by(program: str) -> set[str]:
    """The modules that the program adds to those of an interpreter that has just started."""
    script = f"import sys\nbefore = set(sys.modules)\n{program}\nprint(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(done.stdout.split())


def third_party(modules: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in modules} - set(sys.stdlib_module_names) - {"symfonic"}


def test_importing_the_package_imports_the_package_alone():
    ours = {name for name in imported_by("import symfonic") if name.startswith("symfonic")}
    assert ours == {"symfonic"}


@pytest.mark.parametrize("name", [*symfonic.__all__, "__version__"])
def test_a_root_name_resolves_without_a_third_party_module(name):
    assert third_party(imported_by(f"from symfonic import {name}")) == set()


@pytest.mark.parametrize("module", DELEGATION)
def test_a_module_of_delegation_imports_the_standard_library_alone(module):
    modules = imported_by(f"import {module}")
    assert third_party(modules) == set()
    assert "symfonic.kernel.contracts.run_identity" not in modules
    assert not any(name.startswith(("symfonic.agent", "symfonic.kernel.runtime")) for name in modules)


def test_the_testing_kit_imports_the_standard_library_alone():
    assert third_party(imported_by("import symfonic.testing")) == set()


@pytest.mark.parametrize(
    "program", [A_TEAM_OF_AGENTS, A_BOUNDED_TEAM, AN_OFFLINE_TEAM], ids=["scripted", "bounded", "offline"]
)
def test_agents_with_children_and_a_native_model_run_without_a_third_party_module(program):
    assert third_party(imported_by(program)) == set()


def test_a_function_tool_brings_pydantic_and_nothing_that_belongs_to_an_extra():
    program = "from symfonic import tool\ndef add(a: int, b: int) -> int:\n    return a + b\ntool(add)"
    assert third_party(imported_by(program)) & HEAVY <= {"griffe", "griffelib", "pydantic"}


def test_retries_bring_stamina_when_the_agent_is_built_and_nothing_that_belongs_to_another_extra():
    declared = """
from symfonic import Agent, ChildPolicy, SubAgent
from symfonic.testing import ScriptedModel
child = SubAgent("child", Agent(ScriptedModel("done")), "Does it.", policy=ChildPolicy(retries=1))
"""
    assert third_party(imported_by(declared)) == set()
    built = f"{declared}Agent(ScriptedModel('done'), sub_agents=[child])"
    assert third_party(imported_by(built)) & HEAVY == {"stamina"}


def test_retries_without_stamina_are_refused_when_the_agent_is_built_naming_the_package():
    program = """
import sys
sys.modules["stamina"] = None
from symfonic import Agent, ChildPolicy, ConfigurationError, SubAgent
from symfonic.testing import ScriptedModel
child = SubAgent("child", Agent(ScriptedModel("done")), "Does it.", policy=ChildPolicy(retries=1))
try:
    Agent(ScriptedModel("done"), sub_agents=[child])
except ConfigurationError as error:
    assert "pip install stamina" in str(error)
else:
    raise AssertionError("it was built all the same")
"""
    imported_by(program)


def test_building_an_agent_loads_no_event_loop_no_events_and_nothing_that_only_parents_need():
    modules = imported_by(
        "from symfonic import Agent, SubAgent\n"
        "class Model:\n"
        "    async def complete(self, messages, tools): ...\n"
        "SubAgent('child', Agent(Model()), 'A child.')"
    )
    assert not any(name.split(".")[0] == "asyncio" for name in modules)
    unused = (
        "kernel.contracts.events",
        "kernel.runtime.turn",
        "capabilities.delegation.tools",
        "agent.cutover.binding",
    )
    assert modules.isdisjoint(f"symfonic.{name}" for name in unused)


def test_declaring_no_child_never_pays_for_the_tool_library():
    program = "from symfonic import Agent\nfrom symfonic.testing import ScriptedModel\nAgent(ScriptedModel('hi'))"
    assert third_party(imported_by(program)) == set()


def test_delegating_is_what_imports_run_identities():
    program = """
import asyncio
from symfonic.capabilities.delegation import DelegationRoster, DelegationTools
asyncio.run(DelegationTools(roster=DelegationRoster([]), depth=None).delegate("nobody", "nothing"))
"""
    assert "symfonic.kernel.contracts.run_identity" in imported_by(program)
