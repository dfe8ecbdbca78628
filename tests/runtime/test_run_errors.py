"""What a run that ended without an answer hands over with its error."""

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from runtime_fakes import NATIVE, child, delegates

from symfonic import Agent, DelegationOutcome, Limits, Options
from symfonic.errors import (
    LimitReachedError,
    MaxStepsError,
    ModelError,
    RunError,
    SymfonicError,
    TeamFileError,
    UnknownChildError,
)
from symfonic.kernel.contracts.messages import ToolCall, Usage
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import FunctionModel, ScriptedChild

CALL = ToolCall("", "run_agent", {"name": "child", "task": "t"})


def endless(messages: Any, tools: Any) -> Any:
    """Delegates for ever, at 5 + 2 tokens a step."""
    return ModelReply("", (CALL,), 5, 2)


def fails_later(messages: Any, tools: Any) -> Any:
    if messages[-1].role == "tool":
        raise ValueError("the line is dead")
    return endless(messages, tools)


async def hangs_later(messages: Any, tools: Any) -> Any:
    if messages[-1].role == "tool":
        await asyncio.get_running_loop().create_future()
    return endless(messages, tools)


def _agent(fn: Any, **more: Any) -> Agent:
    return Agent(FunctionModel(fn), sub_agents=[child(ScriptedChild("fine"))], **more)


FAILING: dict[str, tuple[Agent, type[RunError], int, Usage]] = {
    "model": (_agent(fails_later), ModelError, 1, Usage(5, 2, 2, 1)),
    "steps": (_agent(endless, options=Options(max_steps=3)), MaxStepsError, 2, Usage(15, 6, 3, 3)),
    "calls": (_agent(endless, limits=Limits(max_model_calls=2)), LimitReachedError, 2, Usage(10, 4, 2, 2)),
    "tokens": (_agent(endless, limits=Limits(max_tokens=10)), LimitReachedError, 2, Usage(10, 4, 2, 2)),
    "time": (_agent(hangs_later, limits=Limits(timeout=0.02)), LimitReachedError, 1, Usage(5, 2, 2, 1)),
}


async def ended(name: str) -> RunError:
    agent, kind, _, _ = FAILING[name]
    with pytest.raises(kind) as caught:
        await agent.run("go")
    return caught.value


@pytest.mark.parametrize("name", FAILING)
async def test_an_error_of_a_run_carries_its_records_and_what_it_has_spent(name: str) -> None:
    error = await ended(name)
    _, _, delegations, usage = FAILING[name]
    assert len(error.delegations) == delegations
    assert error.delegations[0].outcome is DelegationOutcome.DELIVERED
    assert error.usage == usage
    assert error.run_id
    assert {record.trace.caller.run_id for record in error.delegations} == {error.run_id}


@pytest.mark.parametrize("name", FAILING)
async def test_a_childs_error_on_its_record_carries_the_same(name: str) -> None:
    agent, kind, delegations, usage = FAILING[name]
    result = await NATIVE.agent(delegates(), sub_agents=[child(agent)]).run("go")
    (record,) = result.delegations
    assert record.trace is not None
    assert isinstance(record.trace.error, kind)
    assert record.trace.error.usage == usage == record.trace.usage
    assert len(record.trace.error.delegations) == len(record.children) == delegations


def pickled(error: Any) -> Any:
    return pickle.loads(pickle.dumps(error))


COPIES: dict[str, Callable[[Any], Any]] = {"copied": copy.copy, "copied deeply": copy.deepcopy, "pickled": pickled}


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize("name", FAILING)
async def test_an_error_of_a_run_keeps_all_of_it_when_it_is_copied(name: str, how: str) -> None:
    error = await ended(name)
    error.add_note("while it was dark")
    made = COPIES[how](error)
    assert type(made) is type(error)
    assert (str(made), made.run_id, made.usage) == (str(error), error.run_id, error.usage)
    assert [record.message for record in made.delegations] == [record.message for record in error.delegations]
    assert [record.trace.task for record in made.delegations] == ["t"] * len(error.delegations)
    assert made.__notes__ == ["while it was dark"]
    for key in ("limit", "value"):
        assert getattr(made, key, None) == getattr(error, key, None)


@pytest.mark.parametrize("how", COPIES)
@pytest.mark.parametrize(
    "error",
    [
        UnknownChildError("ghost", ("a", "b")),
        TeamFileError("one mistake", "another"),
        LimitReachedError("max_tokens", 1_500_000, "run"),
        ModelError("the model failed", "run"),
        MaxStepsError("stopped"),
        SymfonicError("plain"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_every_error_can_be_copied(error: Any, how: str) -> None:
    made = COPIES[how](error)
    assert type(made) is type(error)
    assert (str(made), made.args, vars(made)) == (str(error), error.args, vars(error))
