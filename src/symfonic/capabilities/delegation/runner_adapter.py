"""Where a child is adopted: what its ``run`` can take, read from the declared signature, never by trying.

A ``TypeError`` from inside a child's own body must not look like an old signature.
"""

import inspect
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache, partial
from inspect import Parameter
from types import AsyncGeneratorType, FunctionType, GeneratorType, MethodType
from typing import Any, Final

from symfonic.capabilities.delegation.errors import ChildDeclarationError
from symfonic.capabilities.delegation.lineage import current_identity
from symfonic.capabilities.delegation.recognisers import recognised
from symfonic.kernel.concurrency.awaitables import clock_runs, is_awaitable
from symfonic.kernel.contracts.facts import fact
from symfonic.kernel.contracts.signatures import REMEMBERED, method_of, signature_of
from symfonic.kernel.contracts.text import error_text

ACCEPTS_RUN_LINEAGE: Final = "accepts_run_lineage"
"""A child with a true attribute of this name is sent ``root_run_id`` and ``parent_run_id`` whatever its signature."""

RETIRED_VAR_KEYWORD: Final = "state_overrides"
"""A catch-all of this name refuses unknown keys, so it gets only what the signature names."""

LINEAGE: Final = ("root_run_id", "parent_run_id")
CONTEXT: Final = ("scope", "agent_depth")

_HINT = (
    "What can be adopted: a symfonic Agent or SymfonicAgent, an AgentRef, a function in from_callable(...), the address"
    " (http://... or https://...) of an agent that is served over A2A, an agent that an adapter knows"
    " (agent-framework, agno, CrewAI, deepagents, Google ADK, LangChain, LangGraph, openai-agents,"
    " pydantic-ai, smolagents, strands), or any object with an async run(query);"
    " a plain function that is no agent goes into tools=[...]."
)
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_NO_MORE: Any = object()
_CATCH_ALLS = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass
class ChildResponse:
    """An adapted child's answer. ``result`` keeps the child's own return value, whole."""

    final_response: str
    result: Any = None
    run_id: str = ""
    root_run_id: str = ""
    parent_run_id: str | None = None


@fact
class CallPlan:
    """How one child is called, as its signature says.

    ``task``: the name of the task's parameter, ``query`` or ``prompt``; blank where nobody knows. ``by_keyword``:
    whether the task goes by that name. ``sends``: the keywords sent besides. ``unmet``: the parameters that no
    delegation can fill. ``blocks``: whether its code may block the event loop, and every clock with it.
    """

    task: str
    by_keyword: bool
    sends: frozenset[str]
    unmet: tuple[str, ...] = ()
    blocks: bool = False

    def call(self, child: Any, task: str, context: dict[str, Any]) -> Any:
        """Call ``child.run``; what comes back is to be awaited where it can be, and then to be read with `read`.

        What may block runs in a thread where a clock runs; elsewhere it stays on the loop, which it may need.
        """
        if self.blocks and clock_runs():
            return _aside(lambda: self._call(child, task, context), child)
        return self._call(child, task, context)

    def read(self, response: Any) -> Any:
        """The response in the contract's terms."""
        return _renamed(response) if self.task == "prompt" else response

    async def answer(self, child: Any, task: str, context: dict[str, Any]) -> Any:
        """The response of ``child.run``, awaited, drained and read."""
        response = self.call(child, task, context)
        while is_awaitable(response):  # an async run may return what another one gave it
            response = await response
        return await drained(response, child) if is_generator(response) else self.read(response)

    def _call(self, child: Any, task: str, context: dict[str, Any]) -> Any:
        sent = context if self.sends >= context.keys() else {key: context[key] for key in context if key in self.sends}
        if not self.by_keyword:
            return child.run(task, **sent)
        return child.run(prompt=task, **sent) if self.task == "prompt" else child.run(query=task, **sent)


def how_to_call(runner: Any) -> tuple[CallPlan, Any]:
    """Read a runner's signature, once; the plan, and what it is to be called with.

    An unreadable signature is taken for that of the bare contract, ``run(query, **kwargs)``.
    """
    return (runner.plan, runner.agent) if isinstance(runner, AdaptedAgent) else (_plan(runner), runner)


def speaks_runner_contract(child: Any) -> bool:
    """Whether its ``run`` has a parameter ``query`` or a ``**kwargs`` catch-all."""
    return _plan(child).task == "query"


def accepts_run_lineage(child: Any) -> bool:
    """Whether its ``run`` is to be sent ``root_run_id`` and ``parent_run_id``."""
    return _says_it_takes_lineage(child) or _plan(child).sends.issuperset(LINEAGE)


