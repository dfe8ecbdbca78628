"""The public names. A change here is a change for users: it belongs into the changelog."""

import importlib
import importlib.metadata

import pytest

PUBLIC = {
    "symfonic": """
        Agent AgentRef AgentResult ChildPolicy ConfigurationError DelegationOutcome DelegationRecord DelegationRequest
        LimitReachedError Limits Options SubAgent SymfonicAgent SymfonicError Veto delegation from_callable load_team
        tool
    """,
    "symfonic.capabilities.delegation": """
        ACCEPTS_RUN_LINEAGE RETIRED_VAR_KEYWORD ActiveRun AgentRef Bounds ChildDeclarationError ChildLifecycle
        ChildPolicy ChildResponse ChildRun ChildRunner ChildSpec ConfigurationError DelegationCapability
        DelegationContext DelegationError DelegationOutcome DelegationRecord DelegationRequest DelegationRoster
        DelegationToolSpec DelegationTools DelegationTrace DepthPolicy PrebuiltChild RosterEntry SubAgent SymfonicError
        Timing UnknownChildError Veto accepts_run_lineage adapt_child coerce_depth speaks_runner_contract
    """,
    "symfonic.capabilities.delegation.errors": """
        ChildDeclarationError ConfigurationError DelegationError SymfonicError UnknownChildError
    """,
    "symfonic.teams": "Team load_team",
    "symfonic.models.offline": "OfflineModel",
    "symfonic.durable": "Durable RunInfo Settings Waits durable runs_in",
    "symfonic.remote.a2a": "A2AChild a2a_app a2a_child",
    "symfonic.remote.mcp": "mcp_server mcp_tools",
    "symfonic.testing": "ChildCall FunctionModel ScriptedChild ScriptedModel check_child_runner tool_call",
    "symfonic.agent.cutover.delegation": """
        RecordingDelegationContext bind_contributed_tool bind_contributed_tools delegation_for_children
        delegation_scope delegation_tools
    """,
    "symfonic.cli": "main",
}


@pytest.mark.parametrize("module", PUBLIC)
def test_a_module_exports_exactly_the_pinned_names(module):
    assert sorted(importlib.import_module(module).__all__) == sorted(PUBLIC[module].split())


@pytest.mark.parametrize("module", PUBLIC)
def test_every_exported_name_is_there(module):
    imported = importlib.import_module(module)
    for name in PUBLIC[module].split():
        assert getattr(imported, name) is not None
        assert name in dir(imported)


def test_the_root_has_at_most_twenty_names():
    assert len(PUBLIC["symfonic"].split()) <= 20


def test_a_name_that_the_root_does_not_have_is_an_attribute_error_that_says_so():
    with pytest.raises(AttributeError, match="module 'symfonic' has no attribute 'Agnet'"):
        importlib.import_module("symfonic").Agnet  # noqa: B018 - the access is what is tested


def test_the_version_is_the_distributions():
    symfonic = importlib.import_module("symfonic")
    assert symfonic.__version__ == importlib.metadata.version("symfonic-delegation")
