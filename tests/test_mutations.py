"""What must not be possible unnoticed: each mutation of the source makes a contract test fail.

Every mutation is applied to a copy of the source tree, and one test is run against the copy.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

PROJECT = Path(__file__).parent.parent
DELEGATION = "symfonic/capabilities/delegation"
CONTRACT = "tests/contract"


class Mutation(NamedTuple):
    """One wrong turn: in ``file``, ``old`` becomes ``new``, and ``test`` must fail."""

    title: str
    file: str
    old: str
    new: str
    test: str


DEPTH_CHECK = """\
            if not ceiling.admits(parent_depth):
                return call.refused(DelegationOutcome.REFUSED_DEPTH, ceiling.refusal())
"""
NAME_CHECK = """\
            if name not in self.roster:
                return call.refused(DelegationOutcome.UNKNOWN_CHILD, self._unknown(name))
"""
CHILD_FAILED = "        except Exception as error:\n            record = call.failed(error)\n"

MUTATIONS = [
    Mutation(
        "depth and name checks swapped",
        f"{DELEGATION}/tools.py",
        DEPTH_CHECK + NAME_CHECK,
        NAME_CHECK + DEPTH_CHECK,
        f"{CONTRACT}/test_tools.py::test_at_the_ceiling_a_delegation_is_refused_before_the_roster_is_touched",
    ),
    Mutation(
        "tally written before delivery",
        f"{DELEGATION}/tools.py",
        "        lineage = current_identity()\n",
        "        self.context.record_delegation(call.name)\n        lineage = current_identity()\n",
        f"{CONTRACT}/test_tools_outcomes.py::test_the_tally_counts_deliveries_and_nothing_else",
    ),
    Mutation(
        "tally written although recording is off",
        f"{DELEGATION}/tools.py",
        "        if record.delivered and self._record:\n",
        "        if record.delivered:\n",
        f"{CONTRACT}/test_tools_outcomes.py::test_without_recording_only_the_tally_is_missing",
    ),
    Mutation(
        "tally written after the run has ended",
        f"{DELEGATION}/active_run.py",
        "        if self._open:\n            self._delegated.append(name)\n",
        "        self._delegated.append(name)\n",
        f"{CONTRACT}/test_scopes_end.py::test_a_task_that_outlives_its_run_writes_into_no_finished_tally",
    ),
    Mutation(
        "scope not restored",
        f"{DELEGATION}/active_run.py",
        "        Block.__exit__(self, kind, error, trace)\n        self.value.finish()\n",
        "        self.value.finish()\n",
        f"{CONTRACT}/test_context.py::test_a_run_scope_opens_an_active_run_for_the_code_inside",
    ),
    Mutation(
        "a scope closed out of order closes what is open inside it",
        "symfonic/kernel/contracts/ambient.py",
        "        if self.var.get() is self:\n",
        "        if True:\n",
        f"{CONTRACT}/test_scopes_end.py::test_scopes_closed_out_of_order_uncover_no_scope_that_is_over",
    ),
    Mutation(
        "scopes closed out of order uncover one that is over",
        "symfonic/kernel/contracts/ambient.py",
        "        self.ended = True\n",
        "",
        f"{CONTRACT}/test_scopes_end.py::test_scopes_closed_out_of_order_uncover_no_scope_that_is_over",
    ),
    Mutation(
        "a scope that another task closes is not over",
        "symfonic/kernel/contracts/ambient.py",
        "            var.reset(block.token)\n",
        "            break\n",
        f"{CONTRACT}/test_scopes_end.py::test_a_scope_that_another_task_closes_is_over_for_the_one_that_opened_it",
    ),
    Mutation(
        "what was started inside a scope is outside it once that is over",
        "symfonic/kernel/contracts/ambient.py",
        "before\n            break\n",
        "before\n            pass\n",
        f"{CONTRACT}/test_scopes_end.py"
        "::test_work_that_a_pools_thread_does_later_is_where_it_was_submitted_though_the_thread_is_the_same",
    ),
    Mutation(
        "Exception widened to BaseException",
        f"{DELEGATION}/tools.py",
        CHILD_FAILED,
        CHILD_FAILED.replace("Exception", "BaseException"),
        f"{CONTRACT}/test_tools_failures.py::test_what_ends_a_run_passes_through",
    ),
    Mutation(
        "an unknown child inside the child taken for an unknown child",
        f"{DELEGATION}/tools.py",
        CHILD_FAILED,
        "        except LookupError:\n"
        "            return call.refused(DelegationOutcome.UNKNOWN_CHILD, self._unknown(name))\n" + CHILD_FAILED,
        f"{CONTRACT}/test_tools_outcomes.py::test_an_unknown_child_error_from_inside_a_child_is_that_childs_failure",
    ),
    Mutation(
        "blank answer delivered",
        f"{DELEGATION}/call.py",
        "        if self._text:\n",
        "        if self._text is not None:\n",
        f"{CONTRACT}/test_tools_answers.py::test_an_answer_that_is_blank_or_false_is_a_failure",
    ),
    Mutation(
        "ceiling on the parent",
        f"{DELEGATION}/depth.py",
        "        return coerce_depth(parent_depth) < self.max_depth\n",
        "        return coerce_depth(parent_depth) <= self.max_depth\n",
        f"{CONTRACT}/test_depth.py::test_at_a_ceiling_of_two_a_grandchild_may_run_and_may_not_delegate",
    ),
    Mutation(
        "enclosing ceiling ignored",
        f"{DELEGATION}/tools.py",
        "        if own is not None and (enclosing is None or own.max_depth <= enclosing):\n",
        "        if own is not None:\n",
        f"{CONTRACT}/test_tools.py::test_the_enclosing_ceiling_binds_a_child_with_a_larger_one_of_its_own",
    ),
    Mutation(
        "a depth that raises raises",
        f"{DELEGATION}/depth.py",
        "    except Exception:\n",
        "    except (TypeError, ValueError):\n",
        f"{CONTRACT}/test_depth.py::test_what_int_cannot_read_is_a_top_level_run",
    ),
    Mutation(
        "child identity not opened",
        f"{DELEGATION}/policies.py",
        "agent=child.name, identity=identity) as run:\n",
        "agent=child.name) as run:\n",
        f"{CONTRACT}/test_roster_run.py::test_the_childs_scope_is_open_around_every_runner",
    ),
    Mutation(
        "a task sent as a Python repr",
        "symfonic/kernel/contracts/text.py",
        '    return "" if task is None else to_text(task)\n',
        '    return "" if task is None else str(task)\n',
        f"{CONTRACT}/test_roster_run.py::test_a_task_that_is_no_string_arrives_as_json",
    ),
    Mutation(
        "retired catch-all sent what it refuses",
        f"{DELEGATION}/runner_adapter.py",
        "    open_ended = catch_all is not None and catch_all != RETIRED_VAR_KEYWORD\n",
        "    open_ended = catch_all is not None\n",
        f"{CONTRACT}/test_roster_run.py::test_a_child_is_sent_exactly_what_its_signature_takes",
    ),
    Mutation(
        "retired catch-all taken to accept lineage",
        f"{DELEGATION}/runner_adapter.py",
        "        lineage = LINEAGE if marked or taken.issuperset(LINEAGE) else ()  # both or neither\n",
        "        lineage = LINEAGE if marked or taken.issuperset(LINEAGE) or catch_all else ()\n",
        f"{CONTRACT}/test_runner_adapter.py::test_the_signature_says_whether_a_child_takes_lineage",
    ),
    Mutation(
        "lifecycle in forward order",
        f"{DELEGATION}/lifecycle.py",
        "        for child in reversed(self._owned):\n",
        "        for child in self._owned:\n",
        f"{CONTRACT}/test_lifecycle.py::test_children_are_closed_in_reverse_order",
    ),
    Mutation(
        "children that the caller built are closed",
        f"{DELEGATION}/capability.py",
        "            if ours:\n                owned[child.name] = agent\n",
        "            owned[child.name] = agent\n",
        f"{CONTRACT}/test_capability.py::test_children_that_the_caller_built_are_never_closed_and_those_built_here_are",
    ),
    Mutation(
        "credentials not masked",
        "symfonic/kernel/contracts/error_texts.py",
        "    return encodable(_masked(text))\n",
        "    return encodable(text)\n",
        f"{CONTRACT}/test_tools_failures.py::test_the_password_of_a_credential_in_a_url_is_masked",
    ),
    Mutation(
        "ids repeat while the clock stands still",
        "symfonic/kernel/contracts/run_identity.py",
        "            tick = _last_tick + 1\n",
        "            tick = _last_tick\n",
        f"{CONTRACT}/test_run_identity.py"
        "::test_ten_thousand_ids_from_threads_are_all_different_while_the_clock_stands_still",
    ),
    Mutation(
        "'already bound' checked second",
        "symfonic/agent/cutover/binding.py",
        "    if is_langchain_tool(offered):",
        '    if not callable(getattr(offered, "coroutine", None)) and is_langchain_tool(offered):',
        "tests/test_tool_binding.py::test_a_langchain_tool_comes_back_untouched_though_it_has_a_coroutine",
    ),
]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the source tree."""
    source = tmp_path / "src"
    shutil.copytree(PROJECT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
    return source


def with_copy(source: Path, arguments: Sequence[str]) -> "subprocess.CompletedProcess[str]":
    """Run Python on the copy: it goes before an installed package."""
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("COV")},  # not to be measured
        "PYTHONPATH": str(source),
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=PROJECT, env=environment, capture_output=True, text=True, timeout=120)


