"""How a roster calls a child: the scope around it, and what its signature can take."""

import asyncio
import functools
import inspect
from typing import Any

import pytest
from contract_fakes import Answers, Child, entry, roster_of
from hypothesis import given
from hypothesis import strategies as st

from symfonic.capabilities.delegation import ActiveRun, DelegationContext, DelegationRoster, UnknownChildError
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope

LINEAGE = {"root_run_id": "root", "parent_run_id": "parent"}
CONTEXT = {"scope": "tenant", "agent_depth": 3}
DONE = Answers(final_response="done")


def sent(**arguments: Any) -> dict[str, Any]:
    """What a runner got, without its self."""
    return {key: value for key, value in arguments.items() if key != "self"}


class Bare:
    async def run(self, query: str) -> Any:
        return sent(**locals())


class CatchAll:
    async def run(self, query: str, **kwargs: Any) -> Any:
        return {"query": query, **kwargs}


class Retired:
    async def run(self, query: str, **state_overrides: Any) -> Any:
        return {"query": query, **state_overrides}


class RetiredNamingDepth:
    async def run(self, query: str, *, agent_depth: int, **state_overrides: Any) -> Any:
        return {"query": query, "agent_depth": agent_depth, **state_overrides}


class RetiredNamingLineage:
    async def run(self, query: str, root_run_id: str, parent_run_id: str, **state_overrides: Any) -> Any:
        return {"query": query, "root_run_id": root_run_id, "parent_run_id": parent_run_id, **state_overrides}


class NamesScope:
    async def run(self, query: str, scope: Any = None) -> Any:
        return sent(**locals())


class NamesHalfTheLineage:
    async def run(self, query: str, root_run_id: str = "not sent") -> Any:
        return sent(**locals())


class NamesAll:
    async def run(self, query: str, scope: Any, agent_depth: int, root_run_id: str, parent_run_id: str) -> Any:
        return sent(**locals())


class PositionalOnly:
    async def run(self, query: str, /, **kwargs: Any) -> Any:
        return {"query": query, **kwargs}


class PositionalContext:
    async def run(self, query: str, scope: Any = "not sent", /) -> Any:
        return {"query": query, "scope": scope}


class OtherWord:
    async def run(self, prompt: str, **kwargs: Any) -> Any:
        return {"query": prompt, **kwargs}


class KeywordOnly:
    async def run(self, *, agent_depth: int, query: str) -> Any:
        return sent(**locals())


class OnlyCatchAll:
    async def run(self, **kwargs: Any) -> Any:
        return kwargs


class MarkedRetired(Retired):
    accepts_run_lineage = True


class Unreadable:
    """Its signature cannot be read."""

    class _Run:
        __signature__ = "unreadable"

        async def __call__(self, query: str, **kwargs: Any) -> Any:
            return {"query": query, **kwargs}

    run = _Run()


class MarkedUnreadable(Unreadable):
    accepts_run_lineage = True


