"""Runnables of LangChain and graphs of LangGraph as children, and our children as tools of their agents."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, get_origin, is_typeddict

from symfonic.adapters.hosted import Hosted, tools_of
from symfonic.capabilities.delegation.active_run import ActiveRun, active_run
from symfonic.capabilities.delegation.errors import ChildDeclarationError
from symfonic.capabilities.delegation.runner_adapter import ChildResponse
from symfonic.errors import ConfigurationError, SymfonicError
from symfonic.kernel.concurrency.awaitables import is_awaitable
from symfonic.kernel.contracts.messages import Usage, current_tool_call
from symfonic.kernel.contracts.text import to_text
from symfonic.kernel.contracts.tool import Tool

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable
    from langchain_core.tools import BaseTool

_HOSTS_OWN = ("__pregel_", "checkpoint_")
"""How the keys of a config begin by which LangGraph tells one of its graphs where in another it runs."""

_MESSAGES, _STRUCTURED, _INTERRUPTS = "messages", "structured_response", "__interrupt__"


# ------------------------------------------------------------------------------------------------- theirs under ours


def adopt(name: str, child: Any) -> "LangChainChild | None":
    """The Runnable behind the runner contract; None for what is none. Nothing is imported to tell.

    Raises ChildDeclarationError if its input cannot be made of one task.
    """
    return LangChainChild(name, child) if _has_base(child, "langchain_core.runnables.base", "Runnable") else None


class LangChainChild:
    """A Runnable of theirs.

    The task is sent as a message where its input has ``messages``, as the one key that its input requires, else as
    text. The answer is the structured response of an agent; else the text of the last AI message of this run that
    has any, unless the run ends in a tool's message; else, of a Runnable that returns no ``messages``, what it returns,
    text as it is and any other value as JSON. The whole output is kept.

    Its thread is the scope's ``thread_id`` (a key or an attribute), else the one bound to it; else inside a graph of a
    host it belongs to the host's thread, as any subgraph, and elsewhere every delegation has a new thread.
    """

    __slots__ = ("_key", "_name", "runnable")

    def __init__(self, name: str, runnable: "Runnable[Any, Any]") -> None:
        self._name = name
        self._key = _input_key(name, runnable)
        self.runnable: Runnable[Any, Any] = runnable

    async def run(self, query: str) -> ChildResponse:
        """Run it. Raises what it raises, and GraphInterrupt where it pauses and somebody takes that for a signal."""
        run = active_run()
        asked = f"task-{uuid.uuid4()}"
        try:
            output = await self._invoke(self._input(query, asked), self._config(run))
            _unless_paused(output)
        except Exception as error:
            words = None if run is not None and isinstance(error, run.pass_through) else _words(error)
            if words is None:
                raise
            raise SymfonicError(words) from error
        identity = run.identity if run is not None else None
        ids = (identity.run_id, identity.root_run_id, identity.parent_run_id) if identity else ("", "", None)
        return ChildResponse(_answer(output, asked), output, *ids)

    def _input(self, task: str, asked: str) -> Any:
        if self._key != _MESSAGES:
            return task if self._key is None else {self._key: task}
        from langchain_core.messages import HumanMessage

        return {_MESSAGES: [HumanMessage(task, id=asked)]}

    async def _invoke(self, given: Any, config: Any) -> Any:
        from langchain_core.runnables import Runnable

        if type(self.runnable).ainvoke is Runnable.ainvoke:  # it would block one of the loop's own few threads
            from symfonic.kernel.concurrency.threads import run_in_thread

            output: Any = await run_in_thread(lambda: self.runnable.invoke(given, config), self._name)
        else:
            output = await self.runnable.ainvoke(given, config)
        while is_awaitable(output):
            output = await output
        return output

    def _config(self, run: ActiveRun | None) -> Any:
        """What differs from the host's config, which the context carries: the meter besides its callbacks, the thread.

        A whole config would overrule what is bound to the Runnable.
        """
        from langchain_core.runnables.config import ensure_config, merge_configs

        config: dict[str, Any] = {}
        around = ensure_config()
        if run is not None:
            config["callbacks"] = merge_configs(around, {"callbacks": [_meter_class()(run)]}).get("callbacks")
        configurable = around.get("configurable", {})
        thread = _thread_of(run.scope if run is not None else None)
        within = any(key.startswith(_HOSTS_OWN) for key in configurable)
        if thread is None and not within and not _has_thread(self.runnable):
            thread = str(uuid.uuid4())
        if thread is not None:
            kept = {key: value for key, value in configurable.items() if not key.startswith(_HOSTS_OWN)}
            config["configurable"] = {**kept, "thread_id": thread}
        return config


def _has_base(value: Any, module: str, name: str) -> bool:
    return any(each.__module__ == module and each.__name__ == name for each in type(value).__mro__)


def _thread_of(scope: Any) -> str | None:
    thread = scope.get("thread_id") if isinstance(scope, Mapping) else getattr(scope, "thread_id", None)
    return None if thread is None or thread == "" else str(thread)


def _has_thread(runnable: Any) -> bool:
    """Whether a thread id was bound to it with ``with_config``."""
    bound = getattr(runnable, "config", None)
    configurable = bound.get("configurable") if isinstance(bound, Mapping) else None
    return isinstance(configurable, Mapping) and bool(configurable.get("thread_id"))


def _input_key(name: str, runnable: Any) -> str | None:
    """The key of its input that the task goes under; None where it takes text. Raises ChildDeclarationError."""
    known, required = _keys(runnable)
    if _MESSAGES in known:
        return _MESSAGES
    if not known:
        return None
    if len(required) == 1 or len(known) == 1:
        return (required or known)[0]
    raise ChildDeclarationError(
        f"the sub-agent {name!r} is a LangChain {type(runnable).__name__} whose input has the keys {', '.join(known)},"
        f" and a delegation has one task: put a RunnableLambda(lambda task: {{{known[0]!r}: task, ...}}) before it,"
        " or give a graph an input_schema with one key"
    )


def _keys(runnable: Any) -> tuple[list[str], list[str]]:
    """The keys of its input, and those of them that are required; none where it takes something else."""
    kind: Any
    try:
        kind = runnable.get_input_schema()
        if list(kind.model_fields) == ["root"]:  # a model around a type that is none
            kind = kind.model_fields["root"].annotation
    except Exception:  # whatever the types of a state make pydantic raise
        kind = getattr(runnable, "InputType", None)
    declared = _declared(get_origin(kind) or kind)
    return list(declared), [key for key, required in declared.items() if required]


def _declared(kind: Any) -> dict[str, bool]:
    """The keys that a class of states has, and whether each is required."""
    if is_typeddict(kind) or hasattr(kind, "__required_keys__"):  # typing_extensions has a kind of its own
        return {key: key in kind.__required_keys__ for key in kind.__annotations__}
    if is_dataclass(kind):
        return {each.name: each.default is MISSING and each.default_factory is MISSING for each in fields(kind)}
    return {key: each.is_required() for key, each in getattr(kind, "model_fields", {}).items()}


# -------------------------------------------------------------------------------------------------------- the answer


def _answer(output: Any, asked: str) -> str:
    """The text of the answer; blank where there is none."""
    if isinstance(output, Mapping):
        if output.get(_STRUCTURED) is not None:
            return _written(output[_STRUCTURED])
        if _is_messages(output.get(_MESSAGES)):
            return _last_said(output[_MESSAGES], asked)
    else:
        said = list(output) if isinstance(output, list | tuple) else [output]
        if said and all(_is_message(each) for each in said):
            return _last_said(said, asked)
    return _written(output)


def _written(value: Any) -> str:
    """0 and False are answers; None and what is empty are none."""
    empty = value is None or (isinstance(value, str | Mapping | list | tuple | set | frozenset) and not value)
    return "" if empty else to_text(value)


def _is_messages(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(_role(each) for each in value)


def _last_said(messages: Sequence[Any], asked: str) -> str:
    places = [place for place, each in enumerate(messages) if _read(each, "id") == asked]
    new = messages[places[-1] + 1 :] if places else messages
    if not new or _role(new[-1]) == "tool":
        return ""
    return next((text for text in map(_text, reversed(new)) if text.strip()), "")


def _text(message: Any) -> str:
    """What an AI says in a message, without what it thinks; blank for a message of anybody else."""
    if _role(message) not in ("ai", "assistant", "AIMessageChunk"):
        return ""
    content = _read(message, "content")
    if isinstance(content, str):
        return content
    return "".join(_texts(content)) if isinstance(content, list | tuple) else ""


def _texts(blocks: Sequence[Any]) -> Iterator[str]:
    for block in blocks:
        text = block.get("text") if isinstance(block, Mapping) and block.get("type") == "text" else block
        if isinstance(text, str):
            yield text


def _role(message: Any) -> str:
    """Whose message this is; blank for what is no message. A state may hold messages as mappings."""
    if isinstance(message, Mapping):
        role = (message.get("role") or message.get("type")) if "content" in message else ""
        return role if isinstance(role, str) else ""
    return str(message.type) if _is_message(message) else ""


def _is_message(value: Any) -> bool:
    return _has_base(value, "langchain_core.messages.base", "BaseMessage")


def _read(message: Any, key: str) -> Any:
    return message.get(key) if isinstance(message, Mapping) else getattr(message, key, None)


# --------------------------------------------------------------------------------------------------- pauses, failures


def _unless_paused(output: Any) -> None:
    """A graph that is nobody's subgraph returns its interrupts; here they are raised, as everywhere else."""
    if isinstance(output, Mapping) and output.get(_INTERRUPTS):
        from langgraph.errors import GraphInterrupt

        raise GraphInterrupt(tuple(output[_INTERRUPTS]))


