"""What a model reads of a long answer: its head and its tail, and how long it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from limits_fakes import DELIVERED, Worker, asks, bounded, child

from symfonic import Agent, DelegationOutcome, Limits
from symfonic.kernel.contracts.text import capped
from symfonic.testing import ScriptedChild

TEXTS = st.text(max_size=400)
ROOMY = st.integers(60, 500)  # the note of a text of that length has fewer characters


@given(text=TEXTS, most=st.none() | st.integers(0, 500))
def test_a_text_that_fits_is_left_as_it_is_and_none_is_no_cap(text: str, most: int | None) -> None:
    shown = capped(text, most)

    assert shown == text or (most is not None and len(text) > most)
    assert capped(text, None) == text
    assert capped(text, len(text)) == text


@given(text=TEXTS, most=st.integers(0, 500))
def test_a_capped_text_is_never_longer_than_its_cap(text: str, most: int) -> None:
    assert len(capped(text, most)) <= most


@given(text=st.text(min_size=501, max_size=900), most=ROOMY)
def test_head_and_tail_are_kept_around_the_length_of_the_whole(text: str, most: int) -> None:
    shown = capped(text, most)

    note = f"\n… ({len(text)} characters in all) …\n"
    head, found, tail = shown.partition(note)
    assert found
    assert len(shown) == most
    assert text.startswith(head)
    assert text.endswith(tail)
    assert head
    assert tail
    assert 0 <= len(head) - len(tail) <= 1


@pytest.mark.parametrize("most", range(0, 45, 3))
def test_a_cap_that_is_smaller_than_the_note_gives_the_head(most: int) -> None:
    shown = capped("x" * 1000, most)

    assert len(shown) <= most
    assert shown.startswith("x" * min(most, 1))


async def test_ten_megabytes_of_answer_are_delivered_within_the_cap() -> None:
    text = "A" + "ä" * 10_000_000 + "Z"
    lead = Agent(asks("child", ["go"]), sub_agents=[child(ScriptedChild(text))], limits=Limits(max_answer_chars=2_000))

    result = await lead.run("go")

    [record] = result.delegations
    assert record.outcome is DELIVERED
    assert len(record.message) == 2_000
    assert (record.message[0], record.message[-1]) == ("A", "Z")
    assert "(10000002 characters in all)" in record.message
    assert [message.text for message in result.messages if message.role == "tool"] == [record.message]


async def test_the_program_still_has_the_whole_answer() -> None:
    with bounded(child(ScriptedChild("x" * 500)), limits=Limits(max_answer_chars=100)) as delegate:
        record = await delegate("child", "go")

    assert record.trace is not None
    assert record.trace.result.final_response == "x" * 500


async def test_without_a_cap_an_answer_is_whole() -> None:
    with bounded(child(ScriptedChild("x" * 100_000)), limits=Limits(max_delegations=5)) as delegate:
        record = await delegate("child", "go")

    assert len(record.message) == 100_000


@pytest.mark.parametrize("most", [0, 1, 10])
async def test_a_tiny_cap_refuses_nothing_and_raises_nothing(most: int) -> None:
    with bounded(child(ScriptedChild("x" * 100)), limits=Limits(max_answer_chars=most)) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is DELIVERED
    assert record.message == "x" * most


async def test_the_text_of_an_error_is_capped_too_and_the_original_is_on_the_record() -> None:
    error = ValueError("begin " + "x" * 10_000 + " end")
    with bounded(child(ScriptedChild(error)), limits=Limits(max_answer_chars=200)) as delegate:
        record = await delegate("child", "go")

    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message.startswith("Sub-agent 'child' failed: begin xx")
    assert record.message.endswith("xx end")
    assert "(10010 characters in all)" in record.message
    assert len(record.message) == 200 + len("Sub-agent 'child' failed: ")
    assert record.trace is not None
    assert record.trace.error is error


async def test_the_lowest_cap_on_the_path_holds() -> None:
    leaf = child(ScriptedChild("x" * 1_000), "leaf")
    loose = Agent(asks("leaf", ["a"]), sub_agents=[leaf], limits=Limits(max_answer_chars=500))
    tight = Agent(asks("leaf", ["a"]), sub_agents=[leaf], limits=Limits(max_answer_chars=50))
    lead = Agent(
        asks("tight", ["x"]),
        sub_agents=[child(loose, "loose"), child(tight, "tight")],
        limits=Limits(max_answer_chars=200),
    )
    other = Agent(asks("loose", ["x"]), sub_agents=[child(loose, "loose")], limits=Limits(max_answer_chars=200))

    results = [await lead.run("go"), await other.run("go")]

    assert [len(result.delegations[0].children[0].message) for result in results] == [50, 200]


async def test_an_answer_that_is_no_text_is_capped_as_the_text_it_becomes() -> None:
    async def act(query: str) -> list[str]:
        return ["ä" * 100] * 10

    with bounded(child(Worker(act)), limits=Limits(max_answer_chars=120)) as delegate:
        record = await delegate("child", "go")

    assert record.message.startswith('["ää')
    assert record.message.endswith('ää"]')
    assert len(record.message) == 120
