"""A far side that calls back is held to the call that reached it, whatever it claims; a stranger is a root at most."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from remote_kit import Far, Seen, asks, lineage, says, told

from symfonic import Limits, Options, Veto
from symfonic.capabilities.delegation import ChildResponse
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.remote import crossing
from symfonic.remote.answer import Answer
from symfonic.remote.reception import Reception

pytestmark = pytest.mark.usefixtures("sides")

Sent = dict[str, Any]


def _lineage(**fields: Any) -> Callable[[Sent], Sent]:
    return lambda sent: {**sent, "lineage": {**sent["lineage"], **fields}}


LIES: dict[str, Callable[[Sent], Sent]] = {
    "the truth": dict,
    "depth 0": lambda sent: {**sent, "depth": 0},
    "max_depth 99": lambda sent: {**sent, "max_depth": 99},
    "no max_depth": lambda sent: {key: value for key, value in sent.items() if key != "max_depth"},
    "left unlimited": lambda sent: {**sent, "left": {}},
    "no deadline": lambda sent: {key: value for key, value in sent.items() if key != "deadline"},
    "no via": _lineage(via=[]),
    "a wrong via": lambda sent: _lineage(via=["made up", *sent["lineage"]["via"]])(sent),
    "another root, and the via": _lineage(root_run_id="another root"),
    "no parent": _lineage(parent_run_id=None),
    "another parent": _lineage(parent_run_id="another parent"),
    "another run id": _lineage(run_id="made up"),
    "everything but the via": lambda sent: {
        "agent": sent["agent"],
        "task": sent["task"],
        "lineage": {"run_id": "made up", "root_run_id": "made up", "via": sent["lineage"]["via"]},
        "depth": 0,
        "max_depth": 99,
        "left": {},
    },
    "everything but the root": lambda sent: {
        "agent": sent["agent"],
        "task": sent["task"],
        "lineage": {"run_id": "made up", "root_run_id": sent["lineage"]["root_run_id"]},
        "depth": 0,
        "max_depth": 99,
    },
}


class Liar:
    """A far side's agent that calls back as often as it likes, with a lie, and without counting anything."""

    def __init__(self, home: Reception, lie: Callable[[Sent], Sent], times: int = 1) -> None:
        self.home, self.lie, self.times = home, lie, times
        self.answers: list[Answer] = []

    async def run(self, query: str) -> ChildResponse:
        for _ in range(self.times):
            here = active_run()
            assert here is not None
            assert here.identity is not None
            run_id = f"{here.identity.run_id}.{len(self.answers)}"
            sent = {
                "agent": "home",
                "task": "go",
                "lineage": {
                    "run_id": run_id,
                    "root_run_id": here.identity.root_run_id,
                    "parent_run_id": here.identity.run_id,
                    "via": [*crossing.way_here.get(), run_id],
                },
                "depth": here.depth + 1,
                "max_depth": here.max_depth,
                "left": {},
                "deadline": 2.0**40,
            }
            lied = self.lie(sent)
            lied["lineage"] = {**lied["lineage"], "run_id": f"{lied['lineage']['run_id']} {len(self.answers)}"}
            self.answers.append(await told(self.home, "near", **{"deadline": None, "max_depth": None, **lied}))
        return ChildResponse("called back")


def lying(home: Reception, lie: Callable[[Sent], Sent], times: int = 1, **answer: Any) -> tuple[Liar, Far]:
    liar = Liar(home, lie, times)
    nothing = {"delegations": 0, "records": [], "spent": {}}
    return liar, Far(Reception({"worker": liar}), mislead=lambda came: {**came, **nothing, **answer})


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_a_call_back_is_deeper_than_the_call_that_reached_it_and_under_its_ceiling_root_and_limits(
    lie: Callable[[Sent], Sent],
) -> None:
    leaf = Seen()
    liar, far = lying(Reception({"home": leaf}), lie)
    lead = asks(("far", "go"), children={"far": far}, max_depth=3, limits=Limits(max_tokens=500, timeout=60))

    result = await lead.run("go")

    assert [answer.status for answer in liar.answers] == ["finished"]
    [run] = leaf.runs
    assert (run.depth, run.max_depth) == (2, 3)
    assert run.identity is not None
    assert run.identity.root_run_id == result.run_id
    assert leaf.left[0] is not None
    assert leaf.left[0].max_tokens == 490
    assert leaf.left[0].timeout is not None
    assert leaf.left[0].timeout <= 60


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
async def test_a_call_back_below_the_ceiling_of_the_call_that_reached_it_is_refused(
    lie: Callable[[Sent], Sent],
) -> None:
    leaf = Seen()
    liar, far = lying(Reception({"home": leaf}), lie)

    await asks(("far", "go"), children={"far": far}, max_depth=1).run("go")

    assert [answer.status for answer in liar.answers] == ["refused"]
    assert "maximum sub-agent depth (1) reached" in liar.answers[0].text
    assert leaf.tasks == []


