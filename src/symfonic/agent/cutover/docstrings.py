"""What a docstring says of a function and of its parameters: Google, NumPy and Sphinx style, told apart by itself."""

import inspect
import re
from dataclasses import dataclass, field

_TITLES = (
    r"args|arguments|params|parameters|keyword args|keyword arguments|other args|other arguments|other parameters"
    r"|returns?|yields?|raises|examples?|notes?|attributes|warns|warnings?"
)
_SECTION = re.compile(rf"^(?=(?:{_TITLES}):[ \t]*\n[ \t]+\S)", re.IGNORECASE | re.MULTILINE)
_FLUSH_SECTION = re.compile(rf"(?:{_TITLES}):[ \t]*\n(?=\S)", re.IGNORECASE)
_PARAMETER_SECTIONS = ("parameters", "other parameters")


@dataclass(frozen=True, slots=True)
class Documentation:
    """The text of a docstring without its sections, and the description of each parameter by name."""

    text: str = ""
    parameters: dict[str, str] = field(default_factory=dict)


def read_docstring(docstring: str | None) -> Documentation:
    """The docstring's parts; parameter descriptions are those of its parameter sections, whatever their names."""
    if not docstring or not docstring.strip():
        return Documentation()
    import griffe

    # griffe knows a section by the blank lines around it, which people leave out, and strips the outer ones
    # from the text it is constructed with
    parsed = griffe.Docstring("")
    parsed.value = f"\n{_SECTION.sub(chr(10), _indented(inspect.cleandoc(docstring)))}\n"
    sections = parsed.parse(
        "auto",
        per_style_options={"google": {"warnings": False}, "numpy": {"warnings": False}, "sphinx": {"warnings": False}},
    )
    texts = [section.value.strip() for section in sections if section.kind.value == "text"]
    described: dict[str, str] = {}
    for section in sections:
        if section.kind.value in _PARAMETER_SECTIONS:
            for item in section.value:
                described[item.name.lstrip("*")] = item.description.strip()
    return Documentation("\n\n".join(text for text in texts if text), described)


def known_parameters(documentation: Documentation, names: list[str]) -> dict[str, str]:
    """The descriptions of these parameters.

    A name that is no parameter is a continuation line with a colon in it, and goes back to the parameter above.
    """
    found: dict[str, str] = {}
    last = None
    for name, text in documentation.parameters.items():
        if name in names:
            found[name] = text
            last = name
        elif last is not None:
            found[last] += f"\n{name}: {text}"
    return found


def _indented(text: str) -> str:
    """A docstring that is one section from its first line on has lost the indentation below that line."""
    head = _FLUSH_SECTION.match(text)
    if head is None:
        return text
    return head.group() + re.sub(r"^(?=.)", "    ", text[head.end() :], flags=re.MULTILINE)
