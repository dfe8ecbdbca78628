"""Hooks, scopes and observers that misbehave: they refuse or are logged, and never loosen a bound or change a run."""

import asyncio
import gc
from collections.abc import Callable, Coroutine, Generator
from dataclasses import replace
from types import coroutine
from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, calls, child, delegates, results

from symfonic import Agent, ChildPolicy, DelegationOutcome, DelegationRequest, Limits, Options, SubAgent, Veto
from symfonic.capabilities.delegation import DelegationCapability, PrebuiltChild
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.kernel.contracts.events import ModelAnswered, ToolStarted
from symfonic.testing import ScriptedChild, tool_call

pytestmark = pytest.mark.usefixtures("no_task_left")


class Touchy(str):
    """A text that cannot be compared, hashed or formatted."""

    def _refuses(self, *args: Any) -> Any:
        raise RuntimeError("asked")

    __hash__ = __eq__ = __format__ = __str__ = _refuses  # type: ignore[assignment]


def raising(error: BaseException) -> Callable[[Any], Any]:
    def hook(request: Any) -> Any:
        raise error

    return hook


REFUSING: dict[str, tuple[Callable[[Any], Any], str]] = {
    "error": (raising(ValueError("no")), "the policy could not decide: no"),
    "own cancellation": (raising(asyncio.CancelledError()), "the policy could not decide: CancelledError"),
    "reason that raises": (lambda request: Veto(Touchy("no")), "the policy could not decide: asked"),
    "no reason": (lambda request: Veto(None), "None"),  # type: ignore[arg-type]
    "task of another type": (lambda request: replace(request, task=5), "may rewrite nothing but the task"),
    "another child": (lambda request: replace(request, name="other"), "may rewrite nothing but the task"),
    "another depth": (lambda request: replace(request, depth=0), "may rewrite nothing but the task"),
    "another scope": (lambda request: replace(request, scope="all"), "may rewrite nothing but the task"),
    "nought": (lambda request: 0, "the policy answered with int"),
    "text": (lambda request: "yes", "the policy answered with str"),
}


@pytest.mark.parametrize("kind", REFUSING)
async def test_a_hook_that_misbehaves_refuses(kind: str) -> None:
    hook, words = REFUSING[kind]
    worker = ScriptedChild("fine")
    limits = Limits(max_delegations=5, max_repeats=2)
    agent = NATIVE.agent(delegates(), sub_agents=[child(worker)], options=Options(on_delegate=hook), limits=limits)
    result = await agent.run("go")
    (record,) = result.delegations
    assert record.outcome is DelegationOutcome.REFUSED_POLICY
    assert words in record.message
    assert worker.calls == []
    assert results(result) == [record.message]


async def test_a_task_that_a_hook_rewrites_into_an_odd_text_is_plain_for_the_child_and_the_budget() -> None:
    worker = ScriptedChild("fine")

    def hook(request: DelegationRequest) -> Any:
        return DelegationRequest(request.name, Touchy("new"), request.depth, request.scope, request.caller)

    both = calls(*(tool_call("run_agent", name="child", task=task) for task in ("a", "b")))
    agent = NATIVE.agent(
        both, sub_agents=[child(worker)], options=Options(on_delegate=hook), limits=Limits(max_repeats=1)
    )
    outcomes = [record.outcome for record in (await agent.run("go")).delegations]
    assert outcomes == [DelegationOutcome.DELIVERED, DelegationOutcome.REFUSED_BUDGET]
    assert [type(call.query) for call in worker.calls] == [str]
    assert worker.calls[0].query == "new"


