"""What delegation is made of, and the error tree."""

import copy
import dataclasses
import logging
import pickle
from pathlib import Path
from typing import Any

import pytest

import symfonic.capabilities.delegation as delegation
import symfonic.capabilities.delegation.errors as door
import symfonic.errors as tree
from symfonic.capabilities.delegation import (
    ChildRun,
    ChildRunner,
    DelegationOutcome,
    DelegationRecord,
    DelegationToolSpec,
    DelegationTrace,
    PrebuiltChild,
    RosterEntry,
    Timing,
)
from symfonic.kernel.contracts.messages import Usage
from symfonic.kernel.contracts.run_identity import RunIdentity

DELIVERED, CHILD_FAILED = DelegationOutcome.DELIVERED, DelegationOutcome.CHILD_FAILED
PUBLIC_NAMES = [
    "ACCEPTS_RUN_LINEAGE",
    "ActiveRun",
    "AgentRef",
    "Bounds",
    "ChildDeclarationError",
    "ChildLifecycle",
    "ChildPolicy",
    "ChildResponse",
    "ChildRun",
    "ChildRunner",
    "ChildSpec",
    "ConfigurationError",
    "DelegationCapability",
    "DelegationContext",
    "DelegationError",
    "DelegationOutcome",
    "DelegationRecord",
    "DelegationRequest",
    "DelegationRoster",
    "DelegationToolSpec",
    "DelegationTools",
    "DelegationTrace",
    "DepthPolicy",
    "PrebuiltChild",
    "RETIRED_VAR_KEYWORD",
    "RosterEntry",
    "SubAgent",
    "SymfonicError",
    "Timing",
    "UnknownChildError",
    "Veto",
    "accepts_run_lineage",
    "adapt_child",
    "coerce_depth",
    "speaks_runner_contract",
]


def fields_of(kind: Any) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


def defaults_of(kind: Any) -> dict[str, Any]:
    return {f.name: f.default for f in dataclasses.fields(kind) if f.default is not dataclasses.MISSING}


async def answer(name: str, task: str) -> str:
    return f"{name} {task}"


def test_outcomes_are_their_lower_case_names() -> None:
    assert {outcome.name: outcome.value for outcome in DelegationOutcome} == {
        "DELIVERED": "delivered",
        "REFUSED_DEPTH": "refused_depth",
        "UNKNOWN_CHILD": "unknown_child",
        "CHILD_FAILED": "child_failed",
        "REFUSED_BUDGET": "refused_budget",
        "REFUSED_POLICY": "refused_policy",
        "CHILD_TIMED_OUT": "child_timed_out",
        "CHILD_CANCELLED": "child_cancelled",
    }
    assert isinstance(DELIVERED, str)
    assert f"{DELIVERED}" == "delivered"


def test_an_outcome_is_a_refusal_when_the_child_never_started() -> None:
    assert {outcome for outcome in DelegationOutcome if outcome.refused} == {
        DelegationOutcome.REFUSED_DEPTH,
        DelegationOutcome.UNKNOWN_CHILD,
        DelegationOutcome.REFUSED_BUDGET,
        DelegationOutcome.REFUSED_POLICY,
    }


def test_a_record_has_its_seven_fields_and_a_trace() -> None:
    assert fields_of(DelegationRecord) == [
        "name",
        "outcome",
        "depth",
        "message",
        "run_id",
        "root_run_id",
        "parent_run_id",
        "trace",
    ]
    assert defaults_of(DelegationRecord) == {"run_id": "", "root_run_id": "", "parent_run_id": None, "trace": None}


@pytest.mark.parametrize("outcome", list(DelegationOutcome))
def test_a_record_is_delivered_only_when_its_outcome_says_so(outcome: DelegationOutcome) -> None:
    assert DelegationRecord("a", outcome, 1, "text").delivered is (outcome is DELIVERED)


def test_a_records_children_are_the_childs_own_records() -> None:
    inner = DelegationRecord("b", DELIVERED, 2, "text")
    caller = RunIdentity.root()
    trace = DelegationTrace(caller, "task", Timing(0.0, 0.0), run=ChildRun(caller.child(), records=(inner,)))

    assert DelegationRecord("a", DELIVERED, 1, "text", trace=trace).children == (inner,)
    assert DelegationRecord("a", DELIVERED, 1, "text").children == ()


def test_a_trace_holds_what_a_person_debugging_wants() -> None:
    assert fields_of(DelegationTrace) == [
        "caller",
        "task",
        "timing",
        "tool_call_id",
        "retryable",
        "error",
        "result",
        "run",
    ]
    assert fields_of(Timing) == ["started", "duration"]
    assert fields_of(ChildRun) == ["identity", "usage", "records"]


def test_a_trace_reads_the_childs_run_identity_usage_and_records_from_its_run() -> None:
    identity, inner = RunIdentity.root(), DelegationRecord("b", DELIVERED, 2, "text")
    trace = DelegationTrace(None, "task", Timing(0.0, 0.0), run=ChildRun(identity, Usage(model_calls=3), (inner,)))

    assert (trace.child, trace.usage, trace.records) == (identity, Usage(model_calls=3), (inner,))


def test_a_trace_of_a_child_that_never_ran_has_no_run_identity_no_usage_and_no_records() -> None:
    trace = DelegationTrace(None, "task", Timing(0.0, 0.0))

    assert (trace.child, trace.usage, trace.records) == (None, Usage(), ())
    assert (trace.tool_call_id, trace.retryable, trace.error, trace.result) == (None, False, None, None)