def adapt_child(name: str, child: Any, context: Any = None) -> Any:
    """The child itself where it speaks the runner contract, a wrapper around an ``Agent``-shaped one.

    ``context`` is the `DelegationContext` that a wrapper falls back on for what a call leaves out.
    Raises ChildDeclarationError for anything else.
    """
    child = _known(name, child)
    plan = _checked(name, child)
    return child if plan.task == "query" else AdaptedAgent(child, plan, context)


def check_child(name: str, child: Any) -> None:
    """Raises ChildDeclarationError if a child cannot be adopted."""
    _checked(name, _known(name, child))


def _known(name: str, child: Any) -> Any:
    """The child, behind the adapter that knows it, if there is one."""
    runner = recognised(name, child)
    return child if runner is None else runner


def _checked(name: str, child: Any) -> CallPlan:
    try:
        marked = _is_marked(child)
    except Exception as error:
        problem = f"{ACCEPTS_RUN_LINEAGE} of the sub-agent {name!r} cannot be read: {error_text(error)}"
        raise ChildDeclarationError(problem) from error
    plan = _UNREADABLE[False] if isinstance(child, type) else _plan(child, marked)
    if not plan.task:
        raise ChildDeclarationError(
            f"PrebuiltChild.agent for {name!r} must expose an async run(query, ...) method (the ChildRunner protocol)"
            f" or an Agent-shaped run(prompt, ...); got {_described(child)}. {_advice(child)}{_HINT}"
        )
    if plan.unmet:
        raise ChildDeclarationError(
            f"run of the sub-agent {name!r} requires {', '.join(plan.unmet)}, which no delegation sends;"
            f" it is sent the query and, where it names them, {', '.join((*CONTEXT, *LINEAGE))}"
        )
    return plan


class AdaptedAgent:
    """An ``Agent``-shaped child, ``run(prompt, …)`` -> ``.text``, behind the runner contract."""

    __slots__ = ("_context", "agent", "plan")

    def __init__(self, agent: Any, plan: CallPlan, context: Any = None) -> None:
        self.agent: Any = agent
        self.plan: CallPlan = plan
        self._context = context

    async def run(
        self,
        query: str,
        *,
        scope: Any = None,
        agent_depth: int | None = None,
        root_run_id: str | None = None,
        parent_run_id: str | None = None,
    ) -> Any:
        """Run the agent and rename what it returns; run ids it does not have are those of the child's scope."""
        if agent_depth is None and self._context is not None:  # called past the roster
            scope = self._context.current_scope() if scope is None else scope
            agent_depth = self._context.current_depth()
        return await self.plan.answer(
            self.agent,
            query,
            {
                "scope": scope,
                "agent_depth": agent_depth,
                "root_run_id": root_run_id,
                "parent_run_id": parent_run_id,
            },
        )

    async def aclose(self) -> None:
        """Close the agent, where it can be closed."""
        close = getattr(self.agent, "aclose", None)
        if close is not None:
            await close()


def is_generator(answer: Any) -> bool:
    """Whether a child answers piece by piece."""
    return isinstance(answer, AsyncGeneratorType | GeneratorType)


async def drained(pieces: Any, child: Any) -> Any:
    """The response of a child that answers piece by piece; synchronous pieces come from threads where a clock runs.

    The last piece whose ``final_response`` is not empty is the response. Without one, pieces of text are joined, and of
    others the last is the answer; a piece that is None says nothing. The generator is closed on every way out.
    """
    import asyncio

    seen: list[Any] = []
    try:
        if isinstance(pieces, GeneratorType):
            while (piece := await _next(pieces, child)) is not _NO_MORE:
                seen.append(piece)
        else:
            async for piece in pieces:
                seen.append(piece)
                await asyncio.sleep(0)  # one that never waits itself could not be ended
    finally:
        # one that ignores its end does not change how it came to it, and one that is left in a thread cannot be closed
        with suppress(RuntimeError, ValueError):
            if isinstance(pieces, GeneratorType):
                pieces.close()
            else:
                await pieces.aclose()
    said = [piece for piece in seen if piece is not None]
    responses = [piece for piece in said if hasattr(piece, "final_response")]
    if responses:
        return next((piece for piece in reversed(responses) if piece.final_response), responses[-1])
    if all(isinstance(piece, str) for piece in said):
        return ChildResponse("".join(said), seen)
    return ChildResponse(said[-1], seen)


async def _next(pieces: Any, child: Any) -> Any:
    if clock_runs():
        return await _aside(lambda: next(pieces, _NO_MORE), child)
    import asyncio

    await asyncio.sleep(0)  # between the pieces of synchronous work, others have their turn
    return next(pieces, _NO_MORE)


