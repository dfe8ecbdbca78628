"""The library under test, as users get it: `Agent`, `SubAgent` and a native model, with nothing switched off."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from common import Adapter, Run, Script, answering, call_id, delegating
from symfonic import Agent, SubAgent
from symfonic.kernel.contracts.messages import Message, ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.tool import Tool


class ScriptModel:
    """Answers from a script."""

    def __init__(self, script: Script) -> None:
        self.script = script

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelReply:
        user = ""
        results = []
        for message in messages:
            if message.role == "user":
                user = message.text
            elif message.role == "tool":
                results.append(message.text)
        reply = await self.script(user, results)
        if isinstance(reply, str):
            return ModelReply(reply)
        calls = [ToolCall(call_id(), "run_agent", {"name": name, "task": task}) for name, task in reply]
        return ModelReply("", tuple(calls))


class Turn:
    """A turn of ``agent``: its answer, and no more, is what the benchmark looks at."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    async def __call__(self, prompt: str) -> str:
        return (await self.agent.run(prompt)).text


def make(name: str, script: Script, *children: SubAgent, depth: int | None = None) -> Agent:
    return Agent(ScriptModel(script), name=name, instructions=f"You are {name}.", sub_agents=children, max_depth=depth)


def sub(name: str, agent: Agent) -> SubAgent:
    return SubAgent(name, agent, f"Delegate a task to {name}.")


class Scenarios:
    """The scenarios over ``make(name, script, *children, depth=None)``, which builds an agent."""

    make: Callable[..., Agent]

    def single(self) -> Run:
        return Turn(self.make("solo", answering()))

    def delegation(self, child_sleep: float = 0.0) -> Run:
        return Turn(
            self.make("parent", delegating("worker"), sub("worker", self.make("worker", answering(child_sleep))))
        )

    def fan_out(self, width: int, child_sleep: float) -> Run:
        worker = sub("worker", self.make("worker", answering(child_sleep)))
        return Turn(self.make("parent", delegating("worker", width), worker))

    def chain(self, agents: int) -> Run:
        agent = self.make(f"agent{agents - 1}", answering())
        for i in range(agents - 2, -1, -1):
            name = f"agent{i + 1}"
            agent = self.make(f"agent{i}", delegating(name), sub(name, agent), depth=agents - 1)
        return Turn(agent)

    def build(self, children: int) -> Run:
        kids = [sub(f"child{i}", self.make(f"child{i}", answering())) for i in range(children)]
        return Turn(self.make("parent", delegating("child0"), *kids))


class Symfonic(Scenarios, Adapter):
    title = "symfonic"
    venv = "symfonic"
    distributions = ("symfonic-delegation",)
    import_statement = "import symfonic"
    ready_statement = """from symfonic import Agent, SubAgent
class Model:
    async def complete(self, messages, tools): ...
Agent(Model())"""
    notes = (
        "Agent with SubAgents, called through run_agent; a native model.",
        "max_depth raised for chain (its default is 2); nothing else is set.",
    )

    make = staticmethod(make)


ADAPTER = Symfonic()
