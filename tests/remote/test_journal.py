"""A run that is gone through again with its journal does nothing again."""

import asyncio
import json
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from remote_kit import Far, Seen, tree

import symfonic
from symfonic import Agent, ChildPolicy, SubAgent
from symfonic.agent.engine import AgentResult
from symfonic.capabilities.delegation.active_run import ActiveRun, RunScope
from symfonic.capabilities.delegation.contracts import DelegationRecord, walk
from symfonic.errors import ModelError
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.run_identity import RunIdentity, beginning
from symfonic.kernel.contracts.text import error_text
from symfonic.remote.envelope import LONGEST_ID
from symfonic.remote.reception import Reception
from symfonic.testing import FunctionModel

Step = Callable[[], Awaitable[Any]]


class Journal:
    """Steps by name, and the how manyth of its name each is, as JSON text. What was cancelled is not there."""

    def __init__(self) -> None:
        self.lines: dict[str, str] = {}
        self.done: list[str] = []
        self.asked: Counter[str] = Counter()

    async def step(self, name: str, fn: Step) -> Any:
        self.asked[name] += 1
        key = f"{name} {self.asked[name]}"
        if key not in self.lines:
            self.done.append(key)
            try:
                self.lines[key] = json.dumps({"value": await fn()})
            except Exception as error:
                self.lines[key] = json.dumps({"error": type(error).__name__, "text": error_text(error)})
        told = json.loads(self.lines[key])
        if "error" in told:
            raise type(told["error"], (Exception,), {})(told["text"])
        return told["value"]

    def again(self) -> "Journal":
        """The same lines, for another run to read."""
        other = Journal()
        other.lines = dict(self.lines)
        return other


class Prepared:
    """An agent whose run has a journal."""

    def __init__(self, agent: Any, journal: Journal) -> None:
        self.agent, self.journal = agent, journal

    async def run(self, query: str) -> AgentResult:
        with RunScope(depth=0, identity=RunIdentity("root", "root", None), agent="root") as run:
            run.journal = self.journal
            run.offer()
            return await self.agent.run(query)  # type: ignore[no-any-return]


async def go_through(agent: Any, journal: Journal) -> AgentResult:
    return await Prepared(agent, journal).run("go")


class World:
    """An agent with a tool and children, and what was done to the world for it: model calls and tool calls."""

    def __init__(self, *, shuffled: bool = False, retries: int = 0) -> None:
        self.models: list[str] = []
        self.tools: list[str] = []
        self.shuffled = shuffled
        leaf = self._agent("leaf", {0: [self._call("note", "same", text="leaf")]})
        failing = self._agent("failing", {0: RuntimeError("the model is out; token=abc123secret")})
        middle = self._agent(
            "middle",
            {
                0: [self._call("run_agent", "same", name="leaf", task="a")],
                1: [self._call("run_agent", "same", name="leaf", task="b"), self._call("note", "n", text="middle")],
            },
            SubAgent("leaf", leaf, "Leaf."),
        )
        policy = ChildPolicy(retries=retries) if retries else None
        self.root = self._agent(
            "root",
            {
                0: [self._call("run_agent", f"c{n}", name="middle", task=f"part {n}") for n in range(3)],
                1: [
                    self._call("run_agent", "c0", name="failing", task="fail"),
                    self._call("note", "t", text="raise"),
                    self._call("note", "u", wrong=1),
                    ToolCall("v", "note", {"text": ["no text"]}),
                ],
            },
            SubAgent("middle", middle, "Middle."),
            SubAgent("failing", failing, "Fails.", policy=policy),
            max_depth=3,
        )

    def _call(self, tool: str, call_id: str, **arguments: Any) -> ToolCall:
        return ToolCall(call_id, tool, arguments)

    def _agent(self, name: str, script: dict[int, Any], *children: SubAgent, **options: Any) -> Agent:
        async def reply(messages: Any, tools: Any) -> ModelReply:
            step = sum(message.role == "assistant" for message in messages)
            self.models.append(name)
            for _ in range(len(messages[-1].text) * 7 % 11 if self.shuffled else 0):  # they come back in another order
                await asyncio.sleep(0)
            said = script.get(step)
            if isinstance(said, Exception):
                raise said
            if said is None:
                return ModelReply(f"{name}: " + " | ".join(m.text for m in messages[1:]), (), 3, 2, "model 1")
            return ModelReply("", tuple(said), 3, 2)

        async def note(text: str) -> str:
            self.tools.append(text)
            if text == "raise":
                raise LookupError("no paper left")
            return f"noted {text}"

        tool = symfonic.tool(note, name="note", description="Notes.")
        return Agent(FunctionModel(reply), name=name, tools=[tool], sub_agents=children, **options)


