"""Delegation in a loop of somebody else's."""

import asyncio
import json
from typing import Any

import pytest

import symfonic
from symfonic import (
    Agent,
    ConfigurationError,
    DelegationOutcome,
    Limits,
    Options,
    SubAgent,
    Veto,
    delegation,
    from_callable,
)
from symfonic.adapters.openai_functions import as_openai_functions
from symfonic.kernel.contracts.events import DelegationFinished, DelegationStarted
from symfonic.kernel.contracts.run_identity import current_run_identity
from symfonic.testing import ScriptedChild, ScriptedModel, tool_call

GO = {"name": "worker", "task": "go"}


def worker(*replies: Any, **more: Any) -> SubAgent:
    return SubAgent("worker", Agent(ScriptedModel(*(replies or ("found",))), **more), "Works.")


def deep() -> SubAgent:
    helper = SubAgent("helper", Agent(ScriptedModel("helped")), "Helps.")
    return worker(tool_call("run_agent", name="helper", task="help"), "found", sub_agents=[helper])


async def test_calls_inside_a_scope_are_one_tree() -> None:
    hosted = symfonic.delegation([deep()])
    async with hosted.run_scope(scope="rights") as run:
        assert await hosted.call("run_agent", GO) == "found"
        assert await hosted.call("run_agent", json.dumps(GO)) == "found"
        identity = current_run_identity()
    assert [record.name for record in run.records] == ["worker", "worker"]
    assert [child.name for record in run.records for child in record.children] == ["helper", "helper"]
    assert dict(run.tally.by_child) == {"worker": 2, "helper": 2}
    assert run.usage.model_calls == 6
    assert identity is not None
    assert identity.parent_run_id is None
    assert {record.root_run_id for record in run.records} == {identity.run_id}
    assert run.delegated == ("worker", "worker")
    assert current_run_identity() is None


async def test_outside_a_scope_every_call_is_a_root_of_its_own() -> None:
    roots: list[Any] = []

    async def look(task: str) -> str:
        roots.append(current_run_identity())
        return "seen"

    hosted = symfonic.delegation([SubAgent("worker", from_callable(look), "Looks.")], limits=Limits(max_delegations=1))
    assert [await hosted.call("run_agent", GO) for _ in range(2)] == ["seen", "seen"]
    assert roots[0].root_run_id != roots[1].root_run_id
    assert all(each.parent_run_id == each.root_run_id for each in roots)


async def test_limits_the_ceiling_and_hooks_hold() -> None:
    bounded = symfonic.delegation([deep()], limits=Limits(max_delegations=2))
    async with bounded.run_scope() as run:
        assert await bounded.call("run_agent", GO) == "found"
        assert "max_delegations=2" in await bounded.call("run_agent", GO)
    assert dict(run.tally.by_outcome) == {DelegationOutcome.DELIVERED: 2, DelegationOutcome.REFUSED_BUDGET: 1}

    shallow = symfonic.delegation([deep()], max_depth=1)
    async with shallow.run_scope() as run:
        await shallow.call("run_agent", GO)
    assert [child.outcome for child in run.records[0].children] == [DelegationOutcome.REFUSED_DEPTH]

    off = symfonic.delegation([worker()], max_depth=0)
    assert await off.call("run_agent", GO) == (
        "Delegation refused: maximum sub-agent depth (0) reached; cannot delegate further."
    )

    events: list[Any] = []
    vetoed = symfonic.delegation(
        [worker()], options=Options(on_delegate=lambda request: Veto("not now"), observers=(events.append,))
    )
    assert await vetoed.call("run_agent", GO) == "Delegation refused: not now"
    assert [event.outcome for event in events] == ["refused_policy"]


async def test_parallel_calls_share_the_tree_and_its_events() -> None:
    events: list[Any] = []
    hosted = symfonic.delegation(
        [worker()], limits=Limits(max_delegations=3), options=Options(observers=(events.append,))
    )
    async with hosted.run_scope() as run:
        answers = await asyncio.gather(*(hosted.call("run_agent", GO) for _ in range(5)))
    assert sorted(answer == "found" for answer in answers) == [False, False, True, True, True]
    assert run.tally.total == 5
    assert sum(isinstance(event, DelegationStarted) for event in events) == 3
    assert sum(isinstance(event, DelegationFinished) for event in events) == 3


async def test_a_cancelled_host_takes_the_child_along() -> None:
    started, ended = asyncio.Event(), asyncio.Event()

    async def hangs(task: str) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    hosted = symfonic.delegation([SubAgent("worker", from_callable(hangs), "Hangs.")])

    async def host() -> None:
        async with hosted.run_scope() as run:
            runs.append(run)
            await hosted.call("run_agent", GO)

    runs: list[Any] = []
    hosting = asyncio.ensure_future(host())
    await started.wait()
    hosting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hosting
    assert ended.is_set()
    assert [record.outcome for record in runs[0].records] == [DelegationOutcome.CHILD_CANCELLED]