@pytest.mark.parametrize("lie", LIES.values(), ids=LIES)
@pytest.mark.parametrize("name", ["max_delegations", "max_model_calls", "max_tokens"])
async def test_call_backs_are_counted_as_they_happen_and_refused_when_nothing_is_left(
    name: str, lie: Callable[[Sent], Sent]
) -> None:
    """The far side says in the end that it spent nothing; what it made this side spend is spent all the same."""
    liar, far = lying(Reception({"home": says("home", 6, 4)}), lie, times=5)
    most = {"max_delegations": 3, "max_model_calls": 3, "max_tokens": 25}[name]
    lead = asks(("far", "go"), ("far", "again"), children={"far": far}, limits=Limits(**{name: most}))

    with pytest.raises(Exception, match=name) if name != "max_delegations" else _nothing():
        result = await lead.run("go")
        assert result.usage.model_calls == 3 + 2
        assert [each.delivered for each in result.delegations] == [True, False]

    assert [answer.status for answer in liar.answers] == ["finished", "finished", "refused", "refused", "refused"]
    assert "no more" in liar.answers[2].text or "spent" in liar.answers[2].text


class _nothing:  # noqa: N801 - a context manager like those beside it
    def __enter__(self) -> None: ...
    def __exit__(self, *ended: Any) -> None: ...


async def test_a_call_back_that_hangs_ends_with_the_time_of_the_call_that_reached_it() -> None:
    ended = asyncio.Event()

    async def hang(query: str) -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return "never"

    home = Reception({"home": Seen(hang)})
    calls: list[asyncio.Task[Any]] = []

    async def leave_behind(query: str) -> str:
        run_ids = crossing.way_here.get()
        sent = told(home, "near", agent="home", lineage=lineage(run_id="made up", via=run_ids), deadline=None)
        calls.append(asyncio.get_running_loop().create_task(sent))
        await asyncio.Event().wait()
        return "never"

    lead = asks(("far", "go"), children={"far": Far(Reception({"worker": Seen(leave_behind)}))})
    with pytest.raises(Exception, match="timeout"):
        await lead.run("go", limits=Limits(timeout=0.1))

    async with asyncio.timeout(5):
        await ended.wait()
        answer = await calls[0]
    assert answer.status == "timed_out"


async def test_a_call_back_asks_the_hooks_of_the_tree_it_came_from() -> None:
    asked: list[tuple[str, int]] = []

    def hook(request: Any) -> Any:
        asked.append((request.name, request.depth))
        return Veto("not today") if request.name == "home" else None

    leaf = Seen()
    liar, far = lying(Reception({"home": leaf}), dict)

    await asks(("far", "go"), children={"far": far}, options=Options(on_delegate=hook)).run("go")

    assert asked == [("far", 1), ("home", 2)]
    assert [answer.status for answer in liar.answers] == ["refused"]
    assert "not today" in liar.answers[0].text
    assert leaf.tasks == []


async def test_observers_of_the_tree_see_what_a_call_back_does_in_it() -> None:
    seen: list[Any] = []
    _, far = lying(Reception({"home": says()}), dict)

    await asks(("far", "go"), children={"far": far}, options=Options(observers=(seen.append,))).run("go")

    runs = [(each.where.agent, each.where.depth) for each in seen if type(each).__name__ == "RunStarted"]
    assert ("home", 2) in runs


async def test_a_call_back_waits_for_a_place_where_few_may_run_at_once() -> None:
    running = peak = 0

    async def work(query: str) -> str:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        for _ in range(5):
            await asyncio.sleep(0)
        running -= 1
        return "done"

    home = Reception({"home": Seen(work)})
    far = Reception(
        {"worker": asks([("home", str(n)) for n in range(4)], children={"home": Far(home, "home", "near")})}
    )
    lead = asks([("far", "a"), ("far", "b")], children={"far": Far(far)}, limits=Limits(max_concurrency=2))

    result = await lead.run("go")

    assert all(each.delivered for record in result.delegations for each in record.children)
    assert peak <= 2


async def test_a_call_back_runs_where_it_arrived_and_not_in_the_journal_of_the_call_that_reached_it() -> None:
    class Nowhere:
        async def step(self, name: str, fn: Any) -> Any:
            raise AssertionError(name)

    class Journalled:
        def __init__(self, far: Far) -> None:
            self.far = far

        async def run(self, query: str) -> Any:
            run = active_run()
            assert run is not None
            run.journal = Nowhere()
            return await self.far.run(query)

    liar, far = lying(Reception({"home": says("from home")}), dict)

    await asks(("far", "go"), children={"far": Journalled(far)}).run("go")

    assert [answer.text for answer in liar.answers] == ["from home"]


@pytest.mark.parametrize("delegations", [0, 2**53])
async def test_what_a_far_side_claims_to_have_spent_is_charged_even_where_its_records_are_none(
    delegations: int,
) -> None:
    _, far = lying(
        Reception({"home": says()}),
        dict,
        delegations=delegations,
        spent={"input_tokens": 1000},
        records=[{"name": "no record"}],
    )
    lead = asks(("far", "go"), ("far", "go"), children={"far": far}, limits=Limits(max_tokens=900))

    with pytest.raises(Exception, match="max_tokens"):
        await lead.run("go")