@pytest.mark.parametrize(
    ("runner", "expected"),
    [
        (Bare(), {}),
        (CatchAll(), CONTEXT | LINEAGE),
        (Retired(), {}),
        (RetiredNamingDepth(), {"agent_depth": 3}),
        (RetiredNamingLineage(), LINEAGE),
        (NamesScope(), {"scope": "tenant"}),
        (NamesHalfTheLineage(), {"root_run_id": "not sent"}),
        (NamesAll(), CONTEXT | LINEAGE),
        (PositionalOnly(), CONTEXT | LINEAGE),
        (PositionalContext(), {"scope": "not sent"}),
        (OtherWord(), CONTEXT | LINEAGE),
        (KeywordOnly(), {"agent_depth": 3}),
        (OnlyCatchAll(), CONTEXT | LINEAGE),
        (MarkedRetired(), LINEAGE),
        (MarkedUnreadable(), CONTEXT | LINEAGE),
        (Unreadable(), CONTEXT),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_child_is_sent_exactly_what_its_signature_takes(runner: Any, expected: dict[str, Any]) -> None:
    got = await roster_of(a=runner).run("a", "the task", scope="tenant", depth=3, **LINEAGE)

    assert got == {"query": "the task", **expected}


async def test_a_marked_bare_child_is_sent_the_lineage_it_asked_for() -> None:
    class Marked:
        accepts_run_lineage = True

        async def run(self, query: str) -> Any:
            raise AssertionError("called without the lineage")

    with pytest.raises(TypeError, match="root_run_id"):
        await roster_of(a=Marked()).run("a", "task", depth=1)


async def test_outside_any_lineage_a_child_is_sent_none() -> None:
    got = await roster_of(a=CatchAll()).run("a", "task", depth=1)

    assert got == {"query": "task", "scope": None, "agent_depth": 1, "root_run_id": None, "parent_run_id": None}


async def test_a_type_error_from_inside_a_child_is_not_taken_for_an_old_signature() -> None:
    child = Child(TypeError("run() got an unexpected keyword argument 'scope'"))

    with pytest.raises(TypeError):
        await roster_of(a=child).run("a", "task", depth=1)
    assert len(child.queries) == 1


async def test_signatures_are_read_once_when_the_roster_is_built() -> None:
    reads = []

    class Counted:
        @property
        def run(self) -> Any:
            reads.append(1)
            return CatchAll().run

    roster = roster_of(a=Counted())
    at_construction = len(reads)
    for _ in range(3):
        await roster.run("a", "task", depth=1)

    assert at_construction > 0
    assert len(reads) == at_construction + 3  # once more for each call, to call it


class Watching:
    """Notes what it is told of a child's attempts, and how deep the run is in which it is told."""

    def __init__(self, told: list[tuple[str, Any, int]]) -> None:
        self.told = told

    def opened(self, run: ActiveRun) -> None:
        self.note("opened", run.depth)

    def returned(self, response: Any) -> None:
        self.note("returned", response)

    def raised(self, error: BaseException) -> None:
        self.note("raised", error)

    def note(self, what: str, of: Any) -> None:
        self.told.append((what, of, DelegationContext().current_depth()))


@pytest.mark.parametrize("wrong", ["b", "A", " a", "a ", "'a'", "", None, 7])
async def test_an_unknown_name_raises_before_anything_else_happens(wrong: Any) -> None:
    child, told = Child(), []

    with pytest.raises(UnknownChildError) as caught:
        await roster_of(a=child, c=child).run(wrong, object(), depth=1, watch=Watching(told))
    assert caught.value.name == wrong
    assert caught.value.known == ("a", "c")
    assert child.queries == told == []


async def test_who_watches_is_told_of_every_attempt_from_inside_the_childs_scope() -> None:
    told: list[tuple[str, Any, int]] = []
    error = ValueError("no")
    roster = roster_of(good=Child("fine"), bad=Child(error))

    response = await roster.run("good", "task", depth=2, watch=Watching(told))
    with pytest.raises(ValueError, match="no"):
        await roster.run("bad", "task", depth=3, watch=Watching(told))

    assert told == [("opened", 2, 2), ("returned", response, 2), ("opened", 3, 3), ("raised", error, 3)]


@pytest.mark.parametrize("runner", [Bare, CatchAll, Retired, NamesAll, PositionalOnly, OtherWord, OnlyCatchAll])
async def test_the_childs_scope_is_open_around_every_runner(runner: Any) -> None:
    seen: list[tuple[ActiveRun | None, RunIdentity | None]] = []

    class Looks(runner):  # type: ignore[misc]
        pass

    @functools.wraps(runner.run)
    async def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append((DelegationContext().active_run(), current_run_identity()))
        return DONE

    Looks.run = run
    await roster_of(a=Looks()).run("a", "task", scope="tenant", depth=3, **LINEAGE)

    ((run_inside, identity),) = seen
    assert run_inside is not None
    assert identity is not None
    assert (run_inside.depth, run_inside.scope) == (3, "tenant")
    assert run_inside.identity == identity
    assert (identity.root_run_id, identity.parent_run_id) == ("root", "parent")
    assert identity.run_id not in ("root", "parent", "")
    assert DelegationContext().active_run() is current_run_identity() is None


async def test_the_callers_run_is_restored_when_a_child_raises() -> None:
    context = DelegationContext()
    with run_identity_scope(RunIdentity.root()) as identity, context.run_scope(depth=0) as run:
        with pytest.raises(ValueError, match="no"):
            await roster_of(a=Child(ValueError("no"))).run("a", "task", depth=1)
        assert context.active_run() is run
        assert current_run_identity() is identity


async def test_each_call_has_an_identity_of_its_own() -> None:
    ids = []
    child = Child(lambda query: ids.append(current_run_identity().run_id) or "done")  # type: ignore[union-attr]
    for _ in range(3):
        await roster_of(a=child).run("a", "task", depth=1)

    assert len(set(ids)) == 3


async def test_a_lineage_that_is_not_given_is_that_of_the_current_run() -> None:
    child = Child()
    with run_identity_scope(RunIdentity.root().child()) as identity:
        await roster_of(a=child).run("a", "task", depth=1)

    assert child.keywords[0]["root_run_id"] == identity.root_run_id
    assert child.keywords[0]["parent_run_id"] == identity.run_id


async def test_a_depth_can_be_anything_and_is_coerced() -> None:
    child = Child()
    await roster_of(a=child).run("a", "task", depth="4")

    assert child.keywords[0]["agent_depth"] == 4


async def test_a_child_is_below_its_caller_whatever_depth_is_given() -> None:
    child = Child()
    with DelegationContext().run_scope(depth=4):
        await roster_of(a=child).run("a", "task", depth=0)

    assert child.keywords[0]["agent_depth"] == 5


@pytest.mark.parametrize("awaitable", [False, True])
async def test_what_comes_back_is_awaited_when_it_is_awaitable(awaitable: bool) -> None:
    future = asyncio.get_running_loop().create_future()
    future.set_result(DONE)

    class Plain:
        def run(self, query: str) -> Any:
            return future if awaitable else DONE

    assert await roster_of(a=Plain()).run("a", "task", depth=1) is DONE


async def test_a_lambda_that_returns_a_coroutine_is_awaited() -> None:
    child = Child()

    class Holder:
        run = staticmethod(lambda query: child.run(query))

    assert (await roster_of(a=Holder()).run("a", "task", depth=1)).final_response == "done"


async def reached(task: Any) -> Any:
    child = Child()
    await roster_of(a=child).run("a", task, depth=1)
    return child.queries[0]


@given(st.text() | st.sampled_from(["", "7", "true", '{"a": 1}', "[1]", "null", "\ud800", "{x} %s $x"]))
def test_a_string_reaches_the_child_byte_for_byte(task: str) -> None:
    assert asyncio.run(reached(task)) == task


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (None, ""),
        (7, "7"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (2.5, "2.5"),
        ({"description": "do it", "type": "str"}, '{"description": "do it", "type": "str"}'),
        (["do it"], '["do it"]'),
        ({"städte": ["Köln", "東京"]}, '{"städte": ["Köln", "東京"]}'),
        ([], "[]"),
        ({}, "{}"),
        (("a", None), '["a", null]'),
    ],
)
async def test_a_task_that_is_no_string_arrives_as_json(task: Any, text: str) -> None:
    assert await reached(task) == text


async def test_a_task_is_never_a_python_repr() -> None:
    class Thing:
        pass

    text = await reached([Thing(), {1, 2}, b"bytes", Thing])

    assert "object at 0x" not in text
    assert "'" not in text


async def test_a_roster_without_lineage_keywords_of_its_own_has_the_documented_signature() -> None:
    parameters = inspect.signature(DelegationRoster.run).parameters

    assert list(parameters)[:7] == ["self", "name", "task", "scope", "depth", "root_run_id", "parent_run_id"]
    assert parameters["depth"].default is inspect.Parameter.empty
    assert all(parameters[key].default is None for key in ("scope", "root_run_id", "parent_run_id"))
    assert all(parameters[key].kind is inspect.Parameter.KEYWORD_ONLY for key in list(parameters)[3:])


async def test_one_runner_may_serve_under_two_names() -> None:
    child = Child()
    roster = DelegationRoster([entry("a", child), entry("b", child)])
    await roster.run("a", "one", depth=1)
    await roster.run("b", "two", depth=1)

    assert child.queries == ["one", "two"]
