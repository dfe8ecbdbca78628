"""What the command line is made of: the team as it is shown, what is safe to print, the tree as it grows."""

import io

from symfonic import load_team
from symfonic.cli.show import describe
from symfonic.cli.streams import Out, printable, short
from symfonic.cli.tree import DelegationTree
from symfonic.kernel.contracts.events import (
    DelegationFinished,
    DelegationRefused,
    DelegationStarted,
    RunStarted,
    Where,
)
from symfonic.kernel.contracts.run_identity import RunIdentity

TEAM = """
lead = "lead"
[agents.lead]
description = "Leads."
sub_agents = ["surveyor", "waiter", "breaker"]
max_depth = 2
[agents.surveyor]
description = "Counts the [files] of the project."
sub_agents = ["lead"]
[agents.waiter]
description = "Waits patiently."
[agents.breaker]
description = "Breaks everything."
max_steps = 1
tools = ["os:getpid"]
"""


def test_show_prints_the_roster_as_the_model_reads_it_and_every_depth(tmp_path):
    team = tmp_path / "team.toml"
    team.write_text(TEAM)
    out = "\n".join(describe(load_team(team))).splitlines()
    assert out[0] == f"{team}: 4 agent(s), lead lead"
    at = out.index("  sub-agents, as its model reads them:")
    assert out[at + 1 : at + 4] == [
        "  - surveyor: Counts the [files] of the project.",
        "  - waiter: Waits patiently.",
        "  - breaker: Breaks everything.",
    ]
    assert "  tools: os:getpid" in out
    assert "  max_steps: 1" in out
    assert out[-5:] == [
        "lead  (depth 0, ceiling 2)",
        "  surveyor  (depth 1, ceiling 2)",
        "    lead  (depth 2, ceiling 2, cycle: the depth bounds it)",
        "  waiter  (depth 1, ceiling 2)",
        "  breaker  (depth 1, ceiling 2)",
    ]


def test_show_tells_where_nobody_can_delegate_and_repeats_nothing(tmp_path):
    path = tmp_path / "team.toml"
    path.write_text("""
    lead = "a"
    [agents.a]
    instructions = \"\"\"First.
    Second.\"\"\"
    max_depth = 3
    sub_agents = ["b", "c"]
    [agents.b]
    description = "B."
    sub_agents = ["d"]
    [agents.c]
    description = "C."
    sub_agents = ["d"]
    max_depth = 9
    [agents.d]
    description = "D."
    sub_agents = ["e"]
    [agents.e]
    description = "E."
    sub_agents = ["f"]
    [agents.f]
    description = "F."
    """)
    out = list(describe(load_team(path)))
    assert "  instructions: First.\n        Second." in out
    assert out[-6:] == [
        "a  (depth 0, ceiling 3)",
        "  b  (depth 1, ceiling 3)",
        "    d  (depth 2, ceiling 3)",
        "      e  (depth 3, ceiling 3, cannot delegate here: at the ceiling)",
        "  c  (depth 1, ceiling 3)",
        "    d  (depth 2, ceiling 3, its sub-agents: see above)",
    ]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_what_steers_a_terminal_is_escaped_on_one_and_kept_elsewhere():
    for stream, told in [(Terminal(), "a\\x1b[2Jb\n\tc\n"), (io.StringIO(), "a\x1b[2Jb\n\tc\n")]:
        Out(stream).line("a\x1b[2Jb\n\tc")
        assert stream.getvalue() == told
    Out(None).line("nobody reads this")
    assert printable("plain") == "plain"


def test_a_long_text_is_cut_to_one_line():
    assert short("one\n two") == "one two"
    assert short("x" * 100, 10) == "xxxxxxxxx…"
    assert short(" " * 1000 + "x", 10).endswith("…")


def test_the_tree_takes_events_in_any_order_and_some_twice():
    tree, root = DelegationTree(), RunIdentity.root()
    child = root.child()
    at_root = (Where("lead", root.run_id, None, root.run_id, 0, "call_1"), 1.0, 1.0)
    at_child = (Where("a", child.run_id, root.run_id, root.run_id, 1, "call_2"), 2.0, 2.0)
    started = DelegationStarted(*at_root, "a", "task", child)
    refused = DelegationRefused(*at_child, "b", "task", "refused_depth", "no")
    finished = DelegationFinished(*at_root, "a", child, "child_cancelled", "Sub-agent 'a' was cancelled", 0.5)
    assert tree.note(RunStarted(*at_child, "task")) is None
    assert tree.note(finished) is None
    for event in (started, refused):
        assert tree.note(event) is not None
        assert tree.note(event) is None
    assert tree.note(finished) is not None
    assert tree.note(finished) is None
    assert tree.summary() == "1 cancelled, 1 refused_depth"
    assert [(node.event.name, node.depth, level) for node, level in tree.walk()] == [("a", 1, 0), ("b", 2, 1)]
