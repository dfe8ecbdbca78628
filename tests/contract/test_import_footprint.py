"""What importing the delegation package loads, in fresh interpreters."""

import subprocess
import sys
from pathlib import Path

import pytest

import symfonic

DELEGATION = "symfonic.capabilities.delegation"
IDENTITY = "symfonic.kernel.contracts.run_identity"
FOLDER = Path(symfonic.__file__).parent / "capabilities" / "delegation"
EVERY_MODULE = [DELEGATION, *(f"{DELEGATION}.{path.stem}" for path in FOLDER.glob("[!_]*.py"))]
LOADED = """
import sys
before = set(sys.modules)
{code}
loaded = set(sys.modules) - before
foreign = {{name.partition(".")[0] for name in loaded}} - sys.stdlib_module_names - {{"symfonic", "__mp_main__"}}
print(sorted(foreign), {identity!r} in loaded)
"""


def loaded_by(code: str) -> str:
    """The third-party packages that the code loads, and whether it loads run identities."""
    script = LOADED.format(code=code, identity=IDENTITY)
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", script], check=True, capture_output=True, text=True
    ).stdout


@pytest.mark.parametrize("module", EVERY_MODULE)
def test_a_module_of_delegation_loads_no_third_party_package_and_no_run_identity(module: str) -> None:
    assert loaded_by(f"import {module}") == "[] False\n"


def test_run_identity_is_loaded_by_the_first_delegation_and_not_before() -> None:
    made = f"""
from {DELEGATION} import *
class Child:
    async def run(self, query): return ChildResponse("done")
roster = DelegationRoster([RosterEntry("a", "Does it.", Child())])
tools = DelegationTools(roster=roster, depth=DepthPolicy(1))
tools.specs(), roster.describe(), roster.resolve("A"), SubAgent("a", Child(), "Does it."), DepthPolicy(2).admits(1)
"""
    delegated = made + "import asyncio; assert asyncio.run(tools.delegate('a', 'task')).delivered"

    assert loaded_by(made) == "[] False\n"
    assert loaded_by(delegated) == "[] True\n"
