"""OpenAI's chat completions, and every server that speaks them (Ollama, vLLM, llama.cpp, …)."""

import asyncio
import inspect
import os
import threading
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from symfonic.errors import ConfigurationError, SymfonicError
from symfonic.kernel.contracts.messages import Message, ToolCall
from symfonic.kernel.contracts.model import ModelReply
from symfonic.kernel.contracts.text import encodable, preview, to_text
from symfonic.kernel.contracts.tool import Tool
from symfonic.models.wire import content_text, function_tool, tool_call

if TYPE_CHECKING:
    from openai import AsyncOpenAI

Options: TypeAlias = tuple[tuple[str, Any], ...]

_CLIENTS_KEPT = 32
_DEFAULT_URL = "https://api.openai.com/v1"
_ACCOUNT = (("organization", "OPENAI_ORG_ID"), ("project", "OPENAI_PROJECT_ID"))
_OURS = frozenset({"messages", "model", "stream", "tools"})
_ABOUT_TOOLS = frozenset({"parallel_tool_calls", "tool_choice"})


class OpenAIModel:
    """A chat-completions model through the official SDK, whose retries, timeouts and errors apply.

    Address and key are ``base_url`` and ``api_key``, else ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``, read once,
    here; a server of one's own needs no key. ``timeout`` is in seconds, for one attempt (the SDK's default is
    600); ``max_retries`` counts attempts after the first (default 2). ``settings`` are further arguments of
    ``chat.completions.create``, such as ``{"temperature": 0}``.

    Works in any number of event loops, each with a client that ends with the loop; one given as ``client`` is
    its owner's to close, and to use in its one loop.
    Raises ConfigurationError if the package ``openai`` or the key is missing, or an argument cannot be used.
    """

    def __init__(
        self,
        name: str,
        *,
        client: "AsyncOpenAI | None" = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            import openai  # noqa: F401  (missing here, not in the middle of a turn)
        except ImportError as error:
            raise ConfigurationError(
                f"model 'openai:{name}' needs the package openai: pip install openai ({error})"
            ) from error
        options = {"base_url": base_url, "api_key": api_key, "timeout": timeout, "max_retries": max_retries}
        given = {option: value for option, value in options.items() if value is not None}
        if client is not None and given:
            raise ConfigurationError(f"OpenAIModel: client brings its own {', '.join(given)}; give one or the other")
        self.name = name
        self._settings = _checked(settings) if settings else {}
        self._client = client
        self._options = () if client else tuple({**given, **_endpoint(name, base_url, api_key)}.items())

    def __repr__(self) -> str:
        return f"OpenAIModel({self.name!r})"

    async def complete(self, messages: Sequence[Message], tools: Sequence[Tool]) -> ModelReply:
        """One chat completion. Raises the SDK's error, or SymfonicError for a response without an answer."""
        held = Held(self._client) if self._client else await _clients.current(self._options)
        request = dict(self._settings, model=self.name, messages=[_sent(message) for message in messages])
        if tools:
            request["tools"] = [function_tool(tool) for tool in tools]
        else:  # servers refuse settings of tools without any
            request = {key: value for key, value in request.items() if key not in _ABOUT_TOOLS}
        completion = await held.client.chat.completions.create(**request)
        answered = getattr(completion, "model", None)
        model = answered if isinstance(answered, str) and answered else self.name
        return _read(completion, self.name, _full_name(held.client, model))


class Held(NamedTuple):
    """A client, and the generator that closes it where it is ours."""

    client: "AsyncOpenAI"
    lifetime: AsyncGenerator[None, None] | None = None


class LoopClients:
    """The clients of each event loop: connections belong to the loop that opened them, and end with it.

    Models of one address and key share a client. A loop keeps the latest 32; an older one is closed once the
    last call that uses it is over.
    """

    def __init__(self) -> None:
        self._held: dict[asyncio.AbstractEventLoop, dict[Options, Held]] = {}
        self._lock = threading.Lock()

    async def current(self, options: Options) -> Held:
        """The running loop's client for these options, made when first asked for."""
        loop = asyncio.get_running_loop()
        held = self._held.get(loop, {}).get(options)
        if held is None or held.client.is_closed():
            held = await _opened(options)
            with self._lock:  # loops run in threads of their own
                # A client refers to its loop, so weak keys would free nothing.
                for closed in [each for each in self._held if each.is_closed()]:
                    del self._held[closed]
                here = self._held.setdefault(loop, {})
                here[options] = held
                if len(here) > _CLIENTS_KEPT:
                    del here[next(iter(here))]
        return held


async def _opened(options: Options) -> Held:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(**dict(options))
    lifetime = _open_until_the_loop_ends(client)
    await anext(lifetime)  # does not wait, so no other task of this loop comes in between
    return Held(client, lifetime)


async def _open_until_the_loop_ends(client: "AsyncOpenAI") -> AsyncGenerator[None, None]:
    """Closes the client: a started async generator is what every loop ends before itself, or once it is garbage."""
    try:
        yield
    finally:
        await client.close()


_clients = LoopClients()


def _endpoint(name: str, base_url: str | None, api_key: str | None) -> dict[str, str]:
    """Where to go and with which key. The environment's blank variables count as unset."""
    url = base_url or os.environ.get("OPENAI_BASE_URL", "").strip() or _DEFAULT_URL
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(f"model 'openai:{name}': base URL {url!r} must start with http:// or https://")
    key = api_key or os.environ.get("OPENAI_API_KEY", "").strip()
    if not key and url == _DEFAULT_URL:
        raise ConfigurationError(
            f"model 'openai:{name}' needs a key: set OPENAI_API_KEY, or OPENAI_BASE_URL for a server that takes none"
        )
    found = {"base_url": url, "api_key": key or "none-needed"}
    for option, variable in _ACCOUNT:
        if value := os.environ.get(variable):
            found[option] = value
    return found


def _checked(settings: Mapping[str, Any]) -> dict[str, Any]:
    from openai.resources.chat.completions import AsyncCompletions

    known = set(inspect.signature(AsyncCompletions.create).parameters) - _OURS - {"self"}
    if wrong := sorted(map(str, set(settings) - known)):
        raise ConfigurationError(
            f"OpenAIModel: settings holds {', '.join(wrong)}; expected arguments of chat.completions.create other "
            f"than {', '.join(sorted(_OURS))} (what the SDK does not know goes into extra_body)"
        )
    return dict(settings)


def _sent(message: Message) -> dict[str, Any]:
    text = encodable(message.text)
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": text}
    if not message.tool_calls:
        return {"role": message.role, "content": text}
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": to_text(call.arguments)}}
        for call in message.tool_calls
    ]
    return {"role": message.role, "content": text or None, "tool_calls": calls}


