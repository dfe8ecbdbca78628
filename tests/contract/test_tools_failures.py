"""What becomes of a child that fails: a value, in the error's own words. And of one that is cancelled: nothing."""

import asyncio
import math
from typing import Any

import pytest
from contract_fakes import Child, others_pending, tools_of
from hypothesis import given
from hypothesis import strategies as st

from symfonic.capabilities.delegation import DelegationContext, DelegationOutcome, DelegationRecord
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope

CHILD_FAILED, DELIVERED = DelegationOutcome.CHILD_FAILED, DelegationOutcome.DELIVERED


class WordlessError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NoneForTextError(Exception):
    def __str__(self) -> str:
        return None  # type: ignore[return-value]


class RunCancelledError(Exception):
    """A framework's own way of saying that a run was cancelled."""


async def failed(error: BaseException) -> DelegationRecord:
    record = await tools_of(a=Child(error)).delegate("a", "task")
    assert record.outcome is CHILD_FAILED
    return record


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("it broke"), "it broke"),
        (ValueError("  spaces stay "), "  spaces stay "),
        (KeyError("x"), "'x'"),
        (TimeoutError(), "TimeoutError"),
        (AssertionError(), "AssertionError"),
        (ValueError(""), "ValueError"),
        (ValueError("   "), "ValueError"),
        (WordlessError(), "WordlessError"),
        (NoneForTextError(), "NoneForTextError"),
        (RunCancelledError("run cancelled"), "run cancelled"),
        (StopAsyncIteration("done"), "done"),
        (ValueError("{x} %s $x %(y)s {0}"), "{x} %s $x %(y)s {0}"),
        (ValueError("ends in a colon:"), "ends in a colon:"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), "'utf-8' codec can't decode byte 0xff in position 0: bad"),
    ],
)
async def test_a_childs_exception_is_a_value_in_its_own_words(error: Exception, text: str) -> None:
    record = await failed(error)

    assert record.message == f"Sub-agent 'a' failed: {text}"
    assert record.trace is not None
    assert record.trace.error is error


@given(st.text())
def test_an_errors_text_is_never_blank_and_can_always_be_encoded(text: str) -> None:
    record = asyncio.run(failed(ValueError(text)))

    assert record.message.removeprefix("Sub-agent 'a' failed: ").strip()
    record.message.encode()
    if text.strip() and text.isprintable() and "://" not in text:
        assert record.message == f"Sub-agent 'a' failed: {text}"


async def test_an_exception_groups_leaves_are_appended_by_class_and_text() -> None:
    inner = ExceptionGroup("inner", [KeyError("x"), TimeoutError(), ValueError("ends:")])
    record = await failed(ExceptionGroup("outer", [ValueError("first"), inner]))

    assert record.message == (
        "Sub-agent 'a' failed: outer (2 sub-exceptions): ValueError: first; KeyError: 'x'; TimeoutError;"
        " ValueError: ends:"
    )


async def test_a_group_of_a_thousand_is_told_briefly() -> None:
    record = await failed(ExceptionGroup("many", [ValueError(str(number)) for number in range(1000)]))

    assert "ValueError: 0;" in record.message
    assert len(record.message) < 1000


async def test_a_group_from_a_childs_task_group_is_a_value() -> None:
    async def broken(text: str) -> None:
        raise ValueError(text)

    async def grouped(query: str) -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(broken("one"))
        return "never"

    record = await tools_of(a=Child(grouped)).delegate("a", "task")

    assert record.outcome is CHILD_FAILED
    assert record.message.endswith("ValueError: one")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("cannot reach postgres://u:pw@h/db", "cannot reach postgres://u:***@h/db"),
        ("postgres://u:p@ss:w@h:5432/db?x=1 is down", "postgres://u:***@h:5432/db?x=1 is down"),
        ("redis://:pw@h", "redis://:***@h"),
        ("a://u:pw@h and b+c://v:pw@i/x", "a://u:***@h and b+c://v:***@i/x"),
        ("https://u@h/x", "https://u@h/x"),
        ("https://h:8080/x@y", "https://h:8080/x@y"),
        ("mail u:pw@h", "mail u:pw@h"),
    ],
)
async def test_the_password_of_a_credential_in_a_url_is_masked(text: str, told: str) -> None:
    record = await failed(ConnectionError(text))

    assert record.message == f"Sub-agent 'a' failed: {told}"
    assert str(record.trace.error) == text  # type: ignore[union-attr]


