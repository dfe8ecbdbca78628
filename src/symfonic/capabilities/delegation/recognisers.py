"""Which adapter knows a foreign agent: told by where its type comes from, before anything looks at its ``run``.

Some foreign agents look like the runner contract and are not. Nothing is imported to tell them.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from symfonic.kernel.contracts.signatures import REMEMBERED

Adopt: TypeAlias = Callable[[str, Any], Any]
"""``adopt(name, agent)``: a runner around the agent, or None for what it does not know.

Raises ChildDeclarationError for what it knows and cannot adopt."""

ADDRESS = "http"
"""The entry for agents that are given by their address, a text that begins with http:// or https://."""

_known: dict[str, Callable[[], Adopt]] = {}
_sources: list[Callable[[], Mapping[str, Callable[[], Adopt]]]] = []


def recognise(package: str, load: Callable[[], Adopt]) -> None:
    """Let ``load()`` adopt agents whose type, or a base of it, is of this top-level package. The first one stays."""
    _known.setdefault(package, load)


def look_there(source: Callable[[], Mapping[str, Callable[[], Adopt]]]) -> None:
    """Ask ``source()`` as well, once, when there is something that nobody knows yet."""
    _sources.append(source)


def recognised(name: str, agent: Any) -> Any:
    """The runner that an adapter makes of the agent, or None."""
    packages = (ADDRESS,) if _is_address(agent) else _packages(agent if isinstance(agent, type) else type(agent))
    if not packages:
        return None
    while _sources and not any(package in _known for package in packages):
        for package, load in _sources.pop()().items():
            recognise(package, load)
    for package in packages:
        runner = _known[package]()(name, agent) if package in _known else None
        if runner is not None:
            return runner
    return None


def _is_address(agent: Any) -> bool:
    return type(agent) is str and agent[:8].lower().startswith(("http://", "https://"))


@lru_cache(maxsize=REMEMBERED)
def _packages(kind: type) -> tuple[str, ...]:
    """The top-level packages that a type and its bases are from; none for a type of ours."""
    found = [str(each.__module__).partition(".")[0] for each in kind.__mro__]
    nobodys = ("builtins", "abc", "typing", "symfonic")
    return () if found[0] == "symfonic" else tuple(each for each in dict.fromkeys(found) if each not in nobodys)
