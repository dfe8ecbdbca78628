"""Signals of a host pass through the tree as they are; what is beside them stays a value."""

import asyncio
from typing import Any

import pytest

from symfonic import Agent, ChildPolicy, ConfigurationError, DelegationOutcome, Options, SubAgent
from symfonic.capabilities.delegation import Bounds, DelegationCapability, PrebuiltChild
from symfonic.testing import ScriptedChild, ScriptedModel, tool_call


class Paused(Exception):  # noqa: N818 - a signal, not an error
    pass


def lead(child: Any, *more: SubAgent, **options: Any) -> Agent:
    names = ["child", *(each.name for each in more)]
    return Agent(
        ScriptedModel([tool_call("run_agent", name=name, task="go") for name in names], "went on"),
        sub_agents=[SubAgent("child", child, "Works."), *more],
        options=Options(pass_through=(Paused,), **options),
    )


async def test_a_signal_reaches_the_caller_of_the_root_as_the_very_object_from_three_levels_down():
    signal = Paused("ask Ann")
    leaf = Agent(ScriptedModel(signal))
    middle = Agent(
        ScriptedModel(tool_call("run_agent", name="leaf", task="go"), "never"),
        sub_agents=[SubAgent("leaf", leaf, "Waits.")],
    )
    with pytest.raises(Paused) as caught:
        await lead(middle).run("go")
    assert caught.value is signal


@pytest.mark.parametrize("error", [ValueError("broken"), KeyError("x"), TimeoutError()])
async def test_any_other_error_beside_it_stays_a_value(error: Exception):
    result = await lead(ScriptedChild(error)).run("go")
    assert result.text == "went on"
    assert result.delegations[0].outcome is DelegationOutcome.CHILD_FAILED


async def test_siblings_end_first_and_the_record_is_kept():
    paused, done = asyncio.Event(), []

    class Pauses:
        async def run(self, query: str) -> Any:
            paused.set()
            raise Paused

    class Finishes:
        async def run(self, query: str) -> Any:
            await paused.wait()
            await asyncio.sleep(0)
            done.append(query)
            return type("Response", (), {"final_response": "done"})

    seen: list[Any] = []
    agent = lead(Pauses(), SubAgent("sibling", Finishes(), "Works."), observers=(seen.append,))
    with pytest.raises(Paused):
        await agent.run("go")
    assert done == ["go"]
    finished = [event for event in seen if type(event).__name__ == "DelegationFinished"]
    assert [(event.name, event.outcome) for event in finished] == [("child", "child_failed"), ("sibling", "delivered")]


async def test_a_signal_that_a_tool_raises_passes_too_and_so_does_a_models():
    async def ask() -> str:
        raise Paused

    options = Options(pass_through=(Paused,))
    for agent in (
        Agent(ScriptedModel(tool_call("ask"), "never"), tools=[ask], options=options),
        Agent(ScriptedModel(Paused()), options=options),
    ):
        with pytest.raises(Paused):
            await agent.run("go")


async def test_a_signal_is_never_retried():
    child = ScriptedChild(Paused())
    agent = Agent(
        ScriptedModel(tool_call("run_agent", name="child", task="go"), "never"),
        sub_agents=[SubAgent("child", child, "Works.", policy=ChildPolicy(retries=3))],
        options=Options(pass_through=(Paused,)),
    )
    with pytest.raises(Paused):
        await agent.run("go")
    assert len(child.calls) == 1


async def test_a_host_that_opens_the_scope_itself_names_its_signals_there():
    capability = DelegationCapability.declare([PrebuiltChild("child", ScriptedChild(Paused()), "Works.")], max_depth=2)
    async with capability.run_scope(depth=0, bounds=Bounds(pass_through=(Paused,))) as run:
        with pytest.raises(Paused):
            await capability.tools.delegate("child", "go")
    assert [record.outcome for record in run.records] == [DelegationOutcome.CHILD_FAILED]


@pytest.mark.parametrize("wrong", [Paused, [Paused], (Paused(),), (BaseException,), ("Paused",)])
def test_only_exception_classes_can_be_named(wrong: Any):
    with pytest.raises(ConfigurationError, match=r"Options\.pass_through must be a tuple of Exception classes"):
        Options(pass_through=wrong)


async def test_a_signal_from_a_hook_passes_and_any_other_error_of_it_refuses():
    async def hook(request: Any) -> None:
        raise Paused if request.task == "pause" else ValueError("undecided")

    def agent(task: str) -> Agent:
        return Agent(
            ScriptedModel(tool_call("run_agent", name="child", task=task), "went on"),
            sub_agents=[SubAgent("child", ScriptedChild(), "Works.")],
            options=Options(pass_through=(Paused,), on_delegate=hook),
        )

    with pytest.raises(Paused):
        await agent("pause").run("go")
    result = await agent("go").run("go")
    assert result.delegations[0].outcome is DelegationOutcome.REFUSED_POLICY


async def test_a_call_that_does_not_fit_is_no_signal_whatever_is_named():
    agent = Agent(ScriptedModel(tool_call("nope"), "went on"), options=Options(pass_through=(ValueError,)))
    assert (await agent.run("go")).text == "went on"
