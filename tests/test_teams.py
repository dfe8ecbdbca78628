"""A team file becomes agents that delegate as it says."""

import sys
from pathlib import Path

import pytest

from symfonic import Agent, ConfigurationError, DelegationOutcome, load_team
from symfonic.errors import MaxStepsError
from symfonic.kernel.contracts.events import DelegationFinished, DelegationRefused, DelegationStarted
from symfonic.teams import Team
from symfonic.testing import FunctionModel, ScriptedModel, tool_call

TEAM = """
lead = "lead"

[agents.lead]
instructions = "You lead."
sub_agents = ["surveyor", "historian"]

[agents.surveyor]
description = "Counts files."
when_to_use = "for sizes"
examples = ["How many files are there?"]
sub_agents = ["counter"]

[agents.historian]
description = "Knows the history."
sub_agents = ["counter"]

[agents.counter]
description = "Counts."
"""


@pytest.fixture
def write(tmp_path):
    def written(text, **modules):
        for name, source in modules.items():
            (tmp_path / f"{name}.py").write_text(source)
        path = tmp_path / "team.toml"
        path.write_text(text)
        return path

    return written


def ask(name, task="go", then="done"):
    return ScriptedModel(tool_call("run_agent", name=name, task=task), then)


async def test_the_lead_delegates_to_those_it_refers_to(write):
    team = load_team(write(TEAM)).override(
        {
            "lead": ask("surveyor", "count"),
            "surveyor": ask("counter", "3 files"),
            "surveyor/counter": ScriptedModel("3"),
        }
    )
    result = await team.run("How many?")
    (record,) = result.delegations
    assert (record.name, record.outcome, record.trace.task) == ("surveyor", DelegationOutcome.DELIVERED, "count")
    assert [(each.name, each.message, each.depth) for each in record.children] == [("counter", "3", 2)]


async def test_a_model_reads_descriptions_and_guidance_and_not_examples(write):
    seen = []

    def read(messages, tools):
        seen.append((messages[0].text, {tool.name: tool for tool in tools}["run_agent"]))
        return "ok"

    await load_team(write(TEAM)).override({"lead": FunctionModel(read)}).run("hello")
    ((instructions, tool),) = seen
    assert instructions == "You lead."
    assert tool.description.endswith("  - surveyor: Counts files. (for sizes)\n  - historian: Knows the history.")
    assert tool.routes[0].examples == ("How many files are there?",)


def test_an_agent_that_several_refer_to_is_one_object(write):
    team = load_team(write(TEAM))
    assert list(team.agents) == ["lead", "surveyor", "historian", "counter"]
    assert all(isinstance(agent, Agent) for agent in team.agents.values())
    assert team.agent is team.agents["lead"]


def test_the_only_agent_that_no_other_refers_to_leads(write):
    assert load_team(write(TEAM.replace('lead = "lead"', ""))).agent.name == "lead"
    assert load_team(write('[agents.alone]\ndescription = "A."\nsub_agents = ["alone"]')).agent.name == "alone"


async def test_sub_agents_nest_as_tables_and_in_arrays_and_refer_to_the_top(write):
    team = load_team(
        write("""
        [agents.boss.sub_agents.left]
        description = "Left."
        [agents.boss.sub_agents.left.sub_agents.deep]
        description = "Deep."
        sub_agents = ["shared", {name = "last", description = "Last."}]
        [agents.shared]
        description = "Shared."
        """)
    )
    assert list(team.agents) == ["boss", "boss/left", "boss/left/deep", "boss/left/deep/last", "shared"]
    deep = team.override(
        {
            "boss": ask("left"),
            "left": ask("deep"),
            "boss/left/deep": ask("last"),
            "left/deep/last": ScriptedModel("end"),
        }
    )
    result = await deep.run("go", max_depth=2)
    record = result.delegations[0].children[0]
    assert (record.name, record.delivered) == ("deep", True)
    assert [(child.name, child.outcome) for child in record.children] == [("last", DelegationOutcome.REFUSED_DEPTH)]


