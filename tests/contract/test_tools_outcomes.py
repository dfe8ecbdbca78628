"""Delegating: names that are unknown, answers that are delivered, and what is tallied and recorded."""

import asyncio
from contextvars import copy_context
from typing import Any

import pytest
from contract_fakes import Answers, Child, in_threads, roster_of, tools_of
from hypothesis import given
from hypothesis import strategies as st

from symfonic.capabilities.delegation import (
    DelegationContext,
    DelegationOutcome,
    DelegationRecord,
    DelegationTools,
    DepthPolicy,
    UnknownChildError,
)

DELIVERED, UNKNOWN_CHILD = DelegationOutcome.DELIVERED, DelegationOutcome.UNKNOWN_CHILD
CHILD_FAILED = DelegationOutcome.CHILD_FAILED


# 3. the name


@pytest.mark.parametrize("name", ["b", "A", " a", "'a'", "", "   ", "undefined", "{x} %s", "\ud800"])
async def test_an_unknown_name_is_a_value_that_lists_the_children(name: str) -> None:
    child = Child()
    tools = tools_of(a=child)
    record = await tools.delegate(name, "task")

    assert record.outcome is UNKNOWN_CHILD
    assert record.message == f"Unknown sub-agent {name!r}. Available:\n  - a: Does a."
    assert (record.name, record.depth) == (name, 1)
    assert child.queries == []


@pytest.mark.parametrize("name", [None, 0, 7, [], {}, ["a"], {"name": "a"}, object(), b"a"])
async def test_a_name_that_is_no_string_is_unknown_and_lists_the_children(name: Any) -> None:
    tools = tools_of(a=Child())
    record = await tools.delegate(name, "task")

    assert record.outcome is UNKNOWN_CHILD
    assert record.message == f"Unknown sub-agent {name!r}. Available:\n  - a: Does a."
    assert isinstance(record.name, str)


async def test_an_empty_roster_knows_no_name() -> None:
    assert (await tools_of().delegate("a", "task")).message == "Unknown sub-agent 'a'. Available:\n  (none)"


async def test_an_unknown_child_error_from_inside_a_child_is_that_childs_failure() -> None:
    async def asks_past_the_tools(query: str) -> Any:
        return await roster_of(b=Child()).run("nobody", query, depth=2)

    for does in (asks_past_the_tools, UnknownChildError("a", ["a"]), UnknownChildError("nobody")):
        record = await tools_of(a=Child(does)).delegate("a", "task")
        assert record.outcome is CHILD_FAILED
        assert record.message.startswith("Sub-agent 'a' failed: unknown sub-agent")


async def test_each_caller_reaches_only_its_own_children() -> None:
    deep = Child("from d")
    p = tools_of(5, d=deep)

    async def through_p(query: str) -> str:
        return (await p.delegate("d", query)).message

    root = tools_of(5, p=Child(through_p))
    direct, through, twice = await asyncio.gather(
        root.delegate("d", "task"), root.delegate("p", "task"), root.delegate("p", "task")
    )

    assert direct.message == "Unknown sub-agent 'd'. Available:\n  - p: Does p."
    assert through.message == twice.message == "from d"


# 6. the answer and the tally


async def test_an_answer_is_delivered_stripped_with_the_ids_of_the_response() -> None:
    answer = Answers(final_response="  the answer\n", run_id=7, root_run_id="root", parent_run_id="parent")
    record = await tools_of(a=Child(answer)).delegate("a", "task")

    assert record.outcome is DELIVERED
    assert record.delivered
    assert (record.name, record.depth, record.message) == ("a", 1, "the answer")
    assert (record.run_id, record.root_run_id, record.parent_run_id) == ("7", "root", "parent")


@pytest.mark.parametrize("falsy", ["", None, 0, False])
async def test_run_ids_that_are_absent_or_false_are_empty(falsy: Any) -> None:
    for answer in (
        Answers(final_response="done"),
        Answers(final_response="done", run_id=falsy, root_run_id=falsy, parent_run_id=falsy),
    ):
        record = await tools_of(a=Child(answer)).delegate("a", "task")
        assert (record.run_id, record.root_run_id, record.parent_run_id) == ("", "", None)


async def test_the_tally_counts_deliveries_and_nothing_else() -> None:
    seen_inside: list[tuple[str, ...]] = []

    def look(query: str) -> str:
        seen_inside.append(run.delegated)
        return "done"

    tools = tools_of(1, good=Child(look), bad=Child(ValueError("no")), mute=Child("  "))
    with tools.context.run_scope(depth=0) as run:
        for name in ("good", "bad", "nobody", "mute", "good"):
            await tools.delegate(name, "task")
        assert run.delegated == ("good", "good")
    assert seen_inside == [(), ("good",)]


