"""A tool's arguments found in the user's words, by the types that its schema declares."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from symfonic.models.offline.words import terms, word_set

_QUOTED = re.compile(
    r"""```(?:\w*\n)?(.*?)```|`([^`\n]+)`|"([^"\n]*)"|“([^“”]*)”|«([^«»]*)»|(?<!\w)'([^'\n]*)'(?!\w)""", re.S
)
_URL = re.compile(r"[a-z][a-z0-9+.-]{1,20}://[^\s,;\"'`<>]*[^\s,;\"'`<>.?!)]", re.I)
_EMAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64})+")
_DATE = re.compile(r"\b\d{4}-\d{2}-\d{2}(?:[T ]\d{2}:\d{2}(?::\d{2})?(?:Z|[+-]\d{2}:\d{2})?)?\b")
_PATH = re.compile(
    r"(?<![\w/.:~-])(?:(?:~|\.{1,2})?/[\w.@/+-]*[\w/]"
    r"|(?<![@+])[\w.@+-]+/[\w.@/+-]*[\w/]"  # tried once, not again behind every @ of a long row
    r"|[\w-]+(?:\.[\w-]+)*\.[A-Za-z]\w{0,9})(?![\w/])"
)
_NUMBER = re.compile(r"(?<![\w.,/-])[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][-+]?\d{1,3})?(?![\w/]|[.,-]\w)")
_SPELT = "zero one two three four five six seven eight nine ten eleven twelve"
_NUMBER_WORDS = {word: number for number, word in enumerate(_SPELT.split())}
_WORD = re.compile(r"[^\W_]+")
_LONGEST_NUMBER = 300  # digits; Python refuses to read much longer ones

_FREE_TEXT = word_set(
    "content input instruction message prompt query question request sentence subject task text topic"
)
_NO = word_set("no not without never don't off false skip exclude excluding")
_OFF = word_set("false no off 0")
_ON = word_set("true yes on 1")


class Missing(Exception):  # noqa: N818  (a signal between two functions, no error)
    """A required argument that the words do not hold; ``name`` is the parameter's."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(name)


def fill(words: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments for a JSON Schema object. Optional ones are left out unless the words mention them.

    Raises Missing for a required argument that cannot be filled.
    """
    required = {name for name in _listed(parameters.get("required")) if isinstance(name, str)}
    properties = _mapping(parameters.get("properties"))
    sole = sum(_kind(schema, parameters)[0] == "string" for name, schema in properties.items() if name in required) == 1
    found = _Words(words)
    filled: dict[str, Any] = {}
    for name in sorted(properties, key=lambda each: each not in required):
        needed = name in required
        kind, schema = _kind(properties[name], parameters)
        for value in found.values(_Parameter(str(name), kind, schema, needed, needed and sole, parameters)):
            filled[name] = value
            break
        else:
            if needed:
                raise Missing(str(name))
    if unknown := sorted(required - set(filled)):
        raise Missing(unknown[0])
    return filled


class _Parameter:
    """One parameter as the search for its value needs it."""

    def __init__(
        self, name: str, kind: str, schema: Mapping[str, Any], needed: bool, sole: bool, root: Mapping[str, Any]
    ) -> None:
        self.name, self.kind, self.schema, self.needed, self.sole = name, kind, schema, needed, sole
        self.own = set(terms(name))
        about = f"{name} {schema.get('title', '')} {schema.get('description', '')}"
        self.about = {term for term, weight in terms(about).items() if weight == 1.0}
        self.item_kind, self.items = _kind(schema.get("items"), root)

    def is_about(self, words: list[str]) -> bool:
        """Whether the parameter's name or description has one of these words."""
        return any(stem in self.about or stem in self.own for word in words for stem in terms(word))


