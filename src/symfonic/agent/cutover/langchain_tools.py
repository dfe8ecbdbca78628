"""LangChain's tools as ours, and ours as LangChain's. Nothing of LangChain is imported before it is needed."""

import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from symfonic.agent.cutover.arguments import Takes, invalid, takes
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.run_identity import new_run_id
from symfonic.kernel.contracts.text import to_text
from symfonic.kernel.contracts.tool import Tool
from symfonic.kernel.runtime.plan import BadCallError

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool, StructuredTool
    from pydantic import BaseModel


def need_langchain() -> None:
    """Raises ConfigurationError, saying what to install, if there is no LangChain to bind a tool for."""
    try:
        import langchain_core  # noqa: F401
    except ImportError as error:
        raise ConfigurationError(
            "binding a tool for LangChain needs langchain-core: pip install langchain-core"
        ) from error


def tool_from_langchain(base_tool: "BaseTool") -> Tool:
    """A LangChain tool as a runtime tool; what it returns becomes text, what it raises is raised.

    A tool without a coroutine runs in a thread of its own. Raises ConfigurationError if it has no schema, or needs
    an argument that only LangGraph injects.
    """
    try:
        schema = _schema(base_tool)
        needs_id = _needs_call_id(base_tool, schema.get("properties", ()))
    except ConfigurationError:
        raise
    except Exception as error:  # whatever its argument types make pydantic raise
        raise ConfigurationError(f"tool {base_tool.name!r} of LangChain has no JSON Schema: {error}") from error
    accepted = Takes(tuple(schema.get("properties", ())), frozenset(schema.get("required", ())))
    synchronous = _is_synchronous(base_tool)

    async def invoke(arguments: Mapping[str, Any]) -> str:
        request: Any = dict(arguments)
        if needs_id or request.get("type") == "tool_call":  # the second would be taken for a call
            request = {"name": base_tool.name, "args": request, "id": f"call_{new_run_id()}", "type": "tool_call"}
        with _ArgumentsRefused(base_tool, accepted):
            if not synchronous:
                return _text(base_tool.name, await base_tool.ainvoke(request))
            from symfonic.kernel.concurrency.threads import run_in_thread

            return _text(base_tool.name, await run_in_thread(lambda: base_tool.invoke(request), base_tool.name))

    return Tool(base_tool.name, base_tool.description, schema, invoke)


def structured_tool(
    name: str, description: str, coroutine: Callable[..., Any], parameters: tuple[str, ...]
) -> "StructuredTool":
    """A LangChain ``StructuredTool`` over a coroutine, its arguments offered as text and delivered as they come.

    ``parameters`` names the arguments; with none, the signature does. Missing and surplus arguments are answered
    with a message. A synchronous ``invoke`` works outside an event loop and raises SymfonicError inside a running one.
    """
    try:
        accepted = takes(coroutine, parameters)
    except (TypeError, ValueError) as error:
        raise ConfigurationError(f"tool {name!r}: the signature of {coroutine!r} cannot be read: {error}") from error
    model = _arguments_model(name, description, accepted)

    def explain(error: Any) -> str:
        if error.title != model.__name__:
            raise error  # the coroutine's own
        line = invalid(name, error.errors(include_url=False, include_context=False), accepted)
        return f"{line}\n{description}".rstrip()

    return _bound_tool_class()(  # type: ignore[no-any-return]
        name=name,
        description=description,
        coroutine=coroutine,
        args_schema=model,
        handle_validation_error=explain,
    )


@functools.cache
def _bound_tool_class() -> Any:
    """The class of bound tools, made once: ``StructuredTool`` keeps some argument names for itself."""
    need_langchain()
    from langchain_core.tools import StructuredTool

    class BoundTool(StructuredTool):
        @property
        def tool_call_schema(self) -> Any:
            return self.args_schema

        def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[()], dict[str, Any]]:
            model: Any = self.args_schema
            names = [field.alias or name for name, field in model.model_fields.items()]
            if isinstance(tool_input, str):
                tool_input = dict.fromkeys(names[:1], tool_input)
            model.model_validate(tool_input)
            return (), dict(tool_input)

        def _run(self, /, **arguments: Any) -> Any:  # type: ignore[override]
            from symfonic.kernel.concurrency.threads import run_blocking

            return run_blocking(lambda: self._arun(**arguments))

        async def _arun(self, /, **arguments: Any) -> Any:  # type: ignore[override]
            coroutine: Any = self.coroutine
            result = takes(coroutine, tuple(arguments)).call(coroutine, arguments)
            return await result if inspect.isawaitable(result) else result

    return BoundTool


