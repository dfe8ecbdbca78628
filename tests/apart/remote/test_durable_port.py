"""What `Runs` asks of DBOS, in an order that is forced: a fake stands at the port, and answers when it is told to."""

import asyncio
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from dbos import error

from symfonic.durable.runs import AnotherCallError, Runs
from symfonic.durable.settings import Settings, Waits
from symfonic.remote.answer import Answer
from symfonic.remote.envelope import Envelope
from symfonic.remote.reception import ANOTHER_CALL

IN_TIME = 5


@dataclass
class Row:
    """A workflow as it is listed."""

    workflow_id: str
    attributes: dict[str, Any]
    status: str = "ENQUEUED"
    output: Any = None
    error: Any = None
    executor_id: Any = None
    app_version: str = "1"
    input: Any = None
    created_at: int = 0
    recovery_attempts: int = 1


@dataclass
class Kept:
    """Workflows in memory. What is called stops before it does anything while there is a gate of its name."""

    rows: dict[str, Row] = field(default_factory=dict)
    gates: dict[str, asyncio.Event] = field(default_factory=dict)
    arrived: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))

    def close(self, name):
        self.gates[name] = asyncio.Event()

    def open(self, name):
        self.gates.pop(name).set()

    async def come_to(self, name):
        await asyncio.wait_for(self.arrived[name].wait(), IN_TIME)

    async def _at(self, name):
        self.arrived[name].set()
        if name in self.gates:
            await self.gates[name].wait()

    async def register_queue_async(self, name, **settings):
        await self._at("register")

    async def enqueue_async(self, options, envelope):
        await self._at("enqueue")
        row = Row(options["workflow_id"], options["attributes"], input={"args": [envelope]})
        self.rows.setdefault(options["workflow_id"], row)

    async def cancel_workflows_async(self, ids):
        await self._at("cancel")
        for each in ids:
            if self.rows[each].status in ("ENQUEUED", "PENDING"):
                self.rows[each].status = "CANCELLED"

    async def resume_workflows_async(self, ids):
        for each in ids:
            self.rows[each].status = "ENQUEUED"

    async def list_workflows_async(self, *, workflow_ids=None, workflow_id_prefix=None, status=None, **which):
        await self._at("list")
        wanted = [status] if isinstance(status, str) else status
        found = [
            replace(each)
            for each in self.rows.values()
            if (workflow_ids is None or each.workflow_id in workflow_ids)
            and (workflow_id_prefix is None or each.workflow_id.startswith(tuple(workflow_id_prefix)))
            and (wanted is None or each.status in wanted)
        ]
        if found and wanted:
            await self._at("found ended")
        return found


def envelope(run_id, parent=None, depth=0, task="Go."):
    lineage = {"run_id": run_id, "root_run_id": "r", "parent_run_id": parent}
    return Envelope.read({"agent": agent(depth), "task": task, "lineage": lineage, "depth": depth})


def agent(depth):
    return "/".join(["lead", "a", "b"][: depth + 1])


def tree_of(*run_ids):
    """Runs that go on, the first one the root, each below the one before."""
    rows, parent = {}, None
    for depth, run_id in enumerate(run_ids):
        told = {"agent": agent(depth), "depth": depth, "root": "r", "parent": parent}
        asked = {"args": [envelope(run_id, parent, depth).plain()]}
        rows[run_id], parent = Row(run_id, told, "PENDING", input=asked), run_id
    return Kept(rows)


def runs_of(kept):
    return Runs(kept, Settings("nowhere.db", waits=Waits(end=IN_TIME, start=IN_TIME)))


def statuses(kept):
    return {each.workflow_id: each.status for each in kept.rows.values()}


@pytest.mark.parametrize("cancelled", ["r", "r.a"])
async def test_a_child_that_is_put_into_its_queue_behind_a_cancellations_back_is_cancelled(cancelled):
    kept = tree_of("r", "r.a")
    runs = runs_of(kept)
    kept.close("enqueue")
    asking = asyncio.create_task(runs.through(envelope("r.a.b", "r.a", 2)))
    await kept.come_to("enqueue")
    await runs.cancel(cancelled)  # it finds all that there is, and the child is on its way
    kept.open("enqueue")
    with pytest.raises(error.DBOSWorkflowCancelledError, match=f"the run {cancelled} goes on no more"):
        await asyncio.wait_for(asking, 2 * IN_TIME)
    assert statuses(kept)["r.a.b"] == "CANCELLED"


@pytest.mark.parametrize("status", ["CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"])
async def test_a_child_whose_parent_goes_on_no_more_does_not_begin(status):
    kept = tree_of("r", "r.a", "r.a.b")
    kept.rows["r.a"].status = status
    with pytest.raises(error.DBOSWorkflowCancelledError):
        await runs_of(kept).admit(envelope("r.a.b", "r.a", 2))
    assert statuses(kept)["r.a.b"] == "CANCELLED"
    kept.rows["r.a"].status = "PENDING"
    await runs_of(kept).admit(envelope("r.a.b", "r.a", 2))


