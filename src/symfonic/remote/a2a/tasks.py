"""The tasks of a server, each its user's own: those that go on, and the latest of those that have ended."""

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from symfonic.remote.a2a.extension import theirs
from symfonic.remote.reception import REMEMBERED

KEPT = 2 * REMEMBERED
"""Tasks that have ended and can still be asked for; more than there are answers that a reception remembers."""


class Tasks:
    """The SDK's store in memory, which alone would keep every task for ever.

    ``forgotten`` is told the id of a task that is gone.
    """

    def __init__(self, forgotten: Callable[[str], None]) -> None:
        self._store = theirs("a2a.server.tasks").InMemoryTaskStore()
        self._final = theirs("a2a.server.agent_execution.active_task").TERMINAL_TASK_STATES
        self._ended: OrderedDict[str, Any] = OrderedDict()
        self._forgotten = forgotten

    async def save(self, task: Any, context: Any) -> None:
        """Keep it as it is now."""
        await self._store.save(task, context)
        if task.status.state in self._final:
            # of the context only the user: it has the caller's headers, and with them its token
            self._ended[task.id] = type(context)(user=context.user)
            while len(self._ended) > KEPT:
                task_id, owner = self._ended.popitem(last=False)
                await self.delete(task_id, owner)

    async def get(self, task_id: str, context: Any) -> Any:
        """The task, or None where this user has none of that id."""
        return await self._store.get(task_id, context)

    async def list(self, params: Any, context: Any) -> Any:
        """This user's tasks."""
        return await self._store.list(params, context)

    async def delete(self, task_id: str, context: Any) -> None:
        """Forget it."""
        await self._store.delete(task_id, context)
        self._forgotten(task_id)
