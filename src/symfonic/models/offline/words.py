"""Words made comparable: folded, lightly stemmed, weighted by how much they can say."""

import re
import unicodedata


def word_set(text: str) -> frozenset[str]:
    """The words of a text: how this package writes its word lists."""
    return frozenset(text.split())


_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")
_ENDINGS = word_set("ations ation ings ing iers ier ies ied ions ion ments ment ers est er ed es ly s")
_SUFFIXES = tuple(sorted(_ENDINGS, key=lambda suffix: (-len(suffix), suffix)))
_LOST_E = re.compile(r"[^aeiou][aeiou][^aeiouwxy]")  # "cod", left of "coding"
_FUNCTION_WEIGHT, _GENERIC_WEIGHT = 0.1, 0.3
SHORTEST_KIN, LONGEST_KIN = 4, 16

FUNCTION_WORDS = word_set(
    """a about after again all also am an and any are as at be been before being between but by can could did do
    does done each for from had has have he hello her here hers hey hi him his how i i'd i'll i'm i've if in
    into is it its itself just kindly let let's like may me might mine much must my no nor not now of off ok on
    onto or our out over per please shall she should so some such than thank thanks that the their them then
    there these they this those to too until up us very via want was we were what when where which while who
    whom whose why will with would yes yet you your"""
)
_GENERIC_WORDS = word_set(
    """available check describe explain fetch find get give information know list look many name need out provide
    question report return returns say says show something tell thing things use used uses using"""
)


def is_function_word(word: str) -> bool:
    """Whether the word, as written, binds others and says nothing itself."""
    return _folded(word) in FUNCTION_WORDS


def terms(text: str) -> dict[str, float]:
    """The stems of a text in order of appearance, each with a weight in (0, 1].

    Words that any request may hold (articles, pronouns, "show", "find") weigh little, so that they can
    break a tie and never decide alone. Scripts written without spaces are taken as pairs of characters.
    """
    found: dict[str, float] = {}
    for word in _WORD.findall(unicodedata.normalize("NFKC", _HUMP.sub(" ", text))):
        word = _folded(word)
        if _UNSPACED.search(word):
            found.update((word[at : at + 2], 1.0) for at in range(max(1, len(word) - 1)))
        elif word in FUNCTION_WORDS:
            found[word] = _FUNCTION_WEIGHT
        else:
            found[stem(word)] = _GENERIC_WEIGHT if word in _GENERIC_WORDS else 1.0
    return found


def says_something(text: str) -> bool:
    """Whether any word of the text could tell one candidate from another."""
    return any(weight > _FUNCTION_WEIGHT for weight in terms(text).values())


def stem(word: str) -> str:
    """A folded word without its commonest English endings; other words as they are."""
    if len(word) <= 3 or not word.isascii():
        return word
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            if word[-1] == word[-2] and word[-1] not in "aeiou":
                return word[:-1]
            if suffix != "s" and _LOST_E.fullmatch(word):
                return word + "e"
            break
    if word.endswith("y"):
        return word[:-1] + "i"
    return word.removesuffix("e") if len(word) > 4 else word


def shortened(term: str) -> list[str]:
    """The beginnings of a term that may be a relative's whole, the longest first ("codebas" holds "code")."""
    return [term[:length] for length in range(min(len(term) - 1, LONGEST_KIN), SHORTEST_KIN - 1, -1)]


def _folded(word: str) -> str:
    return word.casefold().replace("’", "'").removesuffix("'s")
