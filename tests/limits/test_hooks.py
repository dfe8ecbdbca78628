"""``on_delegate``: a program's own rule, asked before every child of the tree starts."""

import asyncio
import contextvars
from dataclasses import replace
from typing import Any

import pytest
from limits_fakes import DELIVERED, REFUSED, Worker, asks, at_once, bounded, child, in_turn, walk

from symfonic import (
    Agent,
    AgentRef,
    ChildPolicy,
    DelegationOutcome,
    DelegationRequest,
    Limits,
    Options,
    SubAgent,
    Veto,
)
from symfonic.capabilities.delegation.bounds import Hook
from symfonic.errors import LimitReachedError
from symfonic.kernel.contracts.events import DelegationFinished, DelegationRefused, DelegationStarted

REFUSED_POLICY = DelegationOutcome.REFUSED_POLICY


def lead_with(hook: Hook, *tasks: str, **more: Any) -> tuple[Worker, Agent]:
    """A lead that gives its one child these tasks, and asks the hook."""
    worker = Worker()
    options = Options(on_delegate=hook)
    return worker, Agent(asks("child", tasks or ("go",)), sub_agents=[child(worker)], options=options, **more)


class Asked:
    """A hook that notes what it is asked and gives one answer."""

    def __init__(self, answer: Any = None) -> None:
        self.answer = answer
        self.requests: list[DelegationRequest] = []

    def __call__(self, request: DelegationRequest) -> Any:
        self.requests.append(request)
        return self.answer

    @property
    def names(self) -> list[str]:
        return [request.name for request in self.requests]


async def test_a_hook_is_told_who_asks_whom_for_what_and_with_which_authority() -> None:
    asked = Asked()
    _, lead = lead_with(asked)

    result = await lead.run("go", scope="the scope")

    [request] = asked.requests
    assert (request.name, request.task, request.depth, request.scope) == ("child", "go", 1, "the scope")
    assert request.caller is not None
    assert (request.caller.run_id, request.caller.root_run_id) == (result.run_id, result.root_run_id)


async def test_the_scope_that_a_hook_sees_is_the_childs() -> None:
    asked = Asked()
    narrowed = child(Worker(), policy=ChildPolicy(scope=lambda scope: f"part of {scope}"))

    with bounded(narrowed, hooks=(asked,), scope="all") as delegate:
        await delegate("child", "go")

    assert [request.scope for request in asked.requests] == ["part of all"]


@pytest.mark.parametrize("answer", [None, True])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_hook_lets_a_delegation_pass(answer: bool | None, is_async: bool) -> None:
    async def later(request: DelegationRequest) -> bool | None:
        await asyncio.sleep(0)
        return answer

    worker, lead = lead_with(later if is_async else Asked(answer))

    result = await lead.run("go")

    assert [record.outcome for record in result.delegations] == [DELIVERED]
    assert worker.tasks == ["go"]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Veto("nothing leaves the house today"), "Delegation refused: nothing leaves the house today"),
        (Veto("100 % {certain} $x"), "Delegation refused: 100 % {certain} $x"),
        (False, "Delegation refused by policy"),
        ("yes", "Delegation refused: the policy answered with str, which decides nothing"),
        (1, "Delegation refused: the policy answered with int, which decides nothing"),
        (0, "Delegation refused: the policy answered with int, which decides nothing"),
        ({"allow": True}, "Delegation refused: the policy answered with dict, which decides nothing"),
    ],
)
async def test_a_veto_is_a_value_with_its_reason_and_what_decides_nothing_refuses(answer: Any, message: str) -> None:
    worker, lead = lead_with(Asked(answer))

    result = await lead.run("go")

    [record] = result.delegations
    assert (record.outcome, record.message) == (REFUSED_POLICY, message)
    assert record.outcome.refused
    assert record.trace is not None
    assert (record.trace.child, record.trace.retryable) == (None, False)
    assert worker.tasks == []
    assert result.text == "done"


