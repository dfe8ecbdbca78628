"""Python callables as tools: names, schemas, arguments, docstrings, and where they run."""

import asyncio
import contextvars
import dataclasses
import functools
import gc
import inspect
import logging
import math
import operator
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from symfonic.agent.cutover.function_tools import function_tool
from symfonic.errors import ConfigurationError

here = contextvars.ContextVar("here", default="nowhere")


def properties(tool: Any) -> dict[str, Any]:
    return dict(tool.parameters["properties"])


def required(tool: Any) -> list[str]:
    return list(tool.parameters.get("required", []))


def note(task: str, note: str | None = None, n: int = 5) -> str:
    """Note a task down."""
    return f"{task}/{note}/{n}"


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


def decorated(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


@dataclasses.dataclass
class Place:
    city: str
    zone: int = 1


class Order(BaseModel):
    item: str
    count: int = 1


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


AWKWARD = [
    "config",
    "callbacks",
    "args",
    "kwargs",
    "self",
    "schema",
    "copy",
    "model_x",
    "_x",
    "p0",
    "p1",
    "run_manager",
]
AWKWARD += ["tool_input", "json", "dict", "model_config", "model_fields", "__private", "arguments", "name", "type"]


@pytest.mark.parametrize("name", AWKWARD)
async def test_awkward_parameter_names_are_delivered_unchanged(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f({name}, other=2): return [{name}, other]", namespace)
    tool = function_tool(namespace["f"])
    assert list(properties(tool)) == [name, "other"]
    assert required(tool) == [name]
    assert await tool.invoke({name: {"a": [1]}}) == [{"a": [1]}, 2]


@given(
    names=st.lists(st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True), min_size=1, max_size=5, unique=True)
)
def test_any_parameter_name_is_offered_and_delivered_as_it_is(names: list[str]) -> None:
    async def f(**values: Any) -> Any:
        return values

    kind = inspect.Parameter.KEYWORD_ONLY
    try:
        made = [inspect.Parameter(name, kind) for name in names]
    except ValueError:  # a Python keyword
        return
    f.__signature__ = inspect.Signature(made)  # type: ignore[attr-defined]
    tool = function_tool(f)
    arguments = {name: index for index, name in enumerate(names)}
    assert list(properties(tool)) == names
    assert asyncio.run(tool.invoke(arguments)) == arguments  # type: ignore[arg-type]


async def test_positional_only_parameters_are_delivered_by_position() -> None:
    def f(a: int, b: int = 2, c: int = 3, /, d: int = 4, *, e: int) -> list[int]:
        return [a, b, c, d, e]

    tool = function_tool(f)
    assert required(tool) == ["a", "e"]
    assert await tool.invoke({"a": 1, "c": 9, "e": 5}) == [1, 2, 9, 4, 5]


async def test_models_and_dataclasses_arrive_as_instances() -> None:
    def buy(order: Order, place: Place, more: list[Order], spare: Optional[Place] = None) -> list[Any]:  # noqa: UP045
        return [order, place, more, spare]

    tool = function_tool(buy)
    given = {"order": {"item": "tea"}, "place": {"city": "Łódź"}, "more": [{"item": "x", "count": 2}]}
    assert await tool.invoke(given) == [Order(item="tea"), Place("Łódź"), [Order(item="x", count=2)], None]
    assert required(tool) == ["order", "place", "more"]


async def test_choices_optional_values_and_paths_have_the_right_schema() -> None:
    def f(mode: Literal["a", "b"], where: Path, maybe: Optional[int], weight: "float | None" = None) -> Any:  # noqa: UP045
        return [mode, where, maybe, weight]

    tool = function_tool(f)
    assert properties(tool)["mode"] == {"enum": ["a", "b"], "type": "string"}
    assert properties(tool)["where"] == {"format": "path", "type": "string"}
    assert required(tool) == ["mode", "where", "maybe"]
    assert await tool.invoke({"mode": "a", "where": "/x", "maybe": None}) == ["a", Path("/x"), None, None]


async def test_none_is_accepted_where_it_is_the_default() -> None:
    def f(limit: int, size: Annotated[int, Field(gt=0, description="Size.")]) -> Any:
        return [limit, size]

    f.__defaults__ = (None, None)

    tool = function_tool(f)
    assert await tool.invoke({"limit": None, "size": None}) == [None, None]
    assert properties(tool)["size"]["description"] == "Size."
    with pytest.raises(ValueError, match="'size'"):
        await tool.invoke({"size": 0})


def test_postponed_annotations_of_local_types_resolve_while_their_function_runs() -> None:
    @dataclasses.dataclass
    class Local:
        x: int

    def f(it: "Local", many: "list[Local]") -> None: ...

    tool = function_tool(f)
    assert tool.parameters["$defs"]["Local"]["properties"] == {"x": {"type": "integer"}}
    assert properties(tool)["it"] == {"$ref": "#/$defs/Local"}


def make_with_closure() -> Any:
    class Hidden(BaseModel):
        x: int

    def f(it: "Hidden") -> Any:
        return Hidden, it

    return f


def make_without_closure() -> Any:
    class Gone(BaseModel):
        x: int

    def f(it: "Gone") -> Any: ...

    return f


async def test_postponed_annotations_resolve_from_the_closure() -> None:
    cls, it = await function_tool(make_with_closure()).invoke({"it": {"x": 1}})
    assert isinstance(it, cls)


@pytest.mark.parametrize("fn", [make_without_closure(), note], ids=["gone", "unrelated"])
def test_an_annotation_that_cannot_be_resolved_names_function_and_parameter(fn: Any) -> None:
    def missing(task: str, it: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    class Gone: ...  # a local of the same name in another function is not what was meant

    broken = missing if fn is note else fn
    with pytest.raises(ConfigurationError, match=rf"'{broken.__name__}'.*parameter 'it'"):
        function_tool(broken)


class Opaque:
    pass


@pytest.mark.parametrize("hint", [Opaque, Callable[[], int], 5, "list["])
def test_a_type_without_a_schema_names_function_and_parameter(hint: Any) -> None:
    def f(fine: int, bad: Any) -> None: ...

    f.__annotations__["bad"] = hint
    with pytest.raises(ConfigurationError, match=r"tool 'f'.*parameter 'bad'"):
        function_tool(f)


def test_a_field_as_default_is_refused() -> None:
    def f(x: int = Field(5)) -> None: ...

    with pytest.raises(ConfigurationError, match=r"'f'.*'x'.*Annotated"):
        function_tool(f)


async def test_annotated_descriptions_bounds_and_defaults_are_kept() -> None:
    def f(
        a: Annotated[int, Field(gt=3, alias="zz", description="Own.")],
        b: Annotated[str, "Plain words."],
        c: Annotated[int, Field(default=7)],
    ) -> Any:
        """F.

        Args:
            a: From the docstring.
            b: From the docstring.
        """
        return [a, b, c]

    tool = function_tool(f)
    assert properties(tool)["a"] == {"description": "Own.", "exclusiveMinimum": 3, "type": "integer"}
    assert properties(tool)["b"] == {"description": "Plain words.", "type": "string"}
    assert await tool.invoke({"a": 4, "b": "x"}) == [4, "x", 7]


async def test_a_default_that_json_cannot_spell_is_kept_and_not_shown() -> None:
    marker = object()

    def f(x: Any = marker, y: float = float("inf"), z: Path = Path("/tmp")) -> Any:
        return [x, y, z]

    tool = function_tool(f)
    assert required(tool) == []
    assert all("default" not in each for each in properties(tool).values())
    assert await tool.invoke({}) == [marker, float("inf"), Path("/tmp")]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({}, "missing argument 'task'"),
        ({"task": "t", "query": 1}, "unexpected argument 'query'"),
        ({"task": "t", "a": 1, "b": 2}, "unexpected arguments 'a', 'b'"),
        ({"task": "t", "n": "many"}, "argument 'n': Input should be a valid integer"),
        ({"task": None}, "argument 'task': Input should be a valid string"),
        ({"n": "x" * 5000}, "missing argument 'task'; argument 'n'"),
        ({"task": "t", "x" * 5000: 1}, "unexpected argument 'xxx"),
    ],
)
async def test_arguments_that_do_not_fit_are_named_in_one_short_line(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match="'note' was not run") as caught:
        await function_tool(note).invoke(arguments)
    text = str(caught.value)
    assert told in text
    assert text.endswith("It takes task, note (optional), n (optional).")
    assert "\n" not in text
    assert len(text) < 400


