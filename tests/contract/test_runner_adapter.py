"""Where a child is adopted: what its signature says, and the wrapper around an ``Agent``-shaped one."""

import dataclasses
import functools
from typing import Any

import pytest
from contract_fakes import Answers, Child, roster_of, tools_of

from symfonic.capabilities.delegation import (
    ACCEPTS_RUN_LINEAGE,
    RETIRED_VAR_KEYWORD,
    ChildDeclarationError,
    ChildResponse,
    DelegationContext,
    accepts_run_lineage,
    adapt_child,
    speaks_runner_contract,
)
from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope


class CalledError(Exception):
    """A child was called, where only its signature was to be read."""


def child(run: Any, **attributes: Any) -> Any:
    """An object whose class has this ``run``."""
    return type("Made", (), {"run": run, **attributes})()


async def query(self: Any, query: str) -> Any:
    raise CalledError


async def query_keyword(self: Any, *, query: str) -> Any:
    raise CalledError


async def catch_all(self: Any, **kwargs: Any) -> Any:
    raise CalledError


async def prompt_catch_all(self: Any, prompt: str, **kwargs: Any) -> Any:
    raise CalledError


async def retired(self: Any, query: str, **state_overrides: Any) -> Any:
    raise CalledError


async def retired_lineage(self: Any, query: str, root_run_id: str, parent_run_id: str, **state_overrides: Any) -> Any:
    raise CalledError


async def lineage(self: Any, query: str, *, root_run_id: str, parent_run_id: str) -> Any:
    raise CalledError


async def root_only(self: Any, query: str, *, root_run_id: str) -> Any:
    raise CalledError


async def parent_only(self: Any, query: str, *, parent_run_id: str) -> Any:
    raise CalledError


async def prompt(self: Any, prompt: str) -> Any:
    raise CalledError


async def other(self: Any, message: str) -> Any:
    raise CalledError


async def nothing(self: Any) -> Any:
    raise CalledError


async def positions(self: Any, *args: Any) -> Any:
    raise CalledError


class Unreadable:
    """A callable whose signature cannot be read."""

    __signature__ = "unreadable"

    async def __call__(self, query: str, **kwargs: Any) -> Any:
        raise CalledError


class RaisesOnRun:
    @property
    def run(self) -> Any:
        raise RuntimeError("no run today")


NO_RUN: list[Any] = [object(), None, 7, "text", child(None), child(7), RaisesOnRun(), child(Unreadable())]


@pytest.mark.parametrize("run", [query, query_keyword, catch_all, prompt_catch_all, retired, lineage])
def test_a_run_with_a_query_or_a_catch_all_speaks_the_contract(run: Any) -> None:
    assert speaks_runner_contract(child(run)) is True


@pytest.mark.parametrize("run", [prompt, other, nothing, positions])
def test_a_run_with_neither_does_not_speak_the_contract(run: Any) -> None:
    assert speaks_runner_contract(child(run)) is False


@pytest.mark.parametrize("without", NO_RUN)
def test_a_run_that_is_missing_not_callable_or_unreadable_does_not_speak_the_contract(without: Any) -> None:
    assert speaks_runner_contract(without) is False


def test_the_marker_and_the_retired_catch_all_have_these_names() -> None:
    assert (ACCEPTS_RUN_LINEAGE, RETIRED_VAR_KEYWORD) == ("accepts_run_lineage", "state_overrides")


@pytest.mark.parametrize(
    ("run", "accepts"),
    [
        (query, False),
        (lineage, True),
        (root_only, False),
        (parent_only, False),
        (catch_all, True),
        (prompt_catch_all, True),
        (retired, False),
        (retired_lineage, True),
        (prompt, False),
        (positions, False),
        (Unreadable(), False),
        (None, False),
    ],
)
def test_the_signature_says_whether_a_child_takes_lineage(run: Any, accepts: bool) -> None:
    assert accepts_run_lineage(child(run)) is accepts
    assert accepts_run_lineage(child(run, accepts_run_lineage=True)) is True
    for false in (False, None, 0, ""):
        assert accepts_run_lineage(child(run, accepts_run_lineage=false)) is accepts


