"""Crews and agents of CrewAI that several want at once, and what ends a run of theirs from inside."""

from typing import Any

import pytest
import turns_kit
from adapter_kit import lead, the_record
from crewai import Crew, Task
from crewai.core.providers.human_input import SyncHumanInputProvider, reset_provider, set_provider
from crewai.hooks import InterceptionPoint, register_hook, unregister_hook
from crewai.hooks.dispatch import HookAborted, scoped_hooks
from crewai.tools import tool
from crewai_kit import agent_that_calls, crew, small_crew, that_calls_alone_and_in_a_crew, uses, worker

from symfonic import DelegationOutcome, Limits, Options
from symfonic.adapters.crewai import FeedbackNeededError
from symfonic.kernel.contracts.messages import Usage

# One at a time


@pytest.mark.parametrize("limits", [None, Limits(max_concurrency=1)])
@that_calls_alone_and_in_a_crew
async def test_called_twice_at_once_it_takes_one_after_the_other_wherever_it_is_declared(calling: Any, limits: Any):
    work = turns_kit.Work()
    child = calling(work.tool)
    run = await turns_kit.called_twice_at_once_it_takes_one_after_the_other({"ann": child, "bob": child}, work, limits)
    assert run.usage == Usage(56, 24, 8, 4)
    model = getattr(child, "agents", [child])[0].llm
    assert all(("ann" in str(sent)) != ("bob" in str(sent)) for sent in model.sent), model.sent


async def test_an_agent_that_is_in_two_crews_works_in_one_at_a_time():
    work = turns_kit.Work()
    shared = agent_that_calls(work.tool)
    unlisted = Crew(tasks=[Task(description="Work on {task}", expected_output="An answer.", agent=shared)])
    await turns_kit.called_twice_at_once_it_takes_one_after_the_other({"ann": crew(shared), "bob": unlisted}, work)


@that_calls_alone_and_in_a_crew
async def test_with_few_places_in_the_tree_those_who_wait_for_a_turn_hold_none(calling: Any):
    await turns_kit.those_who_wait_for_a_turn_hold_no_place(calling)


@that_calls_alone_and_in_a_crew
async def test_called_from_below_itself_it_is_refused_and_not_waited_for(calling: Any):
    await turns_kit.called_from_below_itself_it_is_refused(calling)


@that_calls_alone_and_in_a_crew
async def test_two_that_call_each_other_do_not_wait_for_each_other_for_ever(calling: Any):
    await turns_kit.two_that_call_each_other_do_not_wait_for_ever(calling)


# What ends it from inside


class StoppedError(Exception):
    """A signal."""


@that_calls_alone_and_in_a_crew
async def test_a_signal_raised_in_a_tool_passes_where_it_is_named_and_else_is_told_to_its_model(calling: Any):
    signal = StoppedError("enough")

    def stop() -> str:
        """Stop."""
        raise signal

    with pytest.raises(StoppedError) as caught:
        await lead(calling(stop), options=Options(pass_through=(StoppedError,))).run("go")
    assert caught.value is signal
    assert (await the_record(calling(stop))).message == "done"


@pytest.mark.parametrize("native", [True, False])
async def test_a_signal_ends_the_run_before_the_next_model_call_in_every_way_of_calling_tools(native: bool):
    def stop() -> str:
        """Stop."""
        raise StoppedError("enough")

    def fine() -> str:
        """Work."""
        return "fine"

    text = "Thought: I stop\nAction: stop\nAction Input: {}"
    child = worker(
        [uses("fine", "a"), uses("stop", "b")] if native else text,
        again=True,
        tools=[tool(stop), tool(fine)],
        native=native,
    )
    with pytest.raises(StoppedError) as caught:
        await lead(child, options=Options(pass_through=(StoppedError,))).run("go")
    assert str(caught.value) == "enough"
    assert len(child.llm.sent) == 1


async def test_a_signal_passes_also_from_behind_another_error_and_where_no_model_call_follows():
    signal = StoppedError("enough")

    def stop() -> str:
        """Stop."""
        raise RuntimeError("the tool broke") from signal

    pass_through = Options(pass_through=(StoppedError,))
    at_its_end = worker([uses("stop")], "the forced last answer", tools=[tool(stop)], max_iter=1)
    slow = crew(worker(signal, max_execution_time=20, max_retry_limit=0))  # theirs wraps what it raises
    for child in (agent_that_calls(stop), at_its_end, slow, worker(signal)):
        with pytest.raises(StoppedError) as caught:
            await lead(child, options=pass_through).run("go")
        assert caught.value is signal


def that_asks_a_person(*replies: Any) -> Any:
    return crew(worker(*replies), last={"human_input": True})


async def test_a_person_who_is_asked_is_a_signal_where_it_is_named_and_else_its_failure():
    with pytest.raises(FeedbackNeededError) as caught:
        await lead(that_asks_a_person("12"), options=Options(pass_through=(FeedbackNeededError,))).run("go")
    assert caught.value.answer == "12"
    record = await the_record(that_asks_a_person("12"))
    assert record.outcome is DelegationOutcome.CHILD_FAILED
    assert "it waits for a person's feedback, which nobody here can give, on its answer: 12" in record.message
    assert isinstance(record.trace.error, FeedbackNeededError)
    assert record.trace.usage.model_calls == 1


async def test_who_gives_feedback_in_the_program_is_asked():
    class Content(SyncHumanInputProvider):
        @staticmethod
        def _prompt_input(crew: Any) -> str:
            return ""

    token = set_provider(Content())
    try:
        assert (await the_record(that_asks_a_person("12"))).message == "12"
    finally:
        reset_provider(token)


async def test_hooks_of_the_users_own_are_called_and_may_end_it():
    called: list[str] = []

    def everywhere(_: Any) -> None:
        called.append("everywhere")

    def here(_: Any) -> None:
        called.append("here")

    register_hook(InterceptionPoint.PRE_MODEL_CALL, everywhere)
    try:
        with scoped_hooks({InterceptionPoint.PRE_MODEL_CALL: [here]}):
            record = await the_record(small_crew("Hallo"))
    finally:
        unregister_hook(InterceptionPoint.PRE_MODEL_CALL, everywhere)
    assert record.trace.usage.model_calls == 1
    assert called == ["everywhere", "here"]

    def abort(_: Any) -> None:
        raise HookAborted("not today")

    with scoped_hooks({InterceptionPoint.PRE_MODEL_CALL: [abort]}):
        record = await the_record(small_crew("Hallo"))
    assert record.message == "Sub-agent 'child' failed: not today"
    assert isinstance(record.trace.error, HookAborted)
