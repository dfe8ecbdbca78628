"""Immutable records that are made often."""

from dataclasses import MISSING, fields
from typing import Any, TypeVar

T = TypeVar("T")


def fact(cls: type[T]) -> type[T]:
    """A frozen, slotted dataclass whose instances are made in about half the time.

    A frozen dataclass sets each field by ``object.__setattr__``, which looks the slot up by name every time; here the
    slots' own setters are looked up once. Everything else stays the dataclass's. Raises TypeError for a class that does
    more in its ``__init__`` than hold what it is given.
    """
    made: Any = cls
    own = fields(made)
    plain = all(field.init and not field.kw_only and field.default_factory is MISSING for field in own)
    if not plain or hasattr(made, "__post_init__"):
        raise TypeError(f"{made.__name__} does more than hold its fields")
    names = [field.name for field in own]
    scope: dict[str, Any] = {f"set_{name}": getattr(made, name).__set__ for name in names}
    body = "".join(f"\n    set_{name}(self, {name})" for name in names)
    exec(f"def __init__(self, {', '.join(names)}):{body}", scope)  # noqa: S102 - the names are a dataclass's own
    init, original = scope["__init__"], made.__init__
    init.__defaults__, init.__annotations__ = original.__defaults__, original.__annotations__
    init.__qualname__, init.__module__ = original.__qualname__, made.__module__
    made.__init__ = init
    return cls
