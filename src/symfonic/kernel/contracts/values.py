"""Values that are no text, in terms of what JSON can hold. Loaded with the first one."""

import dataclasses
import json
from collections.abc import Mapping, Sequence, Set
from datetime import date, time
from enum import Enum
from typing import Any

from symfonic.kernel.contracts.encoding import class_name, encodable
from symfonic.kernel.contracts.error_texts import words_of

_MAX_NESTING = 64
_MAX_PARTS = 20_000  # a small value can be endless by holding the same things again and again
_MAX_BITS = 8192  # Python refuses to print much longer numbers


def plain(value: Any) -> Any:
    """``value`` in terms of None, bool, int, float, str, list and dict, as `written` writes it."""
    return _plain(value, _Walk())


def written(value: Any) -> str:
    """``value`` as JSON text, or as its own text where it has one in plain terms."""
    made = plain(value)
    return encodable(made if isinstance(made, str) else json.dumps(made, ensure_ascii=False))


class _Walk:
    """How far into a value we are: what it is in, and how much may still be looked at."""

    __slots__ = ("inside", "left")

    def __init__(self) -> None:
        self.inside: list[int] = []
        self.left = _MAX_PARTS


def _plain(value: Any, walk: _Walk) -> Any:
    """``value`` in terms of None, bool, int, float, str, list and dict."""
    walk.left -= 1
    try:
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, Enum):
            return _plain(value.value, walk)
        if isinstance(value, int | float | str):
            return _scalar(value)
        if walk.left <= 0 or len(walk.inside) == _MAX_NESTING or id(value) in walk.inside:
            return "…"
        if isinstance(value, BaseException):
            return f"{class_name(value)}: {words_of(value)}"
        walk.inside.append(id(value))
        try:
            return _container(value, walk)
        finally:
            walk.inside.pop()
    except Exception:  # hostile values: one bad leaf must not lose the rest
        return f"<{class_name(value)}>"


def _scalar(value: int | float | str) -> Any:
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)  # JSON has no such number
    if isinstance(value, int):
        whole = int(value)
        return whole if whole.bit_length() <= _MAX_BITS else f"<int of {whole.bit_length()} bits>"
    return float(value)


def is_finished_run(value: Any) -> bool:
    """Whether this is a run's result: the answer, and the records of the tree below it."""
    try:
        return hasattr(type(value), "final_response") and hasattr(type(value), "delegations")
    except Exception:  # a metaclass may object
        return False


def _container(value: Any, walk: _Walk) -> Any:
    if is_finished_run(value):  # the answer stands for it: its tree is in the records, and told once
        return _plain(value.final_response, walk)
    dump = getattr(type(value), "model_dump", None) or getattr(type(value), "to_dict", None)
    if dump is not None:
        return _plain(dump(value), walk)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = (field.name for field in dataclasses.fields(value) if not field.name.startswith("_"))
        return {name: _plain(getattr(value, name), walk) for name in shown}
    if isinstance(value, Mapping):
        return {_key(key, walk): _plain(item, walk) for key, item in value.items()}
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "replace")
    if isinstance(value, Set):
        return sorted((_plain(item, walk) for item in value), key=str)
    if isinstance(value, Sequence):
        return [_plain(item, walk) for item in value]
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if _has_own_text(value) else f"<{class_name(value)}>"


def _key(key: Any, walk: _Walk) -> str:
    name = _plain(key, walk)
    return name if isinstance(name, str) else json.dumps(name, ensure_ascii=False)


def _has_own_text(value: Any) -> bool:
    """Whether the type says how it prints (a Decimal, path, UUID); object's default is a repr."""
    own: object = type(value).__str__
    return own is not object.__str__
