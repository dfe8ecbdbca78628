"""The set of children of one agent, and the one place where a child's scope is opened."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from symfonic.capabilities.delegation.context import ActiveRun, RunScope, active_run
from symfonic.capabilities.delegation.contracts import RosterEntry
from symfonic.capabilities.delegation.depth import coerce_depth
from symfonic.capabilities.delegation.errors import ChildDeclarationError, UnknownChildError
from symfonic.capabilities.delegation.names import check_declared, normalised, spelled
from symfonic.capabilities.delegation.runner_adapter import plan_call
from symfonic.kernel.contracts.text import task_text


class DelegationRoster:
    """Ordered and immutable.

    Raises ChildDeclarationError for an entry without a plain name or a description, and for two entries whose
    names are equal once normalised.
    """

    __slots__ = ("_description", "_entries", "_plans", "_spellings")

    def __init__(self, entries: Iterable[RosterEntry]) -> None:
        self._entries: dict[str, RosterEntry] = {}
        self._spellings: dict[str, str] = {}
        for entry in entries:
            check_declared(entry.name, entry.description)
            other = self._spellings.setdefault(normalised(entry.name), entry.name)
            if entry.name in self._entries:
                raise ChildDeclarationError(f"two sub-agents are named {entry.name!r}")
            if other != entry.name:
                raise ChildDeclarationError(
                    f"the sub-agent names {other!r} and {entry.name!r} are the same once normalised"
                    " (case, width, '_' and '-' do not tell names apart)"
                )
            self._entries[entry.name] = entry
        self._plans = {name: plan_call(entry.runner) for name, entry in self._entries.items()}
        self._description = "\n".join(map(_line, self._entries.values())) or "  (none)"

    def names(self) -> tuple[str, ...]:
        """The declared names, in order."""
        return tuple(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._entries

    def __iter__(self) -> Iterator[RosterEntry]:
        return iter(self._entries.values())

    def resolve(self, text: Any) -> str | None:
        """The one declared name that a model's spelling means, or None.

        Exact, else equal once normalised and stripped of surrounding quotes, brackets and blanks.
        """
        spelling = spelled(text)
        return spelling if spelling in self._entries else self._spellings.get(normalised(spelling))

    def describe(self) -> str:
        """One line a child, with the users' text verbatim."""
        return self._description

    async def run(
        self,
        name: str,
        task: Any,
        *,
        scope: Any = None,
        depth: Any,
        root_run_id: str | None = None,
        parent_run_id: str | None = None,
        opened: Callable[[ActiveRun], None] | None = None,
    ) -> Any:
        """Run a child inside a scope of its own and return what it returns.

        The scope (depth, scope, a child identity under the given lineage) is opened around every runner, so that
        lineage and the ceiling hold also for a child whose signature cannot take them. ``opened`` is told of it
        before the child starts. Raises UnknownChildError, before anything else happens, if ``name`` is not
        exactly a declared one, and whatever the child raises.
        """
        if name not in self:
            raise UnknownChildError(name, self.names())
        from symfonic.kernel.contracts.run_identity import RunIdentity, current_run_identity, run_identity_scope

        depth = coerce_depth(depth)
        enclosing = active_run()
        if enclosing is not None:  # also when called past the tools, a child is below its caller
            depth = max(depth, enclosing.depth + 1)
        caller = current_run_identity()
        if caller is not None and root_run_id is None and parent_run_id is None:
            root_run_id, parent_run_id = caller.root_run_id, caller.run_id
        query = task_text(task)
        identity = RunIdentity.under(root_run_id, parent_run_id)
        with run_identity_scope(identity), RunScope(depth=depth, scope=scope) as run:
            run.offer()
            if opened is not None:
                opened(run)
            context = {
                "scope": run.scope,
                "agent_depth": depth,
                "root_run_id": root_run_id,
                "parent_run_id": parent_run_id,
            }
            return await self._plans[name].call(self._entries[name].runner, query, context)


def _line(entry: RosterEntry) -> str:
    guidance = f" ({entry.when_to_use})" if entry.when_to_use else ""
    return f"  - {entry.name}: {entry.description}{guidance}"