class _Words:
    """The words of one part, and which of them have gone into an argument."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._spoken = set(terms(text))
        self._taken: set[tuple[int, int]] = set()
        self._quoted = [
            (m.start(), m.end(), next(g for g in m.groups() if g is not None)) for m in _QUOTED.finditer(text)
        ]
        self._marked = {
            kind: [(m.start(), m.end(), m[0]) for m in pattern.finditer(text)]
            for kind, pattern in (("url", _URL), ("email", _EMAIL), ("date", _DATE), ("path", _PATH))
        }

    def values(self, wanted: _Parameter) -> Iterator[Any]:
        """Values that would do for the parameter, the likeliest first."""
        if choices := _choices(wanted.schema):
            yield from self._chosen(choices)
        elif wanted.kind == "string":
            yield from self._string(wanted)
        elif wanted.kind in ("integer", "number"):
            yield from self._number(wanted)
        elif wanted.kind == "boolean":
            yield from self._boolean(wanted)
        elif wanted.kind == "array" and (wanted.needed or wanted.own & self._spoken):
            yield from self._array(wanted)

    def _chosen(self, choices: list[Any]) -> Iterator[Any]:
        said = f" {' '.join(_WORD.findall(self._text.casefold()))} "
        for choice in sorted(choices, key=lambda each: -len(str(each))):
            name = " ".join(_WORD.findall(str(choice).replace("_", " ").casefold()))
            if name and f" {name} " in said:
                yield choice

    def _named(self, name: str) -> str | None:
        """What is set outright, as in ``limit=5`` or ``limit: "a b"``."""
        spelling = r"[\s_-]".join(map(re.escape, name.split("_")))
        match = re.search(rf"(?<!\w){spelling}\s?[=:]\s?(\"[^\"]*\"|'[^']*'|[^\s,;]+)", self._text, re.I)
        return match[1].strip("\"'") if match else None

    def _string(self, wanted: _Parameter) -> Iterator[str]:
        if (named := self._named(wanted.name)) is not None:
            yield named
        kind = _marked_kind(wanted)
        said = bool(wanted.own & self._spoken)
        if kind:
            yield from self._take([*self._marked[kind], *(self._quoted if wanted.needed or said else [])])
        elif wanted.needed or said:
            yield from self._take(self._quoted)
            yield from self._take(
                [*self._marked["url"], *self._marked["path"]] if wanted.needed and not wanted.sole else []
            )
        if wanted.needed and not kind and (wanted.sole or wanted.own & _FREE_TEXT) and self._text.strip():
            yield self._text

    def _take(self, tokens: list[tuple[int, int, str]]) -> Iterator[str]:
        for start, end, token in tokens:
            if token and not any(start < taken_end and taken_start < end for taken_start, taken_end in self._taken):
                self._taken.add((start, end))
                yield token

    def _number(self, wanted: _Parameter) -> Iterator[int | float]:
        named = self._named(wanted.name)
        if named is not None and (match := _NUMBER.fullmatch(named)):
            yield from _read(match[0], wanted.kind)
        for start, end, token in self._numbers():
            before, after = self._text[max(0, start - 40) : start], self._text[end : end + 40]
            neighbours = [*_WORD.findall(before)[-1:], *_WORD.findall(after)[:1]]
            if (start, end) not in self._taken and (wanted.needed or wanted.is_about(neighbours)):
                for value in _read(token, wanted.kind):
                    self._taken.add((start, end))
                    yield value

    def _numbers(self) -> Iterator[tuple[int, int, str]]:
        kept = [(start, end) for start, end, _ in [*self._quoted, *self._marked["date"], *self._marked["url"]]]
        digits = [(m.start(), m.end(), m[0]) for m in _NUMBER.finditer(self._text)]
        spelt = [
            (m.start(), m.end(), str(_NUMBER_WORDS[m[0].casefold()]))
            for m in _WORD.finditer(self._text)
            if m[0].casefold() in _NUMBER_WORDS
        ]
        for start, end, token in sorted([*digits, *spelt]):
            if not any(kept_start <= start and end <= kept_end for kept_start, kept_end in kept):
                yield start, end, token

    def _boolean(self, wanted: _Parameter) -> Iterator[bool]:
        named = (self._named(wanted.name) or "").casefold()
        if named in _ON | _OFF:
            yield named in _ON
        words = [word.casefold() for word in re.findall(r"[^\W_]+(?:['’][^\W_]+)*", self._text)]
        own = [stem for stem, weight in terms(wanted.name).items() if weight == 1.0]
        stems = [next(iter(terms(word)), word) for word in words]
        if own and all(stem in stems for stem in own):
            at = min(stems.index(stem) for stem in own)
            yield not _NO.intersection(word.replace("’", "'") for word in words[max(0, at - 2) : at])

    def _array(self, wanted: _Parameter) -> Iterator[list[Any]]:
        if choices := _choices(wanted.items):
            found: list[Any] = list(self._chosen(choices))
        elif wanted.item_kind in ("integer", "number"):
            found = [value for _, _, token in self._numbers() for value in _read(token, wanted.item_kind)]
        elif wanted.item_kind == "string":
            kind = _marked_kind(wanted)
            found = list(self._take([*(self._marked[kind] if kind else []), *self._quoted]))
            found = found or list(self._take([*self._marked["url"], *self._marked["path"]]))
        else:
            found = []
        if found:
            yield found


def _marked_kind(wanted: _Parameter) -> str | None:
    """Which kind of token the parameter takes, where its name or format says so."""
    told = str(wanted.schema.get("format", wanted.items.get("format", "")))
    for kind, formats, names in (
        ("url", {"uri", "url"}, {"url", "uri", "link"}),
        ("email", {"email"}, {"email", "mail"}),
        ("date", {"date", "date-time"}, {"date", "day"}),
        ("path", {"path", "file-path", "directory-path"}, {"path", "file", "filename", "directory", "folder", "dir"}),
    ):
        if told in formats or wanted.own & {stem for name in names for stem in terms(name)}:
            return kind
    return None


def _read(token: str, kind: str) -> Iterator[int | float]:
    token = token.replace(",", "")
    if len(token) > _LONGEST_NUMBER:
        return
    if kind == "number" and not token.lstrip("+-").isdecimal():
        yield float(token)
    elif token.lstrip("+-").isdecimal():
        yield int(token)


def _kind(schema: Any, root: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The JSON type of a parameter and the schema that holds it, references and optional types seen through."""
    plain = _mapping(schema)
    for _ in range(8):
        told = plain.get("type")
        if isinstance(told, str):
            return told, plain
        inner = [_mapping(each) for key in ("anyOf", "oneOf", "allOf") for each in _listed(plain.get(key))]
        inner = [each for each in inner if each.get("type") != "null"]
        kinds = [each for each in _listed(told) if isinstance(each, str) and each != "null"]
        if kinds:
            return kinds[0], plain
        if isinstance(reference := plain.get("$ref"), str):
            target = _mapping(root.get("$defs")).get(reference.rpartition("/")[2])
            plain = {**_mapping(target), **{key: value for key, value in plain.items() if key != "$ref"}}
        elif inner:
            plain = {**inner[0], **{key: plain[key] for key in ("description", "title") if key in plain}}
        else:
            break
    return "string" if "$ref" not in plain else "unknown", plain


def _choices(schema: Mapping[str, Any]) -> list[Any]:
    if "const" in schema:
        return [schema["const"]]
    return [each for each in _listed(schema.get("enum")) if isinstance(each, str | int | float)]


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else []
