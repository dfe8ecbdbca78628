"""Whatever may be awaited is awaited once, and what is forgotten is a failure with a reason."""

import asyncio
import gc
from collections.abc import Generator
from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, Response, child, delegates

from symfonic import Agent, AgentRef, DelegationOutcome, SubAgent
from symfonic.testing import ScriptedChild, ScriptedModel

pytestmark = pytest.mark.usefixtures("no_task_left")


@pytest.fixture(autouse=True)
def nothing_forgotten() -> Generator[None]:
    """A coroutine that is never awaited warns when it is collected, which is an error here."""
    yield
    gc.collect(1)  # what a test has made is young


async def answered(text: str = "late") -> Response:
    await asyncio.sleep(0)
    return Response(text)


class Returns:
    """A child whose ``run``, sync or async, returns something to be awaited."""

    def __init__(self, make: Any) -> None:
        self.make = make


class Sync(Returns):
    def run(self, query: str) -> Any:
        return self.make()


class Async(Returns):
    async def run(self, query: str) -> Any:
        return self.make()


class Awaitable:
    def __await__(self) -> Generator[Any, Any, Response]:
        return (yield from answered().__await__())


def future() -> Any:
    made = asyncio.get_running_loop().create_future()
    made.set_result(Response("late"))
    return made


async def twice() -> Any:
    return answered()


MADE = {
    "coroutine": answered,
    "task": lambda: asyncio.ensure_future(answered()),
    "future": future,
    "awaitable": Awaitable,
    "coroutine of a coroutine": twice,
    "plain": lambda: Response("late"),
}


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("kind", [Sync, Async])
async def test_what_a_childs_run_returns_is_awaited(kind: Any, made: str) -> None:
    result = await NATIVE.agent(delegates(), sub_agents=[child(kind(MADE[made]))]).run("go")
    assert result.text == "late"
    assert result.delegated_to == ("child",)


@pytest.mark.parametrize("made", ["coroutine", "awaitable", "coroutine of a coroutine"])
async def test_a_cancellation_reaches_what_a_child_returned(made: str) -> None:
    started = asyncio.Event()

    async def hangs() -> Any:
        started.set()
        await asyncio.get_running_loop().create_future()

    class Hangs:
        def __await__(self) -> Generator[Any, Any, Any]:
            return hangs().__await__()

    async def hangs_later() -> Any:
        return hangs()

    makes = {"coroutine": hangs, "awaitable": Hangs, "coroutine of a coroutine": hangs_later}
    task = asyncio.create_task(NATIVE.agent(delegates(), sub_agents=[child(Async(makes[made]))]).run("go"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_an_answer_that_is_a_coroutine_is_a_failure_that_says_so() -> None:
    async def act(query: str) -> Any:
        return answered()  # Response(final_response=<coroutine>)

    result = await NATIVE.agent(delegates(), sub_agents=[child(Child(act))]).run("go")
    (record,) = result.delegations
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child' failed: its final_response is a coroutine: it must be a value"


async def test_an_agent_shaped_childs_text_that_is_a_coroutine_is_a_failure_that_says_so() -> None:
    class Shaped:
        async def run(self, prompt: str) -> Any:
            return type("Result", (), {"text": answered()})()

    result = await NATIVE.agent(delegates(), sub_agents=[child(Shaped())]).run("go")
    assert "must be a value" in result.delegations[0].message


async def test_a_reference_that_resolves_asynchronously_is_resolved_once() -> None:
    resolved = []

    async def resolve() -> Any:
        await asyncio.sleep(0)
        resolved.append(1)
        return Agent(ScriptedModel("found"))

    agent = NATIVE.agent(delegates(), sub_agents=[SubAgent("child", AgentRef(resolve), "Found later.")])
    assert (await agent.run("go")).text == "found"
    assert (await agent.run("go")).text == "found"
    assert resolved == [1]


async def test_a_reference_that_does_not_resolve_is_tried_again_at_the_next_delegation() -> None:
    answers: list[Any] = [LookupError("not yet"), object(), ScriptedChild("found")]

    async def resolve() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    agent = NATIVE.agent(delegates(), sub_agents=[SubAgent("child", AgentRef(resolve), "Found later.")])
    texts = [(await agent.run("go")).text for _ in range(3)]
    assert texts[0] == "Sub-agent 'child' failed: not yet"
    assert "must expose an async run(query, ...) method" in texts[1]
    assert texts[2] == "found"
