"""A served agent whose runs outlive its server: whoever sends a call again has the answer of the one run."""

import asyncio
import signal
from collections import Counter

import httpx
import pytest
from a2a.client.errors import A2AClientError
from a2a.types import CancelTaskRequest, TaskState
from a2a_kit import extended, request, sdk_client, served_here, serving, task_of, words
from a2a_kit import until as until_within
from durable_kit import LONGEST, only_the_scale_is_left, rows, statuses

from symfonic import Agent, DelegationOutcome, Limits, SubAgent, SymfonicError
from symfonic.durable import durable
from symfonic.kernel.concurrency.tasks import started
from symfonic.kernel.contracts.model import ModelReply
from symfonic.remote.a2a import a2a_app, a2a_child
from symfonic.remote.a2a.exchange import MOST_LOST
from symfonic.remote.a2a.extension import found, plain
from symfonic.remote.answer import Answer
from symfonic.remote.envelope import Envelope
from symfonic.remote.reception import Reception
from symfonic.testing import FunctionModel, ScriptedModel, tool_call

pytest_plugins = ["durable_fixtures"]

TASK = "Tell me all."
ANSWER = "counted and counted and the box: 3 kg and noted"
TREE = 1 + 2 * 2 + 1  # the lead, its researchers, who have a counter each, and the scale
TOKENS = {"ann-token": "ann", "bob-token": "bob"}


async def until(true):
    await until_within(true, LONGEST)


def serve(stage, port=0):
    """A server of the team, under the same executor's id each time."""
    return serving(stage.folder, "durable", database=stage.database, tokens=TOKENS, port=port)


def message():
    """The same call, whenever it is sent."""
    lineage = {"run_id": "there", "root_run_id": "root", "parent_run_id": "root", "via": ["there"]}
    return request(TASK, {"lineage": lineage})


async def send(server, who="ann"):
    """The task of the call when it has ended."""
    async with sdk_client(server.url, token=f"{who}-token") as client:
        return await task_of(client, message(), extended())


async def killed_at_the_scale(stage):
    """A server has done all of a call but for its last child, and is killed while that is running."""
    stage.hold("scale")
    with serve(stage) as server:
        sending = started(send(server))
        await until(lambda: only_the_scale_is_left(stage))
        server.kill()
        with pytest.raises(A2AClientError):
            await sending


def done_once(stage, *, scale):
    """Each model was asked and each tool called once at each step; the child in flight as often as is said."""
    for kind in ("model", "spoke", "tool"):
        assert set(stage.times(kind, None).values()) == {1}, kind
    assert list(stage.times("function", "scale").values()) == [scale]


def told(task):
    """The answer that came with a task."""
    return Answer.read(found(plain(task.metadata), text=words(task)))


async def test_a_call_that_is_sent_again_after_its_server_was_killed_is_done_once(stage):
    await killed_at_the_scale(stage)
    with serve(stage) as server:
        sending = started(send(server))
        await until(lambda: len(stage.journal("function")) == 2)
        stage.go_on("scale")
        task = await sending
    assert words(task) == ANSWER
    done_once(stage, scale=2)
    assert statuses(stage.database) == {"SUCCESS": TREE}
    answer = told(task)
    assert (answer.delegations, answer.spent.model_calls) == (TREE - 1, 2 + 2 * (2 + 1))
    assert [each["name"] for each in answer.records] == ["researcher", "researcher", "scale"]
    ids = [(each["child"]["root_run_id"], each["child"]["parent_run_id"]) for each in answer.records]
    assert ids == [("root", "there")] * 3, "its caller reads the ids that it sent"


async def test_a_run_goes_on_as_soon_as_its_server_is_back_and_has_its_answer_when_it_is_asked_for(stage):
    await killed_at_the_scale(stage)
    stage.go_on("scale")
    with serve(stage) as server:
        await until(lambda: statuses(stage.database) == {"SUCCESS": TREE})
        assert words(await send(server)) == ANSWER
    with serve(stage) as server:
        assert words(await send(server)) == ANSWER
    done_once(stage, scale=2)


async def test_another_users_call_of_the_same_id_is_another_run(stage):
    await killed_at_the_scale(stage)
    stage.go_on("scale")
    with serve(stage) as server:
        await until(lambda: statuses(stage.database) == {"SUCCESS": TREE})
        stage.hold("lead-0")
        sending = started(send(server, "bob"))
        await until(lambda: len(stage.journal("model", "lead")) == 3)
        assert not sending.done(), "the answer that there is, is not his"
        stage.go_on("lead-0")
        assert words(await sending) == ANSWER
        assert words(await send(server)) == ANSWER
    assert statuses(stage.database) == {"SUCCESS": 2 * TREE}
    assert Counter(run for run, _ in stage.times("model", "lead")) == Counter(dict.fromkeys(roots(stage), 2))


