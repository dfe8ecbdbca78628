"""Delegation: a parent's run hands a task to a named child and reads the answer as a value.

Which module may import which is in tests/test_architecture.py. Imports the standard library alone; each name is
resolved when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symfonic.capabilities.delegation.bounds import Bounds, ChildPolicy, DelegationRequest, Veto
    from symfonic.capabilities.delegation.capability import DelegationCapability
    from symfonic.capabilities.delegation.context import ActiveRun, DelegationContext
    from symfonic.capabilities.delegation.contracts import (
        ChildRun,
        ChildRunner,
        ChildSpec,
        DelegationOutcome,
        DelegationRecord,
        DelegationToolSpec,
        DelegationTrace,
        PrebuiltChild,
        RosterEntry,
        Timing,
    )
    from symfonic.capabilities.delegation.declarations import AgentRef, SubAgent
    from symfonic.capabilities.delegation.depth import DepthPolicy, coerce_depth
    from symfonic.capabilities.delegation.errors import (
        ChildDeclarationError,
        ConfigurationError,
        DelegationError,
        SymfonicError,
        UnknownChildError,
    )
    from symfonic.capabilities.delegation.lifecycle import ChildLifecycle
    from symfonic.capabilities.delegation.roster import DelegationRoster
    from symfonic.capabilities.delegation.runner_adapter import (
        ACCEPTS_RUN_LINEAGE,
        RETIRED_VAR_KEYWORD,
        ChildResponse,
        accepts_run_lineage,
        adapt_child,
        speaks_runner_contract,
    )
    from symfonic.capabilities.delegation.tools import DelegationTools

__all__ = [
    "ACCEPTS_RUN_LINEAGE",
    "RETIRED_VAR_KEYWORD",
    "ActiveRun",
    "AgentRef",
    "Bounds",
    "ChildDeclarationError",
    "ChildLifecycle",
    "ChildPolicy",
    "ChildResponse",
    "ChildRun",
    "ChildRunner",
    "ChildSpec",
    "ConfigurationError",
    "DelegationCapability",
    "DelegationContext",
    "DelegationError",
    "DelegationOutcome",
    "DelegationRecord",
    "DelegationRequest",
    "DelegationRoster",
    "DelegationToolSpec",
    "DelegationTools",
    "DelegationTrace",
    "DepthPolicy",
    "PrebuiltChild",
    "RosterEntry",
    "SubAgent",
    "SymfonicError",
    "Timing",
    "UnknownChildError",
    "Veto",
    "accepts_run_lineage",
    "adapt_child",
    "coerce_depth",
    "speaks_runner_contract",
]

_HOMES = {
    "ACCEPTS_RUN_LINEAGE": "runner_adapter",
    "ActiveRun": "context",
    "AgentRef": "declarations",
    "Bounds": "bounds",
    "ChildDeclarationError": "errors",
    "ChildLifecycle": "lifecycle",
    "ChildPolicy": "bounds",
    "ChildResponse": "runner_adapter",
    "ChildRun": "contracts",
    "ChildRunner": "contracts",
    "ChildSpec": "contracts",
    "ConfigurationError": "errors",
    "DelegationCapability": "capability",
    "DelegationContext": "context",
    "DelegationError": "errors",
    "DelegationOutcome": "contracts",
    "DelegationRecord": "contracts",
    "DelegationRequest": "bounds",
    "DelegationRoster": "roster",
    "DelegationToolSpec": "contracts",
    "DelegationTools": "tools",
    "DelegationTrace": "contracts",
    "DepthPolicy": "depth",
    "PrebuiltChild": "contracts",
    "RETIRED_VAR_KEYWORD": "runner_adapter",
    "RosterEntry": "contracts",
    "SubAgent": "declarations",
    "SymfonicError": "errors",
    "Timing": "contracts",
    "UnknownChildError": "errors",
    "Veto": "bounds",
    "accepts_run_lineage": "runner_adapter",
    "adapt_child": "runner_adapter",
    "coerce_depth": "depth",
    "speaks_runner_contract": "runner_adapter",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
