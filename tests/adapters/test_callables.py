"""Any function as a child."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from symfonic import Agent, ChildPolicy, DelegationOutcome, SubAgent, from_callable
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.capabilities.delegation.errors import ChildDeclarationError
from symfonic.testing import ScriptedModel, check_child_runner, tool_call

CALL = tool_call("run_agent", name="child", task="go")


def lead(fn: Any, **policy: Any) -> Agent:
    child = SubAgent("child", from_callable(fn), "Works.", policy=ChildPolicy(**policy) if policy else None)
    return Agent(ScriptedModel(CALL, "done"), sub_agents=[child])


async def record_of(fn: Any, **policy: Any) -> Any:
    [record] = (await lead(fn, **policy).run("x", scope="rights")).delegations
    return record


async def coroutine(task: str) -> str:
    return f"{task}!"


def plain(task: str) -> str:
    return f"{task}!"


def pieces(task: str) -> Iterator[str]:
    yield task
    yield "!"


async def async_pieces(task: str) -> AsyncIterator[str]:
    yield task
    yield "!"


class Called:
    def __call__(self, task: str) -> str:
        return f"{task}!"


class AsyncCalled:
    async def __call__(self, task: str) -> str:
        return f"{task}!"


def more(end: str, task: str) -> str:
    return task + end


KINDS: dict[str, Any] = {
    "coroutine function": coroutine,
    "function": plain,
    "generator": pieces,
    "async generator": async_pieces,
    "partial": partial(more, "!"),
    "partial of a coroutine function": partial(coroutine),
    "lambda that returns a coroutine": lambda task: coroutine(task),
    "object": Called(),
    "async object": AsyncCalled(),
    "method": Called().__call__,
}


@pytest.mark.parametrize("fn", KINDS.values(), ids=KINDS)
async def test_every_kind_of_function_answers(fn: Any) -> None:
    record = await record_of(fn)
    assert (record.outcome, record.message) == (DelegationOutcome.DELIVERED, "go!")


@pytest.mark.parametrize("fn", [coroutine, plain], ids=["async", "sync"])
async def test_it_keeps_the_contract(fn: Any) -> None:
    def fails(task: str) -> str:
        raise ValueError(task)

    await check_child_runner(lambda: from_callable(fn), make_failing=lambda: from_callable(fails))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": 1}, '{"a": 1}'),
        (7, "7"),
        (0, "0"),
        (False, "false"),
        ([], "[]"),
        (SimpleNamespace(final_response="r"), "r"),
    ],
)
async def test_a_value_is_its_json_and_kept(value: Any, text: str) -> None:
    record = await record_of(lambda task: value)
    assert record.message == text
    assert record.trace.result is value or record.trace.result.result is value


@pytest.mark.parametrize("value", [None, "", "  "])
async def test_no_answer_is_a_failure(value: Any) -> None:
    assert (await record_of(lambda task: value)).outcome is DelegationOutcome.CHILD_FAILED


async def test_an_error_is_the_childs_failure_and_kept() -> None:
    error = ValueError("not today")

    def fails(task: str) -> str:
        raise error

    record = await record_of(fails)
    assert (record.outcome, record.trace.error) == (DelegationOutcome.CHILD_FAILED, error)
    assert record.message.endswith("not today")


async def test_synchronous_code_runs_aside_and_sees_where_it_is() -> None:
    seen: list[Any] = []

    def look(task: str) -> str:
        run = DelegationContext().active_run()
        seen.append((threading.current_thread() is threading.main_thread(), run and (run.depth, run.scope)))
        return "seen"

    await record_of(look)
    assert seen == [(False, (1, "rights"))]


async def test_an_agent_that_a_function_runs_stays_under_the_ceiling() -> None:
    bottom = Agent(ScriptedModel(CALL, "bottom"), sub_agents=[SubAgent("child", from_callable(plain), "Works.")])
    inner: list[Any] = []

    def runs(task: str) -> str:
        inner.append(bottom.run_sync(task))
        return "ran"

    await record_of(runs)
    assert [record.outcome for record in inner[0].delegations] == [DelegationOutcome.REFUSED_DEPTH]


async def test_a_function_that_needs_the_loop_is_told_to_be_async() -> None:
    record = await record_of(lambda task: asyncio.ensure_future(coroutine(task)))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "needs a running event loop, so it must be async" in record.message


async def test_a_generator_is_left_when_its_time_is_over_and_closed() -> None:
    closed, go_on = threading.Event(), threading.Event()

    def hangs(task: str) -> Iterator[str]:
        try:
            yield "first"
            go_on.wait(30)
            yield "second"
        finally:
            closed.set()

    record = await record_of(hangs, timeout=0.1)
    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
    go_on.set()

    ended = asyncio.Event()

    async def endless(task: str) -> AsyncIterator[str]:
        try:
            while True:
                yield "piece"
        finally:
            ended.set()

    assert (await record_of(endless, timeout=0.1)).outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert ended.is_set()


@pytest.mark.parametrize("fn", [None, "text", int, lambda: "no task", lambda a, b: "two", lambda *, task: "by name"])
def test_what_cannot_be_called_with_a_task_is_refused(fn: Any) -> None:
    with pytest.raises(ChildDeclarationError, match=r"is called with one argument, the task|takes a function"):
        from_callable(fn)


async def test_a_function_built_into_python_is_a_function() -> None:
    assert (await record_of("{}!".format)).message == "go!"
