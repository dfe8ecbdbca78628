"""Many at once: calls of one reply, runs of one agent, event loops; order and ids are kept, nothing is shared."""

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest
from runtime_fakes import NATIVE, Child, Kind, Spot, calls, child, results, spot, spots_of

import symfonic
from symfonic import DelegationOutcome
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import ScriptedChild, tool_call

pytestmark = pytest.mark.usefixtures("no_task_left")


async def test_calls_of_one_reply_run_at_once_and_answer_in_their_order_under_their_ids(kind: Kind) -> None:
    together = asyncio.Barrier(4)
    may_end = [asyncio.Event() for _ in range(5)]
    may_end[4].set()
    ended: list[int] = []

    async def meet(n: int) -> str:
        await together.wait()
        await may_end[n + 1].wait()  # the last call ends first
        ended.append(n)
        may_end[n].set()
        return f"result {n}"

    def fn(messages: Any, tools: Any) -> Any:
        made = tuple(ToolCall(f"id-{n}", "meet", {"n": n}) for n in range(4))
        return "over" if messages[-1].role == "tool" else ModelReply(tool_calls=made)

    async with asyncio.timeout(5):
        result = await kind.agent(fn, tools=[kind.tool(meet)]).run("go")
    assert ended == [3, 2, 1, 0]
    heard = [(m.tool_call_id, m.name, m.text) for m in result.messages if m.role == "tool"]
    assert heard == [(f"id-{n}", "meet", f"result {n}") for n in range(4)]


async def test_synchronous_tools_of_one_reply_run_at_once(kind: Kind) -> None:
    together = threading.Barrier(4)

    def meet(n: int) -> str:
        together.wait(timeout=5)
        return f"result {n}"

    agent = kind.agent(calls(*(tool_call("meet", n=n) for n in range(4))), tools=[kind.tool(meet)])
    assert results(await agent.run("go")) == [f"result {n}" for n in range(4)]


async def test_one_failing_child_of_three_leaves_its_siblings_alone(kind: Kind) -> None:
    failed, together = asyncio.Event(), asyncio.Barrier(3)

    async def act(query: str) -> str:
        await together.wait()
        if query == "1":
            failed.set()
            raise ValueError("in the middle")
        await failed.wait()
        await asyncio.sleep(0)
        return f"answer {query}"

    three = calls(*(tool_call("run_agent", name="child", task=str(n)) for n in range(3)))
    async with asyncio.timeout(5):
        result = await kind.agent(three, sub_agents=[child(Child(act))]).run("go")
    assert results(result) == ["answer 0", "Sub-agent 'child' failed: in the middle", "answer 2"]
    assert [record.outcome for record in result.delegations] == [
        DelegationOutcome.DELIVERED,
        DelegationOutcome.CHILD_FAILED,
        DelegationOutcome.DELIVERED,
    ]
    assert result.delegated_to == ("child", "child")


async def test_good_bad_and_unknown_calls_mix_in_one_reply(kind: Kind) -> None:
    async def good() -> str:
        return "good"

    async def bad() -> str:
        raise OSError("bad")

    made = calls(tool_call("bad"), tool_call("missing"), tool_call("good", extra=1), tool_call("good"))
    told = results(await kind.agent(made, tools=[kind.tool(good), kind.tool(bad)]).run("go"))
    assert told[0] == "Tool 'bad' failed: bad"
    assert "'missing'" in told[1]
    assert "'extra'" in told[2]
    assert told[3] == "good"


async def test_records_are_in_the_order_of_the_calls_and_deliveries_in_the_order_they_came(kind: Kind) -> None:
    second_is_done = asyncio.Event()

    async def slow(query: str) -> str:
        await second_is_done.wait()
        return "slow"

    async def quick(query: str) -> str:
        asyncio.get_running_loop().call_soon(second_is_done.set)
        return "quick"

    both = calls(*(tool_call("run_agent", name=name, task="t") for name in ("slow", "quick")))
    children = [child(Child(slow), "slow"), child(Child(quick), "quick")]
    async with asyncio.timeout(5):
        result = await kind.agent(both, sub_agents=children).run("go")
    assert [record.name for record in result.delegations] == ["slow", "quick"]
    assert result.delegated_to == ("quick", "slow")


async def test_a_stateful_child_called_twice_at_once_is_two_runs_in_scopes_of_their_own(kind: Kind) -> None:
    together, seen = asyncio.Barrier(2), {}

    async def act(query: str) -> str:
        before = spot()
        await together.wait()
        seen[query] = (before, spot())
        return query

    two = calls(*(tool_call("run_agent", name="child", task=task) for task in "ab"))
    async with asyncio.timeout(5):
        result = await kind.agent(two, sub_agents=[child(Child(act))]).run("go")
    assert results(result) == ["a", "b"]
    for record in result.delegations:
        before, after = seen[record.trace.task]
        assert before == after
        assert before.run_id == record.trace.child.run_id
    assert seen["a"][0].run_id != seen["b"][0].run_id