def _arguments_model(name: str, description: str, accepted: Takes) -> "type[BaseModel]":
    """A model with one field an argument, of any value; awkward names become aliases."""
    from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema, create_model

    fields: dict[str, Any] = {}
    for index, argument in enumerate(accepted.accepted):
        awkward = argument.startswith(("_", "model_")) or hasattr(BaseModel, argument)
        default = ... if argument in accepted.required else None
        field = Field(default, alias=argument) if awkward else Field(default)
        fields[f"argument_{index}" if awkward else argument] = (_any_as_text(WithJsonSchema), field)
    return create_model(name, __config__=ConfigDict(extra="forbid"), __doc__=description, **fields)


def _any_as_text(with_schema: Any) -> Any:
    from typing import Annotated

    return Annotated[Any, with_schema({"type": "string"})]


class _ArgumentsRefused:
    """Turns the validation error of a tool's own arguments into one clear line, and leaves all others alone."""

    def __init__(self, base_tool: "BaseTool", accepted: Takes) -> None:
        self._tool = base_tool
        self._accepted = accepted

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        from pydantic import ValidationError

        model = getattr(self._tool.args_schema, "__name__", None)
        if isinstance(error, ValidationError) and error.title == model:
            problems: Any = error.errors(include_url=False, include_context=False)
            raise BadCallError(invalid(self._tool.name, problems, self._accepted)) from error


def _schema(base_tool: "BaseTool") -> dict[str, Any]:
    from langchain_core.tools import Tool as SimpleTool

    if isinstance(base_tool, SimpleTool) and base_tool.args_schema is None:
        return {"type": "object", "properties": deepcopy(base_tool.args), "required": list(base_tool.args)}
    offered: Any = base_tool.tool_call_schema
    if isinstance(offered, dict):
        schema = deepcopy(offered)
    else:
        made = offered.model_json_schema() if hasattr(offered, "model_json_schema") else offered.schema()
        schema = deepcopy(made)
    schema.pop("title", None)
    schema.pop("description", None)
    return {"type": "object", "properties": {}, **schema}


def _needs_call_id(base_tool: "BaseTool", offered: Collection[str]) -> bool:
    """Whether the tool wants the id of its call. Raises ConfigurationError if it needs more that is not offered."""
    from langchain_core.tools import InjectedToolCallId

    model: Any = base_tool.args_schema
    fields: dict[str, Any] = getattr(model, "model_fields", {}) if isinstance(model, type) else {}
    hidden = {name: field for name, field in fields.items() if not {name, field.alias} & set(offered)}
    by_id = {
        name
        for name, field in hidden.items()
        if any(mark is InjectedToolCallId or isinstance(mark, InjectedToolCallId) for mark in field.metadata)
    }
    needed = {name for name, field in hidden.items() if field.is_required()}
    needed |= _needed_of_signature(base_tool, set(fields))
    unmet = sorted(needed - by_id)
    if unmet:
        raise ConfigurationError(
            f"tool {base_tool.name!r} needs {', '.join(unmet)}, which only LangGraph injects; give it to the tool"
            " another way (a closure, a context variable), or run the tool inside LangGraph"
        )
    return bool(by_id)


def _needed_of_signature(base_tool: "BaseTool", fields: set[str]) -> set[str]:
    """The injected parameters that are no fields of the schema and have no default."""
    injected: Collection[str] = getattr(base_tool, "_injected_args_keys", ())
    keys = {key for key in injected if key not in fields}
    function = getattr(base_tool, "func", None) or getattr(base_tool, "coroutine", None) or base_tool._run
    parameters = inspect.signature(function).parameters if keys else {}
    return {key for key in keys if key in parameters and parameters[key].default is inspect.Parameter.empty}


def _is_synchronous(base_tool: "BaseTool") -> bool:
    """Whether LangChain would run the tool in the event loop's pool, which nested tools can exhaust."""
    from langchain_core.tools import BaseTool, StructuredTool
    from langchain_core.tools import Tool as SimpleTool

    if isinstance(base_tool, StructuredTool | SimpleTool) and type(base_tool)._arun in (
        StructuredTool._arun,
        SimpleTool._arun,
    ):
        return base_tool.coroutine is None
    return type(base_tool)._arun is BaseTool._arun


def _text(name: str, result: Any) -> str:
    """A tool's result as text: the text of a message or of text blocks, JSON of any other value."""
    from langchain_core.messages import ToolMessage

    if type(result).__name__ == "Command":
        raise TypeError(f"tool {name!r} returned a Command, which only LangGraph's own loop can carry out")
    content: Any = result.content if isinstance(result, ToolMessage) else result
    if isinstance(content, list) and any(isinstance(block, dict) for block in content):
        texts = [_block_text(block) for block in content]
        if None not in texts:
            return "".join(text for text in texts if text)
    return to_text(content)


def _block_text(block: Any) -> str | None:
    if isinstance(block, str):
        return block
    if isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str):
        return str(block["text"])
    return None
