"""Delegation: a parent's run hands a task to a named child and reads the answer as a value.

Reads top to bottom: errors <- bounds <- contracts <- {depth, names, budget, runner_adapter} <- active_run
<- {context, policies, call, admission} <- {roster, lifecycle, reports} <- {tools, declarations} <- capability.
Imports the standard library alone.
"""

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
