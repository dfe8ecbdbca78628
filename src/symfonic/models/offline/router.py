"""One turn of the router: choose and call, or answer from what the calls returned."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from symfonic.kernel.contracts.messages import Message, ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.tool import Route, Tool
from symfonic.models.offline.arguments import Missing, fill
from symfonic.models.offline.plan import Part, parts_of
from symfonic.models.offline.ranking import Candidate

_LONGEST_HEADING = 160
_EVIDENCE = 1.25


class OfflineModel:
    """A deterministic router with no language understanding: it needs no network, no key and no weights.

    It takes the last user message apart at its punctuation and conjunctions and ranks the children and tools on
    offer for each part by the words they share with it: name, description, guidance and examples. A child gets
    its part in the user's own words; a tool's arguments are read from them by type, and a tool whose required
    arguments are not there is not called. All calls go out in one reply. The next reply joins their results, as
    they are, in the order of the parts. Of what fits nothing it says so. It reads no instructions, remembers
    nothing, and reasons about nothing; a request that depends on another's result is beyond it.
    """

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelReply:
        """The calls that the last user message asks for, or the answer once they were made."""
        request, since = _current(messages)
        targets = _targets(tools)
        steps = _steps(request, targets)
        made = [call for message in since if message.role == "assistant" for call in message.tool_calls]
        if not made and (wanted := _wanted(steps)):
            calls = (ToolCall(f"call_{len(messages)}_{at}", name, given) for at, (name, given) in enumerate(wanted))
            return ModelReply(tool_calls=tuple(calls))
        results = [message for message in since if message.role == "tool"]
        return ModelReply(_answer(steps, made, results, targets))

    def __repr__(self) -> str:
        return "OfflineModel()"


@dataclass(frozen=True, slots=True)
class _Target:
    """A child, reached through a tool that delegates, or a tool."""

    tool: Tool
    route: Route | None

    @property
    def candidate(self) -> Candidate:
        if self.route:
            route = self.route
            return Candidate(route.name, route.description, route.when_to_use or "", tuple(route.examples))
        return Candidate(self.tool.name, self.tool.description, details=_parameter_words(self.tool.parameters))

    def arguments(self, part: str) -> dict[str, Any]:
        """What to call the tool with. Raises Missing if a required argument is not in the part."""
        return {"name": self.route.name, "task": part} if self.route else fill(part, self.tool.parameters)


@dataclass(frozen=True, slots=True)
class _Step:
    """What is done about one part: a call, or none for the reason given."""

    part: str
    call: tuple[str, dict[str, Any]] | None
    reason: str = ""


def _current(messages: Sequence[Message]) -> tuple[str, Sequence[Message]]:
    """The last user message's text, and what followed it."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user":
            return messages[at].text, messages[at + 1 :]
    return "", ()


def _targets(tools: Sequence[Tool]) -> list[_Target]:
    return [_Target(tool, route) for tool in tools for route in (tool.routes or (None,))]


def _parameter_words(parameters: Mapping[str, Any]) -> str:
    properties = parameters.get("properties")
    if not isinstance(properties, Mapping):
        return ""
    told = (schema.get("description", "") if isinstance(schema, Mapping) else "" for schema in properties.values())
    return " ".join(map(str, [*properties, *told]))


def _steps(request: str, targets: Sequence[_Target]) -> list[_Step]:
    if not request.strip():
        return []
    candidates = [target.candidate for target in targets]
    parts = parts_of(request, candidates, [target.route is not None for target in targets])
    return [_step(part, targets) for part in parts]


def _step(part: Part, targets: Sequence[_Target]) -> _Step:
    """The call of what fits best; among tools, having found arguments in the words speaks for a tool."""
    best, call, missing = 0.0, None, ""
    for ranked in part.fitting:
        target = targets[ranked.index]
        try:
            arguments = target.arguments(part.text)
        except Missing as error:
            missing = missing or f"{target.tool.name} would fit, but its argument {error.name!r} is not in these words."
            continue
        evidence = target.route is None and any(value != part.text for value in arguments.values())
        score = ranked.score * (_EVIDENCE if evidence else 1.0)
        if score > best:
            best, call = score, (target.tool.name, arguments)
    return _Step(part.text, call, "" if call else missing or "Nothing here fits this.")


def _wanted(steps: Sequence[_Step]) -> list[tuple[str, dict[str, Any]]]:
    """The calls to make: the same call for two parts is made once."""
    wanted: list[tuple[str, dict[str, Any]]] = []
    wanted.extend(step.call for step in steps if step.call and step.call not in wanted)
    return wanted


def _answer(
    steps: Sequence[_Step], made: Sequence[ToolCall], results: Sequence[Message], targets: Sequence[_Target]
) -> str:
    sections = list(_sections(steps, made, results))
    alone = len(sections) == 1
    told = [text if alone else f"{_heading(part)}\n{text}" for part, text in sections]
    if not steps:
        told.append("There is no request to route.")
    if not steps or any(step.call is None for step in steps):
        told.append(_abilities(targets))
    return "\n\n".join(told)


def _sections(
    steps: Sequence[_Step], made: Sequence[ToolCall], results: Sequence[Message]
) -> Iterator[tuple[str, str]]:
    """Each part with what is said of it, in order; then calls that no part of the request asks for."""
    answers = {result.tool_call_id: result.text.strip() for result in results}
    told = [(call, answers.get(call.id) or f"{call.name} returned nothing.") for call in made]
    left = dict(enumerate(told))
    for step in steps:
        if step.call is None:
            yield step.part, step.reason
        for at, (call, text) in list(left.items()):
            if step.call == (call.name, call.arguments):
                del left[at]
                yield step.part, text
    for call, text in left.values():
        yield call.name, text


def _heading(part: str) -> str:
    line = " ".join(part.split())
    line = line if len(line) <= _LONGEST_HEADING else f"{line[:_LONGEST_HEADING]}…"
    return line if line.endswith(("?", "!", ".", ":", "…")) else f"{line}:"


def _abilities(targets: Sequence[_Target]) -> str:
    if not targets:
        return "Nothing can be done here: no tools and no sub-agents are offered."
    lines = [f"  - {each.candidate.name}: {' '.join(each.candidate.description.split())}" for each in targets]
    return "\n".join(["What can be done here:", *lines])
