"""Random trees: who there is, who calls whom and how, what goes wrong, and what bounds it.

A *team* is a tree of nodes, built once. A *plan* is one run of it: what every node does this time, and the bounds,
observers and cancellation of this run. Both are drawn from a seed alone.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Any

from symfonic.capabilities.delegation.bounds import ChildPolicy
from symfonic.kernel.contracts.limits import Limits

DEEPEST, WIDEST, LARGEST = 6, 8, 24
FAULTS = ("answer", "raise", "hang", "cancel", "rubbish", "group", "swallow", "thread")
PATHS = ("callback", "blocking", "loose")
"""Ways to start a child that are counted like faults: by a foreign child, from a synchronous tool, and from a thread or
a task that may outlive its run."""
LOOSE = ("thread", "detached")
RUNS_PER_TEAM = 6
HOOKS = (None, None, None, "passes", "passes later", "vetoes", "raises")
STRAYS = ("child", "tool", "arguments")


@dataclass(slots=True, eq=False)
class Node:
    """One child (or the root). ``kind`` is what runs, ``via`` how its parent calls it, ``shape`` a foreign signature.

    ``owned`` children are built by their caller's capability at the start of each of its runs, and closed at its end.
    """

    number: int
    depth: int
    parent: "Node | None"
    kind: str = "foreign"
    via: str = "tool"
    shape: str = "open"
    owned: bool = False
    policy: ChildPolicy | None = None
    limits: Limits | None = None
    max_depth: int | None = None
    children: "list[Node]" = field(default_factory=list)

    @property
    def name(self) -> str:
        """Unique in the team."""
        return f"c{self.number}"

    @property
    def delegated(self) -> bool:
        """Whether calling it is a delegation; other runs are started directly inside their parent's."""
        return self.parent is not None and self.via not in ("blocking", "awaited")

    def path(self) -> "list[Node]":
        """From the root to here."""
        nodes, node = [], self
        while node is not None:
            nodes.append(node)
            node = node.parent  # type: ignore[assignment]
        return nodes[::-1]


@dataclass(frozen=True, slots=True)
class Act:
    """What a node does in one run: calls children, in rounds, and meets its fault before or after that."""

    fault: str
    early: bool
    flavour: int
    tokens: int
    rounds: tuple[tuple[Node, ...], ...]
    stray: str | None = None
    vetoed: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """One run of a team. ``cancel_after`` counts iterations of the event loop, ``stop_after`` events of a stream."""

    root: Node
    acts: dict[int, Act]
    limits: Limits | None
    max_depth: int | None
    cancel_after: int | None
    stop_after: int | None
    hook: str | None
    observers: tuple[str, ...] = ()

    def stated(self, node: Node) -> tuple[Limits, ...]:
        """The limits that a run of this node states."""
        own = (node.limits, self.limits if node.parent is None else None)
        return tuple(each for each in own if each is not None)

    def ceiling(self, node: Node) -> int:
        """The deepest depth at which what this node calls may run."""
        path = node.path()
        stated = [each.max_depth for each in path if each.max_depth is not None]
        if self.max_depth is not None:
            stated.append(self.max_depth)
        elif path[0].max_depth is None:
            stated.append(2)
        return min(stated)

    def ends_in_time(self, node: Node) -> bool:
        """Whether something of ours ends this node when it hangs.

        The limits of the tree do so everywhere, the time of one child only in what it waits for in its own loop.
        """
        waited_for = True
        for each in reversed(node.path()):
            if waited_for and each.policy is not None and each.policy.timeout is not None:
                return True
            bounded = each is not node or node.kind == "agent"  # the limits of a foreign root bound what is below it
            if bounded and any(limits.timeout is not None for limits in self.stated(each)):
                return True
            waited_for = waited_for and each.via not in LOOSE
        return False


def draw_team(random: Random) -> Node:
    """A team of up to `LARGEST` nodes."""
    root = Node(0, 0, None)
    nodes = [root]
    size = 1 + min(int(random.expovariate(1 / 7)), LARGEST - 1)
    shape = random.choice(("deep", "deep", "wide", "mixed"))
    while len(nodes) < size:
        open_ended = [node for node in nodes if node.depth < DEEPEST and len(node.children) < WIDEST]
        if shape == "deep" and random.random() < 0.7:
            open_ended = open_ended[-1:]
        elif shape == "wide":
            open_ended = open_ended[:2]
        parent = random.choice(open_ended)
        child = Node(len(nodes), parent.depth + 1, parent)
        parent.children.append(child)
        nodes.append(child)
    for node in nodes:
        _settle(random, node)
    return root


