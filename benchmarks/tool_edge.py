"""What one langchain-core tool costs to build and to call, by how it is declared.

    VENV/bin/python tool_edge.py        (the venv "langchain-core" will do)

Each tool takes a task and returns a text at once; the call is the one an agent
loop makes, ``await tool.ainvoke(tool_call)``.
"""

import asyncio
import statistics
import time
from typing import Any

from langchain_core.tools import BaseTool, StructuredTool
from pydantic import BaseModel

from fake_langchain import tracing_off


class Arguments(BaseModel):
    task: str


SCHEMA = {
    "title": "worker",
    "type": "object",
    "properties": {"task": {"type": "string"}},
    "required": ["task"],
}


async def plain(task: str) -> str:
    return f"done: {task}"


async def strings(task: "str") -> "str":
    return f"done: {task}"


async def bare(**arguments):
    return f"done: {arguments['task']}"


class Subclass(BaseTool):
    name: str = "worker"
    description: str = "A worker."
    args_schema: Any = Arguments

    def _run(self, task: str) -> str:
        raise NotImplementedError

    async def _arun(self, task: str) -> str:
        return f"done: {task}"


class BareSubclass(BaseTool):
    name: str = "worker"
    description: str = "A worker."
    args_schema: Any = SCHEMA

    def _run(self, **arguments):
        raise NotImplementedError

    async def _arun(self, **arguments):
        return f"done: {arguments['task']}"


COMMON = {"name": "worker", "description": "A worker."}
WAYS = {
    "from_function, string annotations": lambda: StructuredTool.from_function(coroutine=strings, **COMMON),
    "from_function": lambda: StructuredTool.from_function(coroutine=plain, **COMMON),
    "from_function, args_schema=Model": lambda: StructuredTool.from_function(
        coroutine=plain, args_schema=Arguments, **COMMON
    ),
    "from_function, args_schema=dict": lambda: StructuredTool.from_function(
        coroutine=plain, args_schema=SCHEMA, infer_schema=False, **COMMON
    ),
    "StructuredTool(), args_schema=Model": lambda: StructuredTool(coroutine=plain, args_schema=Arguments, **COMMON),
    "StructuredTool(), args_schema=dict": lambda: StructuredTool(coroutine=plain, args_schema=SCHEMA, **COMMON),
    "StructuredTool(), dict, **kwargs unannotated": lambda: StructuredTool(
        coroutine=bare, args_schema=SCHEMA, **COMMON
    ),
    "BaseTool subclass, args_schema=Model": Subclass,
    "BaseTool subclass, dict, **kwargs unannotated": BareSubclass,
}


async def call(tool: Any, count: int) -> float:
    request = {"name": "worker", "args": {"task": "x"}, "id": "call_1", "type": "tool_call"}
    start = time.perf_counter()
    for _ in range(count):
        message = await tool.ainvoke(request)
    took = time.perf_counter() - start
    assert message.text == "done: x", message
    return took / count * 1e6


def build(way: Any, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        way()
    return (time.perf_counter() - start) / count * 1e6


async def main() -> None:
    tracing_off()
    calls: dict[str, list[float]] = {name: [] for name in WAYS}
    builds: dict[str, list[float]] = {name: [] for name in WAYS}
    for number in range(8):
        for name, way in WAYS.items():
            calls[name].append(await call(way(), 300))
            builds[name].append(build(way, 50))
            if number == 0:  # warm-up
                calls[name].clear()
                builds[name].clear()
    print("| tool | build µs | ainvoke µs |\n|---|---|---|")
    for name in WAYS:
        print(f"| {name} | {statistics.median(builds[name]):.0f} | {statistics.median(calls[name]):.0f} |")


if __name__ == "__main__":
    asyncio.run(main())
