"""Immutable records: what a frozen, slotted dataclass is, made and imported in a fraction of the time."""

from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from operator import attrgetter
from reprlib import recursive_repr
from typing import Any, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def fact(cls: type[T]) -> type[T]:
    """``@dataclass(frozen=True, slots=True)``, without compiling five methods for every class.

    That one compiles each method of each class as its module is imported, and its ``__init__`` looks every slot up by
    name. Here all classes share their methods, and the ``__init__`` that is compiled has the slots' own setters.
    `dataclasses.fields`, `replace`, `asdict` and pickling work as ever. Raises TypeError for a field with a
    ``default_factory``, or one that ``__init__`` does not take.
    """
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True)(cls)
    own = fields(made)
    if not all(each.init and each.default_factory is MISSING for each in own):
        raise TypeError(f"{made.__name__} has a field that its caller does not fill")
    made.__dataclass_params__.init = made.__dataclass_params__.repr = True
    made.__dataclass_params__.eq = made.__dataclass_params__.frozen = True
    made.__init__ = _init(made, own)
    made.__fact_values__ = staticmethod(_values(own))
    made.__eq__, made.__hash__, made.__repr__ = _eq, _hash, _repr
    made.__setattr__, made.__delattr__ = _refuse_to_set, _refuse_to_delete
    made.__getstate__, made.__setstate__ = _getstate, _setstate
    return cls if made is cls else made


def _init(made: Any, own: tuple[Field[Any], ...]) -> Any:
    scope: dict[str, Any] = {f"set_{each.name}": getattr(made, each.name).__set__ for each in own}
    taken = [each.name for each in own if not each.kw_only]
    only = [each.name for each in own if each.kw_only]
    body = "".join(f"\n    set_{each.name}(self, {each.name})" for each in own)
    if hasattr(made, "__post_init__"):
        body += "\n    self.__post_init__()"
    head = ", ".join(["self", *taken, *(["*", *only] if only else [])])
    exec(f"def __init__({head}):{body or ' pass'}", scope)  # noqa: S102 - the names are a dataclass's own
    init = scope["__init__"]
    init.__defaults__ = tuple(each.default for each in own if each.name in taken and each.default is not MISSING)
    init.__kwdefaults__ = {each.name: each.default for each in own if each.kw_only and each.default is not MISSING}
    init.__annotations__ = {**{each.name: each.type for each in own}, "return": None}
    init.__qualname__, init.__module__ = f"{made.__qualname__}.__init__", made.__module__
    return init


def _values(own: tuple[Field[Any], ...]) -> Callable[[Any], Any]:
    compared = [each.name for each in own if each.compare]
    if len(compared) > 1:
        return attrgetter(*compared)
    return lambda self: tuple(getattr(self, name) for name in compared)  # so that values are compared as a tuple's are


def _eq(self: Any, other: object) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self is other or self.__fact_values__(self) == self.__fact_values__(other)  # type: ignore[attr-defined]


def _hash(self: Any) -> int:
    return hash((self.__class__, self.__fact_values__(self)))


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (f"{each.name}={getattr(self, each.name)!r}" for each in fields(self) if each.repr)
    return f"{self.__class__.__qualname__}({', '.join(shown)})"


def _refuse_to_set(self: Any, name: str, value: Any) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, each.name) for each in fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for each, value in zip(fields(self), state, strict=False):  # as `dataclasses` has it
        object.__setattr__(self, each.name, value)
