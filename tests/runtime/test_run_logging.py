"""What is logged: under `symfonic`, with the run's ids on every line, and nothing of what was asked or answered."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from runtime_fakes import NATIVE, Kind, Spot, answer, calls, child, delegates, raising, spots_of

import symfonic
from symfonic import Options
from symfonic.errors import ModelError
from symfonic.testing import ScriptedChild, tool_call

SECRET = "the-secret-of-the-task"


@pytest.fixture
def lines() -> Iterator[list[logging.LogRecord]]:
    """Everything logged below `symfonic`."""
    kept: list[logging.LogRecord] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record)

    logger, keeper = logging.getLogger("symfonic"), Keeper()
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(keeper)
    yield kept
    logger.removeHandler(keeper)
    logger.setLevel(level)


def written(lines: list[logging.LogRecord]) -> list[str]:
    """The lines as a handler writes them, tracebacks included."""
    return [logging.Formatter("%(name)s %(message)s").format(line) for line in lines]


async def test_every_line_carries_the_ids_of_its_run_and_no_task_text(
    lines: list[logging.LogRecord], kind: Kind
) -> None:
    seen: list[Spot] = []

    async def work(text: str) -> str:
        return text

    inner = kind.agent(spots_of(answer(SECRET), seen))
    agent = kind.agent(
        spots_of(calls(tool_call("run_agent", name="child", task=SECRET), tool_call("work", text=SECRET)), seen),
        instructions=SECRET,
        tools=[kind.tool(work)],
        sub_agents=[child(inner)],
    )
    await agent.run(SECRET, scope=SECRET)
    told = written(lines)
    assert all(line.name.split(".")[0] == "symfonic" for line in lines)
    for run in seen:
        assert any(run.run_id in line and run.root_run_id in line for line in told)
    assert all(any(run.run_id in line for run in seen) for line in told)
    assert SECRET not in "\n".join(told)


async def test_a_failed_run_is_logged_with_its_ids_and_without_the_errors_text(
    lines: list[logging.LogRecord], kind: Kind
) -> None:
    agent = symfonic.Agent(kind.script(ValueError(SECRET)))
    with pytest.raises(ModelError) as caught:
        await agent.run(SECRET)
    told = written(lines)
    assert all(caught.value.run_id in line for line in told)
    assert any("ModelError" in line for line in told)
    assert SECRET not in "\n".join(told)


async def test_a_failed_child_and_a_refusal_leave_no_text_in_the_log(lines: list[logging.LogRecord]) -> None:
    for name, ceiling in (("child", 2), (SECRET, 2), ("child", 0)):
        agent = NATIVE.agent(
            delegates(name, SECRET), sub_agents=[child(raising(ValueError(SECRET)))], max_depth=ceiling
        )
        result = await agent.run(SECRET)
        assert any(result.run_id in line for line in written(lines))
    assert SECRET not in "\n".join(written(lines))


async def test_a_library_that_is_not_asked_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    await NATIVE.agent(delegates(), sub_agents=[child(raising(ValueError(SECRET)))]).run(SECRET)
    assert capfd.readouterr() == ("", "")


async def test_an_observer_that_raises_is_logged_and_changes_nothing(lines: list[logging.LogRecord]) -> None:
    worker = ScriptedChild("fine")

    def observer(event: Any) -> None:
        raise RuntimeError("cannot watch")

    agent = NATIVE.agent(delegates(), sub_agents=[child(worker)], options=Options(observers=(observer,)))
    result = await agent.run("go")
    assert (result.text, len(worker.calls), result.delegated_to) == ("fine", 1, ("child",))
    assert any("cannot watch" in line for line in written(lines))