@given(arguments=st.dictionaries(st.text(max_size=200), st.text(max_size=200) | st.integers() | st.none(), max_size=60))
def test_any_misfit_is_one_encodable_line(arguments: dict[str, Any]) -> None:
    arguments.pop("task", None)
    with pytest.raises(ValueError, match="missing argument 'task'") as caught:
        asyncio.run(function_tool(note).invoke(arguments))  # type: ignore[arg-type]
    assert "\n" not in str(caught.value)
    assert len(str(caught.value).encode()) < 30_000


async def test_the_error_of_a_nested_value_names_its_path() -> None:
    def buy(order: Order) -> None: ...

    with pytest.raises(ValueError, match=r"argument 'order\.item': Field required"):
        await function_tool(buy).invoke({"order": {}})


async def test_many_problems_are_told_in_a_bounded_line() -> None:
    def add(numbers: list[int]) -> None: ...

    with pytest.raises(ValueError, match="980 more problems") as caught:
        await function_tool(add).invoke({"numbers": ["x" * 100] * 1000})
    assert len(str(caught.value)) < 5000


async def test_a_builtin_function_is_a_tool() -> None:
    assert await function_tool(math.sqrt).invoke({"x": 9}) == 3


def test_a_closure_that_is_not_filled_yet_resolves_nothing() -> None:
    def f(it: "Later") -> Any:
        return Later

    with pytest.raises(ConfigurationError, match="parameter 'it'"):
        function_tool(f)

    class Later: ...


