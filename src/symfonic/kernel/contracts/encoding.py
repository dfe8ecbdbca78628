"""The least that every text needs: that it can be encoded, and a class's name."""

from typing import Any


def encodable(text: str) -> str:
    """The same text, as a plain str, with lone surrogates replaced by U+FFFD, so that it can always be encoded."""
    if type(text) is not str:
        text = str.__str__(text)
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def class_name(value: Any) -> str:
    """The name of a value's class, whatever that class does about it."""
    try:
        return str.__str__(type(value).__name__)
    except Exception:  # a metaclass may make it a property
        return "object"
