"""The guard against a slower path: it counts the calls of a turn, since time on a shared machine is noise."""

import json

from benchmarks import count


def test_a_turn_with_one_delegation_makes_no_more_calls_than_are_committed():
    committed = json.loads(count.COMMITTED.read_text("utf-8"))
    measured = count.counted()
    most = count.bound(committed)
    assert sum(measured.values()) <= most, (
        f"one turn makes {measured} calls, the bound on Python {count.VERSION} is {most:.0f};"
        " if what it does now is worth them: python -m benchmarks.count --write"
    )


def test_two_interpreters_count_the_same():
    assert count.counted() == count.counted()


def test_a_version_of_python_without_a_count_is_held_to_the_newest_one():
    committed = {"3.9": {"python": 7, "c": 7}, "3.11": {"python": 60, "c": 40}}
    assert count.bound(committed, "3.9") == 14 * count.ALLOWED
    assert count.bound(committed, "3.99") == 100 * count.ALLOWED
