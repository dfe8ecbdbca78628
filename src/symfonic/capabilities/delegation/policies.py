"""What stands around a child: each policy is a start wrapping a start, folded in `fold`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from symfonic.capabilities.delegation.active_run import ActiveRun, RunScope
from symfonic.capabilities.delegation.bounds import ChildPolicy
from symfonic.capabilities.delegation.errors import ConfigurationError
from symfonic.capabilities.delegation.runner_adapter import plan_call
from symfonic.errors import LimitReachedError
from symfonic.kernel.concurrency.places import Places
from symfonic.kernel.concurrency.tasks import run_within


@dataclass(frozen=True, slots=True)
class Start:
    """One child to be started: its task, its place in the tree, and who watches every attempt."""

    name: str
    query: str
    scope: Any
    depth: int
    root_run_id: str | None
    parent_run_id: str | None
    watch: "Watch | None"


class Watch(Protocol):
    """Told of each attempt at a child from inside the child's scope.

    From inside, since reading an answer or an error may run the child's own code, which stays the child's.
    """

    def opened(self, run: ActiveRun) -> None:
        """The scope is open; the child starts next."""
        ...

    def returned(self, response: Any) -> None:
        """The child returned. What this raises is the child's failure."""
        ...

    def raised(self, error: BaseException) -> None:
        """The child, or reading its response, raised."""
        ...


Starter: TypeAlias = Callable[[Start], Awaitable[Any]]


def fold(runner: Any, policy: ChildPolicy | None) -> Starter:
    """The child's runner behind its policies, outermost last: a place, in time, for all attempts, each in a scope."""
    start = in_own_scope(runner)
    if policy is not None and policy.retries:
        start = retried(start, policy.retries)
    if policy is not None and policy.timeout is not None:
        start = timed(start, policy.timeout)
    if policy is not None and policy.max_concurrency is not None:
        start = few_at_once(start, policy.max_concurrency)
    return start


def in_own_scope(runner: Any) -> Starter:
    """Call the runner inside a scope of its own; this is the one place where a child's scope is opened.

    Every runner is called so, also one whose signature cannot take what the scope holds.
    """
    plan = plan_call(runner)

    async def start(child: Start) -> Any:
        from symfonic.kernel.contracts.run_identity import RunIdentity, run_identity_scope

        identity = RunIdentity.under(child.root_run_id, child.parent_run_id)
        with (
            run_identity_scope(identity),
            RunScope(depth=child.depth, scope=child.scope, agent=child.name) as run,
        ):
            run.offer()
            if child.watch is not None:
                child.watch.opened(run)
            context = {
                "scope": run.scope,
                "agent_depth": child.depth,
                "root_run_id": child.root_run_id,
                "parent_run_id": child.parent_run_id,
            }
            try:
                response = await plan.call(runner, child.query, context)
                if child.watch is not None:
                    child.watch.returned(response)
            except BaseException as error:
                if child.watch is not None:
                    child.watch.raised(error)
                raise
            return response

    return start


def retried(start: Starter, retries: int) -> Starter:
    """Start again after a failure, with growing pauses; a spent limit or a broken declaration is no such failure."""
    try:
        import stamina
    except ImportError as error:
        raise ConfigurationError("ChildPolicy(retries=...) needs stamina: pip install stamina") from error

    def worth_it(error: BaseException) -> bool:
        return isinstance(error, Exception) and not isinstance(error, LimitReachedError | ConfigurationError)

    async def again(child: Start) -> Any:
        async for attempt in stamina.retry_context(on=worth_it, attempts=retries + 1, timeout=None):
            with attempt:
                answer = await start(child)
        return answer

    return again


def timed(start: Starter, seconds: float) -> Starter:
    """End the child when its time is over. Raises OverrunError then."""

    async def in_time(child: Start) -> Any:
        return await run_within(seconds, start(child))

    return in_time


def few_at_once(start: Starter, most: int) -> Starter:
    """Let so many run at once, and the others wait for their turn."""
    places = Places(most)

    async def in_turn(child: Start) -> Any:
        await places.acquire()
        try:
            return await start(child)
        finally:
            places.release()

    return in_turn
