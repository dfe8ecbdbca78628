"""A request cut into the pieces that its punctuation and conjunctions suggest."""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from symfonic.models.offline.words import is_function_word, word_set

_SEPARATOR = re.compile(
    r"""
      (?P<whole> ```.*?``` | `[^`\n]*` | "[^"\n]*" | “[^“”]*” | «[^«»]*» | (?<!\w)'[^'\n]*'(?!\w)
               | \([^()\n]*\) | https?://[^\s,;]*[^\s,;.?!] )
    | (?P<hard> [.?!…]+["'”’)\]]*(?=\s|$) | [。？！;；]+ | \n\s*\n | \n(?=[ \t]*(?:[-*•]|\d{1,3}[.)])[ \t]) )
    | (?P<colon> :(?=\s) )
    | (?P<soft> [,、，]\s | \n | (?<=\s)(?:and|then|also|plus|as\ well\ as|&)(?=\s) )
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_BULLET = re.compile(r"(?:[-*•]|\d{1,3}[.)])[ \t]+")
_JOINER = re.compile(r"(?:(?:and|then|also|plus|as well as|finally|lastly)\b|&(?=\s)|[,、，])\s*", re.IGNORECASE)
_ABBREVIATION = re.compile(r"(?:^|[\s(])(?:e\.g|i\.e|etc|vs|cf|approx|no|mr|mrs|ms|dr|st|[a-z])\Z", re.IGNORECASE)
_NUMBERING = re.compile(r"(?:^|\n)[ \t]*\d{1,3}\Z")
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_BACKWARD = re.compile(r"\b(?:it|its|them|they|their|these|those|he|she|his|her)\b", re.IGNORECASE)

_FILLERS = word_set("please also then finally next first second third now so and kindly just lastly")
_QUESTION_WORDS = word_set(
    """what what's which who who's whose whom when where where's why how how's is are was were does do did has have can
    could will would should may"""
)
_REQUEST_VERBS = word_set(
    """add ask book calculate check compare compute convert count create delete describe draft explain fetch find get
    give identify let list look make name open plan print read remove report run say schedule search send show summarise
    summarize tell translate update write"""
)
_LEADING_PREPOSITIONS = word_set(
    "about concerning for from given in inside on regarding under using with within considering looking"
)


@dataclass(frozen=True, slots=True)
class Piece:
    """A span of a request.

    ``own`` pieces begin a sentence or a list item. ``asks`` says that it reads as a request by itself, from its
    first word. ``lead`` is what introduces the pieces after it ("In the parser, …" or "Do this: …").
    """

    start: int
    end: int
    own: bool
    asks: bool
    lead: bool


def pieces(request: str, openers: Collection[str] = ()) -> list[Piece]:
    """The request's pieces in order; ``openers`` are further words that begin requests, folded.

    Quotations, code, parentheses and addresses are never cut. Nothing but separators and blanks is left out.
    """
    found: list[Piece] = []
    own = True
    for start, end, separator in _spans(request):
        start, end = _trimmed(request, start, end)
        if start < end:
            text = request[start:end]
            asks = _asks(text, openers) or (own and text.rstrip("\"'”’)]").endswith(("?", "？")))
            lead = (separator == "colon" and (own or asks)) or (
                separator == "soft" and own and _first_word(text) in _LEADING_PREPOSITIONS
            )
            found.append(Piece(start, end, own, asks, lead))
            own = False
        own = own or separator == "hard"
    return found


def refers_back(text: str) -> bool:
    """Whether the text stands on what was said before it ("and who made it")."""
    return _BACKWARD.search(text) is not None


def _spans(request: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and the kind of separator that ended it; punctuation stays with what it ends."""
    start = 0
    for match in _SEPARATOR.finditer(request):
        kind = match.lastgroup or ""
        if kind == "whole" or (match[0] == "." and _is_no_stop(request, match.start())):
            continue
        keeps = kind == "hard" and match[0].strip(";；\n\t ") != ""
        yield start, match.end() if keeps or kind == "colon" else match.start(), kind
        start = match.end()
    yield start, len(request), "hard"


def _is_no_stop(request: str, at: int) -> bool:
    before = request[max(0, at - 12) : at]
    return bool(_ABBREVIATION.search(before) or _NUMBERING.search(before))


def _trimmed(request: str, start: int, end: int) -> tuple[int, int]:
    while start < end and request[start].isspace():
        start += 1
    while match := _BULLET.match(request, start, end) or _JOINER.match(request, start, end):
        start = match.end()
    while end > start and (request[end - 1].isspace() or request[end - 1] in ",、，"):
        end -= 1
    return start, end


def _asks(text: str, openers: Collection[str]) -> bool:
    words = (match[0].casefold().replace("’", "'") for match in _WORD.finditer(text))
    first = next((word for word in words if word not in _FILLERS), "")
    if next(words, None) is None:
        return False
    return first in _QUESTION_WORDS or first in _REQUEST_VERBS or (first in openers and not is_function_word(first))


def _first_word(text: str) -> str:
    match = _WORD.search(text)
    return match[0].casefold() if match else ""