def test_a_child_without_run_takes_no_lineage_unless_it_says_so() -> None:
    assert accepts_run_lineage(object()) is False
    assert accepts_run_lineage(Answers(accepts_run_lineage=1)) is True


def test_a_child_is_never_called_to_find_out_what_it_takes() -> None:
    for run in (query, catch_all, retired, lineage, prompt):
        made = child(run)
        speaks_runner_contract(made)
        accepts_run_lineage(made)
        adapt_child("a", made)


@pytest.mark.parametrize("run", [query, query_keyword, catch_all, prompt_catch_all, retired, lineage])
def test_a_child_that_speaks_the_contract_comes_back_itself(run: Any) -> None:
    made = child(run)

    assert adapt_child("a", made) is made
    assert adapt_child("a", made, DelegationContext()) is made


def test_signatures_are_read_through_wrappers_and_partials() -> None:
    class Base:
        async def run(self, query: str, *, scope: Any = None) -> Any: ...

    class Wrapped(Base):
        @functools.wraps(Base.run)
        async def run(self, *args: Any, **kwargs: Any) -> Any: ...

    class Partial:
        run = staticmethod(functools.partial(query, None))

    assert speaks_runner_contract(Wrapped())
    assert not accepts_run_lineage(Wrapped())
    assert speaks_runner_contract(Partial())


@pytest.mark.parametrize(
    ("made", "got"),
    [
        (child(other), "Made with run(message: str) -> Any"),
        (child(nothing), "Made with run() -> Any"),
        (child(positions), "Made with run(*args: Any) -> Any"),
        (object(), "object with run missing"),
        (None, "NoneType with run missing"),
        (RaisesOnRun(), "RaisesOnRun with run missing"),
        ("offline", "str with run missing"),
    ],
)
def test_anything_else_is_refused_naming_the_child_and_what_was_found(made: Any, got: str) -> None:
    with pytest.raises(ChildDeclarationError) as caught:
        adapt_child("worker", made)

    expected = (
        "PrebuiltChild.agent for 'worker' must expose an async run(query, ...) method (the ChildRunner protocol)"
        f" or an Agent-shaped run(prompt, ...); got {got}"
    )
    assert str(caught.value).startswith(expected)
    assert len(str(caught.value)) > len(expected) + 10, "a hint at what else can be adopted follows"


@pytest.mark.parametrize("made", ["127.0.0.1:8531", "agents.example/legal", "ftp://agents.example", "http:/x", " ", ""])
def test_a_text_that_is_no_address_is_refused_saying_how_one_begins(made: str) -> None:
    with pytest.raises(ChildDeclarationError) as caught:
        adapt_child("far", made)
    words = str(caught.value).partition("got str with run missing. ")[2]
    assert words.startswith("The address of an agent elsewhere begins with http:// or https://. ")
    assert "the address (http://... or https://...) of an agent" in words.partition("What can be adopted: ")[2]


@pytest.mark.parametrize("made", [child(7), child(Unreadable())])
def test_a_run_that_cannot_be_read_is_refused_too(made: Any) -> None:
    with pytest.raises(ChildDeclarationError, match=r"'worker' must expose an async run.*; got Made with run"):
        adapt_child("worker", made)


def test_a_class_in_place_of_its_instance_is_refused() -> None:
    with pytest.raises(ChildDeclarationError, match="Child"):
        adapt_child("worker", Child)


def test_a_response_has_its_documented_fields_and_keeps_the_result() -> None:
    result = object()
    fields = {field.name: field.default for field in dataclasses.fields(ChildResponse)}

    assert list(fields) == ["final_response", "result", "run_id", "root_run_id", "parent_run_id"]
    assert {key: fields[key] for key in list(fields)[1:]} == {
        "result": None,
        "run_id": "",
        "root_run_id": "",
        "parent_run_id": None,
    }
    assert ChildResponse("done", result).result is result


# the wrapper


