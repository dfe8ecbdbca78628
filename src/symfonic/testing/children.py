"""A child played by a script."""

from dataclasses import dataclass
from typing import Any

from symfonic.capabilities.delegation.runner_adapter import ChildResponse


@dataclass(frozen=True, slots=True)
class ChildCall:
    """What a child was called with."""

    query: str
    scope: Any
    agent_depth: int | None
    root_run_id: str | None
    parent_run_id: str | None


class ScriptedChild:
    """Answers in the order given, the last for ever; an exception is raised. ``calls`` holds what it was sent."""

    def __init__(self, *answers: Any) -> None:
        self.answers: tuple[Any, ...] = answers or ("done",)
        self.calls: list[ChildCall] = []

    async def run(
        self,
        query: str,
        *,
        scope: Any = None,
        agent_depth: int | None = None,
        root_run_id: str | None = None,
        parent_run_id: str | None = None,
    ) -> ChildResponse:
        """The next answer."""
        answer = self.answers[min(len(self.calls), len(self.answers) - 1)]
        self.calls.append(ChildCall(query, scope, agent_depth, root_run_id, parent_run_id))
        if isinstance(answer, BaseException):
            raise answer
        return ChildResponse(answer)