def draw_plan(random: Random, root: Node) -> Plan:
    """One run of the team."""
    acts: dict[int, Act] = {}
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting.extend(node.children)
        acts[node.number] = _act(random, node)
    cancel_after = random.randint(1, 150) if random.random() < 0.25 else None
    streamed = root.kind == "agent" and random.random() < 0.12
    stated = random.random() < 0.9 or root.kind != "agent"
    observers = tuple(kind for kind in ("async", "raises") if random.random() < 0.06)
    return Plan(
        root,
        acts,
        draw_limits(random) if random.random() < 0.6 else None,
        random.choice((0, 1, 2, 3, 4, 5, 6, 6, 6, 6, 6, 6, 6, 6)) if stated else None,
        cancel_after,
        random.randint(1, 30) if streamed else None,
        random.choice(HOOKS) if root.kind == "agent" else None,
        observers,
    )


def draw_limits(random: Random) -> Limits:
    """Some limits, many of them tight."""

    def maybe(chance: float, least: int, most: int) -> int | None:
        return random.randint(least, most) if random.random() < chance else None

    return Limits(
        max_delegations=maybe(0.3, 0, 10),
        max_fan_out=maybe(0.2, 0, 5),
        max_concurrency=maybe(0.35, 1, 3),
        max_repeats=maybe(0.2, 1, 2),
        max_model_calls=maybe(0.15, 1, 12),
        max_tokens=maybe(0.1, 0, 60),
        timeout=random.uniform(0.002, 0.012) if random.random() < 0.1 else None,
        max_answer_chars=maybe(0.2, 0, 60),
    )


def _settle(random: Random, node: Node) -> None:
    """Decide what a node is; its parent is decided already."""
    parent = node.parent
    if parent is None:
        node.kind = "agent" if random.random() < 0.7 else "capability"
        if node.kind == "agent" and random.random() < 0.2:
            node.limits = draw_limits(random)
        return
    node.kind = "agent" if random.random() < (0.55 if node.children else 0.3) else "foreign"
    if parent.kind == "agent":
        node.via = random.choices(("tool", "blocking", "awaited"), (8, 1, 1))[0] if node.kind == "agent" else "tool"
    else:
        node.via = random.choices(("inline", "task", "thread", "detached"), (8, 8, 2, 1))[0]
        node.owned = random.random() < 0.3
    if node.kind == "foreign":
        node.shape = random.choice(("open", "bare", "named", "retired", "pieces"))
    if node.kind == "agent" and random.random() < 0.15:
        node.limits = draw_limits(random)
    if (node.kind == "agent" or node.children) and random.random() < 0.1:
        node.max_depth = random.randint(0, DEEPEST)
    if node.delegated and random.random() < 0.3:
        node.policy = _policy(random)


def _policy(random: Random) -> ChildPolicy:
    return ChildPolicy(
        timeout=random.uniform(0.001, 0.005) if random.random() < 0.2 else None,
        max_concurrency=random.randint(1, 2) if random.random() < 0.4 else None,
        retries=random.randint(1, 2) if random.random() < 0.4 else 0,
    )


def _act(random: Random, node: Node) -> Act:
    fault = "answer" if random.random() < 0.55 else random.choice(FAULTS)
    calls: list[Node] = []
    for child in node.children:
        repeated = random.random() < 0.15 and not (child.policy and child.policy.retries)
        calls += [child] * (random.randint(2, 3) if repeated else 1)
    random.shuffle(calls)
    rounds: list[tuple[Node, ...]] = []
    while calls:
        width = random.randint(1, len(calls))
        rounds.append(tuple(calls[:width]))
        del calls[:width]
    return Act(
        fault,
        random.random() < 0.2,
        random.randrange(1 << 16),
        random.randint(0, 9),
        tuple(rounds),
        random.choice(STRAYS) if node.kind == "agent" and random.random() < 0.05 else None,
        random.random() < 0.15,
    )


def told(plan: Plan) -> list[Any]:
    """The plan in lines, for whoever looks into a violation."""
    lines, waiting = [plan.__class__.__name__ + f" limits={plan.limits} max_depth={plan.max_depth}"], [plan.root]
    lines.append(f"  cancel={plan.cancel_after} stop={plan.stop_after} hook={plan.hook} observers={plan.observers}")
    while waiting:
        node = waiting.pop()
        waiting.extend(reversed(node.children))
        act = plan.acts[node.number]
        calls = [[child.name for child in calls] for calls in act.rounds]
        bounds = [str(each) for each in (node.policy, node.limits, node.max_depth) if each is not None]
        owned = " owned" if node.owned else ""
        lines.append(
            f"  {'  ' * node.depth}{node.name}: {node.kind} via {node.via}{owned} {act.fault}/{act.flavour}"
            f"{' early' if act.early else ''} calls={calls} stray={act.stray} {' '.join(bounds)}"
        )
    return lines