async def test_a_cycle_runs_until_the_depth_bounds_it(write):
    path = write(
        """
    lead = "ping"
    [agents.ping]
    description = "Ping."
    sub_agents = ["pong"]
    max_depth = 3
    [agents.pong]
    description = "Pong."
    sub_agents = ["ping", "pong"]
    """
    )
    started = []
    team = load_team(path, observers=(started.append,)).override(
        {"ping": ask("pong", then="pinged"), "pong": ask("ping", then="ponged")}
    )
    record = (await team.run("go")).delegations[0]
    chain = []
    while record:
        chain.append((record.name, record.depth, str(record.outcome)))
        record = record.children[0] if record.children else None
    assert chain == [
        ("pong", 1, "delivered"),
        ("ping", 2, "delivered"),
        ("pong", 3, "delivered"),
        ("ping", 4, "refused_depth"),
    ]
    assert len({event.child.run_id for event in started if isinstance(event, DelegationStarted)}) == 3


async def test_max_steps_and_max_depth_bound_the_agent_that_names_them(write):
    asked = []

    def endless(messages, tools):
        asked.append(tools)
        return tool_call("run_agent", name="helper", task="more")

    text = """
    [agents.lead]
    max_steps = 2
    max_depth = 0
    sub_agents.helper.description = "Helps."
    """
    seen = []
    team = load_team(write(text), observers=(seen.append,)).override({"lead": FunctionModel(endless)})
    with pytest.raises(MaxStepsError):
        await team.run("go")
    assert len(asked) == 2
    refused = [event for event in seen if isinstance(event, DelegationRefused)]
    assert [(event.name, event.outcome) for event in refused] == [("helper", "refused_depth")]
    assert not any(isinstance(event, DelegationStarted) for event in seen)


async def test_observers_are_told_of_every_delegation_once(write):
    seen = []
    team = load_team(write(TEAM), observers=(seen.append,)).override(
        {"lead": ask("historian"), "historian": ask("counter"), "historian/counter": ScriptedModel("4")}
    )
    await team.run("go")
    kinds = DelegationStarted | DelegationRefused | DelegationFinished
    assert [(type(event), event.name) for event in seen if isinstance(event, kinds)] == [
        (DelegationStarted, "historian"),
        (DelegationStarted, "counter"),
        (DelegationFinished, "counter"),
        (DelegationFinished, "historian"),
    ]


TOOLS = """
[agents.lead]
tools = ["{module}:{name}"]
"""


async def call(team, tool, **arguments):
    result = await team.override({"lead": ScriptedModel(tool_call(tool, **arguments), "done")}).run("go")
    return result.messages[-2].text


async def test_tools_come_from_the_folder_of_the_file(write):
    source = "import neighbour\ndef add(a: int, b: int) -> int:\n    'Add.'\n    return neighbour.plus(a, b)\n"
    before = list(sys.path)
    team = load_team(
        write(
            TOOLS.format(module="adding_up", name="add"), adding_up=source, neighbour="def plus(a, b): return a + b\n"
        )
    )
    assert await call(team, "add", a=2, b=3) == "5"
    assert sys.path == before


async def test_two_teams_have_modules_of_the_same_name(tmp_path):
    teams = []
    for number in (1, 2):
        folder = tmp_path / str(number)
        (folder / "kit").mkdir(parents=True)
        (folder / "kit" / "__init__.py").write_text("from kit.parts import which\n")
        (folder / "kit" / "parts.py").write_text(f"def which() -> int:\n    'Which.'\n    return {number}\n")
        (folder / "team.toml").write_text(TOOLS.format(module="kit", name="which"))
        teams.append(load_team(folder / "team.toml"))
    assert [await call(team, "which") for team in teams] == ["1", "2"]
    assert Path(sys.modules["kit"].__file__).parent == tmp_path / "1" / "kit"
    assert Path(sys.modules["kit.parts"].__file__).parent == tmp_path / "1" / "kit"


async def test_a_module_of_the_folder_does_not_replace_one_of_the_standard_library(write):
    team = load_team(write(TOOLS.format(module="posixpath", name="basename"), posixpath="basename = None\n"))
    assert "run" in dir(team)
    assert sys.modules["posixpath"].basename("a/b") == "b"


