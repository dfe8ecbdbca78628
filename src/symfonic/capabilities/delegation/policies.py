"""What stands around a child: each policy is a start wrapping a start, folded in `fold`."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any, Protocol, TypeAlias

from symfonic.capabilities.delegation.active_run import ActiveRun, RunScope
from symfonic.capabilities.delegation.bounds import ChildPolicy
from symfonic.capabilities.delegation.budget import Budget, Slot, lent, place_of_child
from symfonic.capabilities.delegation.errors import ConfigurationError, DelegationError
from symfonic.capabilities.delegation.lineage import identities
from symfonic.capabilities.delegation.runner_adapter import CallPlan, drained, is_generator
from symfonic.errors import LimitReachedError
from symfonic.kernel.concurrency.awaitables import is_awaitable
from symfonic.kernel.concurrency.places import Places
from symfonic.kernel.concurrency.tasks import cancellation_is_due, run_within
from symfonic.kernel.contracts.ambient import Ambient
from symfonic.kernel.contracts.facts import fact

Lineage: TypeAlias = tuple[str | None, str | None] | tuple[str | None, str | None, str]

_turns: Ambient["tuple[TurnTaken, ...]"] = Ambient("symfonic_turns")


@fact
class Start:
    """One child to be started: its task, its place in the tree, who watches every attempt, who calls, and its slot.

    ``lineage`` is the root's id and the parent's, and the run's own where that is not to be a new one.
    """

    name: str
    task: str
    scope: Any
    depth: int
    lineage: Lineage
    watch: "Watch | None"
    caller: ActiveRun | None
    slot: Slot | None = None


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


Starter: TypeAlias = Callable[[Start], Coroutine[Any, Any, Any]]


def fold(call: tuple[CallPlan, Any], policy: ChildPolicy | None) -> Starter:
    """The child's runner behind its policies, outermost last.

    The child waits for its turn, and then for a place of its own in the tree; in both it is given its time, for all
    attempts, each in a scope. A place in the tree is waited for last: whoever holds one runs.
    """
    start = in_own_scope(*call)
    if policy is not None and policy.retries:
        start = retried(start, policy.retries)
    if policy is not None and policy.timeout is not None:
        start = timed(start, policy.timeout)
    start = in_tree(start)
    if policy is not None and policy.max_concurrency is not None:
        start = few_at_once(start, policy.max_concurrency)
    return start


def in_own_scope(plan: CallPlan, target: Any) -> Starter:
    """Call the child, as planned, inside a scope of its own; this is the one place where a child's scope is opened.

    Every runner is called so, also one whose signature cannot take what the scope holds.
    """

    async def start(child: Start) -> Any:
        identity = identities().RunIdentity.under(*child.lineage)
        with RunScope(depth=child.depth, scope=child.scope, agent=child.name, identity=identity) as run:
            run.offer()
            run.slot = child.slot
            if child.watch is not None:
                child.watch.opened(run)
            context = {
                "scope": run.scope,
                "agent_depth": child.depth,
                "root_run_id": child.lineage[0],
                "parent_run_id": child.lineage[1],
            }
            try:
                response = plan.call(target, child.task, context)  # as in `CallPlan.answer`, with a frame less
                while is_awaitable(response):
                    response = await response
                response = await drained(response, target) if is_generator(response) else plan.read(response)
                if child.watch is not None:
                    child.watch.returned(response)
            except BaseException as error:
                if child.watch is not None:
                    child.watch.raised(error)
                raise
            return response

    return start


def retried(start: Starter, retries: int) -> Starter:
    """Start again after a failure, with growing pauses.

    A spent limit, a broken declaration or a refusal is no such failure, nor is one that comes after a cancellation.
    """
    try:
        import stamina
    except ImportError as error:
        raise ConfigurationError("ChildPolicy(retries=...) needs stamina: pip install stamina") from error

    def worth_it(error: BaseException) -> bool:
        if not isinstance(error, Exception) or cancellation_is_due():
            return False
        return not isinstance(error, LimitReachedError | ConfigurationError | DelegationError)

    async def again(child: Start) -> Any:
        answer: Any = None
        signals = child.caller.pass_through if child.caller is not None else ()
        attempts = 0
        async for attempt in stamina.retry_context(
            on=lambda error: worth_it(error) and not isinstance(error, signals), attempts=retries + 1, timeout=None
        ):
            with attempt:
                attempts += 1
                answer = await start(child if attempts == 1 else _attempt(child, attempts))
        return answer

    return again


def _attempt(child: Start, number: int) -> Start:
    """The same once more: where the run's id is given, each attempt has one of its own."""
    if len(child.lineage) == 2:
        return child
    root, parent, run_id = child.lineage
    return replace(child, lineage=(root, parent, f"{run_id}~{number}"))


def timed(start: Starter, seconds: float) -> Starter:
    """End the child when its time is over. Raises OverrunError then."""

    async def in_time(child: Start) -> Any:
        return await run_within(seconds, start(child))

    return in_time


def in_tree(start: Starter) -> Starter:
    """Wait for a place among the children that run at once in the tree, where that is limited.

    Others have the parent's place for as long as it waits for this child.
    """

    def begin(child: Start) -> Coroutine[Any, Any, Any]:
        budget = child.caller.budget if child.caller is not None else None
        if budget is None:
            return start(child)
        return _lending(child, _in_place(start, child, budget) if budget.counts_running() else start(child))

    return begin


async def _in_place(start: Starter, child: Start, budget: Budget) -> Any:
    async with place_of_child(budget) as slot:
        return await start(replace(child, slot=slot))


def _lending(child: Start, work: Coroutine[Any, Any, Any]) -> Coroutine[Any, Any, Any]:
    slot = child.caller.slot if child.caller is not None else None
    return work if slot is None else lent(slot, work)


class TurnTaken:
    """A delegation's place among those of one child. Compared by what it is, not by what it holds."""

    __slots__ = ("over", "places")

    def __init__(self, places: Places) -> None:
        self.places: Places = places
        self.over: bool = False


def few_at_once(start: Starter, most: int) -> Starter:
    """Let so many run at once, and the others wait for their turn; meanwhile others have the parent's place.

    What a child is asked by way of itself belongs to its own turn: waiting for another would never end.
    """
    places = Places(most)

    async def in_turn(child: Start) -> Any:
        around = _turns.get() or ()
        if any(turn.places is places and not turn.over for turn in around):
            return await start(child)
        await places.acquire()
        turn = TurnTaken(places)
        try:
            with _turns.open((*around, turn)):
                return await start(child)
        finally:
            turn.over = True
            places.release()

    return lambda child: _lending(child, in_turn(child))