def _words(error: Exception) -> str | None:
    """Why a child failed, where their signal would not say it; None where the error's own words do."""
    kinds = {each.__name__ for each in type(error).__mro__ if each.__module__ == "langgraph.errors"}
    if "ParentCommand" in kinds:
        return "it tried to send its caller's graph elsewhere (Command.PARENT), but it may only answer"
    if "GraphInterrupt" in kinds:
        interrupts = error.args[0] if error.args else ()
        asked = "; ".join(to_text(getattr(each, "value", each)) for each in interrupts)
        return f"it waits for an answer that nobody here can give: {asked}"
    return None


# ------------------------------------------------------------------------------------------------------------- usage


@cache
def _meter_class() -> Any:
    """The class of callback handlers that count what one run spends, and refuse it what its tree has not left.

    Handlers are inherited by everything below: what runs of our own count themselves is left to them.
    """
    from langchain_core.callbacks import BaseCallbackHandler

    class Meter(BaseCallbackHandler):
        run_inline = True  # in the context of the call, before it is made
        raise_error = True  # a spent limit

        def __init__(self, run: ActiveRun) -> None:
            self._run = run
            self._calls: set[uuid.UUID] = set()

        def on_chat_model_start(self, *_: Any, run_id: uuid.UUID, **__: Any) -> None:
            if self._is_its_own():
                self._run.admit_model_call()
                self._calls.add(run_id)
                self._run.spend(Usage(model_calls=1))

        on_llm_start = on_chat_model_start

        def on_llm_end(self, response: Any, *, run_id: uuid.UUID, **_: Any) -> None:
            if run_id in self._calls:
                self._calls.discard(run_id)
                self._run.spend(_tokens(response))

        def on_tool_start(self, *_: Any, **__: Any) -> None:
            if self._is_its_own():
                self._run.spend(Usage(tool_calls=1))

        def _is_its_own(self) -> bool:
            run = active_run()
            return run is None or run is self._run or (run.identity is not None and run.identity == self._run.identity)

    return Meter


