"""The arguments of a tool call: what a callable takes, and one clear line about what does not fit."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.signatures import signature_of
from symfonic.kernel.contracts.text import encodable, preview, to_text

_MOST_NAMED = 20
_LONGEST_PROBLEM = 200
_CATCH_ALLS = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@fact
class Takes:
    """The argument names that a call takes, in order. ``positional`` is the part that goes by position only."""

    accepted: tuple[str, ...]
    required: frozenset[str]
    positional: tuple[str, ...] = ()

    def call(self, function: Callable[..., Any], arguments: Mapping[str, Any]) -> Any:
        """``function`` called with the arguments as they are; every positional-only one before a given one is given."""
        rest = dict(arguments)
        leading = [rest.pop(name) for name in self.positional if name in rest]
        return function(*leading, **rest)


def takes(function: Callable[..., Any], declared: Sequence[str] = ()) -> Takes:
    """What ``function`` takes: the declared names, or, with none, those of its signature.

    A declared name that only a catch-all takes is required. Raises TypeError or ValueError if the signature cannot
    be read.
    """
    parameters = signature_of(function).parameters
    named = {name: each for name, each in parameters.items() if each.kind not in _CATCH_ALLS}
    accepted = tuple(declared) or tuple(named)
    optional = {name for name, each in named.items() if each.default is not inspect.Parameter.empty}
    positional = (name for name, each in named.items() if each.kind is inspect.Parameter.POSITIONAL_ONLY)
    return Takes(accepted, frozenset(accepted) - optional, tuple(positional))


def misfit(tool: str, given: Collection[str], takes: Takes) -> str | None:
    """What is missing or too much in a call that gives these argument names; None if they fit."""
    missing = [name for name in takes.accepted if name in takes.required and name not in given]
    surplus = [name for name in given if name not in takes.accepted]
    return problem_line(tool, missing, surplus, (), takes) if missing or surplus else None


def invalid(tool: str, errors: Iterable[Mapping[str, Any]], takes: Takes) -> str:
    """One line for the errors of a pydantic validation, by the names that the caller used."""
    missing, surplus, other = [], [], []
    for error in errors:
        path = error["loc"]
        if len(path) == 1 and error["type"] == "missing":
            missing.append(str(path[0]))
        elif len(path) == 1 and error["type"] == "extra_forbidden":
            surplus.append(str(path[0]))
        else:
            other.append(_problem(error))
    return problem_line(tool, missing, surplus, other, takes)


def problem_line(tool: str, missing: Sequence[str], surplus: Sequence[str], other: Sequence[str], takes: Takes) -> str:
    """The line itself: that the tool was not run, why, and what it takes."""
    problems = []
    if missing:
        problems.append(f"missing {_arguments(missing)}")
    if surplus:
        problems.append(f"unexpected {_arguments(surplus)}")
    problems += other[:_MOST_NAMED]
    if len(other) > _MOST_NAMED:
        problems.append(f"{len(other) - _MOST_NAMED} more problems")
    return encodable(f"Tool {tool!r} was not run: {'; '.join(problems)}. It takes {_described(takes)}.")


def _problem(error: Mapping[str, Any]) -> str:
    path = ".".join(str(step) for step in error["loc"]) or "arguments"
    text = f"argument {preview(path)}: {error['msg']}"
    if error["type"] != "missing" and "input" in error:
        text += f" (got {preview(to_text(error['input']), 40)})"
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_PROBLEM else text[:_LONGEST_PROBLEM] + "…"


def _arguments(names: Sequence[str]) -> str:
    told = ", ".join(preview(str(name)) for name in names[:_MOST_NAMED])
    if len(names) > _MOST_NAMED:
        told += f" and {len(names) - _MOST_NAMED} more"
    return f"argument{'s' if len(names) > 1 else ''} {told}"


def _described(takes: Takes) -> str:
    if not takes.accepted:
        return "no arguments"
    return ", ".join(name if name in takes.required else f"{name} (optional)" for name in takes.accepted)


def refusal(name: str, description: str, given: Collection[str], accepted: Takes) -> str | None:
    """What a call with these argument names is answered where they do not fit; None where they do.

    The description is repeated, since it says what the arguments may be.
    """
    line = misfit(name, given, accepted)
    return None if line is None else f"{line}\n{description}".rstrip()
