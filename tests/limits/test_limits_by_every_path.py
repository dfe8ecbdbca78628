"""Every limit holds for a child whichever way it is started."""

import pytest
from limits_fakes import (
    DELIVERED,
    FOREIGN,
    IN_A_TOOL,
    NESTED,
    PATHS,
    REFUSED,
    THREAD,
    TOOL,
    Path,
    Worker,
    crowd,
    hanging,
    reached,
    run_by,
    talking,
)

from symfonic import DelegationOutcome, Limits

by_every_path = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)


@by_every_path
async def test_max_delegations_counts_every_child_of_the_tree(path: Path) -> None:
    worker, most = Worker(), 2 + path.delegations

    ended = await run_by(path, worker, ["a", "b", "c", "d"], limits=Limits(max_delegations=most))

    assert ended.outcomes == [DELIVERED, DELIVERED, REFUSED, REFUSED]
    assert worker.tasks == ["a", "b"]
    for refusal in ended.refusals:
        assert reached(refusal) == ("max_delegations", most)
        assert f"max_delegations={most}" in refusal.message


@by_every_path
async def test_max_fan_out_counts_the_children_of_one_run(path: Path) -> None:
    worker = Worker()

    ended = await run_by(path, worker, ["a", "b", "c", "d"], limits=Limits(max_fan_out=2))

    assert ended.outcomes == [DELIVERED, DELIVERED, REFUSED, REFUSED]
    assert worker.tasks == ["a", "b"]
    assert [reached(refusal) for refusal in ended.refusals] == [("max_fan_out", 2)] * 2


@by_every_path
async def test_max_repeats_counts_the_same_child_with_the_same_task(path: Path) -> None:
    worker = Worker()

    ended = await run_by(path, worker, ["a", "a", "a", "b"], limits=Limits(max_repeats=2))

    assert ended.outcomes == [DELIVERED, DELIVERED, REFUSED, DELIVERED]
    assert worker.tasks == ["a", "a", "b"]
    assert reached(ended.refusals[0]) == ("max_repeats", 2)


@by_every_path
async def test_max_concurrency_lets_so_many_children_run_at_once(path: Path) -> None:
    worker = crowd(2)

    ended = await run_by(path, worker, list("abcdef"), limits=Limits(max_concurrency=2), at_once=True)

    assert ended.outcomes == [DELIVERED] * 6
    assert sorted(worker.tasks) == list("abcdef")
    assert worker.peak == 2


@by_every_path
async def test_max_model_calls_counts_every_call_and_refuses_what_would_make_more(path: Path) -> None:
    most = 5 + path.model_calls
    said: list[str] = []

    ended = await run_by(path, talking(said=said), list("abcdefgh"), limits=Limits(max_model_calls=most))

    assert DELIVERED in ended.outcomes
    assert [reached(refusal) for refusal in ended.refusals] == [("max_model_calls", most)] * len(ended.refusals)
    assert ended.refusals
    assert said == [record.trace.task for record in ended.records if record.delivered and record.trace]
    assert ended.error is not None
    assert (ended.error.limit, ended.error.value) == ("max_model_calls", most)
    assert ended.error.usage.model_calls == most


@by_every_path
async def test_max_tokens_counts_what_every_run_has_used_and_refuses_more(path: Path) -> None:
    said: list[str] = []

    ended = await run_by(path, talking(6, 4, said), list("abcd"), limits=Limits(max_tokens=15))

    assert said == ["a", "b"]
    assert ended.outcomes[:2] == [DELIVERED, DELIVERED]
    assert [reached(refusal) for refusal in ended.refusals] == [("max_tokens", 15)] * len(ended.refusals)
    assert bool(ended.refusals) is (path not in (TOOL, NESTED, IN_A_TOOL))  # there a model had to be called first
    assert ended.error is not None
    assert (ended.error.limit, ended.error.value) == ("max_tokens", 15)
    assert (ended.error.usage.input_tokens, ended.error.usage.output_tokens) == (12, 8)


@by_every_path
async def test_the_timeout_of_a_tree_ends_what_runs_in_it(path: Path) -> None:
    worker = hanging()

    ended = await run_by(path, worker, ["a", "b"], limits=Limits(timeout=0.2))

    assert ended.error is not None
    assert (ended.error.limit, ended.error.value) == ("timeout", 0.2)
    assert worker.ended.wait(5)
    assert worker.tasks == ["a"]
    if path not in (THREAD, IN_A_TOOL):  # a thread writes into no finished run; a cancelled run returns no records
        assert ended.outcomes[0] is DelegationOutcome.CHILD_TIMED_OUT
        assert ended.outcomes[1:] in ([], [REFUSED])
        assert reached(ended.records[0]) == ("timeout", 0.2)


@by_every_path
async def test_max_answer_chars_bounds_what_the_model_reads_of_an_answer(path: Path) -> None:
    async def act(query: str) -> str:
        return "<" + "x" * 998 + ">"

    ended = await run_by(path, Worker(act), ["a"], limits=Limits(max_answer_chars=100))

    message = ended.records[0].message
    assert ended.outcomes == [DELIVERED]
    assert len(message) == 100
    assert message.startswith("<xx")
    assert message.endswith("xx>")
    assert "1000 characters" in message


def test_every_path_by_which_a_child_can_be_started_is_here() -> None:
    assert len({path.name for path in PATHS}) == 7
    assert {path.name for path in PATHS if path.delegations} == {FOREIGN.name, NESTED.name}
