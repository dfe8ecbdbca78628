"""`check_child_runner` passes for children that keep the contract, and says what others break."""

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, Response, answer, delegates, raising
from runtime_fakes import child as declared

import symfonic
from symfonic.agent.engine import SymfonicAgent
from symfonic.errors import ChildDeclarationError
from symfonic.kernel.contracts.run_identity import RunIdentity, run_identity_scope
from symfonic.testing import ScriptedChild, ScriptedModel, check_child_runner


class Waiting:
    """Takes a moment to answer, and everything it may be sent."""

    async def run(self, query: str, **context: Any) -> Any:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return Response(f"{query} at {context['agent_depth']}")


class NotAsync:
    """Answers without a coroutine, which the contract lets pass."""

    def run(self, query: str) -> Any:
        return Response("at once")


GOOD = {
    "an agent": lambda: NATIVE.agent(answer("fine")),
    "an engine": lambda: SymfonicAgent(ScriptedModel("fine")),
    "an agent that delegates": lambda: NATIVE.agent(delegates("x"), sub_agents=[declared(ScriptedChild("fine"), "x")]),
    "a reference": lambda: symfonic.AgentRef(lambda: NATIVE.agent(answer("fine"))),
    "a scripted child": ScriptedChild,
    "a child that waits": Waiting,
    "a plain child": NotAsync,
}


@pytest.mark.parametrize("make", GOOD.values(), ids=GOOD.keys())
async def test_it_passes_for_a_good_child(make: Any) -> None:
    await check_child_runner(make, make_failing=lambda: raising(ValueError("no")))


async def test_it_passes_for_an_agent_whose_model_fails_as_the_failing_one() -> None:
    await check_child_runner(
        lambda: NATIVE.agent(answer()), make_failing=lambda: symfonic.Agent(ScriptedModel(ValueError("no")))
    )


async def test_a_child_that_cannot_be_adopted_is_refused() -> None:
    with pytest.raises(ChildDeclarationError, match="must expose an async run"):
        await check_child_runner(object)


def acting(act: Any) -> Any:
    return lambda: Child(act)


async def returns_nothing(query: str) -> Any:
    return None


async def returns_blanks(query: str) -> Any:
    return "  \n"


async def fails(query: str) -> Any:
    raise ValueError("not today")


class AnswersOnce:
    def __init__(self) -> None:
        self.done = False

    async def run(self, query: str) -> Any:
        if self.done:
            raise ValueError("once only")
        self.done = True
        return Response("once")


class NotTwiceAtOnce:
    def __init__(self) -> None:
        self.busy = False

    async def run(self, query: str) -> Any:
        if self.busy:
            raise RuntimeError("busy")
        self.busy = True
        try:
            await asyncio.sleep(0)
        finally:
            self.busy = False
        return Response("free again")


BROKEN = {
    "returns nothing": (acting(returns_nothing), "must answer"),
    "returns blanks": (acting(returns_blanks), "must answer"),
    "fails": (acting(fails), "not today"),
    "answers once": (AnswersOnce, "also the second time"),
    "not twice at once": (NotTwiceAtOnce, "several calls at once"),
}


@pytest.mark.parametrize(("make", "says"), BROKEN.values(), ids=BROKEN.keys())
async def test_it_says_what_a_bad_child_breaks(make: Any, says: str) -> None:
    with pytest.raises(AssertionError, match=says):
        await check_child_runner(make)


async def test_a_failing_child_that_answers_is_caught() -> None:
    with pytest.raises(AssertionError, match="must fail as a value"):
        await check_child_runner(ScriptedChild, make_failing=ScriptedChild)


async def test_a_child_that_leaves_a_task_behind_is_caught() -> None:
    left = []
    forever = asyncio.Event()

    async def act(query: str) -> str:
        left.append(asyncio.ensure_future(forever.wait()))
        return "started something"

    with pytest.raises(AssertionError, match="left tasks behind"):
        await check_child_runner(acting(act))
    for task in left:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_a_child_that_leaves_its_identity_behind_is_caught() -> None:
    class Leaking:
        async def run(self, query: str) -> Any:
            run_identity_scope(RunIdentity.root()).__enter__()
            return Response("leaked")

    with pytest.raises(AssertionError, match=r"parent must be its caller|identity must be restored"):
        await check_child_runner(Leaking)


async def test_a_child_that_swallows_its_cancellation_for_ever_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symfonic.testing.conformance.PATIENCE", 0.2)
    let_go = asyncio.Event()

    async def act(query: str) -> str:
        if query == "be cancelled":
            while not let_go.is_set():
                with suppress(asyncio.CancelledError):
                    await let_go.wait()
        return "answered"

    try:
        async with asyncio.timeout(5):
            with pytest.raises(AssertionError, match="cancel"):
                await check_child_runner(acting(act))
    finally:
        let_go.set()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()}, timeout=5)


async def test_a_child_that_answers_though_it_was_cancelled_is_caught() -> None:
    async def act(query: str) -> str:
        if query == "be cancelled":
            with suppress(asyncio.CancelledError):
                await asyncio.get_running_loop().create_future()
        return "answered all the same"

    with pytest.raises(AssertionError, match="cancel"):
        await check_child_runner(acting(act))


async def test_it_passes_for_a_child_that_cleans_up_when_it_is_cancelled() -> None:
    async def act(query: str) -> str:
        try:
            if query == "be cancelled":
                await asyncio.get_running_loop().create_future()
        finally:
            await asyncio.sleep(0)
        return "answered"

    await check_child_runner(acting(act))
