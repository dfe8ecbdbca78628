"""What a server says, made fit for a model. None of it is trusted."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from symfonic.kernel.contracts.text import capped, encodable, to_text
from symfonic.remote.answer import RemoteError

if TYPE_CHECKING:
    from mcp.types import CallToolResult, ContentBlock

LONGEST_DESCRIPTION, LONGEST_SCHEMA, LONGEST_RESULT = 16 * 1024, 64 * 1024, 256 * 1024
"""Characters of a tool's description, of its schema as JSON, and of a result."""

_ANYTHING: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": True}
_ELSEWHERE = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties", "if", "dependentSchemas")


def described(text: str | None) -> str:
    """A description as a model is shown it."""
    return capped(encodable(text or ""), LONGEST_DESCRIPTION)


def fitting(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema of arguments that an agent can be declared with: an object, with every required argument described.

    Where the arguments are described elsewhere than in ``properties``, and where the schema is too large to be shown,
    the model may send what it likes, and the server is the judge.
    """
    try:
        if len(json.dumps(schema)) > LONGEST_SCHEMA:
            return _ANYTHING
    except (RecursionError, TypeError, ValueError):
        return _ANYTHING
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if schema.get("type", "object") != "object" or not isinstance(properties, Mapping):
        return _ANYTHING
    described_ones = {name: each if isinstance(each, Mapping) else {} for name, each in properties.items()}
    needed = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    made = {
        **schema,
        "type": "object",
        "properties": {**{name: {} for name in needed}, **described_ones},
        "required": list(dict.fromkeys(needed)),
    }
    if any(key in schema for key in _ELSEWHERE):
        made["additionalProperties"] = schema.get("additionalProperties") or True
    return made


def result_text(result: "CallToolResult") -> str:
    """What a model reads of a result. Raises RemoteError if that is an error, or longer than a result may be."""
    parts = [_part(block) for block in result.content]
    text = "\n".join(part for part in parts if part)
    if not text and result.structured_content is not None:
        text = to_text(result.structured_content)
    text = encodable(text)
    if result.is_error:
        raise RemoteError(capped(text, LONGEST_RESULT) or "the server calls it an error, and says nothing more")
    if len(text) > LONGEST_RESULT:
        told = f"its result has {len(text)} characters, of at most {LONGEST_RESULT}: ask for less of it"
        raise RemoteError(told)
    return text


def _part(block: "ContentBlock") -> str:
    if block.type == "text":
        return block.text
    if block.type == "resource":
        inner = block.resource
        return getattr(inner, "text", None) or f"[{inner.mime_type or 'data'} at {inner.uri}, not shown]"
    if block.type == "resource_link":
        return f"[{block.name} at {block.uri}]"
    return f"[{block.mime_type}, not shown]"