def ids(records: Any) -> list[tuple[Any, ...]]:
    return [(r.name, r.run_id, r.parent_run_id, r.trace.child, r.trace.tool_call_id) for r in walk(records)]


@pytest.mark.parametrize("shuffled", [False, True])
async def test_the_second_time_nothing_is_done_and_everything_is_as_it_was(shuffled: bool) -> None:
    first_world, journal = World(shuffled=shuffled), Journal()
    first = await go_through(first_world.root, journal)
    world, replay = World(), journal.again()

    second = await go_through(world.root, replay)

    assert len(first_world.models) == 3 + 3 * (3 + 2 * 2) + 1
    assert (world.models, world.tools, replay.done) == ([], [], [])
    assert second.text == first.text
    assert second.messages == first.messages
    assert tree(second.delegations) == tree(first.delegations)
    assert ids(second.delegations) == ids(first.delegations)
    assert second.usage == first.usage


async def test_with_a_journal_a_run_says_and_costs_what_it_says_and_costs_without() -> None:
    plain = await World().root.run("go")
    journalled = await go_through(World().root, Journal())

    assert journalled.text == plain.text
    assert tree(journalled.delegations) == tree(plain.delegations)
    assert [m.text for m in journalled.messages] == [m.text for m in plain.messages]
    assert journalled.usage == plain.usage


async def test_the_words_of_models_and_tools_that_failed_are_the_same_again() -> None:
    journal = Journal()
    first = await go_through(World().root, journal)
    second = await go_through(World().root, journal.again())

    failing = next(each for each in first.delegations if each.name == "failing")
    again = next(each for each in second.delegations if each.name == "failing")
    assert failing.message == again.message
    assert "the model failed: RuntimeError: the model is out" in again.message
    assert isinstance(again.trace and again.trace.error, ModelError)
    assert "Tool 'note' failed: no paper left" in [m.text for m in second.messages]
    assert [m.text for m in second.messages if "was not called" in m.text]
    assert "abc123secret" not in json.dumps(journal.lines)


async def test_wherever_a_run_was_stopped_it_goes_on_from_there_and_does_the_rest_once() -> None:
    journal = Journal()
    whole = await go_through(World().root, journal)
    lines = list(journal.lines.items())
    for stopped in range(len(lines) + 1):
        half, world = Journal(), World()
        half.lines = dict(lines[:stopped])
        result = await go_through(world.root, half)
        assert len(half.done) == len(lines) - stopped
        assert len(world.models) + len(world.tools) <= len(lines) - stopped
        assert (result.text, ids(result.delegations)) == (whole.text, ids(whole.delegations))


async def test_the_id_of_a_child_is_its_parents_and_the_id_of_the_call_and_no_two_are_the_same() -> None:
    result = await go_through(World().root, Journal())

    assert [each.trace.child.run_id for each in result.delegations] == ["root.c0", "root.c1", "root.c2", "root.c0:2"]
    assert [each.run_id for each in result.delegations[0].children] == ["root.c0.same", "root.c0.same:2"]
    everyone = [each.trace.child.run_id for each in walk(result.delegations)]
    assert len(set(everyone)) == len(everyone) == 4 + 6
    assert {each.trace.child.root_run_id for each in walk(result.delegations)} == {"root"}


async def test_each_attempt_at_a_child_is_a_run_and_has_steps_of_its_own() -> None:
    journal = Journal()
    first = await go_through(World(retries=2).root, journal)
    world = World(retries=2)
    second = await go_through(world.root, journal.again())

    assert [line for line in journal.lines if "root.c0:2" in line] == [
        "model root.c0:2 1",
        "model root.c0:2~2 1",
        "model root.c0:2~3 1",
    ]
    assert first.delegations[3].trace.child.run_id == "root.c0:2~3"  # type: ignore[union-attr]
    assert ids(second.delegations) == ids(first.delegations)
    assert world.models == []


def run_with(identity: RunIdentity | None) -> ActiveRun:
    return ActiveRun(0, identity=identity)


CALLS = st.text(st.sampled_from("ab.:~%2 \n/é\ud800"), max_size=4)


