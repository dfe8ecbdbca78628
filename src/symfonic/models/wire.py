"""What chat protocols have in common: tools as function schemas, content parts, tool calls. Pure."""

import json
import uuid
from collections.abc import Mapping
from typing import Any

from symfonic.kernel.contracts.messages import ToolCall
from symfonic.kernel.contracts.tool import Tool

_TEXT_PARTS = ("text", "output_text")


def function_tool(tool: Tool) -> dict[str, Any]:
    """A tool as chat-completions servers, and LangChain's ``bind_tools``, take it."""
    return {
        "type": "function",
        "function": {
            "name": tool.name,
            "description": tool.description,
            "parameters": _thawed(tool.parameters),
        },
    }


def content_text(content: object) -> str:
    """The answer in a message's content, which is text, nothing, or a list of parts.

    Only text parts count, never reasoning; where there are none, what a refusal says.
    """
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
    parts = [part for part in parts if isinstance(part, Mapping)]
    text = "".join(str(part.get("text") or "") for part in parts if part.get("type") in _TEXT_PARTS)
    return text or "".join(str(part.get("refusal") or "") for part in parts if part.get("type") == "refusal")


def tool_call(call_id: object, name: object, arguments: object) -> ToolCall:
    """A tool call as a server sent it: an object or raw text of arguments, which the runtime judges.

    A missing id is made up. Blank arguments are what many servers send for a function that takes none.
    """
    given: Mapping[str, Any] | str = "{}"
    if isinstance(arguments, Mapping):
        given = arguments
    elif arguments is not None and str(arguments).strip():
        given = str(arguments)
    return ToolCall(str(call_id or f"call_{uuid.uuid4().hex}"), str(name or ""), given)


def parsed_arguments(arguments: Mapping[str, Any] | str) -> dict[str, Any] | None:
    """The arguments as an object, or None where their text is no JSON object."""
    if isinstance(arguments, str):
        try:
            arguments = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    return dict(arguments) if isinstance(arguments, Mapping) else None


def _thawed(value: Any) -> Any:
    """Plain dicts and lists: a schema may be frozen, which JSON encoders do not take."""
    if isinstance(value, Mapping):
        return {key: _thawed(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_thawed(item) for item in value]
    return value
