"""Any LangChain chat model behind our port."""

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.messages import Message
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.text import encodable, error_text
from symfonic.kernel.contracts.tool import Tool
from symfonic.models.wire import content_text, function_tool, parsed_arguments, tool_call

_BINDINGS_KEPT = 16


class LangChainModel:
    """A LangChain chat model. It is called with ``ainvoke``, in the config that the host's context carries.

    The last 16 sets of tools stay bound to it, so that a turn does not bind them anew.
    Raises ConfigurationError if the package ``langchain-core`` is missing.
    """

    def __init__(self, chat_model: Any) -> None:
        try:
            import langchain_core.messages  # noqa: F401  (missing here, not in the middle of a turn)
        except ImportError as error:
            raise ConfigurationError(
                f"a LangChain chat model needs the package langchain-core: pip install langchain-core ({error})"
            ) from error
        self._chat_model = chat_model
        self._bound: dict[tuple[Any, ...], tuple[Any, Any]] = {}
        self._lock = threading.Lock()

    @classmethod
    def named(cls, provider: str, name: str) -> "LangChainModel":
        """The model that LangChain's ``init_chat_model`` makes of a provider and a name.

        Raises ConfigurationError if the package ``langchain`` is missing, or with what LangChain says of an
        unknown provider, a missing integration or a missing key.
        """
        declared = f"model 'langchain:{provider}:{name}'"
        try:
            from langchain.chat_models import init_chat_model
        except ImportError as error:
            raise ConfigurationError(
                f"{declared} needs the package langchain: pip install langchain ({error})"
            ) from error
        try:
            chat_model = init_chat_model(name, model_provider=provider)
        except Exception as error:
            raise ConfigurationError(f"{declared} cannot be made: {error_text(error)}") from error
        return cls(chat_model)

    def __repr__(self) -> str:
        return f"LangChainModel({type(self._chat_model).__name__})"

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelReply:
        """One call of the chat model. Raises its error, or ConfigurationError if it takes no tools."""
        runnable = self._with(tools) if tools else self._chat_model
        return _read(await runnable.ainvoke([_sent(message) for message in messages]))

    def _with(self, tools: Sequence[Tool]) -> Any:
        """The chat model with these tools bound.

        What is kept refers to the schemas alone, not to the tools: their functions may hold half a program.
        """
        key = tuple((tool.name, tool.description, id(tool.parameters)) for tool in tools)
        with self._lock:
            kept = self._bound.pop(key, None) or self._bind(tools)
            self._bound[key] = kept  # now the latest; the schemas beside it keep their ids from being used again
            if len(self._bound) > _BINDINGS_KEPT:
                del self._bound[next(iter(self._bound))]
        return kept[0]

    def _bind(self, tools: Sequence[Tool]) -> tuple[Any, Any]:
        try:
            bound = self._chat_model.bind_tools([function_tool(tool) for tool in tools])
        except NotImplementedError as error:
            raise ConfigurationError(
                f"LangChain chat model {type(self._chat_model).__name__} implements no bind_tools, so it cannot be "
                f"offered {', '.join(tool.name for tool in tools)}; use a model that calls tools"
            ) from error
        return bound, [tool.parameters for tool in tools]


def _sent(message: Message) -> Any:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage

    text = encodable(message.text)
    match message.role:
        case "system":
            return SystemMessage(text)
        case "user":
            return HumanMessage(text)
        case "tool":
            return ToolMessage(text, tool_call_id=message.tool_call_id or "", name=message.name)
        case "assistant":
            read = [(call, parsed_arguments(call.arguments)) for call in message.tool_calls]
            return AIMessage(
                text,
                tool_calls=[_call("tool_call", call.id, call.name, args) for call, args in read if args is not None],
                invalid_tool_calls=[
                    {**_call("invalid_tool_call", call.id, call.name, call.arguments), "error": None}
                    for call, args in read
                    if args is None
                ],
            )


def _call(kind: str, call_id: str, name: str, arguments: object) -> Any:
    return {"type": kind, "id": call_id, "name": name, "args": arguments}


def _read(reply: Any) -> ModelReply:
    refusal = getattr(reply, "additional_kwargs", {}).get("refusal")
    made = [*reply.tool_calls, *reply.invalid_tool_calls]
    usage: Mapping[str, Any] = reply.usage_metadata or {}
    return ModelReply(
        content_text(reply.content) or refusal or "",
        tuple(tool_call(call["id"], call["name"], call["args"]) for call in made),
        usage.get("input_tokens") or 0,
        usage.get("output_tokens") or 0,
        _model_name(getattr(reply, "response_metadata", None) or {}),
    )


def _model_name(metadata: Mapping[str, Any]) -> str:
    """``PROVIDER:NAME`` as the integration tells them; blank where it does not tell both."""
    provider, name = metadata.get("model_provider"), metadata.get("model_name") or metadata.get("model")
    return f"{provider}:{name}" if isinstance(provider, str) and isinstance(name, str) else ""