async def test_passwords_are_masked_in_the_leaves_of_a_group_too() -> None:
    leaf = ConnectionError("postgres://u:secret@h/db")
    for error in (ExceptionGroup("lost", [leaf]), ExceptionGroup("amqp://u:secret@h", [ValueError("x")])):
        assert "secret" not in (await failed(error)).message


async def test_the_next_delegation_of_the_same_run_works() -> None:
    tools = tools_of(1, bad=Child(ValueError("no")), good=Child())

    with tools.context.run_scope(depth=0) as run:
        assert not (await tools.delegate("bad", "task")).delivered
        assert (await tools.delegate("good", "task")).delivered
    assert [record.outcome for record in run.records] == [CHILD_FAILED, DELIVERED]


async def test_a_failed_child_leaves_the_parents_run_and_identity_as_they_were() -> None:
    tools = tools_of(1, a=Child(RunCancelledError()))

    with run_identity_scope(RunIdentity.root()) as identity, tools.context.run_scope(depth=0) as run:
        await tools.delegate("a", "task")
        assert current_run_identity() is identity
        assert tools.context.active_run() is run


async def test_a_resolver_that_raises_is_a_failure_and_the_child_never_runs() -> None:
    def resolve() -> Any:
        raise LookupError("no tenant")

    child = Child()
    record = await tools_of(1, DelegationContext(resolve_scope=resolve), a=child).delegate("a", "task")

    assert (record.outcome, record.message) == (CHILD_FAILED, "Sub-agent 'a' failed: no tenant")
    assert child.queries == []


async def test_snapshots_that_raise_are_a_failure() -> None:
    class Broken:
        def latest(self) -> Any:
            raise OSError("no state")

    record = await tools_of(1, DelegationContext(snapshots=Broken()), a=Child()).delegate("a", "task")

    assert (record.outcome, record.message) == (CHILD_FAILED, "Sub-agent 'a' failed: no state")


async def test_an_identity_that_cannot_be_looked_up_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up() -> Any:
        raise RuntimeError("no identity")

    monkeypatch.setattr("symfonic.kernel.contracts.run_identity.current_run_identity", look_up)
    record = await tools_of(1, a=Child()).delegate("a", "task")

    assert (record.outcome, record.message) == (CHILD_FAILED, "Sub-agent 'a' failed: no identity")


async def test_one_of_three_at_once_may_fail_without_its_siblings() -> None:
    failed_first = asyncio.Event()

    async def fails(query: str) -> str:
        failed_first.set()
        raise ValueError("no")

    async def waits(query: str) -> str:
        await failed_first.wait()
        return query

    tools = tools_of(1, fails=Child(fails), waits=Child(waits))
    with tools.context.run_scope(depth=0) as run:
        records = await asyncio.gather(*(tools.delegate(name, "task") for name in ("waits", "fails", "waits")))

    assert [record.outcome for record in records] == [DELIVERED, CHILD_FAILED, DELIVERED]
    assert run.delegated == ("waits", "waits")
    assert await others_pending() == []


