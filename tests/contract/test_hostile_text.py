"""Objects that raise when they are read, printed or measured end up in the record, and never as an exception."""

import asyncio
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from contract_fakes import Answers, Child, tools_of

from symfonic.capabilities.delegation import DelegationOutcome, DelegationRecord
from symfonic.kernel.contracts.text import error_text, task_text, to_text


def _refuses(self: Any, *args: Any, **kwargs: Any) -> Any:
    raise RuntimeError("asked")


_ASKED = ["strip", "isascii", "encode", "replace", "splitlines", "__len__", "__iter__", "__contains__", "__bool__"]
_COMPARED = ["__eq__", "__str__", "__repr__", "__format__", "__getitem__", "__add__", "__mod__", "__hash__"]
TouchyText: Any = type("TouchyText", (str,), dict.fromkeys((*_ASKED, *_COMPARED), _refuses))
"""A string whose every method raises."""


class Metaclass(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise RuntimeError("name")


class NamelessError(Exception, metaclass=Metaclass):
    def __str__(self) -> str:
        return ""


class PrintsAsTouchyError(Exception):
    def __str__(self) -> str:
        return TouchyText("boo")


class PrintsAsNumberError(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]


class PrintsByRaisingError(Exception):
    """Its text is made by raising whatever it is given."""

    def __str__(self) -> str:
        raise self.args[0]


class Unreadable(ExceptionGroup):
    @property
    def exceptions(self) -> Any:
        raise RuntimeError("exceptions")


class OddlyGrouped(ExceptionGroup):
    @property
    def exceptions(self) -> Any:
        return 5


class SaysItIsText:
    __class__ = str  # type: ignore[assignment]


class EndlessError(Exception):
    def __str__(self) -> str:
        return str(self)


ERRORS = {
    "touchy text": (PrintsAsTouchyError(), "boo"),
    "a number for a text": (PrintsAsNumberError(), "PrintsAsNumberError"),
    "raises": (PrintsByRaisingError(RuntimeError("no")), "PrintsByRaisingError"),
    "raises a cancellation": (PrintsByRaisingError(asyncio.CancelledError()), "PrintsByRaisingError"),
    "raises for ever": (EndlessError(), "EndlessError"),
    "nameless": (NamelessError(), "object"),
    "touchy argument": (ValueError(TouchyText("boo")), "ValueError"),
    "unreadable group": (Unreadable("several", [ValueError("a")]), "several (1 sub-exception)"),
    "odd group": (OddlyGrouped("several", [ValueError("a")]), "several (1 sub-exception)"),
    "group of the nameless": (ExceptionGroup("several", [NamelessError()]), "several (1 sub-exception): object"),
    "lone surrogate": (ValueError("\ud800 here"), "\ufffd here"),
}


def check(record: DelegationRecord, outcome: DelegationOutcome) -> None:
    assert record.outcome is outcome
    assert type(record.message) is str
    record.message.encode()


@pytest.mark.parametrize("name", ERRORS)
async def test_an_error_that_cannot_be_read_is_the_childs_failure_like_any_other(name: str) -> None:
    error, words = ERRORS[name]
    record = await tools_of(child=Child(error)).delegate("child", "t")
    check(record, DelegationOutcome.CHILD_FAILED)
    assert record.message.startswith(f"Sub-agent 'child' failed: {words}")
    assert record.trace is not None
    assert record.trace.error is error
    assert type(error_text(error)) is str


class Raising:
    """Every question about it raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(f"no {name}")

    __bool__ = __str__ = __repr__ = __len__ = __iter__ = _refuses


class RaisesOnBool:
    __bool__ = _refuses


class Huge(int):
    __str__ = __repr__ = _refuses


class Odd(Mapping[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return iter((1, 2))

    def __len__(self) -> int:
        return 10**30


VALUES = {
    "touchy text": TouchyText("x"),
    "raising": Raising(),
    "raises on bool": RaisesOnBool(),
    "says it is text": SaysItIsText(),
    "huge": Huge(10**9000),
    "odd mapping": Odd(),
    "class": Metaclass("Unnamed", (), {}),
    "list of all of them": [TouchyText("x"), Raising(), Odd(), SaysItIsText()],
    "touchy keys": {str.__str__(TouchyText("k")): Raising(), 1: 2, None: 3},
}


@pytest.mark.parametrize("name", VALUES)
async def test_an_answer_that_cannot_be_read_never_makes_a_delegation_raise(name: str) -> None:
    record = await tools_of(child=Child(Answers(final_response=VALUES[name]))).delegate("child", "t")
    assert record.outcome in (DelegationOutcome.DELIVERED, DelegationOutcome.CHILD_FAILED)
    check(record, record.outcome)


@pytest.mark.parametrize("name", VALUES)
async def test_a_task_or_a_name_that_cannot_be_read_never_makes_a_delegation_raise(name: str) -> None:
    child = Child()
    tools = tools_of(child=child)
    check(await tools.delegate("child", VALUES[name]), DelegationOutcome.DELIVERED)
    assert type(child.queries[0]) is str
    check(await tools.delegate(VALUES[name], "t"), DelegationOutcome.UNKNOWN_CHILD)
    assert "Unknown sub-agent" in await tools.run_agent(VALUES[name], "t")


@pytest.mark.parametrize("name", VALUES)
async def test_ids_that_cannot_be_read_are_the_childs_failure_or_text(name: str) -> None:
    response = Answers(final_response="an answer", run_id=VALUES[name], root_run_id=VALUES[name])
    record = await tools_of(child=Child(response)).delegate("child", "t")
    check(record, record.outcome)
    assert type(record.run_id) is str


@pytest.mark.parametrize("name", VALUES)
def test_any_value_has_a_text(name: str) -> None:
    for made in (to_text(VALUES[name]), task_text(VALUES[name])):
        assert type(made) is str
        made.encode()


async def test_a_whole_response_that_cannot_be_read_is_the_childs_failure() -> None:
    check(await tools_of(child=Child(lambda query: _given(Raising()))).delegate("child", "t"), _FAILED)


async def _given(value: Any) -> Any:
    return value


_FAILED = DelegationOutcome.CHILD_FAILED

# small values that are endless to write out


class Counts(Sequence[Any]):
    """A list that counts how often it is gone through."""

    def __init__(self, items: list[Any], seen: list[int]) -> None:
        self.items, self.seen = items, seen

    def __getitem__(self, index: Any) -> Any:
        return self.items[index]

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        self.seen[0] += 1
        return iter(self.items)


@pytest.mark.parametrize("levels", [20, 60])
async def test_an_answer_that_holds_the_same_things_again_and_again_is_written_to_a_limit(levels: int) -> None:
    seen = [0]
    value: Any = "leaf"
    for _ in range(levels):
        value = Counts([value, value], seen)
    record = await tools_of(child=Child(Answers(final_response=value))).delegate("child", "t")
    assert record.delivered
    assert seen[0] < 30_000
    assert len(record.message) < 300_000


async def test_a_long_flat_answer_is_written_whole() -> None:
    record = await tools_of(child=Child(Answers(final_response=list(range(15_000))))).delegate("child", "t")
    assert record.message.count(",") == 14_999


class CountsGroup(ExceptionGroup):
    seen = 0

    @property
    def exceptions(self) -> Any:
        type(self).seen += 1
        return super().exceptions


async def test_an_error_that_groups_the_same_errors_again_and_again_is_told_to_a_limit() -> None:
    error: Exception = ValueError("leaf")
    for _ in range(40):
        error = CountsGroup("g", [error, error])
    CountsGroup.seen = 0
    record = await tools_of(child=Child(error)).delegate("child", "t")
    check(record, DelegationOutcome.CHILD_FAILED)
    assert CountsGroup.seen < 100_000
    assert len(record.message) < 2000


async def test_an_endless_name_is_not_normalised(monkeypatch: pytest.MonkeyPatch) -> None:
    lengths: list[int] = []
    normalize = unicodedata.normalize

    def counted(form: Any, text: str) -> str:
        lengths.append(len(text))
        return normalize(form, text)

    monkeypatch.setattr(unicodedata, "normalize", counted)
    told = await tools_of(child=Child()).run_agent("a" + "\u0301\u0327" * 100_000, "t")
    assert told.startswith("Unknown sub-agent 'a")
    assert "(200001 characters)" in told
    assert len(told) < 1000
    assert max(lengths, default=0) <= 1000