@given(st.lists(st.lists(CALLS, min_size=1, max_size=3), max_size=12))
def test_no_two_ways_down_a_tree_lead_to_the_same_id_whatever_models_call_their_calls(ways: list[list[str]]) -> None:
    """Every way is gone as often as it is there, and each time a new run stands at its end."""
    made: set[str] = set()
    runs: dict[str, ActiveRun] = {}

    def below(run: ActiveRun, call: str) -> ActiveRun:
        own = run.child_id(call)
        assert own is not None
        assert own not in made
        assert own.isprintable()
        assert own.strip() == own
        made.add(own)
        runs[own] = run_with(RunIdentity.under("root", run.identity and run.identity.run_id, own))
        return runs[own]

    root = run_with(RunIdentity("root", "root", None))
    for way in ways:
        run = root
        for call in way:
            run = below(run, call)
    for run in list(runs.values()):
        for call in ("2", "a", "a.b", "a:2", "~2"):
            below(run, call)


@pytest.mark.parametrize("root", ["root", "r" * LONGEST_ID])
def test_an_id_that_would_be_too_long_to_be_sent_is_shorter_and_nobody_elses(root: str) -> None:
    run, seen = run_with(RunIdentity(root, root, None)), set()
    for level in range(200):
        for call in ("x" * 60, "x" * 5_000, "y" * 60):
            made = run.child_id(call)
            assert made is not None
            assert len(made) + len(":999~9") <= LONGEST_ID
            assert made not in seen
            seen.add(made)
        run = run_with(RunIdentity.under(root, None, made))
        assert level < 4 or made.startswith(f"{beginning(root)}.")
    assert run_with(RunIdentity("root", "root", None)).child_id("x" * 60) == "root." + "x" * 60


def test_a_scope_inside_a_run_is_the_run_and_gives_no_id_twice() -> None:
    with RunScope(depth=0, identity=RunIdentity("root", "root", None)) as outer, RunScope(depth=1) as inner:
        assert (outer.child_id("c"), inner.child_id("c"), outer.child_id("c")) == ("root.c", "root.c:2", "root.c:3")
    with RunScope(depth=0) as nobody:
        assert nobody.child_id("c") is None


async def test_what_was_cancelled_is_not_in_the_journal_and_is_done_again() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def reply(messages: Any, tools: Any) -> Any:
        begun.set()
        await go_on.wait()
        return "done"

    agent, journal = Agent(FunctionModel(reply)), Journal()
    running = asyncio.ensure_future(go_through(agent, journal))
    await begun.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert journal.lines == {}

    go_on.set()
    assert (await go_through(agent, journal.again())).text == "done"


@pytest.mark.parametrize(
    "arguments",
    [{"text": "é \U0001f600"}, '{"text": "as text"}', "no JSON at all", {"text": "\ud800"}, {"text": "x" * 10_000}],
)
async def test_what_a_model_says_is_read_back_as_it_was_said(arguments: Any) -> None:
    said: list[str] = []

    def reply(messages: Any, tools: Any) -> ModelReply:
        if len(messages) == 1:
            return ModelReply("let me \ud83d see", (ToolCall("", "note", arguments),), 2**60, 5, "a model")
        return ModelReply(messages[-1].text)

    def agent() -> Agent:
        def note(text: str) -> str:
            said.append(text)
            return f"noted {text}"

        return Agent(FunctionModel(reply), tools=[symfonic.tool(note, name="note", description="Notes.")])

    plain = await agent().run("go")
    journal = Journal()
    first = await go_through(agent(), journal)
    second = await go_through(agent(), journal.again())

    assert first.messages == second.messages
    assert [(m.role, m.text) for m in first.messages] == [(m.role, m.text) for m in plain.messages]
    assert first.usage == second.usage == plain.usage
    assert len(said) in (0, 2)


async def test_a_call_to_another_side_has_the_same_id_again_and_is_one_run_there() -> None:
    leaf, journal = Seen(), Journal()
    reception = Reception({"worker": leaf})
    sent: list[str] = []

    def root() -> Agent:
        def reply(messages: Any, tools: Any) -> ModelReply:
            calls = (ToolCall("far.call", "run_agent", {"name": "far", "task": "go"}),)
            return ModelReply("", calls) if len(messages) == 1 else ModelReply(messages[-1].text)

        far = Far(reception)
        made = Agent(FunctionModel(reply), sub_agents=[SubAgent("far", far, "Far.")])
        fars.append(far)
        return made

    fars: list[Far] = []
    first = await go_through(root(), journal)
    second = await go_through(root(), journal.again())

    assert first.text == second.text == "seen"
    sent = [each.lineage.run_id for far in fars for each in far.sent]
    assert sent == ["root.far%2Ecall"] * 2
    assert len(leaf.tasks) == 1
    assert isinstance(second.delegations[0], DelegationRecord)
