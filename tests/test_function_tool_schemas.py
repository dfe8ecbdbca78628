"""The parameters of function tools: their names, types, descriptions and defaults."""

import asyncio
import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from function_tool_kit import Order, note, properties, required
from symfonic.agent.cutover.function_tools import function_tool
from symfonic.errors import ConfigurationError


@dataclasses.dataclass
class Place:
    city: str
    zone: int = 1


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


def test_a_closure_that_is_not_filled_yet_resolves_nothing() -> None:
    def f(it: "Later") -> Any:
        return Later

    with pytest.raises(ConfigurationError, match="parameter 'it'"):
        function_tool(f)

    class Later: ...