async def test_a_cancellation_while_a_hook_decides_ends_the_run() -> None:
    asked = asyncio.Event()

    async def hook(request: Any) -> None:
        asked.set()
        await asyncio.get_running_loop().create_future()

    agent = NATIVE.agent(delegates(), sub_agents=[child(ScriptedChild())], options=Options(on_delegate=hook))
    task = asyncio.create_task(agent.run("go"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


class Covers:
    """A scope whose answer about what it covers is made by a function."""

    def __init__(self, answer: Callable[[], Any]) -> None:
        self.answer = answer

    def covers(self, other: Any) -> Any:
        return self.answer()


class Undecided:
    def __bool__(self) -> bool:
        raise RuntimeError("neither yes nor no")


async def yes() -> bool:
    return True


SCOPES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "covers is async": (Covers(yes), lambda scope: "less"),
    "covers answers neither": (Covers(Undecided), lambda scope: "less"),
    "covers says no": (Covers(lambda: False), lambda scope: "less"),
    "scope is async": ("all", lambda scope: yes()),
    "scope raises": ("all", lambda scope: 1 / 0),
}


@pytest.mark.parametrize("kind", SCOPES)
async def test_a_scope_that_cannot_be_shown_to_be_covered_refuses(kind: str) -> None:
    scope, narrows = SCOPES[kind]
    worker = ScriptedChild("fine")
    narrowed = SubAgent("child", worker, "Does it.", policy=ChildPolicy(scope=narrows))
    result = await NATIVE.agent(delegates(), sub_agents=[narrowed]).run("go", scope=scope)
    assert [record.outcome for record in result.delegations] == [DelegationOutcome.REFUSED_POLICY]
    assert worker.calls == []
    gc.collect()  # a coroutine that nobody awaited would warn


async def test_an_observer_cannot_change_a_tools_arguments() -> None:
    worker, seen = ScriptedChild("fine"), []

    def changes(event: Any) -> None:
        if isinstance(event, ToolStarted):
            event.arguments["task"] = "evil"
            event.arguments["more"]["deep"].append("evil")
        if isinstance(event, ModelAnswered):
            for call in event.tool_calls:
                call.arguments["task"] = "evil"  # type: ignore[index]

    async def look(task: str, more: Any) -> str:
        seen.append((task, more))
        return "looked"

    call = tool_call("look", task="t", more={"deep": [1]})
    agent = NATIVE.agent(calls(call), tools=[look], sub_agents=[child(worker)], options=Options(observers=(changes,)))
    result = await agent.run("go")
    assert seen == [("t", {"deep": [1]})]
    assert result.messages[1].tool_calls[0].arguments == {"task": "t", "more": {"deep": [1]}}


@pytest.mark.parametrize("limits", [Limits(max_fan_out=1), Limits(max_repeats=1), Limits(max_delegations=1)], ids=str)
async def test_scopes_that_a_tool_opens_inside_its_run_start_no_more_children_than_the_run_may(limits: Limits) -> None:
    tools = DelegationCapability.declare([PrebuiltChild("child", ScriptedChild(), "d")], max_depth=9).tools
    outcomes: list[str] = []

    async def digs() -> str:
        for _ in range(3):
            with DelegationContext().run_scope(depth=0):
                outcomes.append((await tools.delegate("child", "t")).outcome.value)
        return "dug"

    await NATIVE.agent(calls(tool_call("digs")), tools=[digs], limits=limits).run("go")
    assert outcomes == ["delivered", "refused_budget", "refused_budget"]


# a coroutine that its host closes: limits and policies leave nothing behind


@coroutine
def half_way(run: Coroutine[Any, Any, Any], reached: asyncio.Event) -> Generator[Any, Any, None]:
    """Take the run as far as its first wait, and close it once ``reached`` is set."""
    run.send(None)
    yield from reached.wait().__await__()
    run.close()


BOUNDED: dict[str, dict[str, Any]] = {
    "time of the tree": {"limits": Limits(timeout=60)},
    "time of the child": {"policy": ChildPolicy(timeout=60)},
    "places in the tree": {"limits": Limits(max_concurrency=1)},
    "places of the child": {"policy": ChildPolicy(max_concurrency=1)},
    "attempts": {"policy": ChildPolicy(retries=2)},
    "everything": {
        "limits": Limits(timeout=60, max_concurrency=1),
        "policy": ChildPolicy(timeout=60, max_concurrency=1, retries=1),
    },
}


@pytest.mark.parametrize("kind", BOUNDED)
async def test_a_closed_run_ends_what_is_below_and_gives_its_places_back(kind: str) -> None:
    started, ended, asked = asyncio.Event(), [], []

    async def act(query: str) -> str:
        asked.append(query)
        if len(asked) > 1:
            return "fine"
        try:
            started.set()
            return str(await asyncio.get_running_loop().create_future())
        finally:
            ended.append("ended")

    bounds = BOUNDED[kind]
    bounded = SubAgent("child", Child(act), "Does it.", policy=bounds.get("policy"))
    agent = Agent(NATIVE.model(delegates()), sub_agents=[bounded], limits=bounds.get("limits"))
    before = asyncio.all_tasks()
    await half_way(agent.run("go"), started)
    async with asyncio.timeout(5):
        await asyncio.gather(*(asyncio.all_tasks() - before), return_exceptions=True)
        assert ended == ["ended"]
        assert (await agent.run("go")).text == "fine"
