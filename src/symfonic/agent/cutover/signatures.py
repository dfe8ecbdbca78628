"""From a callable's signature and type hints to a JSON Schema and to checked arguments."""

import functools
import inspect
import math
import sys
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from symfonic.agent.cutover.arguments import Takes, invalid
from symfonic.errors import ConfigurationError
from symfonic.kernel.runtime.plan import BadCallError

if TYPE_CHECKING:
    from pydantic import BaseModel

Parameter = inspect.Parameter


@dataclass(frozen=True, slots=True)
class Signature:
    """How a callable's arguments are advertised, checked and handed over."""

    name: str
    parameters: tuple[Parameter, ...]
    model: "type[BaseModel]"
    schema: dict[str, Any]
    takes: Takes

    def bind(self, arguments: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments, validated; what was left out is left to the callable's defaults.

        Raises BadCallError with one line that names the tool and each argument that does not fit.
        """
        from pydantic import ValidationError

        try:
            values = self.model.model_validate(dict(arguments))
        except ValidationError as error:
            problems = error.errors(include_url=False, include_context=False)
            raise BadCallError(invalid(self.name, typing.cast("Any", problems), self.takes)) from error
        positional, keyword = [], {}
        for index, parameter in enumerate(self.parameters):
            field = _field(index)
            given = field in values.model_fields_set or parameter.default is Parameter.empty
            if parameter.kind is Parameter.POSITIONAL_ONLY:
                positional.append(getattr(values, field) if given else parameter.default)
            elif given:
                keyword[parameter.name] = getattr(values, field)
        return positional, keyword


def read_signature(
    name: str, function: Callable[..., Any], descriptions: Callable[[list[str]], Mapping[str, str]]
) -> Signature:
    """The signature of a callable that is to be the tool ``name``.

    ``descriptions`` says what it knows of the parameters it is given the names of. Raises ConfigurationError,
    naming tool and parameter, if the signature cannot be read, has a catch-all or a type that has no schema.
    """
    parameters = tuple(_parameters(name, function))
    hints = _hints(name, function, parameters)
    described = descriptions([each.name for each in parameters])
    fields = {
        _field(index): _field_definition(name, each, hints[each.name], described.get(each.name))
        for index, each in enumerate(parameters)
    }
    try:
        model, schema = _model(fields)
    except Exception as error:
        raise _culprit(name, parameters, fields, error) from error
    accepted = tuple(each.name for each in parameters)
    takes = Takes(accepted, frozenset(schema.get("required", ())))
    return Signature(name, parameters, model, schema, takes)


def underlying(function: Any) -> Any:
    """The plain function whose annotations and docstring describe a callable."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.ismethod(function):
            function = function.__func__
        elif hasattr(function, "__wrapped__"):
            function = inspect.unwrap(function)
        elif inspect.isroutine(function) or not inspect.isfunction(getattr(type(function), "__call__", None)):  # noqa: B004
            return function
        else:
            function = type(function).__call__


def _parameters(name: str, function: Callable[..., Any]) -> Iterator[Parameter]:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError, NameError) as error:
        raise ConfigurationError(f"tool {name!r}: the signature of {function!r} cannot be read: {error}") from error
    bound = _bound_keywords(function)
    for index, parameter in enumerate(parameters):
        if parameter.kind in (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD):
            stars = "*" if parameter.kind is Parameter.VAR_POSITIONAL else "**"
            raise ConfigurationError(
                f"tool {name!r}: parameter {stars}{parameter.name} takes anything, so a model cannot be told what to"
                " send; name each parameter (or use functools.wraps on a decorator)"
            )
        if index == 0 and parameter.name == "self" and _is_unbound_method(function, parameter):
            raise ConfigurationError(
                f"tool {name!r}: parameter self belongs to an unbound method; pass the method of an instance"
            )
        if parameter.name not in bound:
            yield parameter


def _bound_keywords(function: Any) -> set[str]:
    """What a partial has set by keyword is settled, and no model's to change (or to read)."""
    bound: set[str] = set()
    while isinstance(function, functools.partial):
        bound |= set(function.keywords)
        function = function.func
    return bound


def _is_unbound_method(function: Any, first: Parameter) -> bool:
    qualified = getattr(function, "__qualname__", "").rpartition("<locals>.")[2]
    return inspect.isfunction(function) and first.annotation is Parameter.empty and "." in qualified


