"""A bound of the wrong kind is refused where it is declared, by name."""

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from limits_fakes import Worker, child

from symfonic import Agent, ChildPolicy, ConfigurationError, Limits, Options, SubAgent, SymfonicAgent
from symfonic.capabilities.delegation.bounds import Bounds
from symfonic.testing import ScriptedModel

LEAST = {
    "max_delegations": 0,
    "max_fan_out": 0,
    "max_concurrency": 1,
    "max_repeats": 1,
    "max_model_calls": 1,
    "max_tokens": 0,
    "max_answer_chars": 0,
}
NO_COUNTS = (-1, 1.0, 2.5, True, False, "3", float("inf"), float("nan"), [], object)
NO_DURATIONS = (0, 0.0, -1, -0.5, True, False, "3", float("inf"), float("nan"), [], object)


def refused(make: Callable[[], Any]) -> str:
    with pytest.raises(ConfigurationError) as raised:
        make()
    return str(raised.value)


@pytest.mark.parametrize("limit", LEAST)
@pytest.mark.parametrize("value", NO_COUNTS, ids=repr)
def test_a_limit_that_counts_is_a_whole_number(limit: str, value: Any) -> None:
    assert refused(lambda: Limits(**{limit: value})) == (
        f"Limits.{limit} must be an int >= {LEAST[limit]}, got {value!r}"
    )


@pytest.mark.parametrize("limit", LEAST)
def test_a_limit_may_be_as_low_as_makes_sense(limit: str) -> None:
    least = LEAST[limit]

    assert getattr(Limits(**{limit: least}), limit) == least
    assert refused(lambda: Limits(**{limit: least - 1})).startswith(f"Limits.{limit} must be an int >= {least}")


@pytest.mark.parametrize("value", NO_DURATIONS, ids=repr)
def test_a_timeout_is_a_finite_number_of_seconds(value: Any) -> None:
    assert refused(lambda: Limits(timeout=value)) == f"Limits.timeout must be a number of seconds > 0, got {value!r}"
    assert refused(lambda: ChildPolicy(timeout=value)) == (
        f"ChildPolicy.timeout must be a number of seconds > 0, got {value!r}"
    )


@pytest.mark.parametrize("value", [*NO_COUNTS, 0], ids=repr)
def test_a_policys_turns_are_a_whole_number_of_at_least_one(value: Any) -> None:
    assert refused(lambda: ChildPolicy(max_concurrency=value)) == (
        f"ChildPolicy.max_concurrency must be an int >= 1, got {value!r}"
    )


@pytest.mark.parametrize("value", [*NO_COUNTS, None], ids=repr)
def test_retries_are_a_whole_number(value: Any) -> None:
    assert refused(lambda: ChildPolicy(retries=value)) == f"ChildPolicy.retries must be an int >= 0, got {value!r}"


def test_a_policys_scope_is_a_function() -> None:
    assert refused(lambda: ChildPolicy(scope="read")) == "ChildPolicy.scope must be callable, got 'read'"  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [-1, 1.5, "2", True], ids=repr)
def test_a_ceiling_among_bounds_is_a_whole_number(value: Any) -> None:
    assert "max_depth" in refused(lambda: Bounds(max_depth=value))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"max_steps": 0}, "Options.max_steps must be an int >= 1, got 0"),
        ({"max_steps": True}, "Options.max_steps must be an int >= 1, got True"),
        ({"max_steps": "5"}, "Options.max_steps must be an int >= 1, got '5'"),
        ({"observers": [print]}, "Options.observers must be a tuple of callables, got [<built-in function print>]"),
        ({"observers": ("print",)}, "Options.observers must be a tuple of callables, got ('print',)"),
        ({"observers": print}, "Options.observers must be a tuple of callables, got <built-in function print>"),
        ({"on_delegate": True}, "Options.on_delegate must be callable, got True"),
        ({"resolve_scope": "all"}, "Options.resolve_scope must be callable, got 'all'"),
    ],
)
def test_an_option_of_the_wrong_kind_is_refused(wrong: dict[str, Any], message: str) -> None:
    assert refused(lambda: Options(**wrong)) == message


@pytest.mark.parametrize("wrong", [5, {"max_delegations": 5}, (Limits(),), Limits, "none"], ids=repr)
async def test_what_is_given_as_limits_is_limits(wrong: Any) -> None:
    message = f"limits must be symfonic.Limits(...), got {wrong!r}"

    assert refused(lambda: Agent(ScriptedModel("done"), limits=wrong)) == message
    assert refused(lambda: SymfonicAgent(ScriptedModel("done"), limits=wrong)) == message
    for agent in (Agent(ScriptedModel("done")), SymfonicAgent(ScriptedModel("done"))):
        with pytest.raises(ConfigurationError) as raised:
            await agent.run("go", limits=wrong)
        assert str(raised.value) == message


@pytest.mark.parametrize("wrong", [5, {"retries": 1}, ChildPolicy], ids=repr)
def test_what_is_given_as_a_childs_policy_is_a_policy(wrong: Any) -> None:
    message = refused(lambda: SubAgent("child", Worker(), "Does it.", policy=wrong))

    assert message == f"policy of 'child' must be a ChildPolicy(...), got {wrong!r}"


async def test_limits_that_state_nothing_bound_nothing() -> None:
    lead = Agent(ScriptedModel("done"), sub_agents=[child(Worker())], limits=Limits())

    assert (await lead.run("go", limits=Limits())).text == "done"
    assert Limits() == Limits(None, None, None, None, None, None, None, None)


def test_bounds_are_facts_that_nobody_changes() -> None:
    for fact in (Limits(), ChildPolicy(), Bounds(), Options()):
        for field in fields(fact):
            with pytest.raises(AttributeError):
                setattr(fact, field.name, 5)
        assert hash(fact) == hash(type(fact)())
