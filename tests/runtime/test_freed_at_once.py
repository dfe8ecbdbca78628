"""What nobody uses any more is gone at once, and not only when the garbage collector comes by."""

import gc
import weakref
from collections.abc import Iterator

import pytest

from symfonic import Agent, SubAgent
from symfonic.testing import ScriptedModel, tool_call


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize("runs", [0, 1])
async def test_an_agent_with_children_is_freed_with_the_last_reference_to_it(runs: int) -> None:
    model = ScriptedModel(tool_call("run_agent", name="child", task="go"), "done")
    agent = Agent(model, sub_agents=[SubAgent("child", Agent(ScriptedModel("yes")), "Works.")])
    for _ in range(runs):
        assert (await agent.run("go")).text == "done"
    delegation = agent.engine.delegation
    assert delegation is not None
    parts = [weakref.ref(each) for each in (agent.engine.kernel, delegation, delegation.tools)]
    del agent, delegation
    assert [part() for part in parts] == [None, None, None]


async def test_a_change_of_the_class_reaches_what_models_call(monkeypatch: pytest.MonkeyPatch) -> None:
    from symfonic.capabilities.delegation.tools import DelegationTools

    seen = []
    delegate = DelegationTools.delegate

    async def watched(self: DelegationTools, name: str, task: object) -> object:
        seen.append(name)
        return await delegate(self, name, task)

    monkeypatch.setattr(DelegationTools, "delegate", watched)
    model = ScriptedModel(tool_call("run_agent", name="child", task="go"), "done")
    agent = Agent(model, sub_agents=[SubAgent("child", Agent(ScriptedModel("yes")), "Works.")])
    await agent.run("go")
    assert seen == ["child"]
