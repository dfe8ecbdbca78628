"""Durable trees in one process: what a user declares, and what holds for them as for any other."""

import asyncio
import logging
from pathlib import Path

import pytest
from durable_kit import eventually, statuses

from symfonic import (
    Agent,
    AgentRef,
    ChildPolicy,
    ConfigurationError,
    LimitReachedError,
    Limits,
    Options,
    SubAgent,
    SymfonicError,
    Veto,
    from_callable,
    load_team,
)
from symfonic.durable import Settings, Waits, durable
from symfonic.errors import DelegationError, EnvelopeError
from symfonic.remote.answer import RemoteError
from symfonic.testing import FunctionModel, ScriptedModel, check_child_runner, tool_call


@pytest.fixture
def file(tmp_path):
    return str(tmp_path / "tree.db")


def asks(name, task="Look."):
    return tool_call("run_agent", name=name, task=task)


async def waiting(tree, file):
    """A run "r" that nobody takes up."""
    await tree.start()
    asking = asyncio.create_task(tree.run("Go.", run_id="r"))
    await asyncio.to_thread(eventually, lambda: statuses(file)["ENQUEUED"])
    return asking


def clerk(*replies):
    return SubAgent("clerk", Agent(ScriptedModel(*(replies or ("12 invoices.",))), name="clerk"), "Knows.")


async def test_an_agent_may_be_durable_by_itself(file):
    lead = Agent(ScriptedModel(asks("clerk"), "12."), name="lead", sub_agents=[clerk()], durable=file)
    async with lead:
        result = await lead.run("How many?")
    assert result.text == "12."
    assert [each.message for each in result.delegations] == ["12 invoices."]
    assert result.delegations[0].run_id == f"{result.run_id}.call_1_1"
    assert (result.delegated_to, result.usage.model_calls) == (("clerk",), 3)
    with pytest.raises(SymfonicError, match="closed"):
        await lead.run("How many?")


def test_a_durable_agent_runs_from_synchronous_code_more_than_once(file):
    lead = Agent(ScriptedModel(asks("clerk"), "12."), name="lead", sub_agents=[clerk()], durable=Settings(file))
    assert [lead.run_sync("How many?").text for _ in range(2)] == ["12.", "12."]
    asyncio.run(lead.aclose())


async def test_a_durable_agent_inside_another_run_is_an_ordinary_child(file):
    inner = Agent(ScriptedModel("Inside."), name="inner", durable=file)
    outer = Agent(ScriptedModel(asks("inner"), "Done."), sub_agents=[SubAgent("inner", inner, "Is inside.")])
    async with inner:
        result = await outer.run("Go.")
    assert result.delegations[0].message == "Inside."
    assert result.delegations[0].trace.run.identity.root_run_id == result.run_id


async def test_a_durable_tree_is_a_child_of_an_ordinary_run(file):
    lead = Agent(ScriptedModel(asks("clerk"), "12."), name="lead", sub_agents=[clerk()])
    async with durable(lead, file) as tree:
        outer = Agent(ScriptedModel(asks("books"), "Done."), sub_agents=[SubAgent("books", tree, "Keeps the books.")])
        result = await outer.run("Go.")
        [record] = result.delegations
        assert (record.message, record.depth, record.children[0].depth) == ("12.", 1, 2)
        assert record.run_id in {each.run_id for each in await tree.runs()}
        assert record.root_run_id == result.run_id


async def test_a_durable_tree_keeps_the_contract_of_every_child(file):
    failing = Agent(ScriptedModel(OSError("no")), name="failing")
    async with durable(Agent(ScriptedModel("Here."), name="lead"), file) as tree, durable(failing, file) as broken:
        await tree.start()
        await check_child_runner(lambda: tree, make_failing=lambda: broken)


async def test_every_limit_of_the_tree_holds_in_its_runs(file):
    auditor = Agent(ScriptedModel([asks("clerk", "a"), asks("clerk", "b")], "Half."), name="a", sub_agents=[clerk()])
    lead = Agent(
        ScriptedModel(asks("auditor"), "Done."),
        name="lead",
        sub_agents=[SubAgent("auditor", auditor, "Audits.")],
        limits=Limits(max_delegations=2),
    )
    async with durable(lead, file) as tree:
        result = await tree.run("Audit.")
    outcomes = [each.outcome.value for each in result.delegations[0].children]
    assert sorted(outcomes) == ["delivered", "refused_budget"]


