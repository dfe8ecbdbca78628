"""What stands around a child: each policy is a start wrapping a start, folded in `fold`."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from symfonic.capabilities.delegation.active_run import ActiveRun, RunScope
from symfonic.capabilities.delegation.bounds import ChildPolicy
from symfonic.capabilities.delegation.errors import ConfigurationError
from symfonic.capabilities.delegation.runner_adapter import plan_call
from symfonic.errors import LimitReachedError
from symfonic.kernel.concurrency.places import Places
from symfonic.kernel.concurrency.tasks import run_within


@dataclass(frozen=True, slots=True)
class Start:
    """One child to be started: its task and its place in the tree. ``opened`` is told of every scope it gets."""

    name: str
    query: str
    scope: Any
    depth: int
    root_run_id: str | None
    parent_run_id: str | None
    opened: Callable[[ActiveRun], None] | None


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
            if child.opened is not None:
                child.opened(run)
            context = {
                "scope": run.scope,
                "agent_depth": child.depth,
                "root_run_id": child.root_run_id,
                "parent_run_id": child.parent_run_id,
            }
            return await plan.call(runner, child.query, context)

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