async def test_a_failures_record_names_the_caller_the_child_the_task_and_the_time() -> None:
    tools = tools_of(1, a=Child(ValueError("no")))
    with run_identity_scope(RunIdentity.root()) as caller, tools.context.run_scope(depth=0):
        trace = (await tools.delegate("a", {"do": "it"})).trace

    assert trace is not None
    assert trace.caller == caller
    assert trace.child is not None
    assert trace.child.parent_run_id == caller.run_id
    assert trace.task == '{"do": "it"}'
    assert trace.timing.started > 1_600_000_000
    assert 0 <= trace.timing.duration < 60
    assert math.isfinite(trace.timing.duration)


async def test_a_refusals_record_names_the_caller_and_no_child() -> None:
    tools = tools_of(1, a=Child())
    with run_identity_scope(RunIdentity.root()) as caller:
        unknown = await tools.delegate("b", "task")
        with tools.context.run_scope(depth=1):
            refused = await tools.delegate("a", "task")

    for record in (unknown, refused):
        assert record.trace is not None
        assert (record.trace.caller, record.trace.child, record.trace.task) == (caller, None, "task")


async def test_a_childs_own_records_are_its_records_children_also_when_it_fails() -> None:
    async def delegates_then_fails(query: str) -> str:
        await tools.delegate("leaf", "one")
        await tools.delegate("nobody", "two")
        raise ValueError("no")

    tools = tools_of(5, leaf=Child(), branch=Child(delegates_then_fails))
    record = await tools.delegate("branch", "task")

    assert [(each.name, each.outcome.value, each.depth) for each in record.children] == [
        ("leaf", "delivered", 2),
        ("nobody", "unknown_child", 2),
    ]


@pytest.mark.parametrize("interrupt", [asyncio.CancelledError, GeneratorExit])
async def test_what_ends_a_run_passes_through(interrupt: type[BaseException]) -> None:
    tools = tools_of(1, a=Child(interrupt()))

    with tools.context.run_scope(depth=0) as run:
        with pytest.raises(interrupt):
            await tools.delegate("a", "task")
        assert tools.context.active_run() is run
    assert run.delegated == ()
    assert current_run_identity() is None


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_passes_through(interrupt: type[BaseException]) -> None:
    delegation = tools_of(1, a=Child(interrupt())).delegate("a", "task")

    with pytest.raises(interrupt):
        delegation.send(None)


async def test_a_group_that_holds_an_interrupt_passes_through() -> None:
    error = BaseExceptionGroup("both", [KeyboardInterrupt(), ValueError()])

    with pytest.raises(BaseExceptionGroup) as caught:
        await tools_of(1, a=Child(error)).delegate("a", "task")
    assert caught.value is error


async def test_cancelling_the_root_reaches_the_leaf_and_leaves_nothing_behind() -> None:
    reached, cleaned = asyncio.Event(), []

    async def leaf(query: str) -> str:
        try:
            reached.set()
            await asyncio.Event().wait()
        finally:
            cleaned.append((tools.context.current_depth(), current_run_identity() is not None))
        return "never"

    async def down(query: str) -> str:
        return (await tools.delegate("middle" if query == "top" else "leaf", "next")).message

    tools = tools_of(5, leaf=Child(leaf), middle=Child(down), top=Child(down))
    root = asyncio.create_task(tools.delegate("top", "top"))
    await reached.wait()
    root.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(root, 1)
    assert cleaned == [(3, True)]
    assert await others_pending() == []


async def test_a_cancelled_delegation_is_on_its_callers_record() -> None:
    started = asyncio.Event()

    async def wait(query: str) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    tools = tools_of(1, a=Child(wait))
    with tools.context.run_scope(depth=0) as run:
        task = asyncio.create_task(tools.delegate("a", "task"))
        await started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    ((record,)) = run.records
    assert not record.delivered
    assert run.delegated == ()


async def test_a_delegation_cancelled_before_its_first_step_runs_nothing_and_counts_nothing() -> None:
    child = Child()
    tools = tools_of(1, a=child)
    with tools.context.run_scope(depth=0) as run:
        task = asyncio.create_task(tools.delegate("a", "task"))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert (child.queries, run.delegated, run.records) == ([], (), ())