def _hints(name: str, function: Any, parameters: tuple[Parameter, ...]) -> dict[str, Any]:
    plain = underlying(function)
    names, local_names = getattr(plain, "__globals__", {}), _enclosing_names(plain)
    hints: dict[str, Any] = {}
    for parameter in parameters:

        def holder() -> None: ...

        annotation = Any if parameter.annotation is Parameter.empty else parameter.annotation
        holder.__annotations__ = {"it": annotation}
        try:
            hints[parameter.name] = typing.get_type_hints(holder, names, local_names, include_extras=True)["it"]
        except Exception as error:  # an annotation may be any expression
            raise ConfigurationError(
                f"tool {name!r}: the type of parameter {parameter.name!r}, {annotation!r}, cannot be resolved: {error}"
            ) from error
    return hints


def _enclosing_names(function: Any) -> dict[str, Any]:
    """What names may mean to a function defined inside others: its closure, then the frames that still define it."""
    names: dict[str, Any] = {each.__name__: each for each in getattr(function, "__type_params__", ())}
    code = getattr(function, "__code__", None)
    if code is None:
        return names
    for free, cell in zip(code.co_freevars, function.__closure__ or (), strict=False):
        try:
            names.setdefault(free, cell.cell_contents)
        except ValueError:  # not assigned yet
            continue
    parts = function.__qualname__.split(".<locals>.")
    enclosing = {".<locals>.".join(parts[:length]) for length in range(1, len(parts))}
    frame = sys._getframe() if enclosing else None
    while frame is not None:
        if frame.f_globals is function.__globals__ and frame.f_code.co_qualname in enclosing:
            for local, value in frame.f_locals.items():
                names.setdefault(local, value)
        frame = frame.f_back
    return names


def _field(index: int) -> str:
    """A field name that pydantic has no other use for; the parameter's own name is the alias."""
    return f"p{index}"


def _field_definition(tool: str, parameter: Parameter, hint: Any, description: str | None) -> tuple[Any, Any]:
    from pydantic import Field
    from pydantic.fields import FieldInfo

    default = parameter.default
    if isinstance(default, FieldInfo):
        raise ConfigurationError(
            f"tool {tool!r}: the default of parameter {parameter.name!r} is a pydantic Field; write"
            f" Annotated[<type>, Field(...)] = <default> instead"
        )
    options: dict[str, Any] = dict.fromkeys(("alias", "validation_alias", "serialization_alias"), parameter.name)
    metadata = getattr(hint, "__metadata__", ())
    if not any(getattr(each, "description", None) for each in metadata):
        described = next((each for each in metadata if isinstance(each, str)), description)
        if described:
            options["description"] = described
    if default is Parameter.empty:
        return hint, Field(**options)
    if default is None:
        hint = _nullable(hint)
    if _is_plain(default):
        return hint, Field(default=default, **options)
    return hint, Field(default_factory=lambda: default, **options)


def _nullable(hint: Any) -> Any:
    """The type with None among its values, as a default of None says."""
    metadata = getattr(hint, "__metadata__", ())
    bare = hint.__origin__ if metadata else hint
    if bare in (Any, None) or type(None) in typing.get_args(bare):
        return hint
    optional: Any = typing.Optional[bare]  # noqa: UP045 - not every type form has "|"
    return typing.Annotated[(optional, *metadata)] if metadata else optional


def _is_plain(value: Any) -> bool:
    """Whether a default can be advertised."""
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or type(value) in (bool, int, str)


def _model(fields: Mapping[str, tuple[Any, Any]]) -> "tuple[type[BaseModel], dict[str, Any]]":
    from pydantic import ConfigDict, create_model

    model: type[BaseModel] = create_model(
        "Arguments", __config__=ConfigDict(extra="forbid"), **typing.cast("dict[str, Any]", fields)
    )
    schema = model.model_json_schema(schema_generator=_schema_generator())
    schema.pop("title", None)
    return model, schema


@functools.cache
def _schema_generator() -> Any:
    from pydantic.json_schema import GenerateJsonSchema

    class Plain(GenerateJsonSchema):
        ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - theirs

        def field_title_should_be_set(self, schema: Any) -> bool:
            return False

    return Plain


def _culprit(
    name: str, parameters: tuple[Parameter, ...], fields: Mapping[str, tuple[Any, Any]], error: Exception
) -> ConfigurationError:
    for parameter, (field, definition) in zip(parameters, fields.items(), strict=True):
        try:
            _model({field: definition})
        except Exception as own:  # whatever pydantic makes of a foreign type
            told = (str(own) or type(own).__name__).splitlines()[0]
            return ConfigurationError(
                f"tool {name!r}: no JSON Schema can be made of parameter {parameter.name!r}"
                f" of type {definition[0]!r}: {told}"
            )
    return ConfigurationError(f"tool {name!r}: no JSON Schema can be made of its parameters: {error}")
