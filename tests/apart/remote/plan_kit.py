"""An agent that does what its task says, and writes down what its tools did, for tests of any boundary."""

import asyncio
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from symfonic import Agent, AgentRef, SubAgent
from symfonic.capabilities.delegation.active_run import active_run
from symfonic.kernel.contracts.messages import Message
from symfonic.kernel.contracts.model import ModelReply
from symfonic.testing import FunctionModel, tool_call

PATIENCE = 20.0
OWN_CEILING = 6
"""How deep such an agent lets others run, where its caller does not say less."""


class Planned:
    """An agent that does what its task, a program in JSON, says.

    ``{"say": TEXT}`` answers, ``{"fail": TEXT}`` fails, ``{"tool": NAME}`` answers with what a tool returns, and
    ``{"calls": [...]}`` delegates and answers with what was said, as a list: a call is for the child that its ``child``
    names, for ``next`` if it says ``to`` where, and else for ``below``, which is this agent again.
    """

    def __init__(self, journal: Path, *others: SubAgent, name: str = "worker") -> None:
        self._journal = journal
        self.agent: Agent = Agent(
            FunctionModel(self._reply),
            name=name,
            tools=[self.where, self.hang, self.linger, self.count, self.die],
            sub_agents=[SubAgent("below", AgentRef(lambda: self.agent), "Is this agent again."), *others],
            max_depth=OWN_CEILING,
        )

    def note(self, **line: Any) -> None:
        run = active_run()
        assert run is not None
        assert run.identity is not None
        line |= {"pid": os.getpid(), "run_id": run.identity.run_id, "depth": run.depth, "at": time.monotonic()}
        with self._journal.open("a") as journal:
            journal.write(json.dumps(line) + "\n")

    async def where(self) -> str:
        """Say where this runs."""
        run = active_run()
        assert run is not None
        assert run.identity is not None
        found = {"pid": os.getpid(), "depth": run.depth, "max_depth": run.max_depth, "run_id": run.identity.run_id}
        left = run.budget.left() if run.budget is not None else None
        limits = {"delegations": left.max_delegations, "timeout": left.timeout} if left else {}
        ids = {"root": run.identity.root_run_id, "parent": run.identity.parent_run_id}
        return json.dumps(found | ids | limits)

    async def hang(self) -> str:
        """Wait for ever."""
        self.note(did="began")
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.note(did="ended")
            raise
        return "never"

    async def linger(self) -> str:
        """Wait for ever, and take a second to end."""
        self.note(did="began")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        end = time.monotonic() + 1
        while (left := end - time.monotonic()) > 0:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(left)
        self.note(did="ended")
        raise asyncio.CancelledError

    async def count(self) -> str:
        """Count one more, and wait until the file ``go`` is there."""
        self.note(did="counted")
        await until(self._journal.with_suffix(".go").exists)
        return "counted"

    async def die(self) -> str:
        """End the process."""
        self.note(did="died")
        os._exit(9)

    def _reply(self, messages: Sequence[Message], tools: Any) -> Any:
        last = max(number for number, each in enumerate(messages) if each.role == "user")
        answers = [each.text for each in messages[last + 1 :] if each.role == "tool"]
        plan = json.loads(messages[last].text)
        usage = {"input_tokens": plan.get("tokens", 0), "output_tokens": 0}
        if "say" in plan:
            return ModelReply(plan["say"], **usage)
        if "fail" in plan:
            return OSError(plan["fail"])
        if answers:
            return ModelReply(answers[0] if "tool" in plan else json.dumps(answers), **usage)
        if "tool" in plan:
            return tool_call(plan["tool"])
        return [tool_call("run_agent", name=whom(call), task=json.dumps(call)) for call in plan["calls"]]


def whom(call: dict[str, Any]) -> str:
    return str(call.get("child", "next" if "to" in call else "below"))


def program(task: Any) -> str:
    return task if isinstance(task, str) else json.dumps(task)


async def until(true: Callable[[], Any], seconds: float = PATIENCE) -> None:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        await asyncio.sleep(0.01)


def written(journal: Path) -> list[dict[str, Any]]:
    """What the tools have written down, oldest first."""
    return [json.loads(line) for line in journal.read_text().splitlines()] if journal.exists() else []
