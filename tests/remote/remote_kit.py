"""A loopback wire: two sides in one process, each in a context of its own, with nothing but JSON text between them.

``together`` is what one process is that both sends and receives. ``apart`` keeps what each side has out from the other,
as two processes do.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextvars import Context, ContextVar
from dataclasses import dataclass, field
from typing import Any

import pytest

from symfonic import Agent, SubAgent
from symfonic.capabilities.delegation import ChildResponse, DelegationRecord
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.kernel.concurrency.tasks import run_inside
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.messages import Message
from symfonic.kernel.contracts.model import ModelReply
from symfonic.remote import crossing
from symfonic.remote.answer import Answer
from symfonic.remote.crossing import leaving
from symfonic.remote.envelope import Envelope
from symfonic.remote.reception import Reception
from symfonic.testing import FunctionModel, tool_call

LINEAGE = {"run_id": "run", "root_run_id": "root", "parent_run_id": "root", "via": ["run"]}
SENT: dict[str, Any] = {"agent": "worker", "task": "work", "lineage": LINEAGE, "depth": 1}

side: ContextVar[str] = ContextVar("kit_side", default="near")

Lie = Callable[[dict[str, Any]], dict[str, Any]]


class _OutOfEach(dict[str, Any]):
    """The calls that are out, of the side that asks."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, Any]] = {}

    def _mine(self) -> dict[str, Any]:
        return self.of.setdefault(side.get(), {})

    def get(self, key: str, default: Any = None) -> Any:
        return self._mine().get(key, default)

    def values(self) -> Any:
        return self._mine().values()

    def __getitem__(self, key: str) -> Any:
        return self._mine()[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self._mine()[key] = value

    def __delitem__(self, key: str) -> None:
        del self._mine()[key]

    def __contains__(self, key: object) -> bool:
        return key in self._mine()

    def __len__(self) -> int:
        return sum(map(len, self.of.values()))


@pytest.fixture(params=["together", "apart"])
def sides(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Both ways to be two sides; afterwards nothing is out."""
    out: dict[str, Any] = _OutOfEach() if request.param == "apart" else {}
    monkeypatch.setattr(crossing, "_out", out)
    yield request.param
    assert not len(out)


def as_floats(value: Any) -> Any:
    """What a wire makes of it that knows no whole numbers."""
    if isinstance(value, dict):
        return {key: as_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [as_floats(item) for item in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@dataclass
class Far:
    """A child on another side: the agent of a reception there. ``lie`` and ``mislead`` change what goes and comes."""

    reception: Reception
    agent: str = "worker"
    there: str = "far"
    lie: Lie = dict
    mislead: Lie = dict
    sent: list[Envelope] = field(default_factory=list)
    came: list[Answer] = field(default_factory=list)

    async def run(self, query: str) -> ChildResponse:
        with leaving(self.agent, query) as out:
            self.sent.append(out.envelope)
            text = json.dumps(as_floats(self.lie(json.loads(out.envelope.text_of()))))
            told = await run_inside(Context(), arrives(self.reception, text, self.there))
            self.came.append(Answer.read(json.dumps(self.mislead(json.loads(told)))))
            return out.returned(self.came[-1])


async def arrives(reception: Reception, text: str, there: str = "far") -> str:
    """What a side says to a message."""
    side.set(there)
    answer = await reception.answer(Envelope.read(text))
    return json.dumps(as_floats(json.loads(answer.text_of())))


async def told(reception: Reception, there: str = "far", **sent: Any) -> Answer:
    """The answer to a message that is `SENT` but for these fields."""
    text = json.dumps({**SENT, **sent})
    return Answer.read(await run_inside(Context(), arrives(reception, text, there)))


def lineage(**fields: Any) -> dict[str, Any]:
    """The lineage of `SENT` but for these fields."""
    return {**LINEAGE, **fields}


@dataclass
class Seen:
    """A child that answers with ``act(query)``, and keeps the runs it was and what each might still spend."""

    act: Callable[[str], Any] | None = None
    runs: list[ActiveRun] = field(default_factory=list)
    left: list[Limits | None] = field(default_factory=list)
    tasks: list[str] = field(default_factory=list)

    async def run(self, query: str) -> Any:
        run = active_run()
        assert run is not None
        self.runs.append(run)
        self.left.append(run.budget.left() if run.budget else None)
        self.tasks.append(query)
        answer = "seen" if self.act is None else await self.act(query)
        return ChildResponse(answer) if isinstance(answer, str) else answer


def says(text: str = "done", read: int = 0, written: int = 0, **options: Any) -> Agent:
    """An agent whose one model call costs so much."""
    return Agent(FunctionModel(lambda *_: ModelReply(text, (), read, written)), **options)


def asks(*asked: tuple[str, str] | Sequence[tuple[str, str]], children: dict[str, Any], **options: Any) -> Agent:
    """An agent that gives tasks to children, one reply after another; a list of them goes into one reply.

    A child is a runner, or a whole SubAgent. Each of its model calls costs 10 tokens.
    """

    def reply(messages: Sequence[Message], tools: Any) -> ModelReply:
        step = sum(message.role == "assistant" for message in messages)
        if step == len(asked):
            return ModelReply(messages[-1].text, (), 6, 4)
        these: Any = asked[step] if isinstance(asked[step], list) else [asked[step]]
        calls = [tool_call("run_agent", name=name, task=task) for name, task in these]
        numbered = tuple(type(call)(f"c{step}{n}", call.name, call.arguments) for n, call in enumerate(calls))
        return ModelReply("", numbered, 6, 4)

    subs = [
        child if isinstance(child, SubAgent) else SubAgent(name, child, f"Does {name}.")
        for name, child in children.items()
    ]
    return Agent(FunctionModel(reply), sub_agents=subs, **options)


def tree(records: Sequence[DelegationRecord]) -> list[tuple[Any, ...]]:
    """What must be the same wherever a tree is looked at."""
    return [(each.name, each.outcome.value, each.depth, each.message, tree(each.children)) for each in records]
