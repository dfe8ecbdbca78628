"""Whether a delegation may be made, besides depth and name: a person's hooks, the child's scope, the budget."""

from asyncio import CancelledError
from dataclasses import replace
from inspect import isawaitable, iscoroutine
from typing import Any

from symfonic.capabilities.delegation.bounds import ChildPolicy, DelegationRequest, Hook, Veto
from symfonic.errors import LimitReachedError
from symfonic.kernel.concurrency.tasks import cancellation_is_due
from symfonic.kernel.contracts.ambient import Ambient
from symfonic.kernel.contracts.text import error_text, task_text

_WHAT_IS_SPENT = {
    "max_delegations": "no more sub-agents may be started for the whole task",
    "max_fan_out": "you may start no more sub-agents",
    "max_repeats": "this sub-agent was given this very task before and may not be given it again",
    "max_model_calls": "the model calls of the whole task are spent",
    "max_tokens": "the tokens of the whole task are spent",
    "timeout": "the time for the whole task is over",
}


_judging: Ambient[bool] = Ambient("symfonic_judging")


class Refused(Exception):  # noqa: N818 - a decision on its way up, not an error
    """A delegation is not made; its text is what the model reads."""


async def consult(
    hooks: tuple[Hook, ...], request: DelegationRequest, signals: tuple[type[Exception], ...] = ()
) -> DelegationRequest:
    """Ask every hook in turn, outermost first, each about what the one before has made of the request.

    What a hook delegates itself is not judged: it would be asked about its own question without end. Raises
    Refused, with the hook's reason, if one vetoes, and also if one raises or answers something else; ``signals`` pass.
    """
    if _judging.get():
        return request
    for hook in hooks:
        try:
            with _judging.open(True):
                answer = hook(request)
                answer = await answer if isawaitable(answer) else answer
            request = _judged(request, answer)
        except (Exception, CancelledError) as error:
            if isinstance(error, (Refused, *signals)):
                raise
            if isinstance(error, CancelledError) and cancellation_is_due():
                raise  # it is not the hook's own: the caller is going away
            raise Refused(f"Delegation refused: the policy could not decide: {error_text(error)}") from error
    return request


def narrowed(policy: ChildPolicy | None, scope: Any) -> Any:
    """The child's scope: authority can only shrink on the way down.

    Raises Refused if the policy's function raises, or if the parent's scope does not cover the child's.
    """
    if policy is None or policy.scope is None:
        return scope
    try:
        child = _made(policy.scope(scope))
        covers = getattr(scope, "covers", None)
        covered = covers is None or bool(_made(covers(child)))
    except Exception as error:
        raise Refused(f"Delegation refused: the sub-agent's scope could not be made: {error_text(error)}") from error
    if child is None and scope is not None:  # a child without a scope would have its caller's
        raise Refused("Delegation refused: the sub-agent's scope could not be made: there is none")
    if not covered:
        raise Refused("Delegation refused: the sub-agent would be given more authority than its caller has")
    return child


def _made(value: Any) -> Any:
    """The value. Raises TypeError for a coroutine: nobody would await it, and it would pass for a yes."""
    if iscoroutine(value):
        value.close()
        raise TypeError("it is a coroutine; the function must not be async")
    return value


def spent_message(reached: LimitReachedError) -> str:
    """What the model reads when a limit is reached."""
    told = _WHAT_IS_SPENT.get(reached.limit, "a limit of the whole task is reached")
    return f"Delegation refused: {told} ({reached.limit}={reached.value}). Do not ask again; finish with what you have."


def _differ_in_task_alone(one: DelegationRequest, other: DelegationRequest) -> bool:
    same_scope = one.scope is other.scope or one.scope == other.scope
    return (one.name, one.depth, one.caller) == (other.name, other.depth, other.caller) and same_scope


def _judged(request: DelegationRequest, answer: Any) -> DelegationRequest:
    if answer is None or answer is True:
        return request
    if isinstance(answer, DelegationRequest):
        if not isinstance(answer.task, str) or not _differ_in_task_alone(request, answer):
            raise Refused("Delegation refused: the policy may rewrite nothing but the task, as text")
        return replace(request, task=task_text(answer.task))
    if isinstance(answer, Veto):
        reason = str(answer.reason).strip()
        raise Refused(f"Delegation refused: {reason}" if reason else "Delegation refused by policy")
    if answer is False:
        raise Refused("Delegation refused by policy")
    raise Refused(f"Delegation refused: the policy answered with {type(answer).__name__}, which decides nothing")
