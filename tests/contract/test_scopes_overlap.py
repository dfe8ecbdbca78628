"""Scopes of runs and of identities that overlap, whichever ends first; and what a run leaves behind."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from symfonic import Agent, Limits
from symfonic.capabilities.delegation.context import DelegationContext
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope
from symfonic.testing import FunctionModel, ScriptedModel

CONTEXT = DelegationContext()


def test_a_run_that_is_over_is_not_active_while_an_identity_inside_it_is_still_open() -> None:
    run, inside, identity = CONTEXT.run_scope(depth=3, scope="rights"), None, RunIdentity.root()
    run.__enter__()
    inside = run_identity_scope(identity)
    inside.__enter__()
    assert current_run_identity() is identity
    run.__exit__(None, None, None)
    assert (CONTEXT.active_run(), CONTEXT.current_depth(), CONTEXT.current_scope()) == (None, 0, None)
    assert current_run_identity() is identity
    inside.__exit__(None, None, None)
    assert current_run_identity() is None


def test_an_identity_that_is_over_is_not_current_in_a_run_that_was_opened_inside_it() -> None:
    around = run_identity_scope(RunIdentity.root())
    identity = around.__enter__()
    with CONTEXT.run_scope(depth=1) as run:
        assert current_run_identity() is identity is run.identity
        around.__exit__(None, None, None)
        assert current_run_identity() is None
        assert CONTEXT.active_run() is run
    assert current_run_identity() is None


def test_the_inner_one_of_a_run_and_an_identity_is_current() -> None:
    outer, inner = RunIdentity.root(), RunIdentity.root()
    with CONTEXT.run_scope(depth=0, identity=outer):
        assert current_run_identity() is outer
        with run_identity_scope(inner):
            assert current_run_identity() is inner
            with CONTEXT.run_scope(depth=1, identity=outer):
                assert current_run_identity() is outer
            with CONTEXT.run_scope(depth=1):
                assert current_run_identity() is inner
        assert current_run_identity() is outer


async def test_what_a_models_unread_stream_leaves_open_does_not_bound_the_next_run() -> None:
    held: list[AsyncIterator[str]] = []

    async def pieces() -> AsyncIterator[str]:
        with run_identity_scope(RunIdentity.root()):
            yield "a"
            yield "b"

    async def first(messages: Any, tools: Any) -> str:
        held.append(pieces())
        return await anext(held[-1])

    await Agent(FunctionModel(first)).run("x", limits=Limits(max_model_calls=1))
    assert CONTEXT.active_run() is None
    assert (await Agent(ScriptedModel("y")).run("y")).text == "y"
    await held[0].aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("scope", [run_identity_scope(RunIdentity.root()), CONTEXT.run_scope(depth=1)], ids=["i", "r"])
def test_a_scope_is_entered_once(scope: Any) -> None:
    with scope, pytest.raises(RuntimeError, match="entered before"):
        scope.__enter__()
    with pytest.raises(RuntimeError, match="entered before"):
        scope.__enter__()
    assert CONTEXT.active_run() is current_run_identity() is None
