"""How values become text that a model reads: tasks, answers, errors. Pure, and never raises."""

from typing import Any

from symfonic.kernel.contracts.encoding import class_name, encodable

__all__ = ["capped", "class_name", "encodable", "error_text", "preview", "task_text", "to_text"]


def to_text(value: Any) -> str:
    """A string as it is, any other value as JSON text, never a Python repr.

    Models, dataclasses, mappings, sequences and sets become JSON with non-ASCII characters literal; a lone
    date, number in text form, path or bytes becomes its plain text. A leaf that has no JSON form degrades to
    the name of its type, what contains itself and what is nested too deeply to "…".
    """
    if type(value) is str:
        return value if value.isascii() else encodable(value)
    from symfonic.kernel.contracts.values import written

    return written(value)


def task_text(task: Any) -> str:
    """A delegated task as text: a string byte for byte, None as ``""``, anything else as JSON."""
    if type(task) is str:
        return task
    if issubclass(type(task), str):  # unlike isinstance, this asks the object nothing
        return str.__str__(task)
    return "" if task is None else to_text(task)


def error_text(error: BaseException) -> str:
    """What a model is told of an error: its own words, never blank, with what looks like a credential masked.

    Passwords in URLs, keys and passwords by name, bearer tokens, and keys that have a well-known beginning.

    The class name stands in for a text that is blank or cannot be made; the leaves of an exception group
    are appended by class and text, the first twenty of them.
    """
    from symfonic.kernel.contracts.error_texts import words_of

    return words_of(error)


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
