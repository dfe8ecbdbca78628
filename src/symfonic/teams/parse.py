"""The first step: from a file to TOML data."""

import os
import re
import tomllib
from typing import Any

from symfonic.teams.mistakes import Mistakes

_POSITION = re.compile(r"\s*\(at (?:line (\d+), column (\d+)|end of document)\)$")
_LONG_NUMBER = re.compile(r"\d[\d_]{4000,}")  # Python reads no decimal integer of more than 4300 digits


def parse(path: str | os.PathLike[str], mistakes: Mistakes) -> dict[str, Any]:
    """The file's data. Raises TeamFileError if it cannot be read or is not TOML."""
    text = _text(path, mistakes)
    try:
        return tomllib.loads(text)
    except RecursionError:
        mistakes.add("", "its arrays and tables are nested too deeply; expected a few levels")
    except ValueError as error:  # TOMLDecodeError, or a number longer than Python reads
        where, what = _place(str(error), text)
        mistakes.add(where, f"expected valid TOML: {what}")
    raise mistakes.error()


def _text(path: str | os.PathLike[str], mistakes: Mistakes) -> str:
    try:
        with open(path, "rb") as file:
            data = file.read()
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        byte = error.object[error.start]
        mistakes.add(f"line {line}", f"expected UTF-8 text, got the byte 0x{byte:02x}")
    except FileNotFoundError:
        mistakes.add("", "no such file; expected a team file (TOML)")
    except IsADirectoryError:
        mistakes.add("", "this is a directory; expected a team file (TOML)")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        mistakes.add("", f"cannot be read ({reason}); expected a team file (TOML)")
    raise mistakes.error()


def _place(message: str, text: str) -> tuple[str, str]:
    """Where a syntax error is, and what the parser says of it without that."""
    found = _POSITION.search(message)
    if found is None:
        long_number = _LONG_NUMBER.search(text)
        return f"line {_line(text, long_number.start() if long_number else 0)}", message
    line, column = found.groups()
    told = message[: found.start()]
    if line is None:
        return f"line {_line(text, len(text.rstrip()))}", f"{told} (at the end of the file)"
    return f"line {line}, column {column}", told


def _line(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1
