"""Which arguments an agent admits, and who reads each."""

_DELEGATE = "symfonic.agent.cutover.delegate.KernelDelegate"

ADMITTED_ARGUMENTS: dict[str, str] = {
    "query": f"{_DELEGATE}._converse",
    "scope": f"{_DELEGATE}._delegation_scope",
    "agent_depth": f"{_DELEGATE}._delegation_scope",
    "max_depth": f"{_DELEGATE}._bounds",
    "root_run_id": f"{_DELEGATE}._identity",
    "parent_run_id": f"{_DELEGATE}._identity",
    "limits": f"{_DELEGATE}._bounds",
    "observers": f"{_DELEGATE}.run",
    "sub_agents": "symfonic.agent.cutover.delegation.delegation_for_children",
}
"""Argument -> dotted name of its consumer. What is not listed has none, and is refused rather than ignored."""