async def test_a_parent_that_is_cancelled_does_not_read_that_its_child_was():
    """The child is cancelled with it, and first: what the parent wrote of that would be wrong when it is resumed."""
    kept = tree_of("r", "r.a")
    asking = asyncio.create_task(runs_of(kept).through(envelope("r.a", "r", 1)))
    await kept.come_to("list")
    kept.rows["r"].status = kept.rows["r.a"].status = "CANCELLED"
    with pytest.raises(error.DBOSWorkflowCancelledError):
        await asyncio.wait_for(asking, 2 * IN_TIME)


async def test_a_parent_that_was_cancelled_cancels_its_child_no_second_time():
    """Both may be resumed by then, and a child that is cancelled again is one that its parent reads of."""
    kept = tree_of("r", "r.a")
    kept.close("cancel")
    asking = await asked(kept, runs_of(kept), envelope("r.a", "r", 1))
    kept.rows["r"].status = kept.rows["r.a"].status = "CANCELLED"
    await asyncio.wait({asking}, timeout=1)
    kept.rows["r"].status = kept.rows["r.a"].status = "ENQUEUED"
    kept.open("cancel")
    with pytest.raises(error.DBOSWorkflowCancelledError):
        await asyncio.wait_for(asking, IN_TIME)
    assert statuses(kept) == {"r": "ENQUEUED", "r.a": "ENQUEUED"}


@pytest.mark.parametrize("how", ["admit", "through"])
@pytest.mark.parametrize("status", ["CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED"])
async def test_a_child_that_is_cancelled_when_its_parent_is_resumed_goes_on_with_it(how, status):
    kept = tree_of("r", "r.a", "r.a.b")
    kept.rows["r"].status = status
    kept.close("cancel")
    asking = asyncio.create_task(getattr(runs_of(kept), how)(envelope("r.a", "r", 1)))
    await kept.come_to("cancel")
    kept.rows["r"].status = "ENQUEUED"
    kept.open("cancel")
    with pytest.raises(error.DBOSWorkflowCancelledError):
        await asyncio.wait_for(asking, IN_TIME)
    assert statuses(kept) == dict.fromkeys(("r", "r.a", "r.a.b"), "ENQUEUED")


async def test_what_is_below_a_run_that_was_given_up_goes_on_when_that_is_resumed():
    kept = tree_of("r", "r.a")
    kept.close("cancel")
    asking = await asked(kept, runs_of(kept), envelope("r"))
    kept.rows["r"].status = "MAX_RECOVERY_ATTEMPTS_EXCEEDED"
    await kept.come_to("cancel")
    kept.rows["r"].status = "ENQUEUED"
    kept.open("cancel")
    assert "given up" in (await asyncio.wait_for(asking, IN_TIME)).text
    assert statuses(kept) == {"r": "ENQUEUED", "r.a": "ENQUEUED"}


async def test_a_child_that_is_cancelled_alone_is_told_of_to_its_parent():
    kept = tree_of("r", "r.a")
    asking = asyncio.create_task(runs_of(kept).through(envelope("r.a", "r", 1)))
    await kept.come_to("list")
    kept.rows["r.a"].status = "CANCELLED"
    assert (await asyncio.wait_for(asking, 2 * IN_TIME)).status == "cancelled"


@pytest.mark.parametrize("steps", range(1, 12))
async def test_a_caller_that_is_cancelled_at_any_step_and_again_at_each_leaves_nothing_running(steps):
    kept = tree_of("r", "r.a", "r.a.b")
    del kept.rows["r"]
    asking = asyncio.create_task(runs_of(kept).through(envelope("r")))
    for _ in range(steps):
        await asyncio.sleep(0)
    kept.close("cancel")
    asking.cancel()
    await kept.come_to("cancel")
    asking.cancel()
    await asyncio.sleep(0)
    asking.cancel()
    kept.open("cancel")
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asking, IN_TIME)
    assert set(statuses(kept).values()) == {"CANCELLED"}


@pytest.mark.parametrize("steps", range(12))
@pytest.mark.parametrize("how", ["closing", "left"])
async def test_a_caller_that_goes_with_its_process_cancels_nothing(steps, how):
    kept = tree_of("r", "r.a")
    runs = runs_of(kept)
    asking = asyncio.create_task(runs.through(envelope("r"), lambda: how == "left"))
    for _ in range(steps):
        await asyncio.sleep(0)
    runs.closing = how == "closing"
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asking, IN_TIME)
    assert statuses(kept) == {"r": "PENDING", "r.a": "PENDING"}


async def test_a_cancellation_that_comes_to_no_end_is_given_up_when_it_is_cancelled_late(monkeypatch):
    monkeypatch.setattr("symfonic.durable.runs.GRACE", 0.0)
    kept = tree_of("r")
    kept.close("cancel")
    asking = asyncio.create_task(runs_of(kept).through(envelope("r")))
    await kept.come_to("list")
    asking.cancel()
    await kept.come_to("cancel")
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(asking, IN_TIME)
    assert statuses(kept) == {"r": "PENDING"}


