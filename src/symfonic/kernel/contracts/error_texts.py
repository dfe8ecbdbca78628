"""What a model is told of an error. Loaded with the first one."""

import re
from asyncio import CancelledError
from collections.abc import Iterator
from itertools import islice

from symfonic.kernel.contracts.encoding import class_name, encodable

_MAX_LEAVES = 20
_MAX_PARTS = 20_000  # a small group can be endless by holding the same errors again and again
_NAME = r"(?:(?:api|access|secret|private|account)[_-]?key|secret|token|password|passwd|pwd)"
_START = r"(?<![\w-])"
_WITH_DIGIT = r"(?=[a-z_.~+/-]{0,200}\d)[\w.~+/-]"
_SECRETS = tuple(
    (re.compile(pattern, re.IGNORECASE | re.ASCII), rf"\1***{after}")
    # Whatever repeats is bounded, or ends before the next place where a match may begin: linear in the text.
    for pattern, after in (
        (r"(://[^\s/?#:]*:)[^\s/?#]*@", "@"),  # a password in a URL
        (r"([?&](?:key|sig|signature)=)[^&\s\"'#]+", ""),
        (r"(\bauthorization[\"']?[ ]?[:=][ ]?[\"']?(?:basic|bearer|token)[ ])[^\s\"',;]+", ""),
        (rf"(\bbearer[ ])(?:{_WITH_DIGIT}{{8,}}=*|(?=[\w.~+/-]{{0,200}}[a-z](?-i:[A-Z]))[\w.~+/-]{{16,}}=*)", ""),
        # NAME=VALUE as in a connection string, NAME: VALUE as in a header, "NAME": "VALUE" as in JSON
        (rf"({_NAME}[\"']?[ ]?=[ ]?(?!=|none\b|null\b))(?:\"[^\"\n]+\"?|'[^'\n]+'?|[^\s\"'&,;()\[\]{{}}]+)", ""),
        (rf"({_NAME}:[ ]?){_WITH_DIGIT}{{8,}}=*", ""),
        (rf"({_NAME}\"[ ]?:[ ]?)\"[^\"\n]+\"?", ""),
        (rf"({_NAME}'[ ]?:[ ]?)'[^'\n]+'?", ""),
        # what gives itself away by its beginning
        (rf"{_START}(sk-|(?:sk|pk|rk)_(?:live|test)_)(?=[a-z_-]{{0,200}}\d)[\w-]{{16,}}", ""),
        (rf"{_START}(gh[oprsu]_|hf_|npm_)[a-z\d]{{20,}}", ""),
        (rf"{_START}(github_pat_|glpat-|xox[a-z]-)[\w-]{{10,}}", ""),
        (rf"{_START}((?-i:AKIA|ASIA|AIza))(?=[a-z_-]{{0,40}}\d)[\w-]{{12,}}", ""),
        (rf"{_START}((?-i:eyJ))[\w-]{{8,}}\.[\w-]+(?:\.[\w-]+)?", ""),  # a JSON web token
    )
)


def words_of(error: BaseException) -> str:
    """What a model is told of an error: its own words, never blank, with what looks like a credential masked.

    Passwords in URLs, keys and passwords by name, bearer tokens, and keys that have a well-known beginning.

    The class name stands in for a text that is blank or cannot be made; the leaves of an exception group
    are appended by class and text, the first twenty of them.
    """
    text = _own_words(error) or class_name(error)
    if isinstance(error, BaseExceptionGroup):
        leaves = list(islice(_leaves(error), _MAX_PARTS))
        told = [_told(leaf) for leaf in leaves[:_MAX_LEAVES]]
        if len(leaves) > _MAX_LEAVES:
            told.append(f"and {len(leaves) - _MAX_LEAVES} more")
        text = f"{text}: {'; '.join(told)}"
    return encodable(_masked(text))


def _masked(text: str) -> str:
    for secret, mask in _SECRETS:
        text = secret.sub(mask, text)
    return text


def _own_words(error: BaseException) -> str:
    try:
        text = str.__str__(str(error))
    except (Exception, CancelledError):  # a __str__ that raises or returns no string: the class name has to do
        return ""
    return text if text.strip() else ""


def _told(leaf: BaseException) -> str:
    words = _own_words(leaf)
    return f"{class_name(leaf)}: {words}" if words else class_name(leaf)


def _leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors that a group is made of, in order; a group that cannot be read is a leaf."""
    waiting = [error]
    while waiting:
        each = waiting.pop()
        try:
            inner = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
            waiting.extend(reversed(inner))
        except Exception:  # a subclass may make it a property
            inner = ()
        if not inner:
            yield each