async def test_a_delivery_is_recorded_once_and_only_once_it_is_one() -> None:
    reported: list[tuple[str, list[str]]] = []

    class Watching(DelegationContext):
        def record_delegation(self, name: str) -> None:
            reported.append((name, [record.name for record in run.records]))

    tools = tools_of(1, Watching(), a=Child(), mute=Child(""), bad=Child(ValueError()))
    with tools.context.run_scope(depth=0) as run:
        for name in ("mute", "bad", "nobody", "a"):
            await tools.delegate(name, "task")

    assert reported == [("a", ["mute", "bad", "nobody", "a"])]


async def test_without_recording_only_the_tally_is_missing() -> None:
    outcomes = []
    for record in (True, False):
        tools = tools_of(1, record=record, a=Child(), bad=Child(ValueError("no")))
        with tools.context.run_scope(depth=0) as run:
            records = [await tools.delegate(name, "task") for name in ("a", "bad", "nobody")]
        outcomes.append([(each.outcome, each.message) for each in records])
        assert [each.outcome for each in run.records] == [each.outcome for each in records]
        assert run.delegated == (("a",) if record else ())
    assert outcomes[0] == outcomes[1]


async def test_parallel_deliveries_are_all_counted_by_the_caller() -> None:
    tools = tools_of(1, a=Child())

    with tools.context.run_scope(depth=0) as run:
        await asyncio.gather(*(tools.delegate("a", "task") for _ in range(50)))
        carried = [copy_context() for _ in range(4)]
        in_threads(4, lambda number: carried[number].run(asyncio.run, tools.delegate("a", "task")))

    assert run.delegated == ("a",) * 54


async def test_a_tally_that_cannot_be_written_does_not_change_what_was_delivered() -> None:
    class Broken(DelegationContext):
        def record_delegation(self, name: str) -> None:
            raise RuntimeError("the counter is broken")

    record = await tools_of(1, Broken(), a=Child()).delegate("a", "task")

    assert (record.outcome, record.message) == (DELIVERED, "done")


async def test_a_delegation_that_outlives_its_run_writes_into_no_finished_tally() -> None:
    go = asyncio.Event()

    async def wait(query: str) -> str:
        await go.wait()
        return "late"

    tools = tools_of(1, a=Child(wait))
    with tools.context.run_scope(depth=0) as run:
        late = asyncio.create_task(tools.delegate("a", "task"))
        await asyncio.sleep(0)
    go.set()

    assert (await late).message == "late"
    assert (run.delegated, run.records) == ((), ())


# what the model calls


@pytest.mark.parametrize(
    "spelling", ["senior_researcher", "Senior Researcher", '"senior_researcher"\n', ["senior_researcher"]]
)
async def test_run_agent_reads_names_as_models_spell_them(spelling: Any) -> None:
    tools = tools_of(1, senior_researcher=Child("found"))

    with tools.context.run_scope(depth=0) as run:
        assert await tools.run_agent(spelling, "task") == "found"
    assert run.delegated == ("senior_researcher",)


@pytest.mark.parametrize("name", [None, "", "   ", 0, "undefined", {"name": "worker"}, ["worker", "worker"]])
async def test_run_agent_answers_a_name_that_means_no_child_with_the_children(name: Any) -> None:
    message = await tools_of(1, worker=Child()).run_agent(name, "task")

    assert message == f"Unknown sub-agent {name!r}. Available:\n  - worker: Does worker."


@given(st.text(max_size=20) | st.lists(st.text(max_size=8), max_size=2) | st.none() | st.integers())
def test_a_refusal_by_name_never_lists_the_name_it_refused(name: Any) -> None:
    worker = Child("found")
    message = asyncio.run(tools_of(1, worker=worker).run_agent(name, "task"))

    bare = str(name).strip(" \t\r\n'\"`[](){}<>").casefold()
    assert (message == "found") == bool(worker.queries)
    if bare == "worker":
        assert message == "found"


async def test_every_delegation_goes_through_delegate() -> None:
    class Closed(DelegationTools):
        async def delegate(self, name: str, task: Any) -> DelegationRecord:
            raise RuntimeError("closed")

    child = Child()
    tools = Closed(roster=roster_of(a=child), depth=DepthPolicy(2))
    for spec in tools.specs():
        if spec.parameters:
            with pytest.raises(RuntimeError, match="closed"):
                await spec.coroutine(name="a", task="task")
    assert child.queries == []


@pytest.mark.parametrize(
    ("task", "text"),
    [
        ({"description": "do it", "type": "str"}, '{"description": "do it", "type": "str"}'),
        (["do it"], '["do it"]'),
        (None, ""),
        (7, "7"),
        (True, "true"),
        ("", ""),
        ("   ", "   "),
        ("{x} %s $x %(y)s {0}", "{x} %s $x %(y)s {0}"),
    ],
)
async def test_the_raw_tool_takes_any_task(task: Any, text: str) -> None:
    child = Child(lambda query: f"<{query}>")
    run_agent, _ = tools_of(1, a=child).specs()

    assert await run_agent.coroutine(name="a", task=task) == f"<{text}>"
    assert child.queries == [text]
