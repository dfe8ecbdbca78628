"""What the tests of the adapters are about, told by their names, which are sentences."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

CHECKS = {  # a test stands behind each whose words are in its name, and behind the last where there is none
    "contract": r"contract",
    "pauses, signals": r"pause|signal|interrupt|approv|person|needed_input|credentials|handoff|waits_for",
    "cancellation, time": r"cancel|timeout|time_is_over|_left|_late_|leave_nothing|_stops",
    "depth, lineage": r"depth|ceiling|lineage|scope|levels_deep|context|under_an_agent|thread|tree|below|where_it_is",
    "usage, limits": r"usage|spent|spend|count|limit|budget|token|model_call|priced",
    "failures": r"error|exception|fail|raise|refus|wrong|broken|guardrail|cannot|not_fit|no_answer|empty|not_adopted",
    "answers": r"answer|structured|json|text|says|result|value|output|message|reply",
    "at once, apart": r"at_once|mix|parallel|several|conversation|session|state|delegation|memory|beside|_wait",
    "declared, bound": r"declared|bound|known|enum|import|names",
}
_OTHERS = "declared, bound"

CHILD, HOST = "as a child", "as a host"


class Framework(NamedTuple):
    """A framework: its page in docs/ecosystem, its distribution, and where the tests of its adapter are."""

    title: str
    page: str
    distribution: str
    folder: str = "tests/adapters"


FRAMEWORKS = (
    Framework("agent-framework", "agent_framework", "agent-framework-core"),
    Framework("agno", "agno", "agno"),
    Framework("CrewAI", "crewai", "crewai", "tests/apart/crewai"),
    Framework("deepagents", "deepagents", "deepagents"),
    Framework("Google ADK", "google_adk", "google-adk"),
    Framework("LangChain, LangGraph", "langchain", "langchain-core"),
    Framework("openai-agents", "openai_agents", "openai-agents"),
    Framework("pydantic-ai", "pydantic_ai", "pydantic-ai-slim"),
    Framework("smolagents", "smolagents", "smolagents"),
    Framework("strands", "strands", "strands-agents"),
)

_NODE = re.compile(
    r"(?P<folder>[\w/]+)/test_(?P<page>\w+?)(?P<host>_host)?\.py::test_(?P<name>\w+)(?:\[(?P<case>.*)\])?"
)


def counted(nodes: Iterable[str]) -> dict[tuple[str, str], Counter[str]]:
    """How many of these tests, given by their ids, stand behind each check of each framework and direction."""
    behind: dict[tuple[str, str], Counter[str]] = {}
    for node in nodes:
        found = _NODE.match(node)
        framework = found and next(
            (each for each in FRAMEWORKS if found["folder"] == each.folder and found["page"].startswith(each.page)),
            None,
        )
        if found is None or framework is None:
            continue
        shared = found["name"] == "what_holds_in_every_host"  # its cases are checks of their own
        name = found["case"] if shared and found["case"] else found["name"]
        direction = HOST if found["host"] or shared or "host" in name else CHILD
        checks = [check for check, words in CHECKS.items() if re.search(words, name)]
        behind.setdefault((framework.title, direction), Counter()).update(checks or [_OTHERS])
    return behind