async def asked(kept, runs, envelope, *left):
    """Somebody who has asked for a run, and has seen how it stands."""
    kept.arrived.pop("list", None)
    task = asyncio.create_task(runs.through(envelope, *left))
    await kept.come_to("list")
    return task


def finishes(kept, run_id):
    ids = envelope(run_id).lineage.model_dump()
    told = Answer.read({"status": "finished", "text": "Here.", "lineage": ids})
    kept.rows[run_id].status, kept.rows[run_id].output = "SUCCESS", told.plain()


async def test_whoever_asks_when_a_run_was_resumed_is_not_told_how_it_had_ended_before():
    """One who waited for it already was finding that out."""
    kept = tree_of("r")
    runs = runs_of(kept)
    kept.close("found ended")
    first = await asked(kept, runs, envelope("r"))
    kept.rows["r"].status = "CANCELLED"
    await kept.come_to("found ended")
    kept.rows["r"].status = "PENDING"
    second = await asked(kept, runs, envelope("r"))
    kept.open("found ended")
    assert (await asyncio.wait_for(first, IN_TIME)).status == "cancelled"
    assert not (await asyncio.wait({second}, timeout=0.2))[0]
    finishes(kept, "r")
    assert (await asyncio.wait_for(second, IN_TIME)).text == "Here."


async def test_what_was_found_for_one_who_has_gone_is_not_told_to_the_next():
    kept = tree_of("r", "r.a")
    kept.rows["r.b"] = replace(kept.rows["r.a"], workflow_id="r.b")
    runs = runs_of(kept)
    kept.close("found ended")
    stays = await asked(kept, runs, envelope("r.b", "r", 1))
    gone = await asked(kept, runs, envelope("r.a", "r", 1), lambda: True)
    kept.rows["r.a"].status = "CANCELLED"
    await kept.come_to("found ended")
    gone.cancel()
    await asyncio.wait({gone}, timeout=IN_TIME)
    kept.open("found ended")
    kept.rows["r.a"].status = "PENDING"
    again = await asked(kept, runs, envelope("r.a", "r", 1))
    assert not (await asyncio.wait({again}, timeout=0.2))[0]
    finishes(kept, "r.a")
    finishes(kept, "r.b")
    assert [(await asyncio.wait_for(each, IN_TIME)).text for each in (stays, again)] == ["Here."] * 2


async def test_what_has_ended_is_its_answer_whoever_asks():
    kept = tree_of("r")
    finishes(kept, "r")
    runs = runs_of(kept)
    assert [each.text for each in await asyncio.gather(*(runs.through(envelope("r")) for _ in range(3)))] == [
        "Here."
    ] * 3
    await runs.cancel("r")
    assert statuses(kept) == {"r": "SUCCESS"}


async def test_of_two_tasks_that_come_at_once_under_one_id_the_second_is_refused_and_ends_nothing():
    kept = tree_of()
    runs = runs_of(kept)
    kept.close("enqueue")
    first = asyncio.create_task(runs.through(envelope("r")))
    second = asyncio.create_task(runs.through(envelope("r", task="Stop.")))
    third = asyncio.create_task(runs.through(envelope("r", task="Turn.")))
    await kept.come_to("enqueue")
    third.cancel()
    kept.open("enqueue")
    with pytest.raises(AnotherCallError, match=ANOTHER_CALL):
        await asyncio.wait_for(second, IN_TIME)
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(third, IN_TIME)
    assert statuses(kept) == {"r": "ENQUEUED"}
    first.cancel()
    await asyncio.wait({first}, timeout=IN_TIME)
    assert statuses(kept) == {"r": "CANCELLED"}


@pytest.mark.parametrize("wrong", [{"agent": "lead"}, {"parent": None}, {"parent": "s"}])
async def test_a_child_whose_id_another_run_has_taken_does_not_pass_that_ones_answer_off_as_its_own(wrong):
    kept = tree_of("r", "r.a")
    kept.rows["r.a"].attributes |= wrong
    with pytest.raises(AnotherCallError, match=ANOTHER_CALL):
        await asyncio.wait_for(runs_of(kept).through(envelope("r.a", "r", 1)), IN_TIME)
    assert statuses(kept) == {"r": "PENDING", "r.a": "PENDING"}


async def test_a_child_whose_task_is_put_in_other_words_the_second_time_has_its_answer():
    kept = tree_of("r", "r.a")
    lineage = {"run_id": "r.a", "root_run_id": "r", "parent_run_id": "r"}
    kept.rows["r.a"].status = "SUCCESS"
    kept.rows["r.a"].output = Answer.read({"status": "finished", "text": "Here.", "lineage": lineage}).plain()
    told = await asyncio.wait_for(runs_of(kept).through(envelope("r.a", "r", 1, "Go now.")), IN_TIME)
    assert told.text == "Here."
