"""What a child may be called, and which names are the same. Pure."""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from symfonic.capabilities.delegation.errors import ChildDeclarationError
from symfonic.kernel.contracts.text import error_text, task_text, to_text

_WRAPPING = frozenset("\"'`´<>")
_ASCII_WRAPPING = " \"'`<>()[]{}"
_WRAPPING_CATEGORIES = frozenset({"Ps", "Pe", "Pi", "Pf"})  # brackets and typographic quotes of every script
LONGEST_NAME = 1000
"""Characters in a declared name, and in a model's spelling of one: normalising endless text takes endless time."""

_SEPARATORS = str.maketrans({"_": "-", " ": "-"})


def normalised(text: str) -> str:
    """The form in which two names are compared: NFKC, case folded, unwrapped, ``_``, ``-`` and blanks alike."""
    return _normalised(text if type(text) is str else str.__str__(text))


@lru_cache(maxsize=1024)
def _normalised(text: str) -> str:
    if text.isascii() and text.isprintable():
        return text.strip(_ASCII_WRAPPING).lower().strip(_ASCII_WRAPPING).translate(_SEPARATORS)
    import unicodedata

    bare = _unwrapped(text)  # first: NFKC takes some quotes apart
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", bare).casefold())
    return _unwrapped(folded).translate(_SEPARATORS)


def spelled(name: Any) -> str:
    """The text of whatever a model sent for a name; a value that is no string in its JSON form."""
    return to_text(None) if name is None else task_text(name)


def check_declared(name: Any, description: Any) -> None:
    """Raises ChildDeclarationError if a child is not declared by a plain name and a description."""
    texts = type(name) is type(description) is str  # else they may be anything, and cannot be remembered
    (_declared if texts else _declared.__wrapped__)(name, description)


@lru_cache(maxsize=1024)
def _declared(name: Any, description: Any) -> None:
    if not isinstance(name, str) or not normalised(name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME]):
        raise ChildDeclarationError(f"a sub-agent needs a non-empty name (a string), got {name!r}")
    if len(name) > LONGEST_NAME:
        raise ChildDeclarationError(f"the sub-agent name {name[:40]!r}… is longer than {LONGEST_NAME} characters")
    if name.split() != [name]:
        raise ChildDeclarationError(f"the sub-agent name {name!r} contains whitespace; use '_' or '-' instead")
    if not isinstance(description, str) or not description.strip():
        raise ChildDeclarationError(
            f"the sub-agent {name!r} needs a non-empty description (a string): the model chooses by it;"
            f" got {description!r}"
        )


def checked_examples(name: str, examples: Any) -> tuple[str, ...]:
    """A child's examples as a tuple. Raises ChildDeclarationError if they are no strings in something like one."""
    if type(examples) is tuple and not examples:
        return ()
    problem = f"examples of {name!r} must be strings in a tuple, got "
    if isinstance(examples, str) or not isinstance(examples, Iterable):
        raise ChildDeclarationError(f"{problem}{examples!r}")
    try:
        made = tuple(examples)
    except Exception as error:
        raise ChildDeclarationError(f"{problem}what cannot be gone through: {error_text(error)}") from error
    if not all(isinstance(each, str) for each in made):
        raise ChildDeclarationError(f"{problem}{made!r}")
    return made


def _unwrapped(text: str) -> str:
    start, end = 0, len(text)
    while start < end and _wraps(text[start]):
        start += 1
    while start < end and _wraps(text[end - 1]):
        end -= 1
    return text[start:end]


def _wraps(character: str) -> bool:
    import unicodedata

    return character.isspace() or character in _WRAPPING or unicodedata.category(character) in _WRAPPING_CATEGORIES