def roots(stage):
    """The runs that callers have asked for."""
    ids = [run for (run,) in rows(stage.database, "SELECT workflow_uuid FROM {}workflow_status")]
    return [each for each in ids if "." not in each]


async def test_a_run_that_was_taken_up_again_is_cancelled_by_whoever_sends_its_call_again(stage):
    await killed_at_the_scale(stage)
    with serve(stage) as server:
        sending = started(send(server))
        await until(lambda: len(stage.journal("function")) == 2)
        async with sdk_client(server.url, token="ann-token") as ann:
            events = ann.send_message(message(), context=extended())
            task = (await anext(events)).task
            await events.aclose()
            cancelled = await ann.cancel_task(CancelTaskRequest(id=task.id))
        assert cancelled.status.state == TaskState.TASK_STATE_CANCELED
        assert (await sending).id == task.id
        await until(lambda: stage.journal("cancelled", "scale"))
        assert statuses(stage.database) == {"SUCCESS": 4, "CANCELLED": 2}


async def test_a_caller_that_is_cancelled_ends_the_tree_for_good(stage):
    stage.hold("scale")
    with serve(stage) as server:
        run = started(a2a_child(server.url, auth="ann-token").run(TASK))
        await until(lambda: stage.journal("function"))
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run
        await until(lambda: stage.journal("cancelled", "scale"))
        left = statuses(stage.database)
        assert set(left) <= {"SUCCESS", "CANCELLED"}
        assert left["CANCELLED"] >= 2
    stage.go_on("scale")
    with serve(stage):
        assert len(stage.journal("function")) == 1
        assert statuses(stage.database) == left


async def test_a_child_waits_for_its_server_however_long_that_is_away(stage):
    stage.hold("scale")
    turned_away = []

    async def turn_away(_, writer):
        turned_away.append(True)
        writer.close()

    with serve(stage) as server:
        child = a2a_child(server.url, auth="ann-token", timeout=LONGEST)  # dropped, it would be closed as the loop ends
        run = started(child.run(TASK))
        await until(lambda: only_the_scale_is_left(stage))
        server.kill()
        port = int(server.url.rpartition(":")[2])
    async with await asyncio.start_server(turn_away, "127.0.0.1", port, reuse_address=True):
        await until(lambda: len(turned_away) > MOST_LOST + 1)
    stage.go_on("scale")
    with serve(stage, port):
        assert (await run).final_response == ANSWER
    await child.aclose()
    done_once(stage, scale=2)


async def test_a_server_that_ends_in_order_cancels_nothing(stage):
    stage.hold("scale")
    with serve(stage) as server:
        sending = started(send(server))
        await until(lambda: only_the_scale_is_left(stage))
        server.popen.send_signal(signal.SIGTERM)
        server.popen.wait(20)
        with pytest.raises(A2AClientError):
            await sending
    assert statuses(stage.database) == {"SUCCESS": 4, "PENDING": 2}
    stage.go_on("scale")
    with serve(stage) as server:
        assert words(await send(server)) == ANSWER
    done_once(stage, scale=2)


def small(**said):
    """A lead with a child that does what its task says."""

    def asks(messages, tools):
        [task] = [each.text for each in messages if each.role == "user"]
        if task == "fail":
            raise OSError("the disk is full")
        if messages[-1].role == "user":
            return tool_call("run_agent", name="hand", task=task)
        return ModelReply(f"It said: {messages[-1].text}", input_tokens=7, output_tokens=2)

    async def does(messages, tools):
        if messages[-1].text == "hang":
            await asyncio.Event().wait()
        return ModelReply(messages[-1].text, input_tokens=3, output_tokens=1)

    hand = SubAgent("hand", Agent(FunctionModel(does), name="hand"), "Does it.")
    return Agent(FunctionModel(asks), name="lead", sub_agents=[hand], **said)


def call(task, **said):
    lineage = {"run_id": "there", "root_run_id": "root", "parent_run_id": "root", "via": ["there"]}
    return Envelope.read({"agent": "lead", "task": task, "lineage": lineage, "depth": 1, **said})


