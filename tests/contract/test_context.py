"""The run that code is executing in: what is open, where it is seen, and what it counted."""

import inspect
from collections.abc import Mapping
from contextvars import copy_context
from typing import Any

import pytest
from contract_fakes import in_threads

from symfonic.capabilities.delegation import ActiveRun, Bounds, DelegationContext
from symfonic.kernel.contracts.run_identity import RunIdentity, run_identity_scope


class State:
    """Anything with ``latest()``."""

    def __init__(self, latest: Any) -> None:
        self._latest = latest

    def latest(self) -> Mapping[str, Any] | None:
        return self._latest


def test_outside_any_run_there_is_nothing() -> None:
    context = DelegationContext()

    assert context.active_run() is None
    assert context.current_depth() == 0
    assert context.current_scope() is None
    context.record_delegation("a")  # and there is nothing to count into
    assert context.active_run() is None


def test_a_context_takes_its_two_sources_by_keyword() -> None:
    parameters = inspect.signature(DelegationContext).parameters

    assert list(parameters) == ["snapshots", "resolve_scope"]
    assert all(each.kind is each.KEYWORD_ONLY and each.default is None for each in parameters.values())


def test_a_run_scope_opens_an_active_run_for_the_code_inside() -> None:
    context = DelegationContext()

    with context.run_scope(depth=2, scope="tenant") as run:
        assert isinstance(run, ActiveRun)
        assert context.active_run() is run
        assert (context.current_depth(), context.current_scope()) == (2, "tenant")
        assert (run.depth, run.scope, run.identity, run.max_depth, run.delegated) == (2, "tenant", None, None, ())
    assert context.active_run() is None


def test_an_active_run_knows_the_identity_it_was_opened_under() -> None:
    with run_identity_scope(RunIdentity.root()) as identity, DelegationContext().run_scope(depth=0) as run:
        assert run.identity is identity


def test_the_active_run_is_ambient_so_that_every_context_sees_the_same_one() -> None:
    with DelegationContext(resolve_scope=lambda: "other").run_scope(depth=3, scope="tenant") as run:
        other = DelegationContext()
        assert other.active_run() is run
        assert (other.current_depth(), other.current_scope()) == (3, "tenant")
        other.record_delegation("a")
    assert run.delegated == ("a",)


@pytest.mark.parametrize(
    ("depth", "coerced"), [("3", 3), (2.9, 2), (-4, 0), (None, 0), (object(), 0), (True, 1), (float("nan"), 0)]
)
def test_the_depth_of_a_run_scope_is_coerced(depth: Any, coerced: int) -> None:
    with DelegationContext().run_scope(depth=depth) as run:
        assert type(run.depth) is int
        assert run.depth == coerced


@pytest.mark.parametrize(
    ("latest", "depth"),
    [
        (None, 0),
        ({}, 0),
        ({"agent_depth": 3}, 3),
        ({"agent_depth": "3"}, 3),
        ({"agent_depth": "2.9"}, 0),
        ({"agent_depth": -1}, 0),
        ({"agent_depth": None}, 0),
        ({"other": 3}, 0),
    ],
)
def test_outside_a_run_the_depth_is_the_snapshots(latest: Any, depth: int) -> None:
    assert DelegationContext(snapshots=State(latest)).current_depth() == depth


def test_the_open_runs_depth_wins_over_the_snapshots() -> None:
    context = DelegationContext(snapshots=State({"agent_depth": 7}))

    with context.run_scope(depth=0):
        assert context.current_depth() == 0
    assert context.current_depth() == 7


def test_the_newest_snapshot_is_read_each_time() -> None:
    state = State({"agent_depth": 1})
    context = DelegationContext(snapshots=state)
    state._latest = {"agent_depth": 2}

    assert context.current_depth() == 2


def test_the_scope_is_the_runs_else_the_snapshots_else_the_resolvers_else_none() -> None:
    both = DelegationContext(snapshots=State({"scope": "snapshot"}), resolve_scope=lambda: "resolved")

    with both.run_scope(depth=0, scope="run"):
        assert both.current_scope() == "run"
    assert both.current_scope() == "snapshot"
    with both.run_scope(depth=0):
        assert both.current_scope() == "snapshot"
    assert DelegationContext(snapshots=State({}), resolve_scope=lambda: "resolved").current_scope() == "resolved"
    assert DelegationContext(snapshots=State(None), resolve_scope=lambda: None).current_scope() is None


@pytest.mark.parametrize("scope", [{}, 0, "", False, ()])
def test_a_scope_that_is_false_is_a_scope(scope: Any) -> None:
    context = DelegationContext(snapshots=State({"scope": "snapshot"}), resolve_scope=lambda: "resolved")

    with context.run_scope(depth=0, scope=scope):
        assert context.current_scope() is scope


def test_a_run_inherits_the_scope_of_the_run_around_it() -> None:
    context = DelegationContext()

    with context.run_scope(depth=0, scope="tenant"), context.run_scope(depth=1) as inner:
        assert inner.scope == "tenant"


def test_the_ceiling_in_force_is_the_lowest_on_the_path() -> None:
    context = DelegationContext()

    with context.run_scope(depth=0, bounds=Bounds(max_depth=3)) as outer:
        with context.run_scope(depth=1, bounds=Bounds(max_depth=7)) as looser:
            assert looser.max_depth == 3
        with context.run_scope(depth=1, bounds=Bounds(max_depth=1)) as tighter, context.run_scope(depth=2) as below:
            assert (tighter.max_depth, below.max_depth) == (1, 1)
        assert outer.max_depth == 3


def test_deliveries_are_tallied_in_order_one_entry_each() -> None:
    context = DelegationContext()

    with context.run_scope(depth=0) as run:
        for name in ("b", "a", "b"):
            context.record_delegation(name)
        assert run.delegated == ("b", "a", "b")
        assert type(run.delegated) is tuple
    assert run.delegated == ("b", "a", "b")


def test_each_run_counts_its_own() -> None:
    context = DelegationContext()

    with context.run_scope(depth=0) as outer:
        context.record_delegation("a")
        with context.run_scope(depth=1) as inner:
            context.record_delegation("b")
        context.record_delegation("c")
    assert (outer.delegated, inner.delegated) == (("a", "c"), ("b",))


def test_deliveries_from_threads_are_all_counted() -> None:
    context = DelegationContext()

    with context.run_scope(depth=0) as run:
        carried = [copy_context() for _ in range(8)]

        def deliver(number: int) -> None:
            for _ in range(500):
                carried[number].run(context.record_delegation, f"child{number}")

        in_threads(8, deliver)
    assert len(run.delegated) == 4000
    assert {run.delegated.count(f"child{number}") for number in range(8)} == {500}


def test_a_thread_that_carries_no_context_is_outside_every_run() -> None:
    context = DelegationContext()
    seen: list[Any] = []

    with context.run_scope(depth=3):
        in_threads(1, lambda _: seen.append(context.active_run()))
    assert seen == [None]


def test_what_is_counted_after_the_run_has_ended_is_counted_nowhere() -> None:
    context = DelegationContext()

    with context.run_scope(depth=0) as run:
        inside = copy_context()
    in_threads(1, lambda _: inside.run(context.record_delegation, "late"))
    assert run.delegated == ()
