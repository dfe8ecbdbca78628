"""What holds for an agent of any framework that does one thing at a time.

``calling(function)`` makes such an agent: for each task it calls a tool that is this function, and then says "done".
"""

import asyncio
import threading
from typing import Any

from adapter_kit import Calling, ask

from symfonic import Limits, SubAgent, delegation
from symfonic.testing import ScriptedChild

REFUSED = "is in the middle of a task that waits for this one"


class Work:
    """A tool, and how many were in it at once; the first one looks whether another comes in."""

    def __init__(self) -> None:
        self.inside = self.most = self.calls = 0
        another = threading.Event()

        def work() -> str:
            """Work."""
            self.inside, self.calls = self.inside + 1, self.calls + 1
            self.most = max(self.most, self.inside)
            if self.calls == 1:
                another.wait(timeout=0.3)
            else:
                another.set()
            self.inside -= 1
            return "worked"

        self.tool = work


async def called_twice_at_once_it_takes_one_after_the_other(
    children: dict[str, Any], work: Work, limits: Limits | None = None
) -> Any:
    """The run of these children, each of which is asked twice."""
    capability = delegation([SubAgent(name, child, "Works.") for name, child in children.items()], limits=limits)
    async with capability.run_scope() as run, asyncio.timeout(20):
        texts = await asyncio.gather(*[ask(capability, name, name) for name in [*children] * 2])
    assert texts == ["done"] * 2 * len(children)
    assert work.most == 1
    return run


async def those_who_wait_for_a_turn_hold_no_place(calling: Calling) -> None:
    other = delegation([SubAgent("other", ScriptedChild("yes"), "Helps.")])

    def help_me() -> str:
        """Ask for help."""
        return asyncio.run(ask(other, "other"))

    capability = delegation([SubAgent("child", calling(help_me), "Works.")], limits=Limits(max_concurrency=1))
    async with capability.run_scope() as run, asyncio.timeout(20):
        assert await asyncio.gather(*[ask(capability) for _ in range(3)]) == ["done"] * 3
    assert run.tally.total == 6


async def called_from_below_itself_it_is_refused(calling: Calling) -> str:
    """What was said."""
    texts: list[str] = []

    def again() -> str:
        """Ask itself."""
        texts.append(asyncio.run(ask(capability)))
        return texts[-1]

    capability = delegation([SubAgent("child", calling(again), "Works.")])
    async with asyncio.timeout(20):
        assert await ask(capability) == "done"
    assert f"'child' {REFUSED}" in texts[0]
    return texts[0]


async def two_that_call_each_other_do_not_wait_for_ever(*calling: Calling) -> None:
    both, texts, begun = threading.Barrier(2, timeout=20), [], set[str]()

    def that_calls(make: Calling, me: str, other: str) -> Any:
        def call() -> str:
            """Ask the other, the first time."""
            if me not in begun:
                begun.add(me)
                both.wait()
                texts.append(asyncio.run(ask(capability, other)))
            return "called"

        return make(call)

    pairs = zip((calling[0], calling[-1]), ("ann", "bob"), ("bob", "ann"), strict=True)
    capability = delegation([SubAgent(me, that_calls(make, me, other), "Works.") for make, me, other in pairs])
    async with asyncio.timeout(20):
        assert await asyncio.gather(ask(capability, "ann"), ask(capability, "bob")) == ["done", "done"]
    assert sorted(REFUSED in text for text in texts) == [False, True], texts