@pytest.mark.parametrize(
    ("task", "sent"),
    [
        ("go", {}),
        ("go", {"max_depth": 1}),
        ("go", {"max_depth": 0}),
        ("go", {"agent": "nobody"}),
        ("go", {"deadline": 1.0}),
        ("go", {"left": {"max_delegations": 0}}),
        ("go", {"left": {"max_tokens": 5}}),
        ("go on and on", {"left": {"max_answer_chars": 11}}),
        ("fail", {}),
    ],
    ids=range(9),
)
async def test_what_comes_of_a_call_is_the_same_as_without_a_database(tmp_path, task, sent):
    here = await Reception({"lead": small()}).answer(call(task, **sent))
    async with durable(small(), str(tmp_path / "tree.db")) as tree:
        there = await Reception({"lead": tree}).answer(call(task, **sent))
    assert there.model_copy(update={"records": ()}) == here.model_copy(update={"records": ()})
    assert [shown(each) for each in there.record_tree()] == [shown(each) for each in here.record_tree()]


def shown(record):
    ids = (record.trace.child.root_run_id, record.trace.child.parent_run_id) if record.trace.child else None
    return record.name, record.outcome, record.depth, record.message, record.trace.usage, ids


async def test_a_call_whose_time_is_over_says_what_it_has_spent(tmp_path):
    async with durable(small(), str(tmp_path / "tree.db")) as tree:
        answer = await Reception({"lead": tree}, limits=Limits(timeout=2.0)).answer(call("hang"))
        assert (answer.status, answer.spent.model_calls, answer.delegations) == ("timed_out", 1, 1)
        [record] = answer.record_tree()
        assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
        await until(lambda: statuses(str(tmp_path / "tree.db"))["PENDING"] == 0)


async def test_a_run_id_of_another_task_is_refused_by_whichever_server_it_reaches(tmp_path):
    async with durable(small(), str(tmp_path / "tree.db")) as tree:
        first = await Reception({"lead": tree}).answer(call("go"))
        other = await Reception({"lead": tree}).answer(call("go on"))
        again = await Reception({"lead": tree}).answer(call("go"))
    assert (other.status, other.text) == ("refused", "Delegation refused: its run id is that of another call")
    assert again == first


async def test_a_run_that_nobody_called_from_elsewhere_is_nobodys_to_read(tmp_path):
    async with durable(small(), str(tmp_path / "tree.db")) as tree:
        await tree.run("go", run_id="there")
        await Reception({"lead": tree}).answer(call("go"))
        assert [each.depth for each in await tree.runs()].count(1) == 2, "the child of the first, and the second"


async def test_a_durable_far_side_is_a_child_like_any_other(tmp_path):
    tree = durable(small(), str(tmp_path / "tree.db"))
    async with served_here(lambda url: a2a_app(tree, url=url, max_depth=2)) as url:
        far = SubAgent("far", a2a_child(url), "Works elsewhere.")
        lead = Agent(ScriptedModel(tool_call("run_agent", name="far", task="go"), "done"), sub_agents=[far])
        result = await lead.run("Go.", max_depth=3)
    [record] = result.delegations
    [below] = record.children
    assert (record.message, below.outcome, below.depth) == ("It said: go", DelegationOutcome.DELIVERED, 2)
    assert (below.root_run_id, below.parent_run_id) == (result.run_id, record.trace.child.run_id)
    assert (result.usage.model_calls, result.usage.input_tokens) == (2 + 2 + 1, 7 + 3)
    with pytest.raises(SymfonicError, match="has been closed"):
        await tree.start()


async def test_a_server_that_is_closed_leaves_its_runs_also_where_other_trees_go_on(tmp_path):
    file = str(tmp_path / "tree.db")
    async with durable(Agent(ScriptedModel("done"), name="other"), file) as other:
        async with served_here(lambda url: a2a_app(durable(small(), file), url=url)) as url:
            run = started(a2a_child(url).run("hang"))
            await until(lambda: statuses(file)["PENDING"] == 2)
        assert statuses(file) == {"PENDING": 2}
        assert (await other.run("Go.")).text == "done"
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run


@pytest.mark.parametrize("made", [durable, lambda agent, file: Agent(ScriptedModel("Yes."), durable=file)])
async def test_the_card_says_of_every_durable_agent_that_it_lasts(tmp_path, made):
    kept = made(Agent(ScriptedModel("Yes.")), str(tmp_path / "tree.db"))
    transport = httpx.ASGITransport(a2a_app(kept, url="http://127.0.0.1:1/"))
    async with kept, httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:1") as client:
        card = (await client.get("/.well-known/agent-card.json")).json()
    assert card["capabilities"]["extensions"][0]["params"] == {"lasting": True}
