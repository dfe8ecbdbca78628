"""The fault campaign, shortly; and that it can fail."""

import re

import pytest
from tools.campaign.planted import PLANTED
from tools.campaign.run import campaign, main

FOUND_BY = {
    "lost_restore": "left behind: ",
    "raced_tally": "delegated to",
    "leaked_slot": "a budget still counts|did not end",
    "ignored_deadline": "did not end|after the deadline",
    "lost_record": "started .* closed|records .* closing events",
    "late_reservation": "max_(delegations|fan_out|repeats)=.* and there were",
    "forgotten_ceiling": "the ceiling was",
    "dropped_usage": "its models saw",
}


async def test_six_hundred_trees_of_failing_children_break_no_promise() -> None:
    report = await campaign(seed=0, trees=600)
    assert report.violations == []
    assert report.trees == 600
    assert report.growth() is None


@pytest.mark.parametrize("bug", PLANTED)
async def test_a_planted_bug_is_found_within_a_thousand_trees(bug: str) -> None:
    with PLANTED[bug]():
        report = await campaign(seed=2, trees=1000, stop=True, patience=1.0)
    assert any(re.search(FOUND_BY[bug], violation) for violation in report.violations), report.violations
    assert len(PLANTED) == 8


async def test_a_tree_is_drawn_from_its_seed_and_number_alone() -> None:
    with PLANTED["forgotten_ceiling"]():
        found = (await campaign(seed=2, trees=1000, stop=True)).violations[0]
        number = int(re.match(r"tree 2/(\d+): ", found)[1])
        again = (await campaign(seed=2, trees=1, first=number)).violations[0]
    assert again == found


def test_the_report_ends_with_the_number_of_violations(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--trees", "60"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("trees run: 60 in ")
    assert any(line.startswith("memory over the second half: ") for line in lines)
    assert lines[-1] == "violations: 0"


def test_a_kind_of_fault_that_was_hardly_met_fails_a_thorough_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--trees", "6", "--thorough"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert any(re.fullmatch(r"depth 6: \d+ hits, expected 50", line) for line in lines)
    assert int(lines[-1].removeprefix("violations: ")) > 0


def test_a_violation_fails_the_campaign(capsys: pytest.CaptureFixture[str]) -> None:
    with PLANTED["dropped_usage"]():
        assert main(["--trees", "60", "--stop"]) == 1
    assert "its models saw" in capsys.readouterr().out
