"""Who a run is: lineages, ids, and which identity is current."""

import dataclasses
import os
import subprocess
import sys
import time
import uuid

import pytest
from contract_fakes import in_threads

from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope


def test_a_root_is_its_own_root_and_has_no_parent() -> None:
    root = RunIdentity.root()

    assert root.root_run_id == root.run_id
    assert root.parent_run_id is None


def test_a_child_has_a_new_id_the_same_root_and_its_parents_id() -> None:
    root = RunIdentity.root()
    child = root.child()
    grandchild = child.child()

    assert len({root.run_id, child.run_id, grandchild.run_id}) == 3
    assert child.root_run_id == grandchild.root_run_id == root.run_id
    assert child.parent_run_id == root.run_id
    assert grandchild.parent_run_id == child.run_id


def test_an_identity_has_three_fields_and_compares_by_them() -> None:
    assert [field.name for field in dataclasses.fields(RunIdentity)] == ["run_id", "root_run_id", "parent_run_id"]
    assert RunIdentity("a", "b", "c") == RunIdentity(run_id="a", root_run_id="b", parent_run_id="c")


def test_an_identity_is_frozen_and_slotted() -> None:
    identity = RunIdentity.root()

    with pytest.raises(dataclasses.FrozenInstanceError):
        identity.run_id = "other"  # type: ignore[misc]
    assert not hasattr(identity, "__dict__")


def test_ids_are_uuid7_text_that_begins_with_the_clock() -> None:
    before = time.time_ns() // 1_000_000
    run_id = RunIdentity.root().run_id

    parsed = uuid.UUID(run_id)
    assert str(parsed) == run_id
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert before - 1 <= parsed.int >> 80 <= time.time_ns() // 1_000_000 + 1000


def test_ids_sort_in_the_order_in_which_runs_start() -> None:
    ids = [RunIdentity.root().run_id for _ in range(2000)]

    assert ids == sorted(ids)


def test_a_later_clock_makes_a_later_id(monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time_ns() + 10_000_000_000
    ids = []
    for later in (0, 1_000_000, 60_000_000_000):
        monkeypatch.setattr(time, "time_ns", lambda later=later: now + later)
        ids.append(uuid.UUID(RunIdentity.root().run_id).int >> 80)

    assert ids == [now // 1_000_000, (now + 1_000_000) // 1_000_000, (now + 60_000_000_000) // 1_000_000]


def test_ids_still_sort_when_the_clock_steps_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = RunIdentity.root().run_id
    monkeypatch.setattr(time, "time_ns", lambda: 0)

    assert first < RunIdentity.root().run_id < RunIdentity.root().run_id


def test_ten_thousand_ids_from_threads_are_all_different_while_the_clock_stands_still(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: now)
    by_thread: list[list[str]] = [[] for _ in range(10)]

    in_threads(10, lambda number: by_thread[number].extend(RunIdentity.root().run_id for _ in range(1000)))

    assert len({run_id for ids in by_thread for run_id in ids}) == 10_000
    assert all(ids == sorted(ids) for ids in by_thread)


def test_a_finalizer_that_runs_while_an_id_is_made_may_make_one_as_well() -> None:
    program = """
import gc
from symfonic.kernel.contracts.run_identity import RunIdentity
class Late:
    def __init__(self): self.me = self
    def __del__(self): made.append(RunIdentity.root().run_id)
made = []
gc.set_threshold(3)
for _ in range(3000):
    Late()
    made.append(RunIdentity.root().run_id)
gc.set_threshold(0)
assert len(set(made)) == len(made) > 3000
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_draws_other_random_numbers() -> None:
    RunIdentity.root()
    read, write = os.pipe()
    process = os.fork()
    if not process:  # the child says what its next id is, and is gone
        os.write(write, RunIdentity.root().run_id.encode())
        os._exit(0)
    os.close(write)
    with os.fdopen(read) as pipe:
        theirs = pipe.read()
    os.waitpid(process, 0)
    ours = RunIdentity.root().run_id
    assert len(theirs) == len(ours) == 36
    assert theirs[19:] != ours[19:]


def test_outside_any_run_there_is_no_identity() -> None:
    assert current_run_identity() is None


def test_the_innermost_scope_is_current_and_the_previous_one_is_restored() -> None:
    outer, inner = RunIdentity.root(), RunIdentity.root()

    with run_identity_scope(outer):
        assert current_run_identity() is outer
        with run_identity_scope(inner):
            assert current_run_identity() is inner
        assert current_run_identity() is outer
    assert current_run_identity() is None


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, GeneratorExit])
def test_the_previous_identity_is_restored_when_the_block_raises(error: type[BaseException]) -> None:
    with run_identity_scope(outer := RunIdentity.root()):
        with pytest.raises(error), run_identity_scope(RunIdentity.root()):
            raise error
        assert current_run_identity() is outer
