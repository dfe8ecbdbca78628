"""How values become text that a model reads: tasks, answers, errors. Pure, and never raises."""

import dataclasses
import json
import re
from asyncio import CancelledError
from collections.abc import Iterator, Mapping, Sequence, Set
from datetime import date, time
from enum import Enum
from itertools import islice
from typing import Any

_MAX_NESTING = 64
_MAX_LEAVES = 20
_MAX_PARTS = 20_000  # a small value can be endless by holding the same things again and again
_MAX_BITS = 8192  # Python refuses to print much longer numbers
_NAME = r"(?:(?:api|access|secret|private|account)[_-]?key|secret|token|password|passwd|pwd)"
_START = r"(?<![\w-])"
_WITH_DIGIT = r"(?=[a-z_.~+/-]{0,200}\d)[\w.~+/-]"
_SECRETS = tuple(
    (re.compile(pattern, re.IGNORECASE | re.ASCII), rf"\1***{after}")
    # Whatever repeats is bounded, or ends before the next place where a match may begin: linear in the text.
    for pattern, after in (
        (r"(://[^\s/?#:]*:)[^\s/?#]*@", "@"),  # a password in a URL
        (r"([?&](?:key|sig|signature)=)[^&\s\"'#]+", ""),
        (r"(\bauthorization[\"']?[ ]?[:=][ ]?[\"']?(?:basic|bearer|token)[ ])[^\s\"',;]+", ""),
        (rf"(\bbearer[ ])(?:{_WITH_DIGIT}{{8,}}=*|(?=[\w.~+/-]{{0,200}}[a-z](?-i:[A-Z]))[\w.~+/-]{{16,}}=*)", ""),
        # NAME=VALUE as in a connection string, NAME: VALUE as in a header, "NAME": "VALUE" as in JSON
        (rf"({_NAME}[\"']?[ ]?=[ ]?(?!=|none\b|null\b))(?:\"[^\"\n]+\"?|'[^'\n]+'?|[^\s\"'&,;()\[\]{{}}]+)", ""),
        (rf"({_NAME}:[ ]?){_WITH_DIGIT}{{8,}}=*", ""),
        (rf"({_NAME}\"[ ]?:[ ]?)\"[^\"\n]+\"?", ""),
        (rf"({_NAME}'[ ]?:[ ]?)'[^'\n]+'?", ""),
        # what gives itself away by its beginning
        (rf"{_START}(sk-|(?:sk|pk|rk)_(?:live|test)_)(?=[a-z_-]{{0,200}}\d)[\w-]{{16,}}", ""),
        (rf"{_START}(gh[oprsu]_|hf_|npm_)[a-z\d]{{20,}}", ""),
        (rf"{_START}(github_pat_|glpat-|xox[a-z]-)[\w-]{{10,}}", ""),
        (rf"{_START}((?-i:AKIA|ASIA|AIza))(?=[a-z_-]{{0,40}}\d)[\w-]{{12,}}", ""),
        (rf"{_START}((?-i:eyJ))[\w-]{{8,}}\.[\w-]+(?:\.[\w-]+)?", ""),  # a JSON web token
    )
)


def to_text(value: Any) -> str:
    """A string as it is, any other value as JSON text, never a Python repr.

    Models, dataclasses, mappings, sequences and sets become JSON with non-ASCII characters literal; a lone
    date, number in text form, path or bytes becomes its plain text. A leaf that has no JSON form degrades to
    the name of its type, what contains itself and what is nested too deeply to "…".
    """
    if type(value) is str:
        return value if value.isascii() else encodable(value)
    written = plain(value)
    return encodable(written if isinstance(written, str) else json.dumps(written, ensure_ascii=False))


def plain(value: Any) -> Any:
    """``value`` in terms of None, bool, int, float, str, list and dict, as `to_text` writes it."""
    return _plain(value, _Walk())


def task_text(task: Any) -> str:
    """A delegated task as text: a string byte for byte, None as ``""``, anything else as JSON."""
    if type(task) is str:
        return task
    if issubclass(type(task), str):  # unlike isinstance, this asks the object nothing
        return str.__str__(task)
    return "" if task is None else to_text(task)


def encodable(text: str) -> str:
    """The same text with lone surrogates replaced by U+FFFD, so that it can always be encoded."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def error_text(error: BaseException) -> str:
    """What a model is told of an error: its own words, never blank, with what looks like a credential masked.

    Passwords in URLs, keys and passwords by name, bearer tokens, and keys that have a well-known beginning.

    The class name stands in for a text that is blank or cannot be made; the leaves of an exception group
    are appended by class and text, the first twenty of them.
    """
    text = _own_words(error) or class_name(error)
    if isinstance(error, BaseExceptionGroup):
        leaves = list(islice(_leaves(error), _MAX_PARTS))
        told = [_told(leaf) for leaf in leaves[:_MAX_LEAVES]]
        if len(leaves) > _MAX_LEAVES:
            told.append(f"and {len(leaves) - _MAX_LEAVES} more")
        text = f"{text}: {'; '.join(told)}"
    return encodable(_masked(text))


def capped(text: str, most: int | None) -> str:
    """The text, or where it is longer than ``most`` characters its head and tail around a note of its length."""
    if most is None or len(text) <= most:
        return text
    note = f"\n… ({len(text)} characters in all) …\n"
    room = most - len(note)
    if room <= 0:
        return text[:most]
    head = (room + 1) // 2
    return text[:head] + note + text[len(text) - (room - head) :]


def preview(text: str, limit: int = 80) -> str:
    """The quoted beginning of a text, with its length where it was cut."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}… ({len(text)} characters)"


def _masked(text: str) -> str:
    for secret, mask in _SECRETS:
        text = secret.sub(mask, text)
    return text


def _own_words(error: BaseException) -> str:
    try:
        text = str.__str__(str(error))
    except (Exception, CancelledError):  # a __str__ that raises or returns no string: the class name has to do
        return ""
    return text if text.strip() else ""


def class_name(value: Any) -> str:
    """The name of a value's class, whatever that class does about it."""
    try:
        return str.__str__(type(value).__name__)
    except Exception:  # a metaclass may make it a property
        return "object"


def _told(leaf: BaseException) -> str:
    words = _own_words(leaf)
    return f"{class_name(leaf)}: {words}" if words else class_name(leaf)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors that a group is made of, in order; a group that cannot be read is a leaf."""
    waiting = [error]
    while waiting:
        each = waiting.pop()
        try:
            inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
            waiting.extend(reversed(inner))
        except Exception:  # a subclass may make it a property
            inner = ()
        if not inner:
            yield each


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
            return f"{class_name(value)}: {error_text(value)}"
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
        return {field.name: _plain(getattr(value, field.name), walk) for field in dataclasses.fields(value)}
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