def test_a_tool_spec_describes_a_tool_and_declares_no_parameters_by_default() -> None:
    assert fields_of(DelegationToolSpec) == ["name", "description", "coroutine", "parameters"]
    assert DelegationToolSpec("a", "Does a.", answer).parameters == ()


def test_a_roster_entry_is_not_owned_and_has_no_guidance_unless_it_says_so() -> None:
    assert fields_of(RosterEntry)[:5] == ["name", "description", "runner", "when_to_use", "owned"]
    plain = RosterEntry("a", "Does a.", object())
    assert (plain.when_to_use, plain.owned) == (None, False)


def test_a_prebuilt_child_takes_its_arguments_in_the_documented_order() -> None:
    agent = object()
    child = PrebuiltChild("a", agent, "Does a.", "For a.")

    assert (child.name, child.agent, child.description, child.when_to_use) == ("a", agent, "Does a.", "For a.")
    assert PrebuiltChild(name="a", agent=agent, description="Does a.").when_to_use is None


def test_a_refusal_is_known_by_its_name_and_an_unknown_child_is_one() -> None:
    named = {outcome for outcome in DelegationOutcome if outcome.value.startswith("refused_")}
    assert {outcome for outcome in DelegationOutcome if outcome.refused} == named | {DelegationOutcome.UNKNOWN_CHILD}


def test_the_docs_know_every_outcome() -> None:
    text = (Path(__file__).parents[2] / "docs" / "children.md").read_text(encoding="utf-8")
    assert [outcome.name for outcome in DelegationOutcome if f"| `{outcome.name}` |" not in text] == []


@pytest.mark.parametrize(
    "value",
    [
        DelegationToolSpec("a", "Does a.", answer),
        DelegationRecord("a", DELIVERED, 1, "text"),
        RosterEntry("a", "Does a.", object()),
        PrebuiltChild("a", object(), "Does a."),
    ],
    ids=lambda value: type(value).__name__,
)
def test_facts_are_frozen(value: Any) -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.name = "other"


def test_a_runner_is_recognised_at_run_time_by_its_run() -> None:
    class Runs:
        async def run(self, query: str, **kwargs: Any) -> Any: ...

    assert isinstance(Runs(), ChildRunner)
    assert not isinstance(object(), ChildRunner)


@pytest.mark.parametrize(
    ("error", "parents"),
    [
        (tree.SymfonicError, (Exception,)),
        (tree.ConfigurationError, (tree.SymfonicError, ValueError)),
        (tree.ChildDeclarationError, (tree.ConfigurationError,)),
        (tree.DelegationError, (tree.SymfonicError,)),
        (tree.UnknownChildError, (tree.DelegationError, LookupError)),
        (tree.LimitReachedError, (tree.RunError,)),
    ],
)
def test_the_error_tree_is_the_documented_one(error: type[Exception], parents: tuple[type, ...]) -> None:
    assert error.__bases__ == parents
    assert error.__name__ in (tree.__doc__ or "")


def test_every_error_of_ours_is_drawn_in_the_tree() -> None:
    ours = [each for each in vars(tree).values() if isinstance(each, type) and issubclass(each, tree.SymfonicError)]

    assert ours
    assert all(error.__name__ in (tree.__doc__ or "") for error in ours)


def test_the_delegation_errors_are_a_door_to_the_tree() -> None:
    assert set(door.__all__) == {
        "ChildDeclarationError",
        "ConfigurationError",
        "DelegationError",
        "SymfonicError",
        "UnknownChildError",
    }
    assert all(getattr(door, name) is getattr(tree, name) for name in door.__all__)


def test_an_unknown_child_error_holds_the_name_and_the_known_names() -> None:
    error = tree.UnknownChildError("x", ["a", "b"])

    assert (error.name, error.known) == ("x", ("a", "b"))
    assert "'x'" in str(error)
    assert "a, b" in str(error)


REMADE = [copy.copy, lambda error: pickle.loads(pickle.dumps(error))]


@pytest.mark.parametrize("remade", REMADE)
def test_a_limit_that_is_reached_is_named_with_its_number_and_survives_copying(remade: Any) -> None:
    error = remade(tree.LimitReachedError("max_tokens", 500, "a run"))

    assert (error.limit, error.value, error.run_id) == ("max_tokens", 500, "a run")
    assert str(error) == "the limit max_tokens=500 is reached"


def test_a_run_error_carries_no_records_and_no_usage_until_a_run_puts_them_there() -> None:
    error = tree.RunError("it ended", "a run")

    assert (error.run_id, error.delegations, error.usage) == ("a run", (), None)


@pytest.mark.parametrize("remade", REMADE)
def test_an_unknown_child_error_survives_copying(remade: Any) -> None:
    error = remade(tree.UnknownChildError("x", ["a"]))

    assert (error.name, error.known) == ("x", ("a",))


def test_errors_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        tree.UnknownChildError("x", ["a"])
        tree.ConfigurationError("wrong")

    assert caplog.records == []


def test_the_public_names_of_delegation_are_these() -> None:
    assert sorted(delegation.__all__) == PUBLIC_NAMES
    assert all(hasattr(delegation, name) for name in delegation.__all__)
