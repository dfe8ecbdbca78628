"""What would count against the house, and why it is there."""

_TASK = "any value: text reaches the model as it is, everything else as JSON"
_SCOPE = "whatever the caller says its authority is; handed down as it is"
_DEPTH = "arrives from mappings that users can write, and is coerced"
_TOOLS = "functions, tools of other frameworks, contributions: known by what they look like"
_CHILDREN = "SubAgents, and what looks like one"
_AGENT = "an agent of any framework; its signature is read where it is declared"
_FORWARDED = "those of `run`, which checks them"

ANY: dict[str, str] = {
    "Agent.__init__(model)": "a text, a model, or a chat model of LangChain",
    "Agent.__init__(tools)": _TOOLS,
    "Agent.__init__(sub_agents)": _CHILDREN,
    "Agent.run(prompt)": _TASK,
    "Agent.run(scope)": _SCOPE,
    "Agent.run(agent_depth)": _DEPTH,
    "Agent.stream(prompt)": _TASK,
    "Agent.stream(scope)": _SCOPE,
    "Agent.run_sync(prompt)": _TASK,
    "Agent.run_sync(scope)": _SCOPE,
    "AgentRef.__init__(resolve)": _AGENT,
    "AgentRef.run(scope)": _SCOPE,
    "AgentRef.target -> Any": "an agent that has been adopted, of any framework",
    "AgentResult.to_dict -> dict[str, Any]": "values that JSON can hold",
    "ChildPolicy.scope": _SCOPE,
    "DelegationRequest.scope": _SCOPE,
    "Options.on_delegate": "may answer with several things, or with something to await",
    "Options.resolve_scope": _SCOPE,
    "SubAgent.agent": _AGENT,
    "SymfonicAgent.__init__(tools)": _TOOLS,
    "SymfonicAgent.__init__(sub_agents)": _CHILDREN,
    "SymfonicAgent.run(query)": _TASK,
    "SymfonicAgent.run(scope)": _SCOPE,
    "SymfonicAgent.run(agent_depth)": _DEPTH,
    "SymfonicAgent.run(unknown)": "refused by name",
    "SymfonicAgent.stream(query)": _TASK,
    "SymfonicAgent.stream(arguments)": _FORWARDED,
    "SymfonicAgent.run_sync(query)": _TASK,
    "SymfonicAgent.run_sync(arguments)": _FORWARDED,
    "delegation(sub_agents)": _CHILDREN,
    "from_callable(fn)": "a function of any kind, held against its signature",
    "load_team(model)": "as for an Agent",
}
"""A parameter, result or field typed as Any -> why no narrower type can be told."""

_DOOR = "a door names its arguments instead of passing on whatever comes"
_SCOPES = "every link from the door to the scope names what it hands on"
_CONTRACT = "the child's contract, written out: its signature is read"
_TRANSLATED = "errors of theirs are translated where they are called, each framework's by its own rules"
_AGENT_DIR, _D = "src/symfonic/agent", "src/symfonic/capabilities/delegation"

DUPLICATES: dict[str, tuple[int, str]] = {
    "src/symfonic/adapters/agent_framework.py src/symfonic/adapters/openai_agents.py": (1, _TRANSLATED),
    f"{_AGENT_DIR}/cutover/delegate.py {_AGENT_DIR}/engine.py": (2, _DOOR),
    f"{_AGENT_DIR}/cutover/delegate.py {_AGENT_DIR}/facade.py": (1, _DOOR),
    f"{_AGENT_DIR}/engine.py {_AGENT_DIR}/facade.py": (1, _DOOR),
    f"{_AGENT_DIR}/facade.py {_AGENT_DIR}/facade.py": (1, _DOOR),
    f"{_D}/active_run.py {_D}/capability.py": (1, _SCOPES),
    f"{_D}/capability.py {_D}/context.py": (1, _SCOPES),
    f"{_D}/declarations.py {_D}/runner_adapter.py": (1, _CONTRACT),
    f"{_D}/declarations.py src/symfonic/testing/children.py": (1, _CONTRACT),
}
"""Two files -> how many pairs of places in them are alike, and why."""