def _aside(call: Callable[[], Any], child: Any) -> Coroutine[Any, Any, Any]:
    from symfonic.kernel.concurrency.threads import run_in_thread

    return run_in_thread(call, type(child).__name__)


def _renamed(result: Any) -> ChildResponse:
    run_id, root_run_id = getattr(result, "run_id", None), getattr(result, "root_run_id", None)
    parent_run_id = getattr(result, "parent_run_id", None)
    if not (run_id and root_run_id and parent_run_id) and (around := current_identity()) is not None:
        run_id, root_run_id = run_id or around.run_id, root_run_id or around.root_run_id
        parent_run_id = parent_run_id or around.parent_run_id
    return ChildResponse(
        getattr(result, "text", ""),
        result,
        str(run_id or ""),
        str(root_run_id or ""),
        str(parent_run_id) if parent_run_id else None,
    )


_UNREADABLE = {
    marked: CallPlan("", False, frozenset((*CONTEXT, *LINEAGE) if marked else CONTEXT)) for marked in (False, True)
}


def _plan(child: Any, marked: bool | None = None) -> CallPlan:
    """How a child is called; read once for every method, as building a team of one class reads the same again."""
    if marked is None:
        marked = _says_it_takes_lineage(child)
    try:
        run = child.run
        method = method_of(run)
        if method is not None:
            return _read_method(method, marked)
        return _read(run, marked) if callable(run) else _UNREADABLE[marked]
    except Exception:  # a signature is whatever an object says it is
        return _UNREADABLE[marked]


@lru_cache(maxsize=REMEMBERED)
def _read_method(method: FunctionType, marked: bool) -> CallPlan:
    return _read(MethodType(method, method), marked)


def _read(run: Any, marked: bool) -> CallPlan:
    parameters = signature_of(run).parameters
    catch_all = next((name for name, p in parameters.items() if p.kind is Parameter.VAR_KEYWORD), None)
    open_ended = catch_all is not None and catch_all != RETIRED_VAR_KEYWORD
    taken = {key for key in (*CONTEXT, *LINEAGE) if open_ended or _takes_keyword(parameters, key)}
    first = next((key for key, p in parameters.items() if p.kind in _BY_POSITION), None)
    if catch_all is None and "query" not in parameters and "prompt" in parameters:
        task, by_keyword = "prompt", next(iter(parameters)) != "prompt" or first != "prompt"
    else:
        task = "query" if catch_all is not None or "query" in parameters else ""
        by_keyword = _takes_keyword(parameters, "query") or (catch_all is not None and first is None)
        lineage = LINEAGE if marked or taken.issuperset(LINEAGE) else ()  # both or neither
        taken = {*(taken - {*LINEAGE}), *lineage}
    filled = {*taken, task if by_keyword else first}
    unmet = [key for key, p in parameters.items() if p.default is Parameter.empty and p.kind not in _CATCH_ALLS]
    return CallPlan(
        task, by_keyword, frozenset(taken), tuple(key for key in unmet if key not in filled), _may_block(run)
    )


def _may_block(run: Any) -> bool:
    """Whether this is plain code, which may do its work before it returns, in whatever it is wrapped."""
    while isinstance(run, partial):
        run = run.func
    function = inspect.unwrap(run)
    if not inspect.isroutine(function):
        function = getattr(type(function), "__call__", None)  # noqa: B004 - the function is wanted, not whether it is there
    return not inspect.iscoroutinefunction(function) and not inspect.isasyncgenfunction(function)


def _is_marked(child: Any) -> bool:
    return bool(getattr(child, ACCEPTS_RUN_LINEAGE, False))


def _says_it_takes_lineage(child: Any) -> bool:
    try:
        return _is_marked(child)
    except Exception:  # a mark that cannot be read says nothing; where it is declared it is refused
        return False


def _takes_keyword(parameters: "Mapping[str, Parameter]", key: str) -> bool:
    found = parameters.get(key)
    return found is not None and found.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _advice(child: Any) -> str:
    """What is most likely meant by a child that is none."""
    if isinstance(child, type):
        return "Make an instance of it. "
    if isinstance(child, str):
        return "The address of an agent elsewhere begins with http:// or https://. "
    if inspect.isroutine(child) or isinstance(child, partial):
        return "To have a function for a child, write from_callable(function). "
    return "A model needs an agent around it: Agent(model). " if callable(getattr(child, "complete", None)) else ""


def _described(child: Any) -> str:
    if isinstance(child, type):
        return f"the class {child.__name__}, not an instance of it"
    try:
        run = child.run
    except Exception:  # a property that raises is as good as missing
        return f"{type(child).__name__} with run missing"
    try:
        return f"{type(child).__name__} with run{inspect.signature(run)}"
    except Exception:  # as above
        return f"{type(child).__name__} with run of no readable signature"
