"""Crews and agents of CrewAI as children: which can be one, what they answer, and how they fail."""

import subprocess
import sys
from typing import Any

import pytest
from adapter_kit import ask, the_record
from crewai import Flow, Task
from crewai.agents.agent_adapters.base_agent_adapter import BaseAgentAdapter
from crewai.flow.flow import start
from crewai_kit import (
    Says,
    alone_and_in_a_crew,
    crew,
    note,
    of,
    small_crew,
    that_calls_alone_and_in_a_crew,
    uses,
    worker,
)
from pydantic import BaseModel

from symfonic import DelegationOutcome
from symfonic.adapters.crewai import CrewAIChild, adopt
from symfonic.errors import ChildDeclarationError, ConfigurationError
from symfonic.kernel.contracts.messages import Usage
from symfonic.testing import check_child_runner

# What it answers


@alone_and_in_a_crew
async def test_the_contract_of_a_child(make: Any):
    await check_child_runner(lambda: make("Hallo", again=True), make_failing=lambda: make(ValueError("no"), again=True))


@alone_and_in_a_crew
async def test_it_is_known_where_it_is_declared_and_the_whole_output_is_kept(make: Any):
    record = await the_record(make("Hallo"))
    assert record.delivered, record
    assert record.message == "Hallo"
    assert record.trace.result.result.raw == "Hallo"
    assert adopt("x", Says("a")) is None
    assert adopt("x", type(make())) is None


class City(BaseModel):
    name: str
    inhabitants: int


ZURICH = '{"name": "Zürich", "inhabitants": 400000}'


async def test_a_structured_answer_is_json_and_the_object_is_kept():
    structured = {
        "pydantic": (crew(worker(ZURICH), last={"output_pydantic": City})),
        "json_dict": (crew(worker(ZURICH), last={"output_json": City})),
    }
    for field, child in structured.items():
        record = await the_record(child)
        assert record.message == ZURICH
        kept = getattr(record.trace.result.result, field)
        assert City.model_validate(kept) == City(name="Zürich", inhabitants=400_000)
    record = await the_record(CrewAIChild("child", worker(ZURICH), response_format=City))
    assert record.message == ZURICH
    assert record.trace.result.result.pydantic == City(name="Zürich", inhabitants=400_000)


async def test_the_answer_of_a_crew_is_that_of_its_last_task():
    child = crew(worker("first"), worker("second"))
    record = await the_record(child)
    assert record.message == "second"
    assert [each.raw for each in record.trace.result.result.tasks_output] == ["first", "second"]
    assert record.trace.usage == Usage(14, 6, 2)


@alone_and_in_a_crew
@pytest.mark.parametrize("silence", ["", " \n"])
async def test_an_empty_answer_is_a_failure(make: Any, silence: str):
    record = await the_record(make(silence, again=True))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message


async def test_a_crew_that_streams_answers_too_and_is_counted():
    record = await the_record(crew(worker([uses("note")], "done", tools=[note]), stream=True))
    assert record.message == "done"
    assert record.trace.usage == Usage(14, 6, 2, 1)


async def test_the_task_arrives_as_it_was_sent():
    text = ' {"a": 1} {task} %s $x\nü'
    for child, model in ((agent := worker("ok"), agent.llm), (team := small_crew("ok"), team.agents[0].llm)):
        await ask(of(child), task=text)
        assert text in model.sent[0][-1]


# What can be declared


async def test_the_task_is_the_one_input_that_a_crew_has_a_placeholder_for_also_when_it_ran_before():
    team = small_crew("first", "second", description='Say {"a": 1} about {topic}')
    capability = of(team)
    assert await ask(capability, task="owls") == "first"
    assert await ask(of(team), task="cats") == "second"
    first, second = (sent[-1] for sent in team.agents[0].llm.sent)
    assert 'Say {"a": 1} about owls' in first
    assert 'Say {"a": 1} about cats' in second
    assert "owls" not in second
    of(crew(worker("ok", goal="Know {topic}"), description="Work."))


def test_a_crew_whose_inputs_are_none_or_several_is_refused_where_it_is_declared():
    with pytest.raises(ChildDeclarationError, match=r"'child' is a crew whose tasks and agents have no placeholder"):
        of(small_crew(description="Work."))
    with pytest.raises(
        ChildDeclarationError, match=r"inputs topic, tone.*CrewAIChild\('child', crew, inputs={'tone': ...}\)"
    ):
        of(small_crew(description="Say {topic} in a {tone} tone"))


async def test_a_crew_with_several_inputs_is_given_the_others():
    team = small_crew("ok", description="Say {topic} in a {tone} tone")
    assert await ask(of(CrewAIChild("child", team, inputs={"tone": "dry"})), task="owls") == "ok"
    assert "Say owls in a dry tone" in team.agents[0].llm.sent[0][-1]
    with pytest.raises(ConfigurationError, match="a delegation itself gives messages"):
        CrewAIChild("child", worker("ok"), messages="x")


class Walk(Flow):
    @start()
    def begin(self) -> str:
        return "begun"


class Wrapped(BaseAgentAdapter):
    def configure_tools(self, tools: Any = None) -> None: ...
    def execute_task(self, *_: Any, **__: Any) -> str: ...
    async def aexecute_task(self, *_: Any, **__: Any) -> str: ...
    def create_agent_executor(self, tools: Any = None) -> None: ...
    def get_delegation_tools(self, agents: Any) -> Any: ...
    def get_output_converter(self, *_: Any, **__: Any) -> Any: ...
    def get_platform_tools(self, apps: Any) -> Any: ...
    def get_mcp_tools(self, mcps: Any) -> Any: ...
    def configure_structured_output(self, task: Any) -> None: ...


def test_what_cannot_be_adopted_is_refused_where_it_is_declared():
    wrapped = Wrapped(role="clerk", goal="Answer.", backstory="You answer.", llm=Says("never"))
    for child, words in (
        (Task(description="Work.", expected_output="An answer."), "a Task of CrewAI, .* put it into a Crew"),
        (Walk(), r"a Walk of CrewAI, .* from_callable\(\.\.\.\)"),
        (wrapped, "a Wrapped of CrewAI, .* put it into a Crew"),
    ):
        with pytest.raises(ChildDeclarationError, match=f"'child' is {words}"):
            of(child)


# How it may fail


@alone_and_in_a_crew
async def test_an_exception_is_its_failure_with_its_words_and_the_original(make: Any):
    error = ValueError("no such town")
    record = await the_record(make(error, again=True))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert record.message == "Sub-agent 'child' failed: no such town"
    assert record.trace.error is error


async def test_a_crew_tries_again_as_often_as_its_agents_are_told_to_and_each_try_counts():
    error = ConnectionError("down")
    record = await the_record(crew(worker(error, "came back", max_retry_limit=1)))
    assert record.message == "came back"
    assert record.trace.usage == Usage(7, 3, 2)


@that_calls_alone_and_in_a_crew
async def test_what_a_tool_raises_is_told_to_its_model(calling: Any):
    def fail() -> str:
        """Fail."""
        raise ValueError("broken")

    record = await the_record(calling(fail))
    assert record.message == "done"


@alone_and_in_a_crew
async def test_a_tool_that_there_is_not_is_told_to_its_model_and_not_counted(make: Any):
    record = await the_record(make([uses("nothing")], "done", tools=[note]))
    assert record.message == "done"
    assert record.trace.usage == Usage(14, 6, 2, 0)


def test_nothing_of_theirs_is_imported_before_it_is_needed():
    program = "import sys, symfonic.adapters.crewai; print('crewai' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"
