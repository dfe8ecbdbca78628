"""`run_sync`: from scripts, threads and synchronous tools; the tree is kept, and a cancellation gets through."""

import asyncio
import subprocess
import sys
import threading
from typing import Any

import pytest
from runtime_fakes import NATIVE, Kind, Spot, answer, calls, cancelled, child, delegates, spot, spots_of

import symfonic
from symfonic.agent.engine import SymfonicAgent
from symfonic.capabilities.delegation.depth import DepthPolicy
from symfonic.errors import MaxStepsError, ModelError, SymfonicError
from symfonic.kernel.contracts.run_identity import current_run_identity
from symfonic.testing import FunctionModel, ScriptedChild, ScriptedModel, tool_call


def test_from_a_script_it_runs_to_the_answer(kind: Kind) -> None:
    result = kind.agent(delegates(), sub_agents=[child(ScriptedChild("fine"))]).run_sync("go", scope="s", max_depth=1)
    assert (result.text, result.delegated_to) == ("fine", ("child",))
    assert current_run_identity() is None


def test_the_engine_runs_from_a_script_too() -> None:
    assert SymfonicAgent(ScriptedModel("fine")).run_sync("go", agent_depth=3).final_response == "fine"


def test_a_script_of_its_own_runs_to_the_answer_and_ends() -> None:
    script = (
        "import symfonic\nfrom symfonic.testing import ScriptedModel, tool_call\n"
        "inner = symfonic.Agent(ScriptedModel('inner answer'))\n"
        "def work() -> str:\n    return inner.run_sync('x').text\n"
        "agent = symfonic.Agent(ScriptedModel(tool_call('work'), 'over'), tools=[work])\n"
        "print(agent.run_sync('go').messages[2].text)\n"
    )
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (ended.stdout, ended.stderr) == ("inner answer\n", "")


def test_errors_come_out_as_they_are() -> None:
    with pytest.raises(ModelError):
        symfonic.Agent(ScriptedModel(ValueError("no"))).run_sync("go")
    with pytest.raises(MaxStepsError):
        NATIVE.agent(lambda messages, tools: tool_call("nothing")).run_sync("go")


def test_from_a_thread_it_runs_to_the_answer(kind: Kind) -> None:
    texts = []
    thread = threading.Thread(target=lambda: texts.append(kind.agent(answer("fine")).run_sync("go").text))
    thread.start()
    thread.join(timeout=10)
    assert texts == ["fine"]


async def test_in_a_running_loop_it_says_what_to_do_and_leaves_nothing_unawaited(kind: Kind) -> None:
    with pytest.raises(SymfonicError, match=r"event loop is running in this thread.*await agent\.run"):
        kind.agent(answer()).run_sync("go")
    with pytest.raises(SymfonicError, match=r"await agent\.run"):
        SymfonicAgent(ScriptedModel("x")).run_sync("go")


async def test_in_an_asynchronous_tool_it_is_a_tool_error_that_says_what_to_do(kind: Kind) -> None:
    async def work() -> str:
        return NATIVE.agent(answer()).run_sync("go").text

    result = await kind.agent(calls(tool_call("work")), tools=[kind.tool(work)]).run("go")
    assert result.text.startswith("Tool 'work' failed: ")
    assert "await agent.run" in result.text


async def test_inside_a_synchronous_tool_the_run_is_part_of_the_tree(kind: Kind) -> None:
    seen: list[Spot] = []
    inner = kind.agent(spots_of(delegates("leaf"), seen), sub_agents=[child(ScriptedChild("x"), "leaf")], max_depth=9)

    def work() -> str:
        assert spot().depth == 0
        return inner.run_sync("inner").text

    agent = kind.agent(calls(tool_call("work")), tools=[kind.tool(work)], max_depth=1)
    result = await agent.run("go", scope="tenant")
    assert result.text == DepthPolicy(1).refusal()
    [inside] = seen
    assert inside == Spot(1, inside.run_id, result.run_id, result.run_id, "tenant", 1)
    assert result.usage.model_calls == 2 + 2


async def test_inside_a_synchronous_tool_the_run_is_on_the_outer_runs_loop() -> None:
    loops = []

    async def fn(messages: Any, tools: Any) -> str:
        loops.append(asyncio.get_running_loop())
        return "inner"

    def work() -> str:
        return symfonic.Agent(FunctionModel(fn)).run_sync("inner").text

    await NATIVE.agent(calls(tool_call("work")), tools=[work]).run("go")
    assert loops == [asyncio.get_running_loop()]


def nested(kind: Kind, levels: int, bottom: symfonic.Agent, seen: list[int]) -> symfonic.Agent:
    """An agent whose synchronous tool runs an agent whose synchronous tool …"""
    agent = bottom
    for _ in range(levels):

        def down(inner: symfonic.Agent = agent) -> str:
            seen.append(spot().depth)
            return inner.run_sync("down").text

        agent = kind.agent(calls(tool_call("work")), tools=[kind.tool(_without_parameters(down), name="work")])
    return agent