async def test_what_the_function_itself_raises_is_raised() -> None:
    def f() -> None:
        Order.model_validate({})

    with pytest.raises(ValueError, match="1 validation error for Order"):
        await function_tool(f).invoke({})


async def test_synchronous_functions_run_in_a_thread_with_this_context() -> None:
    def f() -> Any:
        return threading.current_thread(), here.get()

    here.set("there")
    thread, seen = await function_tool(f).invoke({})
    assert thread is not threading.current_thread()
    assert seen == "there"


@pytest.mark.parametrize(
    "make",
    [
        lambda inner: inner,
        lambda inner: functools.partial(inner),
        lambda inner: lambda: inner(),
        lambda inner: decorated(inner),
        lambda inner: decorated(functools.partial(inner)),
    ],
)
async def test_asynchronous_bodies_run_in_the_loop(make: Any) -> None:
    async def inner() -> Any:
        return asyncio.get_running_loop()

    assert await function_tool(make(inner), name="t").invoke({}) is asyncio.get_running_loop()


async def test_any_awaitable_is_awaited() -> None:
    class Later:
        def __await__(self) -> Any:
            yield from asyncio.sleep(0).__await__()
            return "later"

    assert await function_tool(lambda: Later(), name="t").invoke({}) == "later"


@pytest.mark.parametrize(
    "body",
    [
        lambda work: asyncio.create_task(work()),
        lambda work: asyncio.ensure_future(work()),
        lambda work: asyncio.gather(work(), work()),
        lambda work: asyncio.get_running_loop(),
        lambda work: asyncio.get_event_loop().run_until_complete(work()),
    ],
    ids=["create_task", "ensure_future", "gather", "get_running_loop", "get_event_loop"],
)
async def test_a_synchronous_function_that_needs_the_loop_is_told_to_be_async(
    body: Any, recwarn: pytest.WarningsRecorder
) -> None:
    async def work() -> None: ...

    with pytest.raises(RuntimeError, match="'needy' needs a running event loop, so it must be async"):
        await function_tool(lambda: body(work), name="needy").invoke({})
    gc.collect()
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


async def test_other_runtime_errors_keep_their_words() -> None:
    def f() -> None:
        raise RuntimeError("own")

    with pytest.raises(RuntimeError, match=r"^own$"):
        await function_tool(f).invoke({})


async def test_the_coroutine_of_a_thread_that_was_given_up_is_closed(recwarn: pytest.WarningsRecorder) -> None:
    loop = asyncio.get_running_loop()
    started, go_on = asyncio.Event(), threading.Event()
    made: list[Any] = []

    async def body() -> None: ...

    def f() -> Any:
        loop.call_soon_threadsafe(started.set)
        go_on.wait(5)
        made.append(body())
        return made[0]

    running = asyncio.ensure_future(function_tool(f).invoke({}))
    await started.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    worker = next(each for each in threading.enumerate() if each.name.endswith("-f"))
    go_on.set()
    worker.join(5)
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED
    gc.collect()
    assert not [each for each in recwarn if "never awaited" in str(each.message)]


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
