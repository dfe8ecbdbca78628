"""A child that blocks: out of the loop's way where a clock runs, and measured where it cannot be."""

import asyncio
import gc
import threading
from collections.abc import Iterator
from functools import partial, wraps
from types import SimpleNamespace
from typing import Any

import pytest

from symfonic import Agent, AgentRef, ChildPolicy, DelegationOutcome, Limits, SubAgent
from symfonic.testing import ScriptedModel, tool_call

CALL = tool_call("run_agent", name="child", task="go")


class Gate:
    """What a child waits behind: it says that it has started, and is let go by hand."""

    def __init__(self) -> None:
        self.started, self.go_on, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.thread: threading.Thread | None = None
        self.error: Exception | None = None

    def work(self) -> str:
        self.thread = threading.current_thread()
        self.started.set()
        self.go_on.wait(30)
        self.ended.set()
        if self.error is not None:
            raise self.error
        return "late"


class Answers:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    def run(self, query: str) -> Any:
        return SimpleNamespace(final_response=self.gate.work())


class Fails(Answers):
    def run(self, query: str) -> Any:
        self.gate.error = ValueError("late error")
        return super().run(query)


class TakesAPrompt(Answers):
    def run(self, prompt: str) -> Any:
        return SimpleNamespace(text=self.gate.work())


class Pieces(Answers):
    def run(self, query: str) -> Iterator[str]:
        yield "first "
        yield self.gate.work()


class Partial(Answers):
    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.run = partial(self._run, flag=True)  # type: ignore[method-assign,assignment]

    def _run(self, query: str, *, flag: bool) -> Any:
        return SimpleNamespace(final_response=self.gate.work())


class Object(Answers):
    class Run:
        def __init__(self, gate: Gate) -> None:
            self.gate = gate

        def __call__(self, query: str) -> Any:
            return SimpleNamespace(final_response=self.gate.work())

    def __init__(self, gate: Gate) -> None:
        super().__init__(gate)
        self.run = Object.Run(gate)  # type: ignore[method-assign,assignment]


def referred(gate: Gate) -> Any:
    return AgentRef(lambda: Answers(gate))


def nested(gate: Gate) -> Any:
    """The clock is that of a run further up."""
    return Agent(ScriptedModel(CALL, "inner went on"), sub_agents=[SubAgent("child", Answers(gate), "Works.")])


CHILDREN = [Answers, Fails, TakesAPrompt, Pieces, Partial, Object, referred, nested]


@pytest.mark.parametrize("tree", [False, True], ids=["its own timeout", "one further up"])
@pytest.mark.parametrize("make", CHILDREN, ids=lambda each: each.__name__)
async def test_a_blocking_child_is_left_when_its_time_is_over(make: Any, tree: bool) -> None:
    gate = Gate()
    child = make(gate)
    policy = None if tree else ChildPolicy(timeout=0.2)
    lead = Agent(
        ScriptedModel(CALL, "went on"), name="lead", sub_agents=[SubAgent("child", child, "W.", policy=policy)]
    )
    try:
        if tree:
            outer = Agent(
                ScriptedModel(tool_call("run_agent", name="lead", task="go"), "went on"),
                sub_agents=[SubAgent("lead", lead, "Leads.", policy=ChildPolicy(timeout=0.2))],
            )
            result = await outer.run("go", max_depth=4)
        else:
            result = await lead.run("go", max_depth=4)
        [record] = result.delegations
        assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
        assert "may still be running" in record.message
        assert (result.text, result.delegated_to) == ("went on", ())
        assert gate.started.is_set()
        assert not gate.ended.is_set(), "the value was there while the child still ran"
    finally:
        gate.go_on.set()
    assert gate.ended.wait(30)
    assert gate.thread is not None
    gate.thread.join(30)
    await asyncio.sleep(0)  # what it ends with now is heard by nobody
    assert result.delegations == (record,)


async def test_the_loop_goes_on_while_a_timed_child_blocks() -> None:
    gate = Gate()
    lead = Agent(
        ScriptedModel(CALL, "went on"),
        sub_agents=[SubAgent("child", Answers(gate), "Works.")],
        limits=Limits(timeout=30),
    )
    running = asyncio.create_task(lead.run("go"))
    assert await asyncio.to_thread(gate.started.wait, 30)
    gate.go_on.set()
    assert (await running).delegations[0].message == "late"
    assert gate.thread is not threading.main_thread()


