"""What a run executes: compiled once, immutable afterwards, shared by every run of an agent."""

import copy
from collections.abc import Collection, Mapping
from typing import Any

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.text import encodable, preview
from symfonic.kernel.contracts.tool import Tool


class BadCallError(ValueError):
    """A call that is not carried out; its text is what the model reads."""


@fact
class CompiledTool:
    """A tool with a schema of its own copy, and what a call of it must and may name."""

    tool: Tool
    required: frozenset[str]
    known: frozenset[str]
    open_ended: bool

    def arguments(self, sent: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
        """What a model sent, as the mapping to invoke the tool with. Raises BadCallError."""
        arguments = _parsed(self.tool.name, sent)
        if self.required <= arguments.keys() <= self.known:
            return arguments
        missing = [key for key in self.tool.parameters["properties"] if key in self.required and key not in arguments]
        surplus = [] if self.open_ended else [key for key in arguments if key not in self.known]
        if not missing and not surplus:
            return arguments
        problems = [f"misses {', '.join(map(repr, missing))}"] if missing else []
        problems += [f"does not take {', '.join(preview(key) for key in surplus[:5])}"] if surplus else []
        raise BadCallError(f"Tool {self.tool.name!r} was not called: it {' and '.join(problems)}. {self._takes()}")

    def made_to_fit(self, sent: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
        """What a model sent, without what is too much and with None for what is missing.

        For a tool that is not offered: its answer is a refusal, whatever it is asked, and should not read like a
        mistake to put right.
        """
        try:
            arguments = _parsed(self.tool.name, sent)
        except BadCallError:
            arguments = {}
        fitting = {key: value for key, value in arguments.items() if key in self.known}
        return {**dict.fromkeys(self.required), **fitting}

    def _takes(self) -> str:
        if not self.known:
            return "It takes no arguments."
        properties = self.tool.parameters["properties"]
        return "It takes: " + ", ".join(_parameter(key, properties[key], key in self.required) for key in properties)


class Plan:
    """The tools of an agent by name, in order."""

    __slots__ = ("_by_name", "tools")

    def __init__(self, tools: tuple[CompiledTool, ...]) -> None:
        self.tools: tuple[CompiledTool, ...] = tools
        self._by_name = {each.tool.name: each for each in tools}

    def offer(self, without: Collection[str] = ()) -> tuple[Tool, ...]:
        """The tools to show to the model, less the named ones; those can be called all the same."""
        return tuple(each.tool for each in self.tools if each.tool.name not in without)

    def find(self, name: str, offered: tuple[Tool, ...]) -> CompiledTool:
        """The tool of that name. Raises BadCallError, listing what is offered."""
        found = self._by_name.get(name)
        if found is None:
            known = ", ".join(tool.name for tool in offered) or "(none)"
            raise BadCallError(f"Unknown tool {preview(name)}. Available tools: {known}")
        return found


def compile_tool(tool: Tool) -> CompiledTool:
    """A tool as it stands now: changing the original or its schema later changes nothing.

    Raises ConfigurationError if its parameters are no JSON Schema object.
    """
    schema = {"type": "object", "properties": {}, **tool.parameters} if isinstance(tool.parameters, Mapping) else {}
    properties = schema.get("properties")
    if schema.get("type") != "object" or not isinstance(properties, dict):
        raise ConfigurationError(
            f"parameters of the tool {tool.name!r} must be a JSON Schema of type 'object', got {tool.parameters!r}"
        )
    required = tuple(schema.get("required", ()))
    undeclared = [key for key in required if key not in properties]
    if undeclared:
        raise ConfigurationError(f"the tool {tool.name!r} requires {undeclared!r}, which its schema does not describe")
    open_ended = bool(schema.get("additionalProperties", False)) or "patternProperties" in schema
    compiled = Tool(tool.name, tool.description, frozen(schema), tool.invoke, tool.routes)
    return CompiledTool(compiled, frozenset(required), frozenset(properties), open_ended)


def _refuse(*_: Any, **__: Any) -> Any:
    raise TypeError("this is part of a compiled plan and cannot be changed; copy it first")


_REFUSE: Any = _refuse  # in the place of methods of any type


class _FrozenDict(dict[str, Any]):
    """A dictionary that JSON encoders take for one, and that nobody changes: models are shown the plan's own."""

    __setitem__ = __delitem__ = __ior__ = clear = pop = popitem = setdefault = update = _REFUSE

    def __reduce__(self) -> tuple[Any, ...]:
        return (dict, (dict(self),))  # copies, pickled ones too, are their maker's to change

    def __deepcopy__(self, memo: Any) -> dict[str, Any]:
        return {key: copy.deepcopy(value, memo) for key, value in self.items()}


class _FrozenList(list[Any]):
    """The same for lists."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _REFUSE
    append = clear = extend = insert = pop = remove = reverse = sort = _REFUSE

    def __reduce__(self) -> tuple[Any, ...]:
        return (list, (list(self),))

    def __deepcopy__(self, memo: Any) -> list[Any]:
        return [copy.deepcopy(value, memo) for value in self]


_ATOMS = frozenset({str, bool, int, float, type(None)})


def frozen_flat(value: dict[str, Any]) -> Mapping[str, Any]:
    """What `frozen` makes of a dictionary that holds nothing but texts, numbers, booleans and None."""
    return _FrozenDict(value)


def frozen(value: Any) -> Any:
    """A copy of the value with its dictionaries and lists unchangeable, all the way down."""
    if type(value) is _FrozenDict or type(value) is _FrozenList:
        return value
    if type(value) is dict or isinstance(value, Mapping):
        return _FrozenDict({key: item if type(item) in _ATOMS else frozen(item) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return _FrozenList([item if type(item) in _ATOMS else frozen(item) for item in value])
    return value if type(value) in _ATOMS else copy.deepcopy(value)


def _parsed(name: str, sent: Mapping[str, Any] | str | None) -> Mapping[str, Any]:
    if type(sent) is _FrozenDict or isinstance(sent, Mapping):
        return {
            key if type(key) is str else str(key): item if type(item) in _ATOMS else copy.deepcopy(item)
            for key, item in sent.items()
        }
    value: Any = sent or {}
    if isinstance(sent, str):
        import json

        try:
            value = encodable_value(json.loads(sent)) if sent.strip() else {}
        except (ValueError, RecursionError) as error:
            raise BadCallError(
                f"Tool {name!r} was not called: its arguments are not JSON ({type(error).__name__}): {preview(sent)}"
            ) from error
    if not isinstance(value, Mapping):
        shown = preview(sent if isinstance(sent, str) else repr(sent))
        raise BadCallError(f"Tool {name!r} was not called: its arguments must be a JSON object, got {shown}")
    return dict(value)


def encodable_value(value: Any) -> Any:
    """The same value with every text in it encodable: models, and JSON, can spell lone surrogates."""
    if type(value) is str or isinstance(value, str):
        return encodable(value)
    if type(value) is dict or isinstance(value, Mapping):
        return {encodable_value(key): encodable_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple):  # JSON knows no difference
        return [encodable_value(item) for item in value]
    return value


def _parameter(name: str, schema: Any, required: bool) -> str:
    choices = schema.get("enum") if isinstance(schema, Mapping) else None
    shown = f"{name} (one of {', '.join(map(repr, choices))})" if choices else name
    return shown if required else f"{shown} (optional)"