def test_a_tool_may_be_an_attribute_of_an_object(write):
    source = "class Kit:\n    @staticmethod\n    def size() -> int:\n        'Size.'\n        return 1\n"
    assert load_team(write(TOOLS.format(module="a_kit", name="Kit.size"), a_kit=source)).agents


async def test_one_model_for_all_needs_none_of_the_files_models(write, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    path = write('[agents.lead]\nmodel = "openai:gpt-9"')
    assert (await load_team(path, model=ScriptedModel("hello")).run("hi")).text == "hello"
    with pytest.raises(ConfigurationError, match="none of those accepted"):
        load_team(path, model="nonsense")


async def test_override_leaves_the_original_alone(write):
    first = load_team(write('[agents.lead]\nmodel = "offline"'))
    second = first.override({"lead": ScriptedModel("second")})
    third = second.override({"lead": ScriptedModel("third")})
    assert [(await team.run("hi")).text for team in (second, third, second)] == ["second", "third", "second"]
    assert (await first.run("hi")).text not in ("second", "third")


@pytest.mark.parametrize("path", ["surveyor/counter", "historian/counter", "lead/surveyor/counter"])
async def test_any_path_to_an_agent_swaps_its_model_everywhere(write, path):
    team = load_team(write(TEAM)).override(
        {"lead": ask("surveyor"), "surveyor": ask("counter"), path: ScriptedModel("counted")}
    )
    assert (await team.run("go")).delegations[0].children[0].message == "counted"


@pytest.mark.parametrize("path", ["survey", "surveyor/historian", "counter", "", "surveyor/", "lead/lead"])
def test_a_path_that_leads_nowhere_is_refused_with_the_known_ones(write, path):
    team = load_team(write(TEAM))
    with pytest.raises(ConfigurationError) as caught:
        team.override({path: "offline"})
    assert str(caught.value).startswith(
        f"Team.override: no agent at {path!r};"
        " expected one of lead, surveyor, historian, surveyor/counter, historian/counter"
    )


def test_known_paths_do_not_go_round_a_cycle(write):
    team = load_team(
        write('[agents.lead]\ndescription = "L."\nsub_agents = ["lead", {name = "x", description = "X."}]')
    )
    with pytest.raises(ConfigurationError, match=r"expected one of lead, x$"):
        team.override({"nobody": "offline"})
    assert team.override({"lead/lead/lead/x": "offline"}).agents


def test_a_bad_model_and_two_models_for_one_agent_are_refused(write):
    team = load_team(write(TEAM))
    with pytest.raises(ConfigurationError, match=r"^Team.override: 'surveyor': model 'bad' is none"):
        team.override({"surveyor": "bad"})
    with pytest.raises(ConfigurationError, match=r"'historian/counter' is agents.counter, which another path gives"):
        team.override({"surveyor/counter": ScriptedModel("1"), "historian/counter": ScriptedModel("2")})


async def test_a_team_is_a_context_manager_that_can_be_entered_again(write):
    team = load_team(write(TEAM), model=ScriptedModel("fine"))
    for _ in range(2):
        async with team as entered:
            assert entered is team
            assert (await team.run("go")).text == "fine"
    assert repr(team).endswith("lead='lead', 4 agents)")
    assert isinstance(team, Team)


def test_a_byte_order_mark_and_windows_line_ends_are_read(tmp_path):
    path = tmp_path / "team.toml"
    path.write_bytes(b"\xef\xbb\xbf" + TEAM.replace("\n", "\r\n").encode())
    assert len(load_team(path).agents) == 4


def test_a_thousand_agents_in_a_row_are_built(write):
    rows = [f'[agents.a{n}]\ndescription = "A."\nsub_agents = ["a{n + 1}"]\n' for n in range(1000)]
    team = load_team(write("".join(rows) + '[agents.a1000]\ndescription = "Z."\n'))
    assert (team.agent.name, len(team.agents)) == ("a0", 1001)
    with pytest.raises(ConfigurationError, match="and 38 more"):
        team.override({"b": "offline"})