async def test_the_ceiling_holds_in_the_runs_below(file):
    lead = Agent(
        ScriptedModel(asks("auditor"), "Done."),
        name="lead",
        sub_agents=[
            SubAgent("auditor", Agent(ScriptedModel(asks("clerk"), "No."), sub_agents=[clerk()]), "Audits."),
        ],
    )
    async with durable(lead, file) as tree:
        result = await tree.run("Audit.", max_depth=1)
    assert [each.outcome.value for each in result.delegations[0].children] == ["refused_depth"]


async def test_a_tree_that_is_out_of_time_is_cancelled(file):
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()

    async def never(messages, tools):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            loop.call_soon_threadsafe(ended.set)
            raise

    sleeper = SubAgent("sleeper", Agent(FunctionModel(never), name="sleeper"), "Sleeps.")
    lead = Agent(ScriptedModel(asks("sleeper"), "Done."), name="lead", sub_agents=[sleeper])
    async with durable(lead, file) as tree:
        with pytest.raises(LimitReachedError, match="timeout"):
            await tree.run("Go.", limits=Limits(timeout=1))
        await asyncio.wait_for(ended.wait(), 3)
        assert {each.status for each in await tree.runs()} <= {"timed_out", "failed", "cancelled"}


async def test_a_child_that_is_out_of_its_own_time_is_cancelled_and_its_parent_goes_on(file):
    async def never(messages, tools):
        await asyncio.Event().wait()

    sleeper = SubAgent("sleeper", Agent(FunctionModel(never)), "Sleeps.", policy=ChildPolicy(timeout=1))
    lead = Agent(ScriptedModel(asks("sleeper"), "Without it."), name="lead", sub_agents=[sleeper])
    async with durable(lead, file) as tree:
        result = await tree.run("Go.")
        assert (result.text, result.delegations[0].outcome.value) == ("Without it.", "child_timed_out")
        assert {each.agent: each.status for each in await tree.runs()} == {
            "lead": "finished",
            "lead/sleeper": "cancelled",
        }


async def test_failures_are_values_in_their_own_words(file):
    bank = clerk(ConnectionError("postgres://till:hunter2@bank does not answer"))
    lead = Agent(ScriptedModel([asks("clerk"), asks("nobody")], "Without."), name="lead", sub_agents=[bank])
    async with durable(lead, file) as tree:
        result = await tree.run("Go.")
    told = {each.outcome.value: each.message for each in result.delegations}
    assert told["child_failed"] == (
        "Sub-agent 'clerk' failed: the model failed: ConnectionError: postgres://till:***@bank does not answer"
    )
    assert "Unknown sub-agent 'nobody'" in told["unknown_child"]
    kept = [path.read_bytes() for path in Path(file).parent.glob("tree.db*")]
    assert any(b"till:***@bank" in each for each in kept)
    assert not any(b"hunter2" in each for each in kept)


async def test_a_root_that_fails_raises_the_words_of_its_failure(file):
    lead = Agent(ScriptedModel(OSError("no connection")), name="lead")
    async with durable(lead, file) as tree:
        with pytest.raises(RemoteError, match="the model failed: OSError: no connection"):
            await tree.run("Go.")
        [run] = await tree.runs()
        assert (run.status, run.text) == ("failed", "the model failed: OSError: no connection")


async def test_whoever_looks_at_the_runs_sees_what_came_of_them(file):
    bank = clerk(ConnectionError("no connection"))
    lead = Agent(ScriptedModel([asks("clerk"), asks("clerk", "Again.")], "Without."), name="lead", sub_agents=[bank])
    async with durable(lead, Path(file)) as tree:
        await tree.run("Go.", run_id="r")
        told = {each.run_id: (each.status, each.text) for each in await tree.runs(run_id="r")}
        assert told["r"] == ("finished", "Without.")
        assert told["r.call_1_1"] == ("failed", "the model failed: ConnectionError: no connection")
        assert await tree.resume("r") == 0


async def test_a_run_id_is_for_one_task_of_one_agent(file):
    async with durable(Agent(ScriptedModel("Yes."), name="lead"), file) as tree:
        assert (await tree.run("Is it so? \ud800", run_id="r")).text == "Yes."
        assert (await tree.run("Is it so? \ud800", run_id="r")).text == "Yes."
        with pytest.raises(
            DelegationError, match=r"the run id 'r' was used before, .* \(lead: 'Is it so\? .*'\): take"
        ):
            await tree.run("Is it not?", run_id="r")
    async with durable(Agent(ScriptedModel("No."), name="other"), file) as tree:
        with pytest.raises(DelegationError, match="the run id 'r' was used before"):
            await tree.run("Is it so? \ud800", run_id="r")


