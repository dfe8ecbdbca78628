"""Every mistake in a team file is one line: the file, the key's path (or the line), and what was expected."""

import os
import pickle
import sys

import pytest

from symfonic import ConfigurationError, load_team
from symfonic.errors import TeamFileError

LEAD = '[agents.lead]\nsub_agents = ["helper"]\n[agents.helper]\ndescription = "Helps."\n'


def mistakes_of(folder, text):
    path = folder / "team.toml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(TeamFileError) as caught:
        load_team(path)
    lines = str(caught.value).splitlines()
    assert lines == list(caught.value.mistakes)
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "agents: missing; expected a table for each agent, [agents.NAME]"),
        ("[agents]", "agents: expected a table for each agent, [agents.NAME], got an empty table"),
        ("agents = 5", "agents: expected a table for each agent, [agents.NAME], got the integer 5"),
        ("agents.lead = 5", "agents.lead: expected an agent's table, got the integer 5"),
        ("lead = true\n" + LEAD, "lead: expected the name of the agent that takes the task, got true"),
        (
            "led = 'lead'\n" + LEAD,
            "led: unknown key; expected one of agents, lead; did you mean 'lead'?",
        ),
        (
            "max_depth = 3\n" + LEAD,
            "max_depth: unknown key; expected one of agents, lead; it belongs into an agent's table",
        ),
        (
            "[agents.lead]\nmax_deph = 3",
            "agents.lead.max_deph: unknown key; expected one of model, instructions, description, when_to_use,"
            " examples, tools, sub_agents, max_depth, max_steps; did you mean 'max_depth'?",
        ),
        ("[agents.lead]\nmax_depth = '3'", "agents.lead.max_depth: expected an integer >= 0, got the text '3'"),
        ("[agents.lead]\nmax_depth = true", "agents.lead.max_depth: expected an integer >= 0, got true"),
        ("[agents.lead]\nmax_depth = 2.0", "agents.lead.max_depth: expected an integer >= 0, got the number 2.0"),
        ("[agents.lead]\nmax_depth = -1", "agents.lead.max_depth: expected an integer >= 0, got the integer -1"),
        ("[agents.lead]\nmax_steps = 0", "agents.lead.max_steps: expected an integer >= 1, got the integer 0"),
        (
            "[agents.lead]\nmax_steps = 1979-05-27",
            "agents.lead.max_steps: expected an integer >= 1, got the date or time 1979-05-27",
        ),
        ("[agents.lead]\ninstructions = ['a']", "agents.lead.instructions: expected text, got an array"),
        (
            "[agents.lead]\nmodel = 7",
            'agents.lead.model: expected a model: "offline", "openai:NAME" or "langchain:PROVIDER:NAME",'
            " got the integer 7",
        ),
        (
            "[agents.lead]\ndescription = ' '",
            "agents.lead.description: expected text that says what the agent does, got the text ' '",
        ),
        (
            "[agents.lead]\nexamples = ['fine', 3]",
            "agents.lead.examples[1]: expected an example request, a text, got the integer 3",
        ),
        (
            "[agents.lead]\ntools = 'os:getcwd'",
            "agents.lead.tools: expected an array of tools, each \"module:function\", got the text 'os:getcwd'",
        ),
        (
            "[agents.lead]\ntools = ['os.getcwd']",
            "agents.lead.tools[0]: expected a tool, \"module:function\", got the text 'os.getcwd'",
        ),
        (
            "[agents.lead]\nsub_agents = 'helper'",
            "agents.lead.sub_agents: expected an array of agents' names, or a table of agents, got the text 'helper'",
        ),
        (
            "[agents.lead]\nsub_agents = [3]",
            "agents.lead.sub_agents[0]: expected an agent's name, or a table with a name, got the integer 3",
        ),
        (
            "[agents.lead]\nsub_agents = [{description = 'Helps.'}]",
            "agents.lead.sub_agents[0].name: expected a name without blanks and slashes, got nothing",
        ),
        (
            "[agents.lead]\nsub_agents.helper = 'x'",
            "agents.lead.sub_agents.helper: expected an agent's table, got the text 'x'",
        ),
        (
            "[agents.'the lead']",
            "agents.\"the lead\": expected a name without blanks and slashes, got 'the lead'",
        ),
        (
            "[agents.lead.sub_agents.'a/b']\ndescription = 'x'",
            "agents.lead.sub_agents.\"a/b\": expected a name without blanks and slashes, got 'a/b'",
        ),
    ],
)
def test_a_mistake_of_form_names_the_key_and_what_was_expected(tmp_path, text, told):
    assert mistakes_of(tmp_path, text) == [told]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            LEAD.replace('["helper"]', '["helpr"]'),
            "agents.lead.sub_agents[0]: no agent 'helpr' at the top level; expected one of lead, helper;"
            " did you mean 'helper'?",
        ),
        (
            LEAD.replace("description", "when_to_use"),
            "agents.helper.description: missing; expected text that says what the agent does,"
            " as 'lead' may delegate to it",
        ),
        (
            "[agents.lead]\n[agents.lead.sub_agents.helper]",
            "agents.lead.sub_agents.helper.description: missing; expected text that says what the agent does,"
            " as 'lead' may delegate to it",
        ),
        (
            "lead = 'leed'\n" + LEAD,
            "lead: no agent 'leed' at the top level; expected one of lead, helper; did you mean 'lead'?",
        ),
        (
            "[agents.a]\n[agents.b]",
            "lead: missing; expected the name of the agent that takes the task (a, b)",
        ),
        (
            "[agents.a]\ndescription = 'A.'\nsub_agents = ['b']\n[agents.b]\ndescription = 'B.'\nsub_agents = ['a']",
            "lead: missing; expected the name of the agent that takes the task (every one is some other's sub-agent)",
        ),
        (
            LEAD.replace('["helper"]', '["helper", "helper"]'),
            "agents.lead.sub_agents: two sub-agents are named 'helper'",
        ),
        (
            "[agents.lead]\nsub_agents = [{name = 'x', description = 'X.'}, {name = 'x', description = 'Y.'}]",
            "agents.lead.sub_agents[1]: a second agent 'x' here; expected different names",
        ),
        (
            "[agents.lead.sub_agents]\na-b = {description = 'A.'}\nA_b = {description = 'B.'}",
            "agents.lead.sub_agents: the sub-agent names 'a-b' and 'A_b' are the same once normalised"
            " (case, width, '_' and '-' do not tell names apart)",
        ),
    ],
)
def test_a_mistake_of_reference_names_who_refers_to_whom(tmp_path, text, told):
    assert mistakes_of(tmp_path, text) == [told]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[agents.lead]\nmodel = ", "line 2: expected valid TOML: Invalid value (at the end of the file)"),
        ("[agents.lead]\n\n  = 3\n", "line 3, column 3: expected valid TOML: Invalid statement"),
        ("[agents.lead]\n[agents.lead]\n", "line 2, column 13: expected valid TOML: Cannot declare"),
        (b"[agents.lead]\n# caf\xe9\n", "line 2: expected UTF-8 text, got the byte 0xe9"),
        ("[agents.lead]\nmax_steps = " + "1" * 5000, "line 2: expected valid TOML: Exceeds the limit"),
        ("x = " + "[" * 100_000, "its arrays and tables are nested too deeply; expected a few levels"),
    ],
)
def test_text_that_is_not_toml_is_told_with_its_line(tmp_path, text, told):
    (line,) = mistakes_of(tmp_path, text)
    assert line.startswith(told)


