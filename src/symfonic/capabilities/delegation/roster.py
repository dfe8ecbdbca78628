"""The set of children of one agent, each behind its policies."""

from collections.abc import Coroutine, Iterable, Iterator
from typing import Any

from symfonic.capabilities.delegation.active_run import active_run
from symfonic.capabilities.delegation.bounds import ChildPolicy
from symfonic.capabilities.delegation.contracts import RosterEntry
from symfonic.capabilities.delegation.depth import coerce_depth
from symfonic.capabilities.delegation.errors import ChildDeclarationError, UnknownChildError
from symfonic.capabilities.delegation.lineage import current_identity
from symfonic.capabilities.delegation.names import LONGEST_NAME, check_declared, normalised, spelled
from symfonic.capabilities.delegation.policies import Lineage, Start, Watch, fold
from symfonic.capabilities.delegation.runner_adapter import how_to_call
from symfonic.kernel.contracts.text import task_text


class DelegationRoster:
    """Ordered and immutable.

    Raises ChildDeclarationError for an entry without a plain name or a description, and for two entries whose
    names are equal once normalised.
    """

    __slots__ = ("_calls", "_description", "_entries", "_spellings", "_starters")

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
        self._calls = {name: how_to_call(entry.runner) for name, entry in self._entries.items()}
        self._starters = {  # the others at their first delegation; a policy that cannot be kept fails here
            name: fold(self._calls[name], entry.policy)
            for name, entry in self._entries.items()
            if entry.policy is not None
        }
        self._description = "\n".join(map(_line, self._entries.values())) or "  (none)"

    def names(self) -> tuple[str, ...]:
        """The declared names, in order."""
        return tuple(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, name: object) -> bool:
        if type(name) is str:
            return name in self._entries
        return issubclass(type(name), str) and task_text(name) in self._entries

    def __iter__(self) -> Iterator[RosterEntry]:
        return iter(self._entries.values())

    def policy(self, name: str) -> ChildPolicy | None:
        """What holds for the child of exactly this name."""
        return self._entries[name].policy

    def resolve(self, text: Any) -> str | None:
        """The one declared name that a model's spelling means, or None.

        Exact, else equal once normalised and stripped of surrounding quotes, brackets and blanks.
        """
        if type(text) is str and text in self._entries:
            return text
        spelling = spelled(text)
        if len(spelling) > LONGEST_NAME:
            return None  # and nothing to normalise, which takes long
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
        watch: Watch | None = None,
    ) -> Any:
        """Run a child inside a scope of its own and return what it returns.

        The scope (depth, scope, a child identity under the given lineage) is opened around every runner, so that
        lineage and the ceiling hold also for a child whose signature cannot take them. ``watch`` is told of
        it from inside, once for each attempt. Raises UnknownChildError, before anything else happens, if
        ``name`` is not exactly a declared one, and whatever the child raises.
        """
        if name not in self:
            raise UnknownChildError(name, self.names())
        caller = current_identity() if root_run_id is None and parent_run_id is None else None
        if caller is not None:
            root_run_id, parent_run_id = caller.root_run_id, caller.run_id
        return await self.started(
            name, task_text(task), scope, coerce_depth(depth), (root_run_id, parent_run_id), watch
        )

    def started(
        self, name: str, task: str, scope: Any, depth: int, lineage: Lineage, watch: Watch | None
    ) -> Coroutine[Any, Any, Any]:
        """What `run` awaits, for a name that is declared."""
        around = active_run()
        if around is not None and depth <= around.depth:  # also when called past the tools, a child is below its caller
            depth = around.depth + 1
        start = self._starters.get(name)
        if start is None:
            start = self._starters[name] = fold(self._calls[name], None)
        return start(Start(name, task, scope, depth, lineage, watch, around))


def _line(entry: RosterEntry) -> str:
    guidance = f" ({entry.when_to_use})" if entry.when_to_use else ""
    return f"  - {entry.name}: {entry.description}{guidance}"