@pytest.mark.parametrize("wrong", ["", " r", "a\nb", "x" * 513, 7])
async def test_a_run_id_that_cannot_be_one_is_refused_in_a_word(file, wrong):
    async with durable(Agent(ScriptedModel("Yes."), name="lead"), file) as tree:
        with pytest.raises(EnvelopeError, match=r"^run_id must be a printable text of 1 to 512 characters"):
            await tree.run("Go.", run_id=wrong)


async def test_a_cancelled_run_says_how_it_goes_on(file):
    async with durable(Agent(ScriptedModel("Yes."), name="lead"), file, worker=False) as tree:
        asking = await waiting(tree, file)
        await tree.cancel("r")
        with pytest.raises(RemoteError, match="symfonic resume r"):
            await asking
        [told] = await tree.runs(run_id="r")
        assert (told.status, told.text) == ("cancelled", "it was cancelled before a worker took it")


async def test_a_run_that_nobody_takes_in_time_is_cancelled_and_known_as_not_taken(file):
    lead = Agent(ScriptedModel("Yes."), name="lead")
    async with durable(lead, file, worker=False, waits=Waits(start=0.1)) as tree:
        with pytest.raises(RemoteError, match="no worker took it"):
            await tree.run("Go.", run_id="r")
        [told] = await tree.runs(run_id="r")
        assert (told.status, told.text) == ("cancelled", "it was cancelled before a worker took it")


@pytest.mark.parametrize("wrong", [{"a": 1}, 7, b"tree.db"])
def test_what_is_no_database_is_refused_by_the_name_of_the_argument(wrong):
    with pytest.raises(ConfigurationError, match=rf"^durable must be a file, .* got {type(wrong).__name__}$"):
        Agent(ScriptedModel("Yes."), durable=wrong)


async def test_what_could_not_be_started_is_in_nobodys_way(file, tmp_path):
    (tmp_path / "corrupt.db").write_text("no database, but a text of some length" * 100)
    for wrong in (tmp_path / "corrupt.db", tmp_path / "no" / "folder.db"):
        with pytest.raises(ConfigurationError, match=f"{wrong.name} cannot be used"):
            await durable(Agent(ScriptedModel("Yes."), name="lead"), wrong).run("Go.")
    async with durable(Agent(ScriptedModel("Yes."), name="lead"), file) as tree:
        assert (await tree.run("Go.")).text == "Yes."


async def test_a_worker_takes_up_no_runs_of_another_team(file):
    async with durable(Agent(ScriptedModel("Yes."), name="lead"), file, worker=False) as tree:
        asking = await waiting(tree, file)
    asking.cancel()
    await asyncio.wait({asking})
    other = durable(Agent(ScriptedModel("No."), name="other"), file)
    with pytest.raises(ConfigurationError, match=r"a run of 'lead' .*'r'.* this process has only 'other'"):
        await other.start()
    async with durable(Agent(ScriptedModel("No."), name="other"), file, version="2") as tree:
        assert (await tree.run("Go.")).text == "No."


async def test_a_team_is_durable_as_its_lead_is(file, tmp_path):
    (tmp_path / "team.toml").write_text('[agents.lead]\nmodel = "offline"\ninstructions = "Answer."\n')
    async with durable(load_team(str(tmp_path / "team.toml")), file) as tree:
        assert tree.name == "lead"
        assert (await tree.run("Go.")).text


async def test_a_durable_agent_is_asked_again_by_its_keeper(file):
    async with Agent(ScriptedModel("Yes."), name="lead", durable=file) as lead:
        assert [(await lead.durable.run("Go.", run_id="r")).text for _ in range(2)] == ["Yes.", "Yes."]
        assert len(await lead.durable.runs()) == 1
    assert Agent(ScriptedModel("Yes.")).durable is None


