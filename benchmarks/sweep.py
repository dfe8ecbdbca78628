"""Measures one curve of one adapter in one process; curves.py starts it with the venv's own Python.

    python sweep.py NAME {depth,fan_out,conversation,roster,concurrent} --out FILE --sizes 1,10,100

Answers and model calls are checked as in worker.py, and nothing sleeps but the children of ``concurrent``.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib
import json
import time
from functools import partial
from typing import Any

from common import Adapter, Counter, Run, check_delegated, check_fan_out, check_single, key_of
from worker import gather, measure


def depth(adapter: Adapter, size: int) -> tuple[Any, ...]:
    """``size`` delegations below one another."""
    return adapter.chain(size + 1), check_delegated, 2 * size + 1


def fan_out(adapter: Adapter, size: int) -> tuple[Any, ...]:
    """``size`` delegations in one reply."""
    check = partial(check_fan_out, width=size) if size > 1 else check_delegated
    return adapter.fan_out(size, 0.0), check, size + 2


def roster(adapter: Adapter, size: int) -> tuple[Any, ...]:
    """One delegation by a parent that has ``size`` children."""
    return adapter.build(size), check_delegated, 3


def conversation(adapter: Adapter, size: int) -> tuple[Any, ...]:
    """A turn whose model calls a tool that does nothing until the conversation has ``size`` messages.

    This model looks at the first message and at how many there are, so what grows is the library's part.
    """
    make = native_conversation if type(adapter).__name__ == "Symfonic" else bare_conversation
    return make(size), check_single, size // 2


def native_conversation(size: int) -> Run:
    from symfonic import Agent, Options
    from symfonic.kernel.contracts.messages import ToolCall
    from symfonic.kernel.contracts.model import ModelReply
    from symfonic.kernel.contracts.tool import Tool

    class Model:
        async def complete(self, messages: Any, tools: Any) -> ModelReply:
            Counter.calls += 1
            if len(messages) >= size - 1:
                return ModelReply(f"done: {key_of(messages[0].text)}")
            return ModelReply("", (ToolCall(f"call_{len(messages)}", "note", {}),))

    async def note(arguments: Any) -> str:
        return "noted"

    schema = {"type": "object", "properties": {}}
    tools = [Tool("note", "Notes.", schema, note)]
    agent = Agent(Model(), tools=tools, options=Options(max_steps=size))

    async def run(prompt: str) -> str:
        result = await agent.run(prompt)
        assert len(result.messages) == size
        return result.text

    return run


def bare_conversation(size: int) -> Run:
    async def model(messages: list[dict[str, Any]]) -> dict[str, Any]:
        Counter.calls += 1
        if len(messages) >= size - 1:
            return {"role": "assistant", "content": f"done: {key_of(messages[0]['content'])}"}
        return {"role": "assistant", "content": "", "tool_calls": [{"id": f"call_{len(messages)}", "name": "note"}]}

    async def note() -> str:
        return "noted"

    tools = {"note": note}

    async def run(prompt: str) -> str:
        messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
        while True:
            reply = await model(messages)
            messages.append(reply)
            if not reply.get("tool_calls"):
                return reply["content"]
            for call in reply["tool_calls"]:
                messages.append({"role": "tool", "id": call["id"], "content": await tools[call["name"]]()})

    return run


CURVES = {"depth": depth, "fan_out": fan_out, "roster": roster, "conversation": conversation}


async def sweep(adapter: Adapter, options: argparse.Namespace) -> dict[str, Any]:
    points = []
    for size in options.sizes:
        if options.job == "concurrent":
            point = await gather(adapter, size)
            point["growth_kib"] = point["peak_rss_kib"] - point["rss_before_kib"]
        else:
            run, check, calls = CURVES[options.job](adapter, size)
            point = await measure(run, check, calls, options.turns, (options.seconds, 10 * options.seconds), 0.05)
        if options.job == "roster":
            point["build_us"] = build(adapter, size, options.seconds)
        points.append({"size": size, **point})
    return {"points": points}


def build(adapter: Adapter, size: int, seconds: float) -> float:
    """The mean CPU time of the builds that fit into ``seconds``, in microseconds."""
    gc.collect()
    builds, start = 0, time.process_time()
    while not builds or time.process_time() - start < seconds:
        adapter.build(size)
        builds += 1
    return (time.process_time() - start) / builds * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("adapter")
    parser.add_argument("job", choices=(*CURVES, "concurrent"))
    parser.add_argument("--out", required=True)
    parser.add_argument("--sizes", type=lambda text: [int(size) for size in text.split(",")], required=True)
    parser.add_argument("--turns", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.3)
    options = parser.parse_args()
    adapter = importlib.import_module(f"adapters.{options.adapter}").ADAPTER
    adapter.prepare()
    result = asyncio.run(sweep(adapter, options))
    with open(options.out, "w") as out:
        json.dump(result, out)


if __name__ == "__main__":
    main()