def _full_name(client: "AsyncOpenAI", name: str) -> str:
    """The model's full name: by provider, or by address for a server that is not OpenAI's own."""
    url = client.base_url
    return f"openai:{name}" if url.host == "api.openai.com" else f"{url.scheme}://{url.netloc.decode()}/{name}"


def _read(completion: Any, name: str, model: str) -> ModelReply:
    """The reply in a response. The SDK checks none of it, and servers differ."""
    choice = next(iter(getattr(completion, "choices", None) or ()), None)
    message = getattr(choice, "message", None)
    if message is None:
        # Some proxies answer 200 with an error inside; a web page is what a wrong base URL answers.
        found = getattr(completion, "error", None) or completion
        raise SymfonicError(f"model 'openai:{name}': the server's response holds no choice: {preview(str(found), 300)}")
    text = content_text(getattr(message, "content", None)) or getattr(message, "refusal", None) or ""
    calls = tuple(_read_call(call) for call in getattr(message, "tool_calls", None) or ())
    stopped = getattr(choice, "finish_reason", None)
    if not text and not calls and stopped in ("length", "content_filter"):
        raise SymfonicError(f"model 'openai:{name}' was stopped before it said anything: {stopped}")
    usage = getattr(completion, "usage", None)
    return ModelReply(
        text,
        calls,
        getattr(usage, "prompt_tokens", None) or 0,
        getattr(usage, "completion_tokens", None) or 0,
        model,
    )


def _read_call(call: Any) -> ToolCall:
    function = getattr(call, "function", None)
    return tool_call(getattr(call, "id", None), getattr(function, "name", None), getattr(function, "arguments", None))
