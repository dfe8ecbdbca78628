"""The lower limit: an agent loop written by hand, with no framework at all."""

from __future__ import annotations

import asyncio
from typing import Any

from common import Adapter, Run, Script, answering, call_id, delegating

Message = dict[str, Any]


class Agent:
    """A system prompt, a model, and a dict of named children."""

    __slots__ = ("children", "name", "script", "system")

    def __init__(self, name: str, script: Script, *children: Agent) -> None:
        self.name = name
        self.script = script
        self.system = f"You are {name}."
        self.children = {child.name: child.run for child in children}

    async def run(self, prompt: str) -> str:
        messages: list[Message] = [
            {"role": "system", "content": self.system},
            {"role": "user", "content": prompt},
        ]
        while True:
            reply = await model(self.script, messages)
            messages.append(reply)
            calls = reply.get("tool_calls")
            if not calls:
                return reply["content"]
            if len(calls) == 1:
                outputs = [await self.children[calls[0]["name"]](calls[0]["task"])]
            else:
                outputs = await asyncio.gather(*(self.children[call["name"]](call["task"]) for call in calls))
            for call, output in zip(calls, outputs, strict=True):
                messages.append({"role": "tool", "id": call["id"], "content": output})


async def model(script: Script, messages: list[Message]) -> Message:
    user = ""
    results = []
    for message in messages:
        if message["role"] == "user":
            user = message["content"]
        elif message["role"] == "tool":
            results.append(message["content"])
    reply = await script(user, results)
    if isinstance(reply, str):
        return {"role": "assistant", "content": reply}
    calls = [{"id": call_id(), "name": name, "task": task} for name, task in reply]
    return {"role": "assistant", "content": "", "tool_calls": calls}


class Floor(Adapter):
    title = "floor (bare asyncio)"
    import_statement = "import asyncio"
    notes = ("Hand-written loop over a dict of coroutines; no framework, no validation.",)

    def single(self) -> Run:
        return Agent("solo", answering()).run

    def delegation(self, child_sleep: float = 0.0) -> Run:
        return Agent("parent", delegating("worker"), Agent("worker", answering(child_sleep))).run

    def fan_out(self, width: int, child_sleep: float) -> Run:
        worker = Agent("worker", answering(child_sleep))
        return Agent("parent", delegating("worker", width), worker).run

    def chain(self, agents: int) -> Run:
        agent = Agent(f"agent{agents - 1}", answering())
        for i in range(agents - 2, -1, -1):
            agent = Agent(f"agent{i}", delegating(agent.name), agent)
        return agent.run

    def build(self, children: int) -> Run:
        kids = (Agent(f"child{i}", answering()) for i in range(children))
        return Agent("parent", delegating("child0"), *kids).run


ADAPTER = Floor()
