"""Where a child is adopted: what its ``run`` can take, read from the declared signature, never by trying.

A ``TypeError`` from inside a child's own body must not look like an old signature.
"""

import asyncio
import inspect
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from inspect import Parameter
from types import AsyncGeneratorType, GeneratorType
from typing import Any, Final

from symfonic.capabilities.delegation.errors import ChildDeclarationError
from symfonic.capabilities.delegation.lineage import current_identity
from symfonic.kernel.concurrency.tasks import is_awaitable
from symfonic.kernel.contracts.signatures import signature_of
from symfonic.kernel.contracts.text import error_text

ACCEPTS_RUN_LINEAGE: Final = "accepts_run_lineage"
"""A child with a true attribute of this name is sent ``root_run_id`` and ``parent_run_id`` whatever its signature."""

RETIRED_VAR_KEYWORD: Final = "state_overrides"
"""A catch-all of this name refuses unknown keys, so it gets only what the signature names."""

LINEAGE: Final = ("root_run_id", "parent_run_id")
CONTEXT: Final = ("scope", "agent_depth")

_HINT = (
    "What can be adopted: a symfonic Agent or SymfonicAgent, an AgentRef, or any object with an async run(query);"
    " a plain function goes into tools=[...]."
)
_BY_POSITION = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)
_CATCH_ALLS = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


@dataclass
class ChildResponse:
    """An adapted child's answer. ``result`` keeps the child's own return value, whole."""

    final_response: str
    result: Any = None
    run_id: str = ""
    root_run_id: str = ""
    parent_run_id: str | None = None


@dataclass(frozen=True, slots=True)
class CallPlan:
    """How one child is called: whether the task goes by keyword, and which keywords it is sent."""

    query_by_keyword: bool
    sends: frozenset[str]

    def call(self, runner: Any, query: str, context: dict[str, Any]) -> Any:
        """Call ``runner.run``; what comes back is to be awaited when it is awaitable."""
        sent = context if self.sends >= context.keys() else {key: context[key] for key in context if key in self.sends}
        return runner.run(query=query, **sent) if self.query_by_keyword else runner.run(query, **sent)


def plan_call(runner: Any) -> CallPlan:
    """Read a runner's signature, once. An unreadable one is taken for the bare contract, ``run(query, **kwargs)``."""
    lineage = LINEAGE if accepts_run_lineage(runner) else ()  # both or neither
    parameters = _parameters(runner)
    if parameters is None:
        return CallPlan(False, frozenset((*CONTEXT, *lineage)))
    catch_all = _catch_all(parameters)
    open_ended = catch_all is not None and catch_all != RETIRED_VAR_KEYWORD
    context = [key for key in CONTEXT if open_ended or _takes_keyword(parameters, key)]
    positional = any(p.kind in _BY_POSITION for p in parameters.values())
    by_keyword = _takes_keyword(parameters, "query") or (catch_all is not None and not positional)
    return CallPlan(by_keyword, frozenset((*context, *lineage)))


def speaks_runner_contract(child: Any) -> bool:
    """Whether its ``run`` has a parameter ``query`` or a ``**kwargs`` catch-all."""
    parameters = _parameters(child)
    return parameters is not None and ("query" in parameters or _catch_all(parameters) is not None)


def accepts_run_lineage(child: Any) -> bool:
    """Whether its ``run`` is to be sent ``root_run_id`` and ``parent_run_id``."""
    try:
        if _is_marked(child):
            return True
    except Exception:  # noqa: S110 - a mark that cannot be read says nothing; where it is declared it is refused
        pass
    parameters = _parameters(child)
    if parameters is None:
        return False
    if all(_takes_keyword(parameters, key) for key in LINEAGE):
        return True
    return _catch_all(parameters) not in (None, RETIRED_VAR_KEYWORD)


def adapt_child(name: str, child: Any, context: Any = None) -> Any:
    """The child itself where it speaks the runner contract, a wrapper around an ``Agent``-shaped one.

    ``context`` is the `DelegationContext` that a wrapper falls back on for what a call leaves out.
    Raises ChildDeclarationError for anything else.
    """
    if not isinstance(child, type):
        parameters = _parameters(child) or {}
        if speaks_runner_contract(child):
            plan = plan_call(child)
            _check_callable(name, child, parameters, {*plan.sends, *(("query",) if plan.query_by_keyword else ())})
            return child
        if "prompt" in parameters:
            adapted = AdaptedAgent(child, context)
            _check_callable(name, child, parameters, {*adapted.sends, *(("prompt",) if adapted.by_keyword else ())})
            return adapted
    raise ChildDeclarationError(
        f"PrebuiltChild.agent for {name!r} must expose an async run(query, ...) method (the ChildRunner protocol)"
        f" or an Agent-shaped run(prompt, ...); got {_described(child)}. {_HINT}"
    )