async def test_signals_of_the_host_pass_through() -> None:
    class Pause(Exception):  # noqa: N818 - a signal
        pass

    async def asks(task: str) -> str:
        raise Pause(task)

    hosted = symfonic.delegation(
        [SubAgent("worker", from_callable(asks), "Asks.")], options=Options(pass_through=(Pause,))
    )
    with pytest.raises(Pause, match="go"):
        await hosted.call("run_agent", GO)


async def test_a_hosted_run_inside_a_run_is_its_child() -> None:
    hosted = symfonic.delegation([worker()])
    async with hosted.run_scope() as outer, hosted.run_scope(depth=1) as inner:
        await hosted.call("run_agent", GO)
    assert inner.identity is not None
    assert outer.identity is not None
    assert inner.identity.parent_run_id == outer.identity.run_id
    assert inner.records[0].depth == 2
    assert outer.usage == inner.usage


async def test_its_limits_hold_also_in_a_run_that_is_none_of_its_own() -> None:
    bounded = symfonic.delegation([worker()], limits=Limits(max_delegations=1))
    inner: list[str] = []

    async def asks(task: str) -> str:
        inner.extend([await bounded.call("run_agent", GO) for _ in range(3)])
        return "asked"

    outer = symfonic.delegation([SubAgent("worker", from_callable(asks), "Asks.")])
    async with outer.run_scope() as run:
        await outer.call("run_agent", GO)
    assert inner[0] == "found"
    assert all("max_delegations=1" in text for text in inner[1:])
    assert [child.delivered for child in run.records[0].children] == [True, False, False]


async def test_function_schemas_name_the_children_and_calls_are_checked() -> None:
    functions = as_openai_functions(symfonic.delegation([worker()]))
    run_agent, list_agents = functions.tools()
    assert run_agent["type"] == "function"
    parameters = run_agent["function"]["parameters"]
    assert parameters["properties"]["name"]["enum"] == ["worker"]
    assert json.loads(json.dumps(parameters))["required"] == ["name", "task"]
    assert [each["name"] for each in functions.tools(flat=True)] == ["run_agent", "list_agents"]
    assert list_agents["function"]["name"] == "list_agents"
    assert await functions.call("run_agent", json.dumps(GO)) == "found"
    assert "worker: Works." in await functions.call("list_agents", "")
    assert "Unknown tool 'nobody'" in await functions.call("nobody", "{}")
    assert "arguments are not JSON" in await functions.call("run_agent", "{")
    assert "misses 'task'" in await functions.call("run_agent", {"name": "worker"})
    assert "Unknown sub-agent 'nobody'" in await functions.call("run_agent", {"name": "nobody", "task": "t"})


def test_a_host_without_children_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs children"):
        symfonic.delegation([])
    with pytest.raises(ConfigurationError, match="max_depth"):
        symfonic.delegation([worker()], max_depth=-1)


async def test_a_run_of_a_host_is_written_as_json_like_a_result():
    hosted = delegation([SubAgent("child", ScriptedChild("yes"), "Works.")])
    async with hosted.run_scope() as run:
        await hosted.call("run_agent", {"name": "child", "task": "go"})
        await hosted.call("run_agent", {"name": "nobody", "task": "go"})
    told = run.to_dict()
    assert json.loads(run.to_json()) == told
    assert (told["run_id"], told["delegated_to"]) == (run.identity.run_id, ["child"])
    assert [each["outcome"] for each in told["delegations"]] == ["delivered", "unknown_child"]
    assert told["tally"] == {"by_outcome": {"delivered": 1, "unknown_child": 1}, "by_child": {"child": 1, "nobody": 1}}
    assert type(told["tally"]["by_child"]) is dict


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"limits": {"max_delegations": 1}}, r"limits must be symfonic.Limits\(...\), got {'max_delegations': 1}"),
        ({"options": {"max_steps": 1}}, r"options must be symfonic.Options\(...\), got"),
    ],
)
def test_settings_of_the_wrong_kind_are_refused_where_they_are_declared(settings: Any, words: str):
    with pytest.raises(ConfigurationError, match=words):
        delegation([SubAgent("child", ScriptedChild("yes"), "Works.")], **settings)


def test_children_that_are_in_no_list_are_refused():
    with pytest.raises(ConfigurationError, match="sub_agents must be a list or tuple, got SubAgent"):
        delegation(SubAgent("child", ScriptedChild("yes"), "Works."))  # type: ignore[arg-type]


async def test_limits_that_hold_for_each_call_alone_are_warned_of_once(caplog: pytest.LogCaptureFixture):
    hosted = delegation([SubAgent("child", ScriptedChild("yes", "yes"), "Works.")], limits=Limits(max_delegations=1))
    async with hosted.run_scope():
        await hosted.call("run_agent", {"name": "child", "task": "go"})
    assert caplog.text == ""
    for _ in range(2):
        await hosted.call("run_agent", {"name": "child", "task": "go"})
    assert caplog.text.count("outside run_scope()") == 1


@pytest.mark.parametrize("given", [Agent(ScriptedModel("never")), [SubAgent("c", ScriptedChild("x"), "C.")], None])
def test_what_is_no_delegation_cannot_be_bound(given: Any):
    with pytest.raises(ConfigurationError, match=r"expected symfonic.delegation\(\[SubAgent\("):
        as_openai_functions(given)