def run_tests(source: Path, *tests: str) -> "subprocess.CompletedProcess[str]":
    options = ("-x", "-q", "-p", "no:cacheprovider", "-p", "pytest_asyncio.plugin", "--noconftest")
    return with_copy(source, ["-m", "pytest", *options, *tests])


def test_the_copy_is_what_is_tested_and_unmutated_it_passes(copy: Path) -> None:
    where = with_copy(copy, ["-c", "import symfonic; print(symfonic.__file__)"])
    assert Path(where.stdout.strip()).is_relative_to(copy), where.stderr

    result = run_tests(copy, *dict.fromkeys(mutation.test for mutation in MUTATIONS))
    assert result.returncode == 0, result.stdout + result.stderr


@pytest.mark.parametrize("mutation", MUTATIONS, ids=[mutation.title for mutation in MUTATIONS])
def test_a_mutation_is_noticed(mutation: Mutation, copy: Path) -> None:
    target = copy / mutation.file
    text = target.read_text(encoding="utf-8")
    found = text.count(mutation.old)
    assert found == 1, (
        f"{mutation.file} holds the text to mutate {found} times, expected once; bring the mutation"
        f" {mutation.title!r} up to date:\n{mutation.old}"
    )
    target.write_text(text.replace(mutation.old, mutation.new), encoding="utf-8")

    result = run_tests(copy, mutation.test)
    assert result.returncode == 1, f"{mutation.test} did not notice {mutation.title!r}:\n{result.stdout}{result.stderr}"
