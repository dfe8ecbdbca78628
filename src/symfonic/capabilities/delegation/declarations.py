"""How a user declares a child. A bad declaration fails here, not in the middle of a turn."""

from collections.abc import Callable, Coroutine
from dataclasses import KW_ONLY
from functools import partial
from typing import Any

from symfonic.capabilities.delegation.bounds import ChildPolicy
from symfonic.capabilities.delegation.contracts import HasFinalResponse
from symfonic.capabilities.delegation.errors import ChildDeclarationError
from symfonic.capabilities.delegation.names import check_declared, checked_examples
from symfonic.capabilities.delegation.runner_adapter import adapt_child, check_child, how_to_call
from symfonic.kernel.concurrency.awaitables import is_awaitable
from symfonic.kernel.contracts.facts import fact


@fact
class SubAgent:
    """A child of an agent: what it is called, what runs, and what the model reads about it.

    ``when_to_use`` is guidance that is shown with the description. ``examples`` are requests the child is meant for,
    read by models that are routers. ``policy`` is what holds for this child alone. Raises ChildDeclarationError if the
    name is empty or has whitespace, the description is empty, or the agent cannot be adopted.
    """

    name: str
    agent: Any
    description: str
    when_to_use: str | None = None
    _: KW_ONLY
    examples: tuple[str, ...] = ()
    policy: ChildPolicy | None = None

    def __post_init__(self) -> None:
        check_declared(self.name, self.description)
        if self.when_to_use is not None and not isinstance(self.when_to_use, str):
            raise ChildDeclarationError(f"when_to_use of {self.name!r} must be a string, got {self.when_to_use!r}")
        if self.examples != ():
            object.__setattr__(self, "examples", checked_examples(self.name, self.examples))
        if self.policy is not None and not isinstance(self.policy, ChildPolicy):
            raise ChildDeclarationError(f"policy of {self.name!r} must be a ChildPolicy(...), got {self.policy!r}")
        check_child(self.name, self.agent)


class AgentRef:
    """A child named before it exists: ``resolve()`` is called at the first delegation.

    It then speaks for the agent that ``resolve`` returned. This is how a cycle is built; depth bounds it.
    """

    __slots__ = ("_answer", "_resolve", "_turn")

    def __init__(self, resolve: Callable[[], Any]) -> None:
        if not callable(resolve):
            raise ChildDeclarationError(f"AgentRef takes a function that returns the agent, got {resolve!r}")
        self._resolve = resolve
        self._answer: Callable[[str, dict[str, Any]], Coroutine[Any, Any, Any]] | None = None
        from symfonic.kernel.concurrency.places import Places

        self._turn = Places(1)  # of two first delegations at once, one resolves and the other waits

    async def run(
        self,
        query: str,
        *,
        scope: Any = None,
        agent_depth: int | None = None,
        root_run_id: str | None = None,
        parent_run_id: str | None = None,
    ) -> HasFinalResponse:
        """Run the agent. Raises ChildDeclarationError if what ``resolve`` returned cannot be adopted."""
        if self._answer is None:
            await self._turn.acquire()
            try:
                self._answer = self._answer or await self._resolved()
            finally:
                self._turn.release()
        context = {
            "scope": scope,
            "agent_depth": agent_depth,
            "root_run_id": root_run_id,
            "parent_run_id": parent_run_id,
        }
        return await self._answer(query, context)  # type: ignore[no-any-return]

    async def target(self) -> Any:
        """What ``resolve`` returns, adopted. Raises ChildDeclarationError if that cannot be."""
        resolved = self._resolve()
        return adapt_child("AgentRef", await resolved if is_awaitable(resolved) else resolved)

    async def _resolved(self) -> Callable[[str, dict[str, Any]], Coroutine[Any, Any, Any]]:
        plan, child = how_to_call(await self.target())
        return partial(plan.answer, child)
