"""Which of several candidates fits a request best: word overlap, weighed, and nothing else."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log, sqrt

from symfonic.models.offline.words import SHORTEST_KIN, shortened, terms

_KIN = 0.6  # how much of a match is one between relatives, such as "summary" and "summarise"
_SURE_KIN = 6  # letters that make relatives of words neither of which begins with the other
_NAME, _DESCRIPTION, _GUIDANCE, _EXAMPLE, _DETAILS = 1.0, 1.0, 1.5, 1.5, 0.4
_LIKENESS = 1.0  # what resembling one example closely adds to having its words
_FITS = 0.2
_LONG = 6.0  # of a request longer than so many telling words, no more have to be covered


@dataclass(frozen=True, slots=True)
class Candidate:
    """What can be known of a child or a tool before it is called. ``details`` are its parameters' words."""

    name: str
    description: str
    guidance: str = ""
    examples: tuple[str, ...] = ()
    details: str = ""


@dataclass(frozen=True, slots=True)
class Ranked:
    """A candidate's place: ``index`` in the given order, a score, and how much of the request it covers, 0 to 1."""

    index: int
    score: float
    coverage: float

    @property
    def fits(self) -> bool:
        """Whether enough of the request is covered to speak of a fit."""
        return self.score > 0 and self.coverage >= _FITS


def rank(request: str, candidates: Sequence[Candidate]) -> list[Ranked]:
    """All candidates, the best first; equals keep the given order. The same input gives the same output."""
    asked = terms(request)
    profiles = [_Profile.of(candidate) for candidate in candidates]
    rarity = _Rarity(profiles)
    ranked = [profile.judge(index, asked, rarity) for index, profile in enumerate(profiles)]
    return sorted(ranked, key=lambda each: (-each.score, each.index))


class _Rarity:
    """How telling a term is: the fewer candidates know it, the more."""

    def __init__(self, profiles: Sequence["_Profile"]) -> None:
        self._count = len(profiles)
        self._known = Counter(term for profile in profiles for term in profile.mass)
        self.common = log(1 + (self._count + 1) / 1.5)

    def __call__(self, term: str) -> float:
        return log(1 + (self._count + 1) / (self._known[term] + 0.5))


@dataclass(frozen=True, slots=True)
class _Profile:
    """A candidate as terms: where each occurs, added up, the same for beginnings, and its examples one by one."""

    mass: Mapping[str, float]
    beginnings: Mapping[str, float]
    examples: tuple[Mapping[str, float], ...]

    @classmethod
    def of(cls, candidate: Candidate) -> "_Profile":
        mass: dict[str, float] = {}
        beginnings: dict[str, float] = {}
        for text, weight in _fields(candidate):
            for term in terms(text):
                mass[term] = mass.get(term, 0.0) + weight
                for beginning in shortened(term):
                    beginnings[beginning] = beginnings.get(beginning, 0.0) + weight
        return cls(mass, beginnings, tuple(terms(example) for example in candidate.examples))

    def judge(self, index: int, asked: Mapping[str, float], rarity: _Rarity) -> Ranked:
        score = covered = room = 0.0
        for term, weight in asked.items():
            known = self.mass.get(term, 0.0)
            value = rarity(term) if known else _KIN * rarity.common
            score += weight * value * _saturated(known or self._kin(term))
            if weight == 1.0:
                room += min(rarity(term), rarity.common)
                covered += min(value, rarity.common) if known or self._kin(term) else 0.0
        room = min(room, _LONG * rarity.common)
        alike = max((_likeness(asked, example, rarity) for example in self.examples), default=0.0)
        # rounded, so that no order of summation can turn equals into unequals
        return Ranked(index, round(score + _LIKENESS * alike * room, 9), min(1.0, covered / room) if room else 0.0)

    def _kin(self, term: str) -> float:
        """How much is known of relatives: "code" for "codebase" and the other way, "summari" for "summaris"."""
        if len(term) < SHORTEST_KIN:
            return 0.0
        shorter = max((self.mass.get(each, 0.0) for each in shortened(term)), default=0.0)
        return shorter or self.beginnings.get(term) or self.beginnings.get(term[:_SURE_KIN], 0.0)


def _fields(candidate: Candidate) -> Iterator[tuple[str, float]]:
    yield candidate.name, _NAME
    yield candidate.description, _DESCRIPTION
    yield candidate.guidance, _GUIDANCE
    yield candidate.details, _DETAILS
    for example in candidate.examples:
        yield example, _EXAMPLE


def _saturated(mass: float) -> float:
    """Said often counts more than said once, but ever less so."""
    return 2 * mass / (mass + 1)


def _likeness(one: Mapping[str, float], other: Mapping[str, float], rarity: _Rarity) -> float:
    """The cosine of the angle between two texts, 0 to 1."""

    def square(text: Mapping[str, float]) -> float:
        return sum((weight * rarity(term)) ** 2 for term, weight in text.items())

    shared = sum(weight * other[term] * rarity(term) ** 2 for term, weight in one.items() if term in other)
    return shared / sqrt(square(one) * square(other)) if shared else 0.0
