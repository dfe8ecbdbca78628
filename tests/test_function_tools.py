"""Python callables as tools: which can be one, their names, their docstrings, and what of them is required."""

import functools
import logging
import math
import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from function_tool_kit import decorated, note, properties, required
from symfonic.agent.cutover.function_tools import function_tool
from symfonic.errors import ConfigurationError


async def note_async(task: str, note: str | None = None, n: int = 5) -> str:
    return f"{task}/{note}/{n}"


class Notes:
    """Keeps notes."""

    def __init__(self) -> None:
        self.mark = "own"

    def method(self, task: str, n: int = 5) -> str:
        """A method."""
        return f"{self.mark}/{task}/{n}"

    @classmethod
    def of_class(cls, task: str, n: int = 5) -> str:
        return f"{cls.__name__}/{task}/{n}"

    @staticmethod
    def static(task: str, n: int = 5) -> str:
        return f"static/{task}/{n}"


class Callee:
    """A callee's class."""

    def __call__(self, task: str, n: int = 5) -> str:
        return f"called/{task}/{n}"


class AsyncCallee:
    async def __call__(self, task: str, n: int = 5) -> str:
        return f"awaited/{task}/{n}"


KINDS: dict[str, tuple[Any, str]] = {
    "function": (note, "t/None/5"),
    "coroutine function": (note_async, "t/None/5"),
    "partial": (functools.partial(note, note="set"), "t/set/5"),
    "partial of a coroutine function": (functools.partial(note_async, note="set"), "t/set/5"),
    "bound method": (Notes().method, "own/t/5"),
    "class method": (Notes.of_class, "Notes/t/5"),
    "static method": (Notes.static, "static/t/5"),
    "raw static method": (Notes.__dict__["static"], "static/t/5"),
    "callable instance": (Callee(), "called/t/5"),
    "object with an async call": (AsyncCallee(), "awaited/t/5"),
    "wrapped function": (decorated(note), "t/None/5"),
    "wrapped coroutine function": (decorated(note_async), "t/None/5"),
    "wrapped method": (decorated(Notes().method), "own/t/5"),
    "lambda": (lambda task, n=5: f"{task}/{n}", "t/5"),
    "lambda returning a coroutine": (lambda task: note_async(task), "t/None/5"),
    "cached function": (functools.lru_cache(note), "t/None/5"),
}


@pytest.mark.parametrize(("fn", "answer"), KINDS.values(), ids=KINDS)
async def test_every_kind_of_callable_takes_exactly_its_required_arguments(fn: Any, answer: str) -> None:
    tool = function_tool(fn, name="t")
    assert required(tool) == ["task"]
    assert "self" not in properties(tool)
    assert "cls" not in properties(tool)
    assert tool.parameters["type"] == "object"
    assert tool.parameters["additionalProperties"] is False
    assert await tool.invoke({"task": "t"}) == answer


@pytest.mark.parametrize(("fn", "answer"), KINDS.values(), ids=KINDS)
async def test_schema_property_names_are_the_accepted_keyword_names(fn: Any, answer: str) -> None:
    tool = function_tool(fn, name="t")
    for name in properties(tool):
        await tool.invoke({"task": "t", name: 3 if name == "n" else "x"})
    with pytest.raises(ValueError, match="unexpected argument 'other'"):
        await tool.invoke({"task": "t", "other": 1})


def test_only_parameters_without_a_default_are_required() -> None:
    tool = function_tool(note)
    assert required(tool) == ["task"]
    assert properties(tool) == {
        "task": {"type": "string"},
        "note": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        "n": {"type": "integer", "default": 5},
    }


@pytest.mark.parametrize(
    "fn",
    [lambda: 1, functools.partial(lambda a: a, 1), Callee(), functools.partial(Callee(), n=1), operator.itemgetter(0)],
    ids=["lambda", "partial of a lambda", "instance", "partial of an instance", "itemgetter"],
)
def test_nameless_callables_ask_for_a_name(fn: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"symfonic\.tool\(fn, name=\.\.\.\)"):
        function_tool(fn)


@pytest.mark.parametrize("name", ["", "  ", 7])
def test_a_name_is_a_non_empty_string(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="non-empty string"):
        function_tool(note, name=name)


def test_a_partial_and_a_wrapped_function_go_by_the_name_of_the_function() -> None:
    assert function_tool(functools.partial(note, n=1)).name == "note"
    assert function_tool(decorated(note)).name == "note"
    assert function_tool(decorated(note)).description == "Note a task down."
    assert function_tool(functools.partial(note, n=1)).description == "Note a task down."


def test_an_instance_is_described_by_its_call_or_else_by_its_class() -> None:
    assert function_tool(Callee(), name="t").description == "A callee's class."
    assert function_tool(Notes().method).description == "A method."
    assert function_tool(AsyncCallee(), name="t").description == ""
    assert function_tool(lambda: 1, name="t").description == ""


def test_a_given_description_wins() -> None:
    assert function_tool(note, description="Mine: {x} %s").description == "Mine: {x} %s"


