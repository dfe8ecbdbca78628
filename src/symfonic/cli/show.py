"""``symfonic show``: what a team file declares, as its models will read it."""

from collections.abc import Iterator

from symfonic.teams import Team

DEFAULT_CEILING = 2


def describe(team: Team) -> Iterator[str]:
    """The lines to print: each agent, then who may reach whom at which depth."""
    spec = team.spec
    yield f"{spec.file}: {len(spec.agents)} agent(s), lead {spec.lead}"
    for path in sorted(spec.agents, key=lambda path: path != spec.lead):
        yield ""
        yield from _agent(team, path)
    yield ""
    yield "Who reaches whom (a child may run down to the ceiling, and not below):"
    yield from _reach(team)


def _agent(team: Team, path: str) -> Iterator[str]:
    agent, bounds = team.spec.agents[path], team.spec.agents[path].bounds
    yield f"{path} (lead)" if path == team.spec.lead else path
    yield f"  model: {agent.model}"
    if agent.instructions:
        yield f"  instructions: {agent.instructions.strip().replace(chr(10), chr(10) + '    ')}"
    yield f"  max_depth: {'as its caller' if bounds.max_depth is None else bounds.max_depth}"
    if bounds.max_steps is not None:
        yield f"  max_steps: {bounds.max_steps}"
    if agent.tools:
        yield f"  tools: {', '.join(agent.tools)}"
    delegation = team.agents[path].engine.delegation
    if delegation is not None:
        yield "  sub-agents, as its model reads them:"
        yield delegation.roster.describe()


def _reach(team: Team) -> Iterator[str]:
    """The tree from the root down to the ceiling. What was drawn once at the same depth and ceiling is not repeated."""
    agents = team.spec.agents
    root = agents[team.spec.lead]
    ceiling = DEFAULT_CEILING if root.bounds.max_depth is None else root.bounds.max_depth
    drawn: set[tuple[str, int, int]] = set()
    todo: list[tuple[str, int, tuple[str, ...]]] = [(root.path, ceiling, (root.path,))]
    while todo:
        path, ceiling, trail = todo.pop()
        depth = len(trail) - 1
        notes = [f"depth {depth}", f"ceiling {ceiling}"]
        children = agents[path].children
        if path in trail[:-1]:
            notes.append("cycle: the depth bounds it")
        elif children and depth >= ceiling:
            notes.append("cannot delegate here: at the ceiling")
        elif children and (path, depth, ceiling) in drawn:
            notes.append("its sub-agents: see above")
        else:
            drawn.add((path, depth, ceiling))
            for child in reversed(children):
                own = agents[child.path].bounds.max_depth
                todo.append((child.path, ceiling if own is None else min(own, ceiling), (*trail, child.path)))
        yield f"{'  ' * depth}{agents[path].card.name}  ({', '.join(notes)})"
