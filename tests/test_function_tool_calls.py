"""Calls of function tools: arguments that do not fit, what is raised, and where a body runs."""

import asyncio
import contextvars
import functools
import gc
import inspect
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function_tool_kit import Order, decorated, note
from symfonic.agent.cutover.function_tools import function_tool

here = contextvars.ContextVar("here", default="nowhere")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "missing argument 'task'"),
        ({"task": "t", "query": 1}, "unexpected argument 'query'"),
        ({"task": "t", "a": 1, "b": 2}, "unexpected arguments 'a', 'b'"),
        ({"task": "t", "n": "many"}, "argument 'n': Input should be a valid integer"),
        ({"task": None}, "argument 'task': Input should be a valid string"),
        ({"n": "x" * 5000}, "missing argument 'task'; argument 'n'"),
        ({"task": "t", "x" * 5000: 1}, "unexpected argument 'xxx"),
    ],
)
async def test_arguments_that_do_not_fit_are_named_in_one_short_line(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match="'note' was not run") as caught:
        await function_tool(note).invoke(arguments)
    text = str(caught.value)
    assert told in text
    assert text.endswith("It takes task, note (optional), n (optional).")
    assert "\n" not in text
    assert len(text) < 400


@given(arguments=st.dictionaries(st.text(max_size=200), st.text(max_size=200) | st.integers() | st.none(), max_size=60))
def test_any_misfit_is_one_encodable_line(arguments: dict[str, Any]) -> None:
    arguments.pop("task", None)
    with pytest.raises(ValueError, match="missing argument 'task'") as caught:
        asyncio.run(function_tool(note).invoke(arguments))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert len(str(caught.value).encode()) < 30_000


async def test_the_error_of_a_nested_value_names_its_path() -> None:
    def buy(order: Order) -> None: ...

    with pytest.raises(ValueError, match=r"argument 'order\.item': Field required"):
        await function_tool(buy).invoke({"order": {}})


async def test_many_problems_are_told_in_a_bounded_line() -> None:
    def add(numbers: list[int]) -> None: ...

    with pytest.raises(ValueError, match="980 more problems") as caught:
        await function_tool(add).invoke({"numbers": ["x" * 100] * 1000})
    assert len(str(caught.value)) < 5000


async def test_what_the_function_itself_raises_is_raised() -> None:
    def f() -> None:
        Order.model_validate({})

    with pytest.raises(ValueError, match="1 validation error for Order"):
        await function_tool(f).invoke({})


async def test_synchronous_functions_run_in_a_thread_with_this_context() -> None:
    def f() -> Any:
        return threading.current_thread(), here.get()

    here.set("there")
    thread, seen = await function_tool(f).invoke({})
    assert thread is not threading.current_thread()
    assert seen == "there"


@pytest.mark.parametrize(
    "make",
    [
        lambda inner: inner,
        lambda inner: functools.partial(inner),
        lambda inner: lambda: inner(),
        lambda inner: decorated(inner),
        lambda inner: decorated(functools.partial(inner)),
    ],
)
async def test_asynchronous_bodies_run_in_the_loop(make: Any) -> None:
    async def inner() -> Any:
        return asyncio.get_running_loop()

    assert await function_tool(make(inner), name="t").invoke({}) is asyncio.get_running_loop()


async def test_any_awaitable_is_awaited() -> None:
    class Later:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return "later"

    assert await function_tool(lambda: Later(), name="t").invoke({}) == "later"


@pytest.mark.parametrize(
    "body",
    [
        lambda work: asyncio.create_task(work()),
        lambda work: asyncio.ensure_future(work()),
        lambda work: asyncio.gather(work(), work()),
        lambda work: asyncio.get_running_loop(),
        lambda work: asyncio.get_event_loop().run_until_complete(work()),
    ],
    ids=["create_task", "ensure_future", "gather", "get_running_loop", "get_event_loop"],
)
async def test_a_synchronous_function_that_needs_the_loop_is_told_to_be_async(
    body: Any, recwarn: pytest.WarningsRecorder
) -> None:
    async def work() -> None: ...

    with pytest.raises(RuntimeError, match="'needy' needs a running event loop, so it must be async"):
        await function_tool(lambda: body(work), name="needy").invoke({})
    gc.collect()
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


async def test_other_runtime_errors_keep_their_words() -> None:
    def f() -> None:
        raise RuntimeError("own")

    with pytest.raises(RuntimeError, match=r"^own$"):
        await function_tool(f).invoke({})


async def test_the_coroutine_of_a_thread_that_was_given_up_is_closed(recwarn: pytest.WarningsRecorder) -> None:
    loop = asyncio.get_running_loop()
    started, go_on = asyncio.Event(), threading.Event()
    made: list[Any] = []

    async def body() -> None: ...

    def f() -> Any:
        loop.call_soon_threadsafe(started.set)
        go_on.wait(5)
        made.append(body())
        return made[0]

    running = asyncio.ensure_future(function_tool(f).invoke({}))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    worker = next(each for each in threading.enumerate() if each.name.endswith("-f"))
    go_on.set()
    worker.join(5)
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED
    gc.collect()
    assert not [each for each in recwarn if "never awaited" in str(each.message)]