def _check_callable(name: str, child: Any, parameters: "Mapping[str, Parameter]", by_keyword: set[str]) -> None:
    """Raises ChildDeclarationError if no call of ours could satisfy the signature.

    The query goes by position where it is not among those that go by keyword.
    """
    try:
        _is_marked(child)
    except Exception as error:
        problem = f"{ACCEPTS_RUN_LINEAGE} of the sub-agent {name!r} cannot be read: {error_text(error)}"
        raise ChildDeclarationError(problem) from error
    first = next((key for key, p in parameters.items() if p.kind in _BY_POSITION), None)
    given = by_keyword if by_keyword & {"query", "prompt"} else {*by_keyword, first}
    unmet = [
        key
        for key, p in parameters.items()
        if key not in given and p.default is Parameter.empty and p.kind not in _CATCH_ALLS
    ]
    if unmet:
        raise ChildDeclarationError(
            f"run of the sub-agent {name!r} requires {', '.join(unmet)}, which no delegation sends;"
            f" it is sent the query and, where it names them, {', '.join((*CONTEXT, *LINEAGE))}"
        )


class AdaptedAgent:
    """An ``Agent``-shaped child, ``run(prompt, …)`` -> ``.text``, behind the runner contract."""

    __slots__ = ("_context", "_takes_all", "agent", "by_keyword", "sends")

    def __init__(self, agent: Any, context: Any = None) -> None:
        parameters = _parameters(agent) or {}
        self.agent: Any = agent
        self._context = context
        first = next(iter(parameters.values()))
        self.by_keyword: bool = first.name != "prompt" or first.kind is Parameter.KEYWORD_ONLY
        self.sends: frozenset[str] = frozenset(key for key in (*CONTEXT, *LINEAGE) if _takes_keyword(parameters, key))
        self._takes_all = len(self.sends) == len(CONTEXT) + len(LINEAGE)

    async def run(
        self,
        query: str,
        *,
        scope: Any = None,
        agent_depth: int | None = None,
        root_run_id: str | None = None,
        parent_run_id: str | None = None,
    ) -> ChildResponse:
        """Run the agent and rename what it returns; run ids it does not have are those of the child's scope."""
        if agent_depth is None and self._context is not None:  # called past the roster
            scope = self._context.current_scope() if scope is None else scope
            agent_depth = self._context.current_depth()
        sent: dict[str, Any] = {
            "scope": scope,
            "agent_depth": agent_depth,
            "root_run_id": root_run_id,
            "parent_run_id": parent_run_id,
        }
        if not self._takes_all:
            sent = {key: value for key, value in sent.items() if key in self.sends}
        result = self.agent.run(prompt=query, **sent) if self.by_keyword else self.agent.run(query, **sent)
        if is_awaitable(result):
            result = await result
        return await drained(result) if is_generator(result) else _renamed(result)

    async def aclose(self) -> None:
        """Close the agent, where it can be closed."""
        close = getattr(self.agent, "aclose", None)
        if close is not None:
            await close()


def is_generator(answer: Any) -> bool:
    """Whether a child answers piece by piece."""
    return isinstance(answer, AsyncGeneratorType | GeneratorType)


async def drained(pieces: Any) -> Any:
    """The response of a child that answers piece by piece.

    The last piece whose ``final_response`` is not empty is the response. Without one, pieces of text are joined, and of
    others the last is the answer; a piece that is None says nothing. The generator is closed on every way out.
    """
    seen: list[Any] = []
    try:
        if isinstance(pieces, GeneratorType):
            for piece in pieces:
                seen.append(piece)
                await asyncio.sleep(0)  # between the pieces of synchronous work, others have their turn
        else:
            async for piece in pieces:
                seen.append(piece)
                await asyncio.sleep(0)  # one that never waits itself could not be ended
    finally:
        with suppress(RuntimeError):  # a generator that ignores its end does not change how it came to it
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


def _is_marked(child: Any) -> bool:
    return bool(getattr(child, ACCEPTS_RUN_LINEAGE, False))


def _parameters(child: Any) -> "Mapping[str, Parameter] | None":
    """The parameters of the child's ``run``, or None where it is missing, not callable or unreadable."""
    try:
        run = child.run
        return signature_of(run).parameters if callable(run) else None
    except Exception:  # a signature is whatever an object says it is
        return None


def _takes_keyword(parameters: "Mapping[str, Parameter]", key: str) -> bool:
    found = parameters.get(key)
    return found is not None and found.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)


def _catch_all(parameters: "Mapping[str, Parameter]") -> str | None:
    return next((name for name, p in parameters.items() if p.kind is Parameter.VAR_KEYWORD), None)


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