async def test_observers_and_hooks_of_the_root_hold_in_every_run_below(file):
    seen, asked = [], []

    async def note(event):
        seen.append((type(event).__name__, event.where.agent, event.where.depth))

    def judge(request):
        asked.append((request.name, request.depth))
        return Veto("not that one") if request.name == "spy" else None

    spy = SubAgent("spy", from_callable(lambda query: "secret"), "Spies.")
    auditor = Agent(ScriptedModel([asks("clerk"), asks("spy")], "Done."), name="a", sub_agents=[clerk(), spy])
    lead = Agent(
        ScriptedModel(asks("auditor"), "Done."),
        name="lead",
        sub_agents=[SubAgent("auditor", auditor, "Audits.")],
        options=Options(observers=(note,), on_delegate=judge),
    )
    async with durable(lead, file) as tree:
        result = await tree.run("Audit.")
    assert sorted(asked) == [("auditor", 1), ("clerk", 2), ("spy", 2)]
    outcomes = {each.name: each.outcome.value for each in result.delegations[0].children}
    assert outcomes == {"clerk": "delivered", "spy": "refused_policy"}
    assert ("RunFinished", "lead", 0) in seen
    assert ("RunFinished", "auditor", 1) in seen
    assert ("RunFinished", "clerk", 2) in seen


async def test_a_cycle_of_agents_is_bounded_by_its_depth(file):
    agents = {}
    back = SubAgent("lead", AgentRef(lambda: agents["lead"]), "Leads.")
    other = Agent(ScriptedModel(asks("lead"), "Other."), name="other", sub_agents=[back])
    lead = Agent(
        ScriptedModel(asks("other"), "Lead."), name="lead", sub_agents=[SubAgent("other", other, "O.")], max_depth=3
    )
    agents["lead"] = lead
    async with durable(lead, file) as tree:
        await tree.run("Go.")
        assert [each.agent for each in await tree.runs(limit=1)] == ["lead/other/lead/other"]


async def test_a_foreign_child_is_retried_as_a_run_of_its_own(file):
    tries = []

    async def flaky(query: str) -> str:
        tries.append(query)
        if len(tries) < 3:
            raise ValueError("not yet")
        return "now"

    child = SubAgent("flaky", from_callable(flaky), "Is flaky.", policy=ChildPolicy(retries=2))
    lead = Agent(ScriptedModel(asks("flaky"), "Done."), name="lead", sub_agents=[child])
    async with durable(lead, file) as tree:
        result = await tree.run("Go.", run_id="r")
        assert result.delegations[0].message == "now"
        assert {each.run_id for each in await tree.runs()} == {"r", *(f"r.call_1_1{n}" for n in ("", "~2", "~3"))}


async def test_what_a_durable_run_cannot_have_is_refused(file):
    lead = Agent(ScriptedModel("Done."), name="lead", durable=file)
    async with lead:
        with pytest.raises(ConfigurationError, match="scope"):
            await lead.run("Go.", scope=object())
        with pytest.raises(ConfigurationError, match="observers"):
            await lead.run("Go.", observers=(print,))
        with pytest.raises(ConfigurationError, match="observers"):
            lead.stream("Go.")


def test_what_cannot_hold_is_refused_where_it_is_declared(file):
    lead = Agent(ScriptedModel("Done."), name="lead")
    with pytest.raises(ConfigurationError, match="takes an Agent"):
        durable(object(), file)
    with pytest.raises(ConfigurationError, match="database"):
        durable(lead, "")
    with pytest.raises(ConfigurationError, match="a mysql:// one"):
        durable(lead, "mysql://here")
    with pytest.raises(ConfigurationError, match="concurrency=3 is more"):
        durable(lead, file, concurrency=3, global_concurrency=2)
    with pytest.raises(ConfigurationError, match=r"Waits\.end"):
        Waits(end=0)
    with pytest.raises(TypeError, match="unexpected keyword argument 'durabel'"):
        Agent(ScriptedModel("Done."), durabel=file)
    tree = durable(lead, file)
    with pytest.raises(ConfigurationError, match="two durable trees are named 'lead'"):
        durable(Agent(ScriptedModel("Done."), name="lead"), file)
    with pytest.raises(ConfigurationError, match="a process has one database"):
        durable(Agent(ScriptedModel("Done."), name="other"), f"{file}2")
    asyncio.run(tree.aclose())


async def test_a_database_that_cannot_be_had_is_told_at_the_start(tmp_path):
    tree = durable(Agent(ScriptedModel("Done."), name="lead"), str(tmp_path / "nowhere" / "tree.db"))
    with pytest.raises(ConfigurationError, match="there is no folder"):
        await tree.run("Go.")
    await tree.aclose()


async def test_nothing_of_a_cancelled_run_is_logged_as_an_error(file, caplog):
    async def never(messages, tools):
        await asyncio.Event().wait()

    logging.getLogger("dbos").propagate = True
    async with durable(Agent(FunctionModel(never), name="lead"), file) as tree:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(tree.run("Go."), 1)
        await asyncio.sleep(1.5)
    assert [each for each in caplog.records if each.levelno >= logging.ERROR] == []
