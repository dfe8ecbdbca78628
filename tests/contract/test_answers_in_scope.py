"""What a child hands back, an answer or an error, is read where the child's own code is still the child's.

Reading it may run that code: a property, or an error's text, that delegates again is bounded as the child is.
"""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from contract_fakes import Answers, Child, others_pending, tools_of

from symfonic.capabilities.delegation import DelegationContext, DelegationOutcome, DelegationTools
from symfonic.kernel.contracts.run_identity import current_run_identity

CONTEXT = DelegationContext()


class Again:
    """A child whose response, or error, delegates once more when it is read."""

    def __init__(self, make: "Callable[[Again], Any]") -> None:
        self.make = make
        self.ran: list[int] = []
        self.read: list[tuple[int, Any]] = []
        self.later: list[asyncio.Task[Any]] = []
        self.tools: DelegationTools

    async def run(self, query: str) -> Any:
        self.ran.append(CONTEXT.current_depth())
        made = self.make(self)
        if isinstance(made, BaseException):
            raise made
        return made

    def delegates(self) -> None:
        """Notes where this is called, and starts a delegation from there."""
        self.read.append((CONTEXT.current_depth(), current_run_identity()))
        if len(self.ran) < 20:
            self.later.append(asyncio.ensure_future(self.tools.delegate("child", "again")))


class Reads:
    """A response with an attribute that delegates."""

    final_response = "an answer"

    def __init__(self, owner: Again) -> None:
        self._owner = owner


class ReadsAnswer(Reads):
    @property
    def final_response(self) -> str:  # type: ignore[override]
        self._owner.delegates()
        return "an answer"


class ReadsRunId(Reads):
    @property
    def run_id(self) -> str:
        self._owner.delegates()
        return "mine"


class ReadsRootRunId(Reads):
    @property
    def root_run_id(self) -> str:
        self._owner.delegates()
        return "mine"


class SpellsItsRunId(Reads):
    @property
    def run_id(self) -> Any:
        return self

    def __str__(self) -> str:
        self._owner.delegates()
        return "mine"


class WritesJson(Reads):
    @property
    def final_response(self) -> Any:  # type: ignore[override]
        return self

    def to_dict(self) -> dict[str, int]:
        self._owner.delegates()
        return {"a": 1}


class AnswersByLength(Reads):
    @property
    def final_response(self) -> Any:  # type: ignore[override]
        return self

    def __bool__(self) -> bool:
        self._owner.delegates()
        return False


class TellsError(Exception):
    def __init__(self, owner: Again) -> None:
        self.owner = owner
        super().__init__()

    def __str__(self) -> str:
        self.owner.delegates()
        return "why it failed"


def group(owner: Again) -> BaseException:
    return ExceptionGroup("several", [TellsError(owner)])


ANSWERS = [ReadsAnswer, ReadsRunId, ReadsRootRunId, SpellsItsRunId, WritesJson]
ERRORS = [TellsError, group]


@pytest.mark.parametrize("make", [*ANSWERS, AnswersByLength, *ERRORS], ids=lambda make: make.__name__)
@pytest.mark.parametrize("ceiling", [1, 3])
async def test_a_child_that_delegates_again_when_it_is_read_stays_under_the_ceiling(make: Any, ceiling: int) -> None:
    again = Again(make)
    again.tools = tools_of(max_depth=ceiling, child=again)
    await again.tools.delegate("child", "first")
    outcomes = [(await again.later.pop()).outcome for _ in range(len(again.later))]
    while again.later:
        outcomes.append((await again.later.pop()).outcome)
    assert again.ran == list(range(1, ceiling + 1))
    assert DelegationOutcome.REFUSED_DEPTH in outcomes
    assert await others_pending() == []


@pytest.mark.parametrize("make", [*ANSWERS, AnswersByLength, *ERRORS], ids=lambda make: make.__name__)
async def test_a_child_is_read_in_its_own_run(make: Any) -> None:
    again = Again(make)
    again.tools = tools_of(max_depth=1, child=again)
    record = await again.tools.delegate("child", "first")
    await asyncio.gather(*again.later)
    assert record.trace is not None
    assert again.read[0] == (1, record.trace.child)
    assert CONTEXT.active_run() is None
    assert current_run_identity() is None


@pytest.mark.parametrize("make", ANSWERS, ids=lambda make: make.__name__)
async def test_an_answer_is_read_once_for_each_delegation(make: Any) -> None:
    again = Again(make)
    again.tools = tools_of(max_depth=0, child=again)
    with CONTEXT.run_scope(depth=0):
        again.tools = tools_of(max_depth=1, child=again)
        record = await again.tools.delegate("child", "first")
        await asyncio.gather(*again.later)
    assert record.delivered
    assert len(again.read) == 1


@pytest.mark.parametrize("name", ["final_response", "run_id", "root_run_id", "parent_run_id"])
async def test_a_response_that_cannot_be_read_is_the_childs_failure(name: str) -> None:
    def unreadable(self: Any) -> str:
        raise LookupError(f"no {name}")

    response = type("Response", (), {"final_response": "an answer", name: property(unreadable)})()
    record = await tools_of(child=Child(response)).delegate("child", "t")
    assert (record.outcome, record.message) == (
        DelegationOutcome.CHILD_FAILED,
        f"Sub-agent 'child' failed: no {name}",
    )
    assert record.trace is not None
    assert isinstance(record.trace.error, LookupError)


async def test_a_delegation_made_while_the_answer_is_read_is_on_the_childs_record() -> None:
    leaf = tools_of(max_depth=5, leaf=Child("below"))

    class Lazy:
        @property
        def final_response(self) -> str:
            later.append(asyncio.ensure_future(leaf.delegate("leaf", "t")))
            return "an answer"

    later: list[asyncio.Task[Any]] = []
    with CONTEXT.run_scope(depth=0) as run:
        record = await tools_of(max_depth=5, child=Child(Lazy())).delegate("child", "t")
        below = await later[0]
    assert (record.outcome, record.depth, below.depth) == (DelegationOutcome.DELIVERED, 1, 2)
    assert run.delegated == ("child",)


async def test_the_ids_of_a_response_without_an_answer_are_kept() -> None:
    response = Answers(final_response="  ", run_id="r", root_run_id="o", parent_run_id="p")
    record = await tools_of(child=Child(response)).delegate("child", "t")
    assert (record.run_id, record.root_run_id, record.parent_run_id) == ("r", "o", "p")
    assert record.outcome is DelegationOutcome.CHILD_FAILED
