"""Whoever comes with ids that are not its own has no more than whose they are; a stranger is a root at most."""

import asyncio
import json
from typing import Any

import pytest
from remote_kit import SENT, Far, Seen, arrives, asks, lineage, says, told

from symfonic import Limits
from symfonic.remote import crossing
from symfonic.remote.answer import Answer
from symfonic.remote.crossing import leaving
from symfonic.remote.reception import Reception

pytestmark = pytest.mark.usefixtures("sides")


async def test_a_call_back_with_the_id_of_the_very_call_has_its_depth_and_what_it_spends_is_charged() -> None:
    leaf = says("home", 60, 40)
    home = Reception({"worker": leaf, "deeper": asks(("leaf", "go"), children={"leaf": leaf})})
    answers: list[Answer] = []

    async def impersonate(query: str) -> str:
        [*_, run_id] = crossing.way_here.get()
        sent = lineage(run_id=run_id, root_run_id="other", via=[])
        answers.append(await told(home, "near", agent="deeper", lineage=sent, depth=0, max_depth=99, left={}))
        answers.append(await told(home, "near", agent="deeper", lineage=sent, depth=0, max_depth=99, left={}))
        return "done"

    nothing = {"delegations": 0, "records": [], "spent": {}}
    far = Far(Reception({"worker": Seen(impersonate)}), mislead=lambda came: {**came, **nothing})
    lead = asks(("far", "go"), children={"far": far}, max_depth=1, limits=Limits(max_delegations=2, max_tokens=1000))

    result = await lead.run("go")

    assert [answer.status for answer in answers] == ["finished", "finished"]
    assert "maximum sub-agent depth (1) reached" in answers[0].text  # what it asked in turn would have been depth 2
    assert answers[1] == answers[0]  # it ran once
    assert result.usage.input_tokens + result.usage.output_tokens == 20 + 20


async def test_what_a_call_spent_where_it_came_back_is_charged_also_when_no_answer_ever_comes() -> None:
    home = Reception({"worker": says("home", 60, 40)})

    async def impersonate(query: str) -> str:
        [*_, run_id] = crossing.way_here.get()
        await told(home, "near", lineage=lineage(run_id=run_id), task="go")
        raise AssertionError("nobody is told of this")

    def lose(came: dict[str, Any]) -> dict[str, Any]:
        raise ConnectionError("the line is dead")

    far = Far(Reception({"worker": Seen(impersonate)}), mislead=lose)

    result = await asks(("far", "go"), children={"far": far}).run("go")

    assert "the line is dead" in result.delegations[0].message
    assert result.usage.input_tokens + result.usage.output_tokens == 20 + 100


async def test_a_call_back_with_the_id_of_another_call_that_is_out_has_no_more_than_that_one() -> None:
    leaf = Seen()
    home = Reception({"home": leaf})
    other_is_out, done = asyncio.Event(), asyncio.Event()
    ids: list[str] = []

    async def wait(query: str) -> str:
        ids.append(crossing.way_here.get()[-1])
        other_is_out.set()
        await done.wait()
        return "waited"

    async def impersonate(query: str) -> str:
        await other_is_out.wait()
        for via in ([], [ids[0]]):
            run_id = ids[0] if not via else "made up"
            await told(home, "near", agent="home", lineage=lineage(run_id=run_id, via=via), depth=0, max_depth=99)
        done.set()
        return "done"

    lead = asks(
        [("patient", "go"), ("liar", "go")],
        children={
            "patient": Far(Reception({"worker": Seen(wait)})),
            "liar": Far(Reception({"worker": Seen(impersonate)})),
        },
        max_depth=3,
        limits=Limits(max_tokens=500),
    )

    await lead.run("go")

    assert [(run.depth, run.max_depth) for run in leaf.runs] == [(1, 3), (2, 3)]
    assert [left and left.max_tokens for left in leaf.left] == [490, 490]


async def test_a_liar_with_made_up_ids_is_a_root_under_the_receptions_own_ceiling_and_limits() -> None:
    leaf = Seen()
    reception = Reception({"worker": leaf}, max_depth=2, limits=Limits(max_tokens=100, timeout=50))
    with leaving("worker", "something of ours that is out"):
        for number in range(3):
            sent = lineage(run_id=f"a{number}", root_run_id=f"b{number}", via=[f"c{number}"])
            answer = await told(reception, lineage=sent, depth=0, max_depth=99, left={"max_tokens": 2**50})
            assert answer.status == "finished"
        refused = await told(reception, lineage=lineage(run_id="d"), depth=3, max_depth=99)

    assert refused.status == "refused"
    assert [(run.depth, run.max_depth) for run in leaf.runs] == [(0, 2)] * 3
    assert [left and left.max_tokens for left in leaf.left] == [100] * 3
    assert all(left is not None and left.timeout is not None and left.timeout <= 50 for left in leaf.left)


async def test_a_call_back_after_the_call_has_ended_is_a_strangers() -> None:
    leaf = Seen()
    home = Reception({"home": leaf}, max_depth=1, limits=Limits(max_tokens=7))
    ids: list[tuple[str, ...]] = []

    async def remember(query: str) -> str:
        ids.append(crossing.way_here.get())
        return "done"

    await asks(("far", "go"), children={"far": Far(Reception({"worker": Seen(remember)}))}, max_depth=5).run("go")
    await told(home, "near", agent="home", lineage=lineage(via=ids[0]), depth=0)

    assert leaf.runs[0].max_depth == 1
    assert leaf.left[0] is not None
    assert leaf.left[0].max_tokens == 7


async def test_two_attempts_of_one_run_that_are_out_at_once_do_not_forget_each_other() -> None:
    with leaving("worker", "once") as first:
        run_id = first.envelope.lineage.run_id
        with crossing._noted(first.envelope, first._run) as second:
            assert crossing.own(first.envelope) is second
        assert crossing.own(first.envelope) is None
        assert run_id
    assert crossing.own(first.envelope) is None


async def test_a_servers_own_task_inside_a_run_does_not_leak_that_run_into_an_arrival() -> None:
    leaf = Seen()
    reception = Reception({"worker": leaf})

    async def serve(query: str) -> str:
        return await arrives(reception, json.dumps(SENT))

    await asks(("server", "go"), children={"server": Seen(serve)}, limits=Limits(max_tokens=100)).run("go")

    [run] = leaf.runs
    assert run.depth == 1
    assert run.identity is not None
    assert run.identity.root_run_id == "root"
    assert leaf.left == [None]


async def test_who_knows_the_root_alone_is_below_the_deepest_call_of_that_tree_that_is_out() -> None:
    leaf = Seen()
    home = Reception({"worker": leaf})
    with leaving("worker", "above") as above, leaving("worker", "below"):
        root = above.envelope.lineage.root_run_id
        await told(home, "near", lineage=lineage(root_run_id=root, via=[]), depth=0)

    assert [run.depth for run in leaf.runs] == [2]