async def test_a_hook_that_raises_refuses_and_the_program_sees_why() -> None:
    error = ConnectionError("postgres://u:secret@h/db is down")

    def hook(request: DelegationRequest) -> None:
        raise error

    worker, lead = lead_with(hook)

    [record] = (await lead.run("go")).delegations

    assert record.outcome is REFUSED_POLICY
    assert record.message == "Delegation refused: the policy could not decide: postgres://u:***@h/db is down"
    assert record.trace is not None
    assert record.trace.error is error
    assert worker.tasks == []


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, type("Pause", (BaseException,), {})])
async def test_what_is_no_exception_passes_through_a_hook_as_it_is(kind: type[BaseException]) -> None:
    error = kind("stop")

    async def hook(request: DelegationRequest) -> None:
        raise error

    with bounded(child(Worker()), hooks=(hook,)) as delegate:
        coroutine = delegate("child", "go")
        with pytest.raises(kind) as raised:
            coroutine.send(None)  # type: ignore[attr-defined]  # past the loop, which would stop for some of these

    assert raised.value is error


async def test_a_hook_may_rewrite_the_task() -> None:
    worker, lead = lead_with(lambda request: replace(request, task=f"{request.task}, in one line"))

    [record] = (await lead.run("go")).delegations

    assert worker.tasks == ["go, in one line"]
    assert record.delivered
    assert record.trace is not None
    assert record.trace.task == "go, in one line"


@pytest.mark.parametrize(
    "change", [{"name": "other"}, {"depth": 0}, {"scope": "everything"}, {"caller": None}, {"task": 7}, {"task": None}]
)
async def test_a_hook_may_rewrite_nothing_else(change: dict[str, Any]) -> None:
    worker, lead = lead_with(lambda request: replace(request, **change))

    [record] = (await lead.run("go")).delegations

    assert record.outcome is REFUSED_POLICY
    assert record.message == "Delegation refused: the policy may rewrite nothing but the task, as text"
    assert worker.tasks == []


async def test_what_is_repeated_is_judged_by_the_task_that_the_child_would_get() -> None:
    worker, lead = lead_with(lambda request: replace(request, task="the same"), "a", "b", limits=Limits(max_repeats=1))

    result = await lead.run("go")

    assert worker.tasks == ["the same"]
    assert [record.outcome for record in result.delegations] == [DELIVERED, REFUSED]


async def test_a_hook_may_wait_for_a_persons_yes() -> None:
    asked, yes = asyncio.Event(), asyncio.Event()

    async def hook(request: DelegationRequest) -> bool:
        asked.set()
        await yes.wait()
        return True

    worker, lead = lead_with(hook)
    running = asyncio.create_task(lead.run("go"))
    await asked.wait()
    waited_without_starting = worker.tasks == []
    yes.set()
    result = await running

    assert waited_without_starting
    assert worker.tasks == ["go"]
    assert result.delegations[0].delivered


async def test_several_may_wait_for_a_person_at_once_and_the_budget_holds_all_the_same() -> None:
    waiting, yes = asyncio.Barrier(6), asyncio.Event()

    async def hook(request: DelegationRequest) -> bool:
        await waiting.wait()
        await yes.wait()
        return True

    worker = Worker()
    with bounded(child(worker), hooks=(hook,), limits=Limits(max_delegations=2)) as delegate:
        running = asyncio.create_task(at_once(delegate, list("abcde")))
        await waiting.wait()
        yes.set()
        records = await running

    assert len(worker.tasks) == 2
    assert [record.outcome for record in records].count(REFUSED) == 3


async def test_a_run_that_is_cancelled_while_a_person_is_asked_ends_and_starts_nothing() -> None:
    asked, ended = asyncio.Event(), asyncio.Event()
    events: list = []

    async def hook(request: DelegationRequest) -> None:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    worker, lead = lead_with(hook)
    running = asyncio.create_task(lead.run("go", observers=(events.append,)))
    await asked.wait()
    running.cancel()
    await asyncio.wait([running])

    assert running.cancelled()
    assert ended.is_set()
    assert worker.tasks == []
    told = [event for event in events if isinstance(event, DelegationStarted | DelegationFinished | DelegationRefused)]
    assert [(type(event), event.outcome) for event in told] == [
        (DelegationRefused, DelegationOutcome.CHILD_CANCELLED.value)
    ]


async def test_a_person_who_does_not_answer_is_bounded_by_the_time_of_the_tree() -> None:
    async def hook(request: DelegationRequest) -> None:
        await asyncio.Event().wait()

    worker, lead = lead_with(hook, limits=Limits(timeout=0.02))

    with pytest.raises(LimitReachedError, match="timeout") as raised:
        await lead.run("go")

    assert [record.outcome for record in raised.value.delegations] == [REFUSED]
    assert worker.tasks == []


