"""How a mistake in a team file is told: one line with the file, the key's path, and what was expected."""

import difflib
import json
import re
from collections.abc import Iterable
from datetime import date, time

from symfonic.errors import TeamFileError
from symfonic.kernel.contracts.text import encodable, preview

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_MOST_NAMES = 12


class Mistakes:
    """The mistakes found in one file, in order."""

    def __init__(self, file: str) -> None:
        self.file = file
        self._lines: list[str] = []

    def add(self, where: str, text: str) -> None:
        """Note a mistake. ``where`` is a key's path, or a line of the file; ``""`` is the file as a whole."""
        line = one_line(": ".join(part for part in (self.file, where, text) if part))
        if line not in self._lines:
            self._lines.append(line)

    def error(self) -> TeamFileError:
        """All of them as one error."""
        return TeamFileError(*self._lines)

    def check(self) -> None:
        """Raises TeamFileError if anything was noted."""
        if self._lines:
            raise self.error()


def key_path(*parts: str | int) -> str:
    """The path of a key as TOML writes it: ``agents."a b".tools[0]``."""
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            name = part if _BARE_KEY.fullmatch(part) else json.dumps(part, ensure_ascii=False)
            path += f".{name}" if path else name
    return path


def one_line(text: str) -> str:
    """``text`` with everything escaped that could break a line or move a terminal's cursor."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in encodable(text))


def names(known: Iterable[str]) -> str:
    """A list of names to choose from, cut where it gets long."""
    told = list(known)
    more = len(told) - _MOST_NAMES
    return ", ".join([*told[:_MOST_NAMES], *([f"and {more} more"] if more > 0 else [])]) or "(none)"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint to append, or ``""`` where nothing known is close."""
    close = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def got(value: object) -> str:
    """What a TOML value is, in TOML's own words."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return f"the integer {value}"
        case float():
            return f"the number {value}"
        case str():
            return f"the text {preview(value)}"
        case list():
            return "an array" if value else "an empty array"
        case dict():
            return "a table" if value else "an empty table"
        case date() | time():
            return f"the date or time {value.isoformat()}"
    return f"a {type(value).__name__}"