def test_what_a_partial_has_set_is_neither_shown_nor_changed_by_a_model() -> None:
    tool = function_tool(functools.partial(note, note="secret"))
    assert "note" not in properties(tool)
    assert "secret" not in str(tool.parameters)


async def test_a_partial_with_a_positional_argument_offers_the_rest() -> None:
    tool = function_tool(functools.partial(note, "first"))
    assert set(properties(tool)) == {"note", "n"}
    assert await tool.invoke({"n": 7}) == "first/None/7"


@pytest.mark.parametrize("what", [Callee, int, 3, None, "text"])
def test_what_is_no_callable_object_is_refused(what: Any) -> None:
    with pytest.raises(ConfigurationError, match="function or a callable object"):
        function_tool(what)


def test_an_unbound_method_is_refused_by_its_self() -> None:
    with pytest.raises(ConfigurationError, match="parameter self belongs to an unbound method"):
        function_tool(Notes.method)


def test_catch_alls_are_refused_by_name() -> None:
    def takes_args(*items: str) -> None: ...

    def takes_kwargs(a: int, **options: Any) -> None: ...

    with pytest.raises(ConfigurationError, match=r"'takes_args': parameter \*items"):
        function_tool(takes_args)
    with pytest.raises(ConfigurationError, match=r"'takes_kwargs': parameter \*\*options"):
        function_tool(takes_kwargs)


def test_generators_are_refused() -> None:
    def counting() -> Any:
        yield 1

    async def counting_async() -> Any:
        yield 1

    for fn in (counting, counting_async):
        with pytest.raises(ConfigurationError, match=f"'{fn.__name__}' is a generator"):
            function_tool(fn)


def test_a_callable_without_a_readable_signature_is_refused() -> None:
    class Odd:
        __signature__ = "none"

        def __call__(self) -> None: ...

    with pytest.raises(ConfigurationError, match=r"'it'.*cannot be read"):
        function_tool(Odd(), name="it")


async def test_a_builtin_function_is_a_tool() -> None:
    assert await function_tool(math.sqrt).invoke({"x": 9}) == 3


DOCSTRINGS = {
    "no blank line": (
        """Look up.
        Args:
            a: First: with a colon
                and more: colons.
            b (int): Second.
        """,
        "Look up.",
        {"a": "First: with a colon\nand more: colons.", "b": "Second."},
    ),
    "paragraphs and sections": (
        """Sum {x} %s.

        Second paragraph: with a colon.
        And more.

        Args:
            a: First,
            that is: one.
            b: Second.

        Returns:
            The sum: a number.

        Raises:
            ValueError: If not.

        Example:
            >>> f(1)
        """,
        "Sum {x} %s.\n\nSecond paragraph: with a colon.\nAnd more.",
        {"a": "First,\nthat is: one.", "b": "Second."},
    ),
    "keyword section": (
        """Sum.

        Args:
            a: First.

        Keyword Args:
            b: Second.
        """,
        "Sum.",
        {"a": "First.", "b": "Second."},
    ),
    "numpy": (
        """Sum.

        More.

        Parameters
        ----------
        a : int
            First: with a colon
            and a second line.
        b
            Second.

        Returns
        -------
        int
            The sum.
        """,
        "Sum.\n\nMore.",
        {"a": "First: with a colon\nand a second line.", "b": "Second."},
    ),
    "sphinx": (
        """Sum.

        More.

        :param a: First: with a colon
            and more: colons.
        :param int b: Second.
        :returns: The sum.
        """,
        "Sum.\n\nMore.",
        {"a": "First: with a colon\nand more: colons.", "b": "Second."},
    ),
    "sphinx, no blank line, last line": (
        "Sum.\n:param a: First.\n:param b: Second.",
        "Sum.",
        {"a": "First.", "b": "Second."},
    ),
    "sections only": ("Args:\n        a: First.\n        b: Second.", "", {"a": "First.", "b": "Second."}),
    "text only": ("Just: text.\n\nUsage::\n\n    code", "Just: text.\n\nUsage::\n\n    code", {}),
    "one line": ("Sum it.", "Sum it.", {}),
    "blank": ("   \n  ", "", {}),
    "none": (None, "", {}),
}


@pytest.mark.parametrize(("docstring", "text", "described"), DOCSTRINGS.values(), ids=DOCSTRINGS)
def test_a_docstring_gives_the_description_and_those_of_the_parameters(
    docstring: str | None, text: str, described: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    def f(a: int, b: int = 2) -> None: ...

    f.__doc__ = docstring
    with caplog.at_level(logging.DEBUG):
        tool = function_tool(f)
    assert tool.description == text
    assert {name: each["description"] for name, each in properties(tool).items() if "description" in each} == described
    assert not caplog.records


@given(docstring=st.text(alphabet="Args:\n abx*()-`>", max_size=120))
def test_no_docstring_breaks_a_tool(docstring: str) -> None:
    def f(a: int, b: int = 2) -> None: ...

    f.__doc__ = docstring
    assert set(properties(function_tool(f))) == {"a", "b"}