class Agent:
    """Agent-shaped, taking all of a child's context."""

    def __init__(self, result: Any = None) -> None:
        self.result = result or Answers(text="done")
        self.calls: list[dict[str, Any]] = []

    async def run(self, prompt: str, *, scope: Any, agent_depth: int, root_run_id: str, parent_run_id: str) -> Any:
        self.calls.append({key: value for key, value in locals().items() if key != "self"})
        return self.result


async def test_an_agents_result_is_renamed_and_kept_whole() -> None:
    result = Answers(text="done", run_id="run", root_run_id="root", parent_run_id="parent", extra=object())
    response = await adapt_child("a", Agent(result)).run("task")

    assert isinstance(response, ChildResponse)
    assert response.final_response == "done"
    assert response.result is result
    assert (response.run_id, response.root_run_id, response.parent_run_id) == ("run", "root", "parent")


async def test_an_agent_is_sent_the_prompt_and_its_place_in_the_tree() -> None:
    agent = Agent()
    await roster_of(a=adapt_child("a", agent)).run(
        "a", "task", scope="tenant", depth=2, root_run_id="root", parent_run_id="parent"
    )

    assert agent.calls == [
        {"prompt": "task", "scope": "tenant", "agent_depth": 2, "root_run_id": "root", "parent_run_id": "parent"}
    ]


async def test_an_agent_is_sent_only_what_its_run_names() -> None:
    got: list[Any] = []

    class Plain:
        async def run(self, prompt: str) -> Any:
            got.append(prompt)
            return Answers(text="plain")

    class Scoped:
        async def run(self, prompt: str, scope: Any = "not sent") -> Any:
            got.append((prompt, scope))
            return Answers(text="scoped")

    class Keyword:
        async def run(self, *, prompt: str, parent_run_id: Any) -> Any:
            got.append((prompt, parent_run_id))
            return Answers(text="keyword")

    roster = roster_of(a=adapt_child("a", Plain()), b=adapt_child("b", Scoped()), c=adapt_child("c", Keyword()))
    for name in "abc":
        await roster.run(name, name, scope="tenant", depth=1, root_run_id="root", parent_run_id="parent")

    assert got == ["a", ("b", "tenant"), ("c", "parent")]


async def test_ids_that_a_result_lacks_are_those_of_the_childs_scope() -> None:
    identities: list[Any] = []

    class Looks:
        async def run(self, prompt: str) -> Any:
            identities.append(current_run_identity())
            return Answers(text="done")

    with run_identity_scope(RunIdentity.root()) as caller:
        record = await tools_of(1, a=adapt_child("a", Looks())).delegate("a", "task")

    ((identity,)) = identities
    assert (record.run_id, record.root_run_id, record.parent_run_id) == (
        identity.run_id,
        caller.root_run_id,
        caller.run_id,
    )


async def test_outside_any_scope_a_result_without_ids_has_none() -> None:
    response = await adapt_child("a", Agent()).run("task")

    assert (response.run_id, response.root_run_id, response.parent_run_id) == ("", "", None)


async def test_an_agents_type_error_is_its_own() -> None:
    class Broken:
        def __init__(self) -> None:
            self.calls = 0

        async def run(self, prompt: str, scope: Any = None) -> Any:
            self.calls += 1
            raise TypeError("run() got an unexpected keyword argument 'scope'")

    agent = Broken()
    record = await tools_of(1, a=adapt_child("a", agent)).delegate("a", "task")

    assert record.message == "Sub-agent 'a' failed: run() got an unexpected keyword argument 'scope'"
    assert agent.calls == 1


async def test_an_agent_whose_run_is_not_async_is_adopted_too() -> None:
    class Sync:
        def run(self, prompt: str) -> Any:
            return Answers(text=prompt.upper())

    assert (await adapt_child("a", Sync()).run("task")).final_response == "TASK"


async def test_a_result_without_text_is_no_answer() -> None:
    record = await tools_of(1, a=adapt_child("a", Agent(Answers(output="here")))).delegate("a", "task")

    assert record.message == "Sub-agent 'a' failed: it returned no final response"
