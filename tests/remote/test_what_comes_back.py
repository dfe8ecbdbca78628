"""How a run ended on another side, as the caller's record tells it."""

import asyncio
import time

import pytest
from remote_kit import Far, Seen, asks, says

from symfonic import ChildPolicy, DelegationOutcome, Limits, SubAgent
from symfonic.capabilities.delegation.active_run import RunScope
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.errors import DelegationError, LimitReachedError, OverrunError
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.remote.answer import Answer, RemoteError
from symfonic.remote.crossing import leaving
from symfonic.remote.envelope import MOST_BYTES
from symfonic.remote.reception import Reception
from symfonic.testing import ScriptedChild

pytestmark = pytest.mark.usefixtures("sides")


async def test_a_receptions_own_time_ends_what_hangs_there() -> None:
    hanging = Seen(lambda _: asyncio.Event().wait())
    far = Far(Reception({"worker": hanging}, limits=Limits(timeout=0.05)))

    [record] = (await asks(("far", "go"), children={"far": far}).run("go")).delegations

    assert record.outcome is DelegationOutcome.CHILD_TIMED_OUT
    assert record.trace is not None
    assert isinstance(record.trace.error, OverrunError)
    assert "timed out after 0.05 s" in str(record.trace.error.__cause__)
    assert record.trace.retryable


async def test_what_timed_out_when_the_time_of_the_whole_tree_is_over_is_not_tried_again() -> None:
    with RunScope(depth=0, bounds=Bounds(limits=(Limits(timeout=0.01),)), identity=RunIdentity.root()):
        with leaving("worker", "go") as out:
            assert out.envelope.deadline is not None
            await asyncio.sleep(out.envelope.deadline - time.time() + 0.01)
            late = Answer(status="timed_out", text="too late", lineage=out.envelope.lineage)
            with pytest.raises(LimitReachedError) as raised:
                out.returned(late)

        assert raised.value.limit == "timeout"
        assert str(raised.value.__cause__) == "too late"
        with pytest.raises(LimitReachedError), leaving("worker", "once more"):
            pass


async def test_a_refusal_comes_back_as_a_value_with_its_words_and_is_not_asked_for_again() -> None:
    far = Far(Reception({"worker": says()}, max_depth=0))
    child = SubAgent("far", far, "Far.", policy=ChildPolicy(retries=3))

    [record] = (await asks(("far", "go"), children={"far": child}).run("go")).delegations

    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "maximum sub-agent depth (0) reached" in record.message
    assert record.trace is not None
    assert isinstance(record.trace.error, DelegationError)
    assert not record.trace.retryable
    assert len(far.sent) == 1


async def test_an_agent_that_nobody_knows_there_is_a_refusal_that_says_who_is_known() -> None:
    far = Far(Reception({"one": says(), "two": says()}), "three")

    [record] = (await asks(("far", "go"), children={"far": far}).run("go")).delegations

    assert "Unknown agent 'three'. Available: one, two" in record.message


async def test_a_failure_comes_back_with_its_words_and_a_secret_in_them_does_not() -> None:
    far = Far(Reception({"worker": ScriptedChild(ValueError("no such table; password=hunter2"))}))

    [record] = (await asks(("far", "go"), children={"far": far}).run("go")).delegations

    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.trace is not None
    assert isinstance(record.trace.error, RemoteError)
    assert "no such table" in record.message
    assert "hunter2" not in far.came[0].text_of()
    assert record.trace.retryable


async def test_each_attempt_at_a_failing_far_side_is_a_run_of_its_own() -> None:
    worker = ScriptedChild(ValueError("not yet"), "now")
    far = Far(Reception({"worker": worker}))
    child = SubAgent("far", far, "Far.", policy=ChildPolicy(retries=1))

    [record] = (await asks(("far", "go"), children={"far": child}).run("go")).delegations

    assert record.message == "now"
    assert len({each.lineage.run_id for each in far.sent}) == 2


async def test_a_run_that_cancels_itself_there_is_a_failure_here_and_cancels_nobody() -> None:
    async def cancel_myself(query: str) -> str:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(0)
        return "never"

    far = Far(Reception({"worker": Seen(cancel_myself)}))

    result = await asks(("far", "go"), children={"far": far}).run("go")

    assert far.came[0].status == "cancelled"
    assert result.delegations[0].outcome is DelegationOutcome.CHILD_FAILED
    assert "was cancelled" in result.delegations[0].message


async def test_an_answer_without_records_says_how_many_there_were_and_all_of_them_are_charged() -> None:
    big = "x" * 20_000
    tasks = [("leaf", f"{number} {big}") for number in range(20)]
    far = Far(Reception({"worker": asks(tasks, children={"leaf": says("leaf", 1, 1)})}))

    result = await asks(("far", "go"), children={"far": far}, limits=Limits(max_delegations=30)).run("go")

    assert far.came[0].records == ()
    assert far.came[0].delegations == 20
    assert result.delegations[0].children == ()
    assert result.delegations[0].delivered
    assert result.usage.model_calls == 2 + 2 + 20


async def test_an_answer_whose_text_alone_is_too_large_is_a_failure_that_says_what_to_do() -> None:
    far = Far(Reception({"worker": says("x" * (MOST_BYTES + 1), 7, 7)}))

    result = await asks(("far", "go"), children={"far": far}).run("go")

    assert result.delegations[0].outcome is DelegationOutcome.CHILD_FAILED
    assert "put what is large where both sides can reach it" in result.delegations[0].message
    assert result.usage.input_tokens == 12 + 7


@pytest.mark.parametrize("whose", ["the caller's", "the reception's"])
async def test_an_answer_that_is_cut_anyway_is_cut_before_it_is_sent(whose: str) -> None:
    cut = Limits(max_answer_chars=100)
    far = Far(Reception({"worker": says("x" * (2 * MOST_BYTES))}, limits=cut if whose == "the reception's" else None))

    result = await asks(("far", "go"), children={"far": far}, limits=cut if whose == "the caller's" else None).run("go")

    assert result.delegations[0].delivered
    assert len(far.came[0].text) == len(result.delegations[0].message) == 100
