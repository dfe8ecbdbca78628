"""A request taken apart: which part goes to which candidate."""

from collections.abc import Sequence
from dataclasses import dataclass

from symfonic.models.offline.parts import Piece, pieces, refers_back
from symfonic.models.offline.ranking import Candidate, Ranked, rank
from symfonic.models.offline.words import says_something

_MOST_PARTS = 24  # a longer text is no list of questions; it goes to one place, whole
_SURE = 0.4  # how much of a mere noun phrase has to be covered for it to be a part of its own
_COMPARABLE = 0.5  # what scores less than this share of the best is no alternative to it


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a request in the user's words, and the candidates that fit it, the best first; none may."""

    text: str
    fitting: tuple[Ranked, ...]


@dataclass(slots=True)
class _Group:
    """Pieces taken together while the plan is made."""

    start: int
    end: int
    lead: str
    fitting: list[Ranked]

    @property
    def choice(self) -> int | None:
        return self.fitting[0].index if self.fitting else None


def parts_of(request: str, candidates: Sequence[Candidate], joined: Sequence[bool]) -> list[Part]:
    """The request's parts, each with what fits it.

    ``joined[i]`` says that candidate ``i`` takes neighbouring parts as one task, as a child does, which takes
    its own request apart. A piece that fits nothing and does not read as a request stays with its neighbour,
    so that no word of the user gets lost.
    """
    openers = {example.split()[0].casefold() for each in candidates for example in each.examples if example.split()}
    groups = _Plan(request, candidates).groups(pieces(request, openers))
    merged: list[_Group] = []
    for group in groups:
        last = merged[-1] if merged else None
        if last and group.choice is not None and group.choice == last.choice and joined[group.choice]:
            last.end = group.end
        else:
            merged.append(group)
    if not merged or len(merged) > _MOST_PARTS:
        return [Part(request.strip(), tuple(_fitting(request, candidates)))]
    if len(merged) == 1:
        return [Part(request.strip(), tuple(merged[0].fitting))]
    return [Part(_text(request, group), tuple(group.fitting)) for group in merged]


class _Plan:
    """One pass over the pieces, from left to right."""

    def __init__(self, request: str, candidates: Sequence[Candidate]) -> None:
        self._request = request
        self._candidates = candidates
        self._groups: list[_Group] = []
        self._lead = ""
        self._lead_start: int | None = None
        self._lead_lasts = False
        self._waiting: int | None = None

    def groups(self, found: Sequence[Piece]) -> list[_Group]:
        for piece in found:
            self._take(piece)
        trailing = self._lead_start if self._lead_start is not None else self._waiting
        if trailing is not None:
            self._close(trailing, found[-1].end)
        return self._groups

    def _take(self, piece: Piece) -> None:
        text = self._request[piece.start : piece.end]
        if piece.own and not self._lead_lasts:
            self._drop_lead()
        if piece.lead:
            self._lead = _led(self._lead, text) if self._lead_start is not None else text
            self._lead_start = piece.start if self._lead_start is None else self._lead_start
            self._lead_lasts = text.endswith(":")
            return
        fitting = self._fitting(text)
        previous = self._groups[-1] if self._groups and self._waiting is None and self._lead_start is None else None
        if previous and self._belongs_to(previous, piece, text, fitting):
            previous.end = piece.end
        elif not fitting and not piece.asks and self._lead_start is None and (piece.own or self._waiting is not None):
            self._waiting = piece.start if self._waiting is None else self._waiting
        else:
            self._add(piece, fitting)

    def _fitting(self, text: str) -> list[Ranked]:
        led = _led(self._lead, text)
        fitting = [] if self._lead_lasts else self._fits(text)
        return fitting or (self._fits(led) if self._lead else [])

    def _fits(self, text: str) -> list[Ranked]:
        return _fitting(text, self._candidates)

    def _belongs_to(self, previous: _Group, piece: Piece, text: str, fitting: Sequence[Ranked]) -> bool:
        if not says_something(text):
            return True
        if piece.own:
            return False
        if piece.asks:
            return not fitting and refers_back(text)
        if not fitting or not previous.fitting or fitting[0].index == previous.choice:
            return True
        theirs = next((each.score for each in rank(text, self._candidates) if each.index == previous.choice), 0.0)
        return fitting[0].coverage < _SURE or theirs >= _COMPARABLE * fitting[0].score

    def _add(self, piece: Piece, fitting: list[Ranked]) -> None:
        starts = [at for at in (self._waiting, self._lead_start) if at is not None]
        lead = "" if self._lead_start is not None else self._lead
        self._groups.append(_Group(min([*starts, piece.start]), piece.end, lead, fitting))
        self._waiting = self._lead_start = None

    def _drop_lead(self) -> None:
        if self._lead_start is not None and self._waiting is None:
            self._waiting = self._lead_start
        self._lead, self._lead_start = "", None

    def _close(self, start: int, end: int) -> None:
        """What waited for a part to come and saw none belongs to the last, or is one itself."""
        if self._groups:
            self._groups[-1].end = end
        else:
            self._groups.append(_Group(start, end, "", self._fits(self._request[start:end])))


def _fitting(text: str, candidates: Sequence[Candidate]) -> list[Ranked]:
    ranked = [each for each in rank(text, candidates) if each.fits]
    return [each for each in ranked if each.score >= _COMPARABLE * ranked[0].score]


def _text(request: str, group: _Group) -> str:
    text = request[group.start : group.end].strip()
    return _led(group.lead, text) if group.lead else text


def _led(lead: str, text: str) -> str:
    return f"{lead} {text}" if lead.endswith(":") else f"{lead}, {text}"