def _tokens(response: Any) -> Usage:
    """The tokens of one model call; none where the model does not tell."""
    first = next((each for generations in response.generations for each in generations), None)
    told = getattr(getattr(first, "message", None), "usage_metadata", None) or {}
    return Usage(told.get("input_tokens") or 0, told.get("output_tokens") or 0)


# ------------------------------------------------------------------------------------------------- ours under theirs


def as_langchain_tools(capability: Hosted) -> "list[BaseTool]":
    """The delegation tools of `symfonic.delegation(...)` as LangChain tools, for ``create_agent`` or any graph.

    A child sees the host's config, as everything in LangChain does: its callbacks, its run context. Raises
    ConfigurationError if the package langchain-core is missing.
    """
    made = _tool_class()
    return [made(each) for each in tools_of(capability)]


@cache
def _tool_class() -> Any:
    try:
        from langchain_core.tools import BaseTool
    except ImportError as error:
        raise ConfigurationError(
            f"as_langchain_tools needs langchain-core: pip install langchain-core ({error})"
        ) from error
    from pydantic import PrivateAttr

    class DelegationTool(BaseTool):
        _tool: Tool = PrivateAttr()

        def __init__(self, tool: Tool) -> None:
            super().__init__(name=tool.name, description=tool.description, args_schema=_plain(tool.parameters))
            self._tool = tool

        def _to_args_and_kwargs(self, tool_input: Any, tool_call_id: str | None) -> tuple[tuple[()], dict[str, Any]]:
            return (), {"arguments": tool_input, "call": tool_call_id}

        def _run(self, arguments: Any, call: str | None = None) -> Any:
            from symfonic.kernel.concurrency.threads import run_blocking

            return run_blocking(lambda: self._arun(arguments, call))

        async def _arun(self, arguments: Any, call: str | None = None) -> Any:
            before = current_tool_call.set(call)
            try:
                return await self._tool.invoke(arguments)
            finally:
                current_tool_call.reset(before)

    return DelegationTool


def _plain(schema: Any) -> Any:
    """A schema in containers that every part of LangChain takes."""
    if isinstance(schema, Mapping):
        return {key: _plain(value) for key, value in schema.items()}
    return [_plain(value) for value in schema] if isinstance(schema, list | tuple) else schema
