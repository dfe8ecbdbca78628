"""The benchmark measures the library as users get it, and says of its figures what they are."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from dataclasses import fields, is_dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import benchmarks
import pytest

from symfonic import Agent, DelegationRecord, SubAgent
from symfonic.kernel.contracts.events import Event
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.testing import ScriptedModel, tool_call

common, worker = import_module("common"), import_module("worker")
curves, report, where = import_module("curves"), import_module("report"), import_module("where")
BENCH = Path(benchmarks.__file__).parent
ROOT = BENCH.parent
OURS = ["symfonic", "symfonic_langchain", "symfonic_structured_tool"]
ADAPTERS = ["floor", "floor_structured_tool", "floor_langchain_core", *OURS]
PROMPT = common.prompt_for(7)
TIMES = {"monotonic", "wall", "timing", "duration", "started"}


def adapter(name: str) -> Any:
    return import_module(f"adapters.{name}").ADAPTER


def plain_parent() -> Agent:
    """The turn of S1 as any other test of the suite would write it."""
    worker = Agent(ScriptedModel("done: job-7"), name="worker", instructions="You are worker.")
    return Agent(
        ScriptedModel(tool_call("run_agent", name="worker", task="handle job-7"), "result: done: job-7"),
        name="parent",
        instructions="You are parent.",
        sub_agents=[SubAgent("worker", worker, "Delegate a task to worker.")],
    )


class Told:
    """Values in a form that two turns share: times left out, each id replaced by its order of appearance."""

    def __init__(self) -> None:
        self.ids: dict[str, str] = {}

    def of(self, value: Any, name: str = "") -> Any:
        if is_dataclass(value) and not isinstance(value, type):
            parts = {each.name: getattr(value, each.name) for each in fields(value) if each.name not in TIMES}
            return (type(value).__name__, {key: self.of(part, key) for key, part in parts.items()})
        if isinstance(value, dict):
            return {key: self.of(part, key) for key, part in value.items()}
        if isinstance(value, tuple | list):
            return [self.of(part) for part in value]
        if isinstance(value, str) and (name == "id" or name.endswith("_id")):
            return self.ids.setdefault(value, f"id {len(self.ids)}")
        return value


async def seen_below(turn: Callable[[str], Awaitable[Any]]) -> list[Event]:
    """The events of a turn that is given nothing to be observed with: those below an agent whose tool makes it."""
    events: list[Event] = []

    async def take() -> str:
        """Takes the turn."""
        await turn(PROMPT)
        return "taken"

    host = Agent(ScriptedModel(ToolCall("of the host", "take", {}), "over"), name="host", tools=[take], max_depth=3)
    await host.run("go", observers=(events.append,))
    return [event for event in events if event.where.depth > 0]


async def test_a_benchmarked_turn_tells_the_events_and_identities_of_the_same_turn_in_plain_use():
    measured = await seen_below(adapter("symfonic").delegation())
    plain = await seen_below(plain_parent().run)
    assert len(plain) == 14
    assert Told().of(measured) == Told().of(plain)


async def test_a_benchmarked_turn_leaves_the_records_and_messages_of_the_same_turn_in_plain_use():
    turn = adapter("symfonic").delegation()
    measured, plain = await turn.agent.run(PROMPT), await plain_parent().run(PROMPT)
    assert Told().of(measured) == Told().of(plain)
    [record] = measured.delegations
    assert isinstance(record, DelegationRecord)
    assert record.trace is not None
    assert record.trace.usage.model_calls == 1
    assert (record.parent_run_id, record.root_run_id) == (measured.run_id, measured.root_run_id)
    assert await turn(PROMPT) == measured.text


@pytest.mark.parametrize("name", OURS)
async def test_a_benchmarked_turn_over_langchain_leaves_the_same_record(name):
    events = await seen_below(adapter(name).delegation())
    kinds = [type(event).__name__ for event in events]
    assert kinds == [type(event).__name__ for event in await seen_below(plain_parent().run)]


def test_nothing_is_switched_off_before_the_library_is_measured():
    ours = adapter("symfonic")
    assert type(ours).prepare is common.Adapter.prepare
    agent = ours.delegation().agent
    plain = plain_parent()
    assert vars(agent).keys() == vars(plain).keys()
    assert agent.engine.kernel.options == plain.engine.kernel.options
    assert agent.engine.kernel.bounds == plain.engine.kernel.bounds


@pytest.mark.parametrize("name", ADAPTERS)
async def test_every_scenario_of_an_adapter_gives_the_answers_that_are_checked(name):
    one = adapter(name)
    one.prepare()
    plan = [
        (one.single(), common.check_single, 1),
        (one.delegation(), common.check_delegated, 3),
        (one.fan_out(common.FAN_OUT, 0.0), common.check_fan_out, common.FAN_OUT + 2),
        (one.chain(common.CHAIN_AGENTS), common.check_delegated, 2 * common.CHAIN_AGENTS - 1),
        (one.build(common.BUILD_CHILDREN), common.check_delegated, 3),
    ]
    for turn, check, calls in plan:
        before = common.Counter.calls
        check(PROMPT, await turn(PROMPT))
        assert common.Counter.calls - before == calls
    run = one.concurrent(0.0)
    prompts = [common.prompt_for(number) for number in range(5)]
    for prompt, answer in zip(prompts, await asyncio.gather(*map(run, prompts)), strict=True):
        common.check_delegated(prompt, answer)


@pytest.mark.parametrize("name", ["floor", "symfonic"])
@pytest.mark.parametrize("job", ["depth", "fan_out", "conversation", "roster", "concurrent"])
def test_a_curve_has_a_checked_point_for_each_size(name, job, tmp_path):
    out = tmp_path / "points.json"
    sizes = "10" if job == "concurrent" else "2,6"
    command = [sys.executable, BENCH / "sweep.py", name, job, "--out", out, "--sizes", sizes]
    subprocess.run([*command, "--turns=1", "--seconds=0.001"], check=True)
    key = "cpu_seconds" if job == "concurrent" else "cpu_us"
    points = json.loads(out.read_text("utf-8"))["points"]
    assert [point["size"] for point in points] == [int(size) for size in sizes.split(",")]
    assert all(point[key] > 0 for point in points)


def test_a_target_is_met_missed_or_not_measured():
    def entry(us: float) -> dict[str, Any]:
        return {"results": {"one_delegation": {"us": us}, "no_delegation": {"us": us}}}

    data = {"adapters": {"floor": entry(5.0), "symfonic": entry(40.0)}}
    data["adapters"]["symfonic"]["results"]["no_delegation"]["us"] = 100.0
    lines = report.targets(data).splitlines()
    assert "| S1 one delegation | 40 µs | 5 µs | 8.00× | ≤ 10× | met |" in lines
    assert "| S2 no delegation | 100 µs | 5 µs | 20× | ≤ 10× | **missed**, 2.00 times over |" in lines
    assert sum("not measured" in line for line in lines) == len(report.TARGETS) - 2


def test_the_growth_order_is_read_off_the_last_decade():
    sizes = (1, 10, 20, 50, 100)
    assert curves.slope([(size, 1000 + 0.0 * size) for size in sizes]) == pytest.approx(0)
    assert curves.slope([(size, 3.0 * size) for size in sizes]) == pytest.approx(1)
    assert curves.slope([(1, 1e9), *((size, 2.0 * size**2) for size in sizes[1:])]) == pytest.approx(2)
    told = [curves.order(growth, 1.0) for growth in (0.01, 1.0, 2.0)]
    assert told == ["constant", "at most linear", "worse than linear"]
    assert curves.order(1.3, 1.25) == "as the floor's own"


def test_the_page_has_a_place_for_everything_that_is_measured_and_keeps_the_rest():
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    data = json.loads((BENCH / "results.json").read_text("utf-8"))
    made = report.parts(data)
    assert made.keys() == {"machine", "targets", "tables", "curves", "where"}
    new = report.written(page, dict.fromkeys(made, "NEW"))
    assert new.count("\nNEW\n") == len(made)
    assert report.written(new, made) == report.written(page, made)
    with pytest.raises(ValueError, match="0 places for the part 'more'"):
        report.written(page, {"more": ""})


def test_the_page_and_its_images_are_those_of_the_committed_results():
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    data = json.loads((BENCH / "results.json").read_text("utf-8"))
    assert report.written(page, report.parts(data)) == page
    for image in curves.IMAGES:
        assert f"(images/{image})" in page
        assert (ROOT / "docs" / "images" / image).exists()


def test_a_sample_is_charged_to_the_innermost_part_that_is_known():
    package = where.package()
    turn = f"turning ({BENCH}/where.py:9);"
    stacks = (
        f"main (x.py:1);{turn}run ({package}/agent/engine.py:7) 3\n"
        f"main (x.py:1);{turn}_ask ({package}/kernel/runtime/turn.py:7);__init__ (<string>:2) 1\n"
        "import_module (importlib/__init__.py:7) 99\n"
    )
    assert where.shares(stacks) == {where.PARTS["agent"]: 0.75, where.PARTS["kernel/runtime"]: 0.25}
