"""What must hold after every tree. Each check yields a sentence for everything that does not."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, field
from typing import Any

from tools.campaign.trees import LOOSE, Node
from tools.campaign.world import World

from symfonic import AgentResult
from symfonic.capabilities.delegation.contracts import DelegationOutcome, DelegationRecord
from symfonic.kernel.contracts import events as told
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.messages import Usage

LATE = 2.0
"""Seconds that a busy machine may take from a check of the time to the child that it let pass."""
REFUSALS = {each.value for each in DelegationOutcome if each.refused}
NEVER_DELIVERED = ("raise", "group", "cancel")
_ASKED_AGAIN = ("timeout", "max_model_calls", "max_tokens")
_SPENT = re.compile(r"\((max_\w+|timeout)=([\d.e+-]+)\)")


@dataclass(slots=True)
class Run:
    """A run, from its own report or from the events."""

    node: Node
    run_id: str
    parent: str | None
    root: str
    depth: int
    children: "list[Run]" = field(default_factory=list)

    def below(self) -> "list[Run]":
        """The run and everything below it."""
        found = [self]
        for run in found:
            found.extend(run.children)
        return found

    def ids(self) -> set[str]:
        """Of the run and of everything below it."""
        return {run.run_id for run in self.below()}


class Tree:
    """What happened in a world, put together."""

    def __init__(self, world: World) -> None:
        self.world, self.plan = world, world.plan
        self.by_name: dict[str, Node] = {}
        waiting = [world.plan.root]
        while waiting:
            node = waiting.pop()
            self.by_name[node.name] = node
            waiting.extend(node.children)
        self.openings: defaultdict[str, list[Any]] = defaultdict(list)
        self.closings: defaultdict[str, list[Any]] = defaultdict(list)
        self.runs: dict[str, Run] = {}
        self._next_attempt: dict[str, str] = {}
        self._gather()
        for run in self.runs.values():
            if run.parent in self.runs:
                self.runs[run.parent].children.append(run)

    def _gather(self) -> None:
        for seen in self.world.runs.values():
            who = seen.identity
            self._add(Run(seen.node, who.run_id, who.parent_run_id, who.root_run_id, seen.run.depth))
        for event in self.world.events:
            where = event.where
            if isinstance(event, told.RunStarted):
                node = self.by_name[where.agent]
                self._add(Run(node, where.run_id, where.parent_run_id, where.root_run_id, where.depth))
            elif isinstance(event, told.DelegationStarted):
                child = event.child
                node = self.by_name[event.name]
                self._add(Run(node, child.run_id, child.parent_run_id, child.root_run_id, where.depth + 1))
                self.openings[where.run_id].append(event)
            elif isinstance(event, told.DelegationRetried):
                self._again(event)
            elif isinstance(event, told.DelegationFinished | told.DelegationRefused):
                self.closings[where.run_id].append(event)

    def _again(self, event: Any) -> None:
        failed, child = event.failed, event.child
        self._next_attempt[failed.run_id] = child.run_id
        node, depth = self.by_name[event.name], event.where.depth + 1
        self._add(Run(node, child.run_id, child.parent_run_id, child.root_run_id, depth))

    def last_attempt(self, run_id: str) -> str:
        """The run that a delegation ended with; it began with this one."""
        while run_id in self._next_attempt:
            run_id = self._next_attempt[run_id]
        return run_id

    def _add(self, run: Run) -> None:
        known = self.runs.setdefault(run.run_id, run)
        one, two = ((each.node.name, each.parent, each.root, each.depth) for each in (known, run))
        if one != two:
            self.world.complain(f"the same run is told as {one} and as {two}")

    def delegations(self, runs: Iterable[Run]) -> list[Run]:
        """Those of the runs that are delegations; several attempts at one count once."""
        found: dict[Any, Run] = {}
        for run in runs:
            if run.node.delegated:
                retried = run.node.policy is not None and run.node.policy.retries
                found[(run.parent, run.node.number) if retried else run.run_id] = run
        return list(found.values())

    def levels(self, run: Run) -> list[Limits]:
        """Every limit that holds for what this run starts."""
        found: list[Limits] = []
        above: Run | None = run
        while above is not None:
            found += self.plan.stated(above.node)
            above = self.runs.get(above.parent) if above.parent else None
        return found

    def is_exact(self, run: Run) -> bool:
        """Whether nothing in this run or below was left to outlive it."""
        return not (run.ids() & self.world.loose)


def check(world: World, result: Any) -> list[str]:
    """Every violation in a tree that is over; ``result`` is what its root returned, or raised."""
    tree = Tree(world)
    checks = (lineage, ceilings, budgets, refusals, closings, outcomes, tallies, usages, pairs, observers)
    found = [problem for each in checks for problem in each(tree)]
    if isinstance(result, AgentResult):
        found += results(tree, result)
    return world.wrong + found


def lineage(tree: Tree) -> Iterator[str]:
    roots = [run for run in tree.runs.values() if run.parent is None]
    if len(roots) > 1:
        yield f"{len(roots)} runs have no parent"
    for run in tree.runs.values():
        if run.root != roots[0].run_id if roots else True:
            yield f"{run.node.name} has another root"
        if run.parent is None:
            continue
        parent = tree.runs.get(run.parent)
        if parent is None:
            yield f"the parent of {run.node.name} is no run of the tree"
        elif parent.node is not run.node.parent or run.depth != parent.depth + 1 or run.depth != run.node.depth:
            yield f"{run.node.name} at {run.depth} is below {parent.node.name} at {parent.depth}"


def ceilings(tree: Tree) -> Iterator[str]:
    for run in tree.delegations(tree.runs.values()):
        if run.node.parent is not None and run.depth > tree.plan.ceiling(run.node.parent):
            yield f"{run.node.name} ran at depth {run.depth}, the ceiling was {tree.plan.ceiling(run.node.parent)}"
    for caller, event in _closed(tree):
        refused = event.outcome == "refused_depth"
        if refused != (caller.depth + 1 > tree.plan.ceiling(caller.node)):
            yield f"{event.name} below {caller.node.name} at {caller.depth}: {event.outcome}"


def budgets(tree: Tree) -> Iterator[str]:
    for run in tree.runs.values():
        below = run.below()
        for limits in tree.plan.stated(run.node):
            yield from _within("max_delegations", limits, len(tree.delegations(below[1:])))
            asked = sum(1 for ask in tree.world.asks if ask.run_id in {each.run_id for each in below})
            yield from _within("max_model_calls", limits, asked)
            yield from _late(tree, run, limits, {each.run_id for each in below})
        started = tree.delegations(run.children)
        times = max(Counter(child.node.number for child in started).values(), default=0)
        for limits in tree.levels(run):
            yield from _within("max_fan_out", limits, len(started))
            yield from _within("max_repeats", limits, times)


def _within(limit: str, limits: Limits, count: int) -> Iterator[str]:
    most = getattr(limits, limit)
    if most is not None and count > most:
        yield f"{limit}={most}, and there were {count}"


def _late(tree: Tree, owner: Run, limits: Limits, below: set[str]) -> Iterator[str]:
    seen = tree.world.runs.get(owner.run_id)
    if limits.timeout is None or seen is None:
        return
    for other in tree.world.starts:
        late = other.at - seen.at - limits.timeout
        if other.identity.run_id in below and late > LATE:
            yield f"{other.node.name} started {late:g} s after the deadline of {owner.node.name}"


def refusals(tree: Tree) -> Iterator[str]:
    """A refusal for a budget names a limit that is spent indeed."""
    for caller, event in _closed(tree):
        if event.outcome != "refused_budget":
            continue
        spent = _SPENT.search(event.message)
        if spent is None:
            yield f"a refused budget names no limit: {event.message}"
            continue
        limit, value = spent[1], float(spent[2])
        if limit != "timeout" and not any(
            count >= value for stated, count in _spent(tree, caller, event.name, limit) if stated == value
        ):
            yield f"{event.name} was refused for {limit}={value:g}, which was not spent"


def _spent(tree: Tree, caller: Run, name: str, limit: str) -> Iterator[tuple[float | None, int]]:
    owner: Run | None = caller
    while owner is not None:
        ids = owner.ids()
        made = [event for who in ids for event in tree.closings[who] if _was_reserved(event)]
        own = [event for event in made if event.where.run_id == caller.run_id]
        usage = tree.world.usage_of(ids)
        count = {
            "max_delegations": len(made),
            "max_fan_out": len(own),
            "max_repeats": sum(event.name == name for event in own),
            "max_model_calls": usage.model_calls,
            "max_tokens": usage.input_tokens + usage.output_tokens,
        }[limit]
        for limits in tree.plan.stated(owner.node):
            yield getattr(limits, limit), count
        owner = tree.runs.get(owner.parent) if owner.parent else None


def _was_reserved(event: Any) -> bool:
    """Whether a delegation may have been counted before it ended: what is spent is asked once more when it starts."""
    spent = _SPENT.search(event.message) if event.outcome == "refused_budget" else None
    return event.outcome not in REFUSALS or (spent is not None and spent[1] in _ASKED_AGAIN)


def closings(tree: Tree) -> Iterator[str]:
    for run_id, seen in tree.world.runs.items():
        records = seen.run.records
        events = tree.closings[run_id]
        kept = Counter((each.name, each.outcome.value, each.message) for each in records)
        told_of = Counter((each.name, each.outcome, each.message) for each in events)
        if kept - told_of or (run_id not in tree.world.loose and kept != told_of):
            yield f"{seen.node.name}: records {_list(kept)}, closing events {_list(told_of)}"
        finished = [each for each in events if isinstance(each, told.DelegationFinished)]
        ended = Counter(each.name for each in finished)
        begun = Counter((each.name, tree.last_attempt(each.child.run_id)) for each in tree.openings[run_id])
        if begun != Counter((each.name, each.child.run_id) for each in finished):
            yield f"{seen.node.name}: started {_list(begun)}, closed {_list(ended)}"
        run = tree.runs[run_id]
        reported = Counter(
            child.node.name
            for child in tree.delegations(run.children)
            if child.run_id in tree.world.runs or child.node.kind == "agent"
        )
        if reported != ended:
            yield f"{seen.node.name}: children saw themselves start {_list(reported)}, closed {_list(ended)}"


def outcomes(tree: Tree) -> Iterator[str]:
    for caller, event in _closed(tree):
        node = tree.by_name.get(event.name)
        if node is None:
            if event.outcome not in ("unknown_child", "refused_depth"):
                yield f"nobody is there, and it is {event.outcome}"
            continue
        act = tree.plan.acts[node.number]
        loose = any(each.via in LOOSE for each in node.path())
        delivered = event.outcome == "delivered"
        if delivered and (act.fault in NEVER_DELIVERED or (act.fault == "hang" and not loose)):
            yield f"{node.name} ({act.fault}/{act.flavour}) delivered {event.message!r}"
        if event.outcome == "child_failed" and act.fault == "answer" and node.kind == "foreign" and not node.children:
            yield f"{node.name} answered, and failed: {event.message}"
        if event.outcome == "child_timed_out" and not tree.plan.ends_in_time(node):
            yield f"{node.name} timed out, and has no time set"
        caps = [limits.max_answer_chars for limits in tree.levels(caller) if limits.max_answer_chars is not None]
        if delivered and caps and len(event.message) > min(caps):
            yield f"an answer has {len(event.message)} characters of {min(caps)}"


def tallies(tree: Tree) -> Iterator[str]:
    for run_id, seen in tree.world.runs.items():
        if run_id in tree.world.loose:
            continue
        delivered = [record.name for record in seen.run.records if record.delivered]
        if sorted(delivered) != sorted(seen.run.delegated):
            yield f"{seen.node.name} delegated to {seen.run.delegated}, its records say {delivered}"
        order = tuple(event.name for event in tree.closings[run_id] if event.outcome == "delivered")
        if not tree.world.threaded and order != seen.run.delegated:
            yield f"{seen.node.name} delegated to {seen.run.delegated}, delivered were {order}"


def usages(tree: Tree) -> Iterator[str]:
    for run_id, seen in tree.world.runs.items():
        run = tree.runs[run_id]
        yield from _same_usage(tree, run, seen.run.usage, f"the run {seen.node.name}")
        for record in seen.run.records:
            child = record.trace.child if record.trace else None
            if record.trace is None or child is None or child.run_id not in tree.runs:
                continue
            if record.trace.caller != seen.identity or child.parent_run_id != run_id:
                yield f"the record of {record.name} is of {record.trace.caller} and {child}, in {seen.identity}"
            policy = tree.by_name[record.name].policy
            if policy is None or not policy.retries:
                yield from _same_usage(tree, tree.runs[child.run_id], record.trace.usage, f"the record {record.name}")


def _same_usage(tree: Tree, run: Run, usage: Usage, whose: str) -> Iterator[str]:
    asked = tree.world.usage_of(run.ids())
    more = any(a > b for a, b in zip(astuple(usage), astuple(asked), strict=True))
    if more or (usage != asked and tree.is_exact(run)):
        yield f"{whose} tells {usage}, its models saw {asked}"


def pairs(tree: Tree) -> Iterator[str]:
    """What starts ends, once."""
    counts = Counter((type(event).__name__, event.where.run_id) for event in tree.world.events)
    asked = Counter(ask.run_id for ask in tree.world.asks)
    for run_id, run in tree.runs.items():
        name = run.node.name
        started, finished = counts["RunStarted", run_id], counts["RunFinished", run_id]
        if started != (run.node.kind == "agent") or started != finished:
            yield f"{name} started {started} times and finished {finished} times"
        models = (counts["ModelCalled", run_id], counts["ModelAnswered", run_id], asked[run_id])
        if len(set(models)) > 1:
            yield f"{name}: model calls told, answers told, calls made: {models}"
        if counts["ToolStarted", run_id] != counts["ToolFinished", run_id]:
            yield f"{name}: {counts['ToolStarted', run_id]} tools started, {counts['ToolFinished', run_id]} finished"


def observers(tree: Tree) -> Iterator[str]:
    world = tree.world
    if "async" not in world.plan.observers or world.plan.root.kind != "agent":
        return
    if world.cancelled or world.loose or world.threaded:
        return
    if list(map(id, world.events)) != list(map(id, world.late_events)):
        yield f"an observer was told {len(world.events)} events, an asynchronous one {len(world.late_events)}"


def results(tree: Tree, result: AgentResult) -> Iterator[str]:
    by_outcome: Counter[DelegationOutcome] = Counter()
    by_child: Counter[str] = Counter()
    for record in _all_records(result.delegations):
        by_outcome[record.outcome] += 1
        by_child[record.name] += 1
    if (result.tally.by_outcome, result.tally.by_child) != (by_outcome, by_child):
        yield f"the tally is {result.tally}, the records say {by_outcome}, {by_child}"
    seen = tree.world.runs.get(result.run_id)
    if seen is None or result.parent_run_id is not None or result.root_run_id != result.run_id:
        yield f"the result is of {result.run_id} below {result.parent_run_id}"
        return
    if result.usage != seen.run.usage or result.delegations != seen.run.records:
        yield "the result and its run do not tell the same"
    if result.run_id not in tree.world.loose and tuple(result.delegated_to) != seen.run.delegated:
        yield f"the result was delegated to {result.delegated_to}, its run to {seen.run.delegated}"
    if tree.plan.acts[0].flavour % 16 == 0:
        json.loads(result.to_json())


def _closed(tree: Tree) -> Iterator[tuple[Run, Any]]:
    for run_id, events in list(tree.closings.items()):
        if run_id in tree.runs:
            for event in events:
                yield tree.runs[run_id], event


def _all_records(records: Iterable[DelegationRecord]) -> Iterator[DelegationRecord]:
    for record in records:
        yield record
        yield from _all_records(record.children)


def _list(counted: Counter[Any]) -> str:
    return ", ".join(f"{count}x{what}" for what, count in sorted(counted.items(), key=repr)) or "none"