def _without_parameters(fn: Any) -> Any:
    def call() -> str:
        return str(fn())

    return call


async def test_forty_nested_synchronous_tools_reach_the_bottom(kind: Kind) -> None:
    seen: list[int] = []
    bottom = kind.agent(lambda messages, tools: f"bottom at {spot().depth}")
    async with asyncio.timeout(30):
        result = await nested(kind, 40, bottom, seen).run("go")
    assert result.text == "bottom at 40"
    assert seen == list(range(40))
    assert result.usage.model_calls == 40 * 2 + 1


async def test_cancelling_the_outer_run_reaches_the_inner_one_and_waits_for_it(kind: Kind) -> None:
    started, ended = asyncio.Event(), []

    async def wait() -> str:
        try:
            started.set()
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("leaf")
        return "never"

    bottom = kind.agent(calls(tool_call("wait")), tools=[kind.tool(wait)])
    async with asyncio.timeout(10):
        task = asyncio.create_task(nested(kind, 3, bottom, []).run("go"))
        await started.wait()
        assert await cancelled(task)
    assert ended == ["leaf"]
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_run_that_a_cancelled_tools_thread_starts_later_does_not_start() -> None:
    started, may_go, outcomes = asyncio.Event(), threading.Event(), []
    loop, asked = asyncio.get_running_loop(), []
    done = asyncio.Event()
    inner = NATIVE.agent(lambda messages, tools: asked.append(1) or "x")

    def work() -> str:
        loop.call_soon_threadsafe(started.set)
        may_go.wait(timeout=10)
        try:
            return inner.run_sync("late").text
        except BaseException as error:
            outcomes.append(type(error))
            raise
        finally:
            loop.call_soon_threadsafe(done.set)

    async with asyncio.timeout(10):
        task = asyncio.create_task(NATIVE.agent(calls(tool_call("work")), tools=[work]).run("go"))
        await started.wait()
        assert await cancelled(task)
        may_go.set()
        await done.wait()
    assert outcomes == [asyncio.CancelledError]
    assert asked == []


async def test_a_synchronous_tools_late_result_after_a_cancellation_is_ignored(kind: Kind) -> None:
    started, may_go, done = asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def work() -> str:
        loop.call_soon_threadsafe(started.set)
        may_go.wait(timeout=10)
        loop.call_soon_threadsafe(done.set)
        raise ValueError("too late")

    async with asyncio.timeout(10):
        task = asyncio.create_task(kind.agent(calls(tool_call("work")), tools=[kind.tool(work)]).run("go"))
        await started.wait()
        assert await cancelled(task)
        may_go.set()
        await done.wait()
        await asyncio.sleep(0)


async def test_a_synchronous_tool_may_run_several_agents_in_threads_of_its_own() -> None:
    seen: list[Spot] = []
    inner = NATIVE.agent(spots_of(lambda messages, tools: messages[-1].text, seen))

    def work() -> str:
        import contextvars
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor() as pool:
            made = [pool.submit(contextvars.copy_context().run, inner.run_sync, str(n)) for n in range(4)]
            return " ".join(each.result(timeout=10).text for each in made)

    result = await NATIVE.agent(calls(tool_call("work")), tools=[work]).run("go")
    assert result.text == "0 1 2 3"
    assert {(each.depth, each.parent_run_id) for each in seen} == {(1, result.run_id)}


async def test_a_synchronous_run_that_fails_in_a_tool_is_that_tools_error(kind: Kind) -> None:
    inner = symfonic.Agent(kind.script(ConnectionError("gone")))

    def work() -> str:
        return inner.run_sync("x").text

    result = await kind.agent(calls(tool_call("work")), tools=[kind.tool(work)]).run("go")
    assert result.text == "Tool 'work' failed: the model failed: ConnectionError: gone"
    assert result.usage.model_calls == 3


async def test_a_thread_that_outlives_its_tool_still_runs_agents_below_that_run() -> None:
    import contextvars

    seen: list[Spot] = []
    inner = NATIVE.agent(spots_of(answer("late"), seen))
    may_go, done, loop = threading.Event(), asyncio.Event(), asyncio.get_running_loop()

    def linger() -> None:
        may_go.wait(timeout=10)
        inner.run_sync("late")
        loop.call_soon_threadsafe(done.set)

    def work() -> str:
        threading.Thread(target=contextvars.copy_context().run, args=(linger,)).start()
        return "worked"

    result = await NATIVE.agent(calls(tool_call("work")), tools=[work]).run("go")
    may_go.set()
    async with asyncio.timeout(10):
        await done.wait()
    assert [(each.depth, each.parent_run_id) for each in seen] == [(1, result.run_id)]
    assert result.usage.model_calls == 2


async def test_whatever_a_synchronous_tool_raises_is_its_error(kind: Kind) -> None:
    def work() -> str:
        raise StopIteration("odd")

    result = await kind.agent(calls(tool_call("work")), tools=[kind.tool(work)]).run("go")
    assert result.text.startswith("Tool 'work' failed: ")
    assert "odd" in result.text