async def test_a_hook_is_asked_about_the_whole_tree() -> None:
    asked, leaf = Asked(), Worker()
    middle = Agent(asks("leaf", ["a"]), sub_agents=[child(leaf, "leaf")])

    async def call_back(query: str) -> str:
        return (await middle.run("go")).text

    several = [child(middle, "middle"), child(Worker(call_back), "foreign")]
    turns = Agent(asks("middle", ["x"]), sub_agents=several, options=Options(on_delegate=asked))
    foreign = Agent(asks("foreign", ["x"]), sub_agents=several, options=Options(on_delegate=asked), max_depth=3)

    await turns.run("go")
    await foreign.run("go")

    assert asked.names == ["middle", "leaf", "foreign", "leaf"]
    assert [request.depth for request in asked.requests] == [1, 2, 1, 3]


async def test_a_veto_of_the_root_binds_a_child_that_has_a_hook_of_its_own() -> None:
    order: list[str] = []

    def roots(request: DelegationRequest) -> Veto | None:
        order.append(f"root about {request.name}")
        return Veto("not the leaf") if request.name == "leaf" else None

    def childs(request: DelegationRequest) -> bool:
        order.append(f"child about {request.name}")
        return True

    leaf = Worker()
    middle = Agent(asks("leaf", ["a"]), sub_agents=[child(leaf, "leaf")], options=Options(on_delegate=childs))
    lead = Agent(asks("middle", ["x"]), sub_agents=[child(middle, "middle")], options=Options(on_delegate=roots))

    result = await lead.run("go")

    assert order == ["root about middle", "root about leaf"]
    assert [record.outcome for record in walk(result.delegations)] == [DELIVERED, REFUSED_POLICY]
    assert leaf.tasks == []


async def test_hooks_are_asked_outermost_first_each_about_what_the_one_before_made_of_it() -> None:
    leaf = Worker()
    options = [
        Options(on_delegate=lambda request, word=word: replace(request, task=request.task + word)) for word in "rm"
    ]
    middle = Agent(asks("leaf", ["a"]), sub_agents=[child(leaf, "leaf")], options=options[1])
    lead = Agent(asks("middle", ["x"]), sub_agents=[child(middle, "middle")], options=options[0])

    await lead.run("go")

    assert leaf.tasks == ["arm"]


async def test_in_a_cycle_the_same_agents_hook_is_asked_once_a_delegation() -> None:
    asked = Asked()
    again: Agent = Agent(
        asks("self", ["x"]),
        sub_agents=[SubAgent("self", AgentRef(lambda: again), "Again.")],
        options=Options(on_delegate=asked),
    )

    await again.run("go", max_depth=3)

    assert [request.depth for request in asked.requests] == [1, 2, 3]


async def test_nobody_is_asked_about_what_depth_name_or_budget_refuse_already() -> None:
    asked = Asked()
    for limits in (Limits(max_delegations=0), Limits(max_fan_out=0), Limits(max_tokens=0)):
        with bounded(child(Worker()), hooks=(asked,), limits=limits) as delegate:
            assert (await delegate("child", "go")).outcome is REFUSED
    with bounded(child(Worker()), hooks=(asked,)) as delegate:
        assert (await delegate("nobody", "go")).outcome is DelegationOutcome.UNKNOWN_CHILD
    _, lead = lead_with(asked, max_depth=0)
    assert (await lead.run("go")).delegations[0].outcome is DelegationOutcome.REFUSED_DEPTH

    assert asked.requests == []


async def test_a_veto_costs_nothing_of_the_budget() -> None:
    def hook(request: DelegationRequest) -> bool:
        return request.task == "good"

    limits = Limits(max_delegations=1, max_fan_out=1, max_repeats=1)
    with bounded(child(Worker()), hooks=(hook,), limits=limits) as delegate:
        records = await in_turn(delegate, ["bad", "bad", "good"])

    assert [record.outcome for record in records] == [REFUSED_POLICY, REFUSED_POLICY, DELIVERED]


async def test_a_hook_sees_the_context_of_the_run_that_delegates() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")
    seen: list[str] = []
    _, lead = lead_with(lambda request: seen.append(user.get()))
    user.set("ann")

    await lead.run("go")

    assert seen == ["ann"]
