"""symfonic: agents that delegate, bounded, recorded and explained.

Names are resolved when they are first used, so that importing the package costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from symfonic._version import __version__ as __version__
    from symfonic.adapters.callables import from_callable
    from symfonic.agent.cutover.function_tools import function_tool as tool
    from symfonic.agent.cutover.hosting import delegation
    from symfonic.agent.engine import AgentResult, SymfonicAgent
    from symfonic.agent.facade import Agent
    from symfonic.capabilities.delegation.bounds import ChildPolicy, DelegationRequest, Veto
    from symfonic.capabilities.delegation.contracts import DelegationOutcome, DelegationRecord
    from symfonic.capabilities.delegation.declarations import AgentRef, SubAgent
    from symfonic.errors import ConfigurationError, LimitReachedError, SymfonicError
    from symfonic.kernel.contracts.limits import Limits
    from symfonic.kernel.contracts.options import Options
    from symfonic.teams import load_team

__all__ = [
    "Agent",
    "AgentRef",
    "AgentResult",
    "ChildPolicy",
    "ConfigurationError",
    "DelegationOutcome",
    "DelegationRecord",
    "DelegationRequest",
    "LimitReachedError",
    "Limits",
    "Options",
    "SubAgent",
    "SymfonicAgent",
    "SymfonicError",
    "Veto",
    "delegation",
    "from_callable",
    "load_team",
    "tool",
]

_HOMES = {
    "Agent": "symfonic.agent.facade",
    "AgentRef": "symfonic.capabilities.delegation.declarations",
    "AgentResult": "symfonic.agent.engine",
    "ConfigurationError": "symfonic.errors",
    "DelegationOutcome": "symfonic.capabilities.delegation.contracts",
    "DelegationRecord": "symfonic.capabilities.delegation.contracts",
    "Options": "symfonic.kernel.contracts.options",
    "SubAgent": "symfonic.agent.cutover.adoption",
    "SymfonicAgent": "symfonic.agent.engine",
    "SymfonicError": "symfonic.errors",
    "ChildPolicy": "symfonic.capabilities.delegation.bounds",
    "DelegationRequest": "symfonic.capabilities.delegation.bounds",
    "Veto": "symfonic.capabilities.delegation.bounds",
    "LimitReachedError": "symfonic.errors",
    "Limits": "symfonic.kernel.contracts.limits",
    "__version__": "symfonic._version",
    "delegation": "symfonic.agent.cutover.hosting",
    "from_callable": "symfonic.adapters.callables",
    "load_team": "symfonic.teams",
    "tool": "symfonic.agent.cutover.function_tools",
}
_SPELLED_OTHERWISE = {"tool": "function_tool"}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'symfonic' has no attribute {name!r}")
    value = getattr(import_module(home), _SPELLED_OTHERWISE.get(name, name))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