def test_a_file_name_that_would_break_the_line_is_escaped(tmp_path):
    with pytest.raises(TeamFileError) as caught:
        load_team(tmp_path / "te\nam.toml")
    assert str(caught.value) == f"{tmp_path}/te\\nam.toml: no such file; expected a team file (TOML)"


def test_a_file_that_cannot_be_read_is_told_as_such(tmp_path):
    for path, told in [
        (tmp_path / "none.toml", "no such file; expected a team file (TOML)"),
        (tmp_path, "this is a directory; expected a team file (TOML)"),
        (f"{tmp_path}/a\0b", "cannot be read (embedded null byte); expected a team file (TOML)"),
        (tmp_path / ("x" * 5000), "cannot be read (File name too long); expected a team file (TOML)"),
    ]:
        with pytest.raises(TeamFileError) as caught:
            load_team(path)
        assert str(caught.value).endswith(f": {told}")
        assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        ("no_such_module_anywhere:f", "there is no module 'no_such_module_anywhere'"),
        ("os.nothing:f", "there is no module 'os.nothing'"),
        ("os:getcwdd", "'os' has no 'getcwdd'; did you mean 'getcwd'?"),
        ("broken:f", "the module 'broken' cannot be imported: ZeroDivisionError: division by zero"),
        ("half:f", "the module 'half' cannot be imported: No module named 'absent_neighbour'"),
        ("leaving:f", "the module 'leaving' cannot be imported: SystemExit: 3"),
        ("wrong:f", "the module 'wrong' cannot be imported: SyntaxError: "),
    ],
)
def test_a_tool_that_cannot_be_imported_says_why(tmp_path, tool, told):
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "half.py").write_text("import absent_neighbour\n")
    (tmp_path / "leaving.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "wrong.py").write_text("def f(:\n")
    (line,) = mistakes_of(tmp_path, f"[agents.lead]\ntools = ['os:getcwd', '{tool}']")
    assert line.startswith(f"agents.lead.tools[1]: {told}")
    assert line.endswith('; expected a tool, "module:function"')


def test_a_tool_that_is_no_function_is_told_with_its_agent(tmp_path):
    (line,) = mistakes_of(tmp_path, "[agents.lead]\ntools = ['os:sep']")
    assert line.startswith("agents.lead.tools: ")


def test_a_tool_named_like_a_delegation_tool_is_told_with_its_agent(tmp_path):
    (tmp_path / "mine.py").write_text("def run_agent() -> str:\n    'Mine.'\n    return ''\n")
    (line,) = mistakes_of(tmp_path, LEAD.replace("[agents.helper]", "tools = ['mine:run_agent']\n[agents.helper]"))
    assert line.startswith("agents.lead.tools: ")
    assert "'run_agent'" in line


def test_a_model_that_cannot_be_had_is_told_with_its_agent(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    lines = mistakes_of(
        tmp_path, "[agents.lead]\nmodel = 'ofline'\nsub_agents.x = {model = 'openai:m', description = 'X'}"
    )
    assert lines[0].startswith("agents.lead.model: model 'ofline' is none of those accepted")
    assert lines[1].startswith("agents.lead.sub_agents.x.model: ")
    assert "OPENAI_API_KEY" in lines[1]


def test_all_mistakes_of_a_kind_are_told_at_once_and_nothing_is_imported(tmp_path):
    (tmp_path / "tellingly.py").write_text("def f() -> str:\n    return ''\n")
    lines = mistakes_of(
        tmp_path, "[agents.lead]\nmax_depth = -1\nfoo = 1\ntools = ['tellingly:f']\n[agents.x]\nsub_agents = ['y']\n"
    )
    assert [line.split(":")[0] for line in lines] == [
        "agents.lead.max_depth",
        "agents.lead.foo",
        "agents.x.sub_agents[0]",
    ]
    assert "tellingly" not in sys.modules


def test_agents_nested_without_end_are_told_as_such(tmp_path):
    key = "agents.lead" + ".sub_agents.x" * 300
    (line,) = mistakes_of(tmp_path, f"[{key}]\ndescription = 'X'")
    assert line.endswith(".sub_agents.x: expected at most 50 levels of agents in agents")


def test_names_that_would_break_the_line_are_escaped(tmp_path):
    (line,) = mistakes_of(tmp_path, '[agents.lead]\n"a\\nb\\u2028\\u001b[31m" = 1')
    assert line.startswith('agents.lead."a\\nb\\u2028\\u001b[31m": unknown key')


def test_a_long_list_of_names_to_choose_from_is_cut(tmp_path):
    agents = "".join(f"[agents.a{number}]\n" for number in range(100))
    (line,) = mistakes_of(tmp_path, "lead = 'zz'\n" + agents)
    assert line.endswith("a10, a11, and 88 more")


def test_the_error_is_a_configuration_error_that_survives_pickling(tmp_path):
    with pytest.raises(ConfigurationError) as caught:
        load_team(os.path.join(tmp_path, "none.toml"))
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy)) == (TeamFileError, str(caught.value))
