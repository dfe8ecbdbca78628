"""What models are shown is the plan's own, and they cannot change it."""

import asyncio
import copy
import json
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from runtime_fakes import child, results

from symfonic import Agent
from symfonic.errors import ModelError
from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.tool import Tool
from symfonic.testing import ScriptedChild

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"a": {"type": "array", "items": {"enum": ["x", "y"]}}},
    "required": ["a"],
}


async def look(arguments: Any) -> str:
    return f"looked at {json.dumps(dict(arguments))}"


class Looks:
    """A model that does something to the tools it is shown, then answers; ``seen`` are the schemas as it found them."""

    def __init__(self, does: Callable[[Any], object]) -> None:
        self.does = does
        self.seen: list[str] = []

    async def complete(self, messages: Any, tools: Any) -> ModelReply:
        self.seen.append(json.dumps([each.parameters for each in tools]))
        for each in tools:
            self.does(each)
        return ModelReply("answered")


def tools_of_agent(model: Any) -> Agent:
    tool = Tool("look", "Looks.", copy.deepcopy(SCHEMA), look)
    return Agent(model, tools=[tool], sub_agents=[child(ScriptedChild("fine"))])


def _first(tool: Any) -> Any:
    return next(iter(tool.parameters["properties"].values()), None)


CHANGES: dict[str, Callable[[Any], object]] = {
    "clear": lambda tool: tool.parameters.clear(),
    "set": lambda tool: tool.parameters.__setitem__("type", "array"),
    "delete": lambda tool: tool.parameters.__delitem__("type"),
    "update": lambda tool: tool.parameters.update(type="array"),
    "set default": lambda tool: tool.parameters.setdefault("additionalProperties", True),
    "pop": lambda tool: tool.parameters.pop("type"),
    "pop an item": lambda tool: tool.parameters.popitem(),
    "merge": lambda tool: tool.parameters.__ior__({"type": "array"}),
    "nested set": lambda tool: _first(tool).__setitem__("enum", ["ghost"]),
    "required append": lambda tool: tool.parameters["required"].append("ghost"),
    "required clear": lambda tool: tool.parameters["required"].clear(),
    "required set": lambda tool: tool.parameters["required"].__setitem__(0, "ghost"),
    "required delete": lambda tool: tool.parameters["required"].__delitem__(0),
    "required extend": lambda tool: tool.parameters["required"].extend(["ghost"]),
    "required add": lambda tool: tool.parameters["required"].__iadd__(["ghost"]),
    "required multiply": lambda tool: tool.parameters["required"].__imul__(2),
    "required insert": lambda tool: tool.parameters["required"].insert(0, "ghost"),
    "required pop": lambda tool: tool.parameters["required"].pop(),
    "required remove": lambda tool: tool.parameters["required"].remove("a"),
    "required reverse": lambda tool: tool.parameters["required"].reverse(),
    "required sort": lambda tool: tool.parameters["required"].sort(),
}


@pytest.mark.parametrize("change", CHANGES)
async def test_a_model_that_changes_a_schema_fails_and_has_changed_nothing(change: str) -> None:
    model = Looks(CHANGES[change])
    agent = tools_of_agent(model)
    for _ in range(2):
        with pytest.raises(ModelError, match="compiled plan and cannot be changed"):
            await agent.run("go")
    assert model.seen[0] == model.seen[1]


@pytest.mark.parametrize("name", ["name", "description", "parameters", "invoke", "routes"])
async def test_a_model_cannot_exchange_a_part_of_a_tool(name: str) -> None:
    agent = tools_of_agent(Looks(lambda tool: setattr(tool, name, None)))
    with pytest.raises(ModelError) as caught:
        await agent.run("go")
    assert isinstance(caught.value.__cause__, FrozenInstanceError)


async def test_a_model_that_swallows_the_error_calls_the_tools_as_they_were() -> None:
    class Sly:
        async def complete(self, messages: Any, tools: Any) -> ModelReply:
            for change in CHANGES.values():
                for each in tools:
                    try:
                        change(each)
                    except (TypeError, LookupError, AttributeError):
                        continue
                    raise AssertionError("it let itself be changed")
            if messages[-1].role == "tool":
                return ModelReply("over")
            made = [("run_agent", {"name": "child"}), ("look", {}), ("look", {"a": ["x"]})]
            return ModelReply("", tuple(ToolCall(str(at), *call) for at, call in enumerate(made)))

    refused, missing, looked = results(await tools_of_agent(Sly()).run("go"))
    assert "misses 'task'" in refused
    assert "misses 'a'" in missing
    assert looked == 'looked at {"a": ["x"]}'


COPIES: dict[str, Callable[[Any], Any]] = {
    "deep": copy.deepcopy,
    "shallow": copy.copy,
    "dict": dict,
    "own": lambda value: value.copy(),
    "merged": lambda value: value | {},
    "json": lambda value: json.loads(json.dumps(value)),
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
}


@pytest.mark.parametrize("how", COPIES)
async def test_a_copy_of_a_schema_is_the_models_to_change(how: str) -> None:
    copies = []

    def changes(tool: Any) -> None:
        made = COPIES[how](tool.parameters)
        assert made == tool.parameters
        made["type"] = "array"
        made["extra"] = 1
        copies.append(made)

    model = Looks(changes)
    agent = tools_of_agent(model)
    await agent.run("go")
    await agent.run("go")
    assert model.seen[0] == model.seen[1]
    assert copies


@pytest.mark.parametrize("how", ["deep", "json", "pickle"])
async def test_a_deep_copy_of_a_schema_can_be_changed_all_the_way_down(how: str) -> None:
    def changes(tool: Any) -> None:
        made = COPIES[how](tool.parameters)
        made["properties"].clear()
        made.setdefault("required", []).append("ghost")

    model = Looks(changes)
    agent = tools_of_agent(model)
    await agent.run("go")
    await agent.run("go")
    assert model.seen[0] == model.seen[1]


async def test_a_list_in_a_schema_can_be_copied_and_the_copy_changed() -> None:
    def changes(tool: Any) -> None:
        required = tool.parameters.get("required")
        for copied in (copy.copy(required), copy.deepcopy(required), pickle.loads(pickle.dumps(required))):
            if copied is not None:
                assert copied == required
                copied.append("mine")

    assert (await tools_of_agent(Looks(changes)).run("go")).text == "answered"


async def test_a_schema_that_its_maker_changes_later_stays_as_it_was_compiled() -> None:
    schema = copy.deepcopy(SCHEMA)
    model = Looks(lambda tool: None)
    agent = Agent(model, tools=[Tool("look", "Looks.", schema, look)])
    await agent.run("go")
    schema["properties"]["a"]["items"]["enum"].append("z")
    schema["required"].clear()
    await agent.run("go")
    assert model.seen[0] == model.seen[1]


async def test_runs_side_by_side_are_shown_the_same_tools() -> None:
    shown: list[Any] = []

    class Keeps:
        async def complete(self, messages: Any, tools: Any) -> ModelReply:
            shown.append(tools)
            return ModelReply("answered")

    agent = tools_of_agent(Keeps())
    await asyncio.gather(*(agent.run("go") for _ in range(3)))
    assert shown[0] == shown[1] == shown[2]
