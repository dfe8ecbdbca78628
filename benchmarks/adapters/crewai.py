"""CrewAI: a crew whose first agent uses the built-in "delegate work to coworker" tool."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.update(
    CREWAI_DISABLE_TELEMETRY="true",
    CREWAI_DISABLE_TRACKING="true",
    CREWAI_TRACING_ENABLED="false",
    OTEL_SDK_DISABLED="true",
)

from crewai import Agent, BaseLLM, Crew, Task

from common import (
    Adapter,
    Run,
    Script,
    Unsupported,
    answering,
    call_id,
    delegating,
    run_now,
    spreading,
)


class FakeLLM(BaseLLM):
    script: Any = None
    sleep: float = 0.0

    def call(self, messages: Any, *args: Any, **kwargs: Any) -> Any:
        user = ""
        results = []
        for message in messages:
            if message["role"] == "user":
                user = message["content"]
            elif message["role"] == "tool":
                results.append(message["content"])
        if self.sleep:
            time.sleep(self.sleep)
        reply = run_now(self.script(user, results))
        if isinstance(reply, str):
            return reply
        return [
            {
                "id": call_id(),
                "type": "function",
                "function": {
                    "name": "delegate_work_to_coworker",
                    "arguments": json.dumps({"task": task, "context": "", "coworker": target}),
                },
            }
            for target, task in reply
        ]

    def supports_function_calling(self) -> bool:
        return True


def agent(name: str, script: Script, sleep: float = 0.0, delegate: bool = False) -> Agent:
    return Agent(
        role=name,
        goal=f"Take tasks as {name}.",
        backstory=f"You are {name}.",
        llm=FakeLLM(model="fake", script=script, sleep=sleep),
        allow_delegation=delegate,
    )


def crew(script: Script, *workers: Agent) -> Crew:
    first = agent("parent", script, delegate=bool(workers))
    task = Task(description="{prompt}", expected_output="A text.", agent=first)
    return Crew(agents=[first, *workers], tasks=[task], verbose=False)


def runner(team: Crew) -> Run:
    async def run(prompt: str) -> str:
        return (await team.kickoff_async(inputs={"prompt": prompt})).raw

    return run


class CrewAI(Adapter):
    title = "crewai"
    venv = "crewai"
    distributions = ("crewai",)
    import_statement = "from crewai import Agent, Crew, Task"
    notes = (
        "A crew of parent and workers with allow_delegation on the parent; its model calls the "
        "built-in delegate_work_to_coworker tool. Run with kickoff_async (a thread).",
        "Synchronous: children sleep with time.sleep; fan_out uses 16 coworkers, concurrent one "
        "thread and one fresh crew for every turn, and 100 turns only (1000 take minutes).",
        "Every kickoff writes its task outputs to an SQLite file below the home folder (default).",
        "Telemetry and tracing are on by default and call home; off here (environment variables).",
    )
    fresh_parent_per_turn = True
    concurrent_turns = 100
    pool: ThreadPoolExecutor | None = None

    def prepare(self) -> None:
        logging.getLogger("crewai").setLevel(logging.ERROR)

    def single(self) -> Run:
        return runner(crew(answering()))

    def delegation(self, child_sleep: float = 0.0) -> Run:
        return runner(crew(delegating("worker"), agent("worker", answering(), child_sleep)))

    def concurrent(self, child_sleep: float) -> Run:
        if self.pool is None:
            self.pool = ThreadPoolExecutor(1000)
        team = crew(delegating("worker"), agent("worker", answering(), child_sleep))

        async def run(prompt: str) -> str:
            loop = asyncio.get_running_loop()
            result = await loop.run_in_executor(self.pool, lambda: team.kickoff(inputs={"prompt": prompt}))
            return result.raw

        return run

    def fan_out(self, width: int, child_sleep: float) -> Run:
        names = [f"worker{i}" for i in range(width)]
        workers = (agent(name, answering(), child_sleep) for name in names)
        return runner(crew(spreading(names), *workers))

    def chain(self, agents: int) -> Run:
        raise Unsupported("a coworker gets no delegation tool of its own, so one level only")

    def build(self, children: int) -> Run:
        kids = (agent(f"child{i}", answering()) for i in range(children))
        return runner(crew(delegating("child0"), *kids))


ADAPTER = CrewAI()