async def test_without_a_clock_it_stays_on_the_loop_which_it_may_need() -> None:
    class Needs:
        def run(self, query: str) -> Any:
            return asyncio.ensure_future(answer())

    async def answer() -> Any:
        return SimpleNamespace(final_response="from a task")

    lead = Agent(ScriptedModel(CALL, "done"), sub_agents=[SubAgent("child", Needs(), "Works.")])
    assert (await lead.run("go")).delegations[0].message == "from a task"

    timed = SubAgent("child", Needs(), "Works.", policy=ChildPolicy(timeout=30))
    [record] = (await Agent(ScriptedModel(CALL, "done"), sub_agents=[timed]).run("go")).delegations
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "'Needs' needs a running event loop, so it must be async" in record.message


async def test_a_childs_own_words_about_loops_are_its_own() -> None:
    class Own:
        def run(self, query: str) -> Any:
            raise RuntimeError("no running event loop on mars")

    timed = SubAgent("child", Own(), "Works.", policy=ChildPolicy(timeout=30))
    [record] = (await Agent(ScriptedModel(CALL, "done"), sub_agents=[timed]).run("go")).delegations
    assert record.message == "Sub-agent 'child' failed: no running event loop on mars"


async def test_an_async_run_in_plain_clothes_stays_on_the_loop() -> None:
    def logged(run: Any) -> Any:
        @wraps(run)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            seen.append(threading.current_thread())
            return run(*args, **kwargs)

        return wrapper

    class Wrapped:
        @logged
        async def run(self, query: str) -> Any:
            return SimpleNamespace(final_response="on the loop")

    seen: list[Any] = []
    timed = SubAgent("child", Wrapped(), "Works.", policy=ChildPolicy(timeout=30))
    result = await Agent(ScriptedModel(CALL, "done"), sub_agents=[timed]).run("go")
    assert result.delegations[0].message == "on the loop"
    assert seen == [threading.current_thread()]


async def test_a_coroutine_that_comes_too_late_is_closed(recwarn: pytest.WarningsRecorder) -> None:
    gate = Gate()

    async def answer() -> None: ...

    class Slow:
        def run(self, query: str) -> Any:
            gate.work()
            return answer()

    timed = SubAgent("child", Slow(), "Works.", policy=ChildPolicy(timeout=0.05))
    result = await Agent(ScriptedModel(CALL, "went on"), sub_agents=[timed]).run("go")
    assert result.delegations[0].outcome is DelegationOutcome.CHILD_TIMED_OUT
    gate.go_on.set()
    assert gate.thread is not None
    gate.thread.join(30)
    gc.collect()
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


def works(seconds: float) -> Any:
    threading.Event().wait(seconds)
    return SimpleNamespace(final_response="late")


class Async:
    async def run(self, query: str) -> Any:
        return works(0.1)


class AsyncFails:
    async def run(self, query: str) -> Any:
        works(0.1)
        raise ValueError("late error")


@pytest.mark.parametrize("child", [Async(), AsyncFails()], ids=lambda each: type(each).__name__)
async def test_an_async_child_that_blocks_the_loop_is_not_heard_when_it_is_late(child: Any) -> None:
    lead = Agent(
        ScriptedModel(CALL, "went on"),
        sub_agents=[SubAgent("child", child, "Works.", policy=ChildPolicy(timeout=0.02))],
    )
    result = await lead.run("go")
    [record] = result.delegations
    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert "may still be running" in record.message
    assert (result.text, result.delegated_to) == ("went on", ())


async def test_what_a_plain_function_answers_in_time_is_delivered() -> None:
    class Quick:
        def run(self, query: str) -> Any:
            return SimpleNamespace(final_response="in time")

    lead = Agent(
        ScriptedModel(CALL, "done"),
        sub_agents=[SubAgent("child", Quick(), "Works.", policy=ChildPolicy(timeout=30))],
    )
    assert (await lead.run("go")).delegations[0].message == "in time"