def two_levels(kind: Kind, seen: list[Spot]) -> symfonic.Agent:
    """Echoes its prompt through a child, noting where both run."""

    def echo(messages: Any, tools: Any) -> str:
        return f"echo {messages[-1].text}"

    def ask(messages: Any, tools: Any) -> Any:
        if messages[-1].role == "tool":
            return messages[-1].text
        return tool_call("run_agent", name="child", task=messages[-1].text)

    inner = kind.agent(spots_of(echo, seen))
    return kind.agent(spots_of(ask, seen), sub_agents=[child(inner)])


async def test_one_agent_runs_two_hundred_times_at_once_and_nothing_mixes(kind: Kind) -> None:
    seen: list[Spot] = []
    agent = two_levels(kind, seen)
    async with asyncio.TaskGroup() as group:
        runs = [group.create_task(agent.run(f"task {n}", scope=n)) for n in range(200)]
    finished = [run.result() for run in runs]
    assert [each.text for each in finished] == [f"echo task {n}" for n in range(200)]
    assert len({each.run_id for each in finished}) == 200
    assert all(each.delegated_to == ("child",) for each in finished)
    assert all(each.usage.model_calls == 3 for each in finished)
    roots = {each.run_id: n for n, each in enumerate(finished)}
    assert {each.scope for each in seen} == set(range(200))
    assert all(roots[each.root_run_id] == each.scope for each in seen)
    assert Counter(each.depth for each in seen) == {0: 200, 1: 200}


def test_one_agent_runs_on_two_event_loops_at_once(kind: Kind) -> None:
    seen: list[Spot] = []
    together = threading.Barrier(2)
    texts: dict[int, list[str]] = {}

    def meet() -> str:
        together.wait(timeout=5)
        return "met"

    def ask(messages: Any, tools: Any) -> Any:
        if messages[-1].role == "user":
            return [tool_call("meet"), tool_call("run_agent", name="child", task=messages[-1].text)]
        return messages[-1].text

    agent = kind.agent(ask, tools=[kind.tool(meet)], sub_agents=[child(two_levels(kind, seen))])

    async def main(n: int) -> None:
        texts[n] = [(await agent.run(f"loop {n}")).text for _ in range(5)]

    threads = [threading.Thread(target=asyncio.run, args=(main(n),)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert texts == {n: [f"echo loop {n}"] * 5 for n in range(2)}
    assert Counter(each.depth for each in seen) == {1: 10, 2: 10}


async def test_a_child_gets_nothing_of_its_parent_but_the_task(kind: Kind) -> None:
    read: list[Any] = []

    def fn(messages: Any, tools: Any) -> str:
        read.append(([(m.role, m.text) for m in messages], [tool.name for tool in tools]))
        return "done"

    async def secret() -> str:
        return "the parent's"

    async def own() -> str:
        return "the child's"

    inner = kind.agent(fn, instructions="child's orders", tools=[kind.tool(own)])
    script = [tool_call("secret"), tool_call("run_agent", name="child", task="only this"), "over"]
    parent = symfonic.Agent(
        kind.script(*script),
        instructions="parent's orders",
        tools=[kind.tool(secret)],
        sub_agents=[child(inner), child(ScriptedChild(), "sibling")],
    )
    await parent.run("the whole story")
    assert read == [([("system", "child's orders"), ("user", "only this")], ["own"])]


async def test_a_child_cannot_call_its_parents_tools_or_siblings(kind: Kind) -> None:
    ran = []

    async def secret() -> str:
        ran.append(1)
        return "the parent's"

    inner = kind.agent(calls(tool_call("secret"), tool_call("run_agent", name="sibling", task="t")))
    sibling = ScriptedChild()
    parent = kind.agent(
        calls(tool_call("run_agent", name="child", task="t")),
        tools=[kind.tool(secret)],
        sub_agents=[child(inner), child(sibling, "sibling")],
    )
    result = await parent.run("go")
    assert result.text == "Unknown tool 'secret'. Available tools: (none)\n" + (
        "Unknown tool 'run_agent'. Available tools: (none)"
    )
    assert (ran, sibling.calls) == ([], [])


async def test_tools_and_children_of_parallel_roots_see_their_own_roots_scope() -> None:
    together, scopes = asyncio.Barrier(2), []

    async def look() -> str:
        await together.wait()
        scopes.append((spot().scope, spot().root_run_id))
        return "looked"

    agent = NATIVE.agent(calls(tool_call("look")), tools=[look])
    async with asyncio.timeout(5), asyncio.TaskGroup() as group:
        runs = [group.create_task(agent.run("go", scope=scope)) for scope in ("a", "b")]
    assert sorted(scopes) == sorted((scope, run.result().run_id) for scope, run in zip("ab", runs, strict=True))
