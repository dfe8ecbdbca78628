"""The set of children of one agent: declaring, naming and describing them."""

from typing import Any

import pytest
from contract_fakes import Child, entry, roster_of
from hypothesis import assume, given
from hypothesis import strategies as st

from symfonic.capabilities.delegation import ChildDeclarationError, DelegationRoster, RosterEntry

PLAIN_NAMES = st.text(st.characters(categories=("L", "N")) | st.sampled_from("_-."), min_size=1, max_size=12)
WRAPPERS = ["", '"', "'", "`", "(", "[", "{", "<", " ", "\n", "\t", "“", "«", "\r\n ", "\u00a0", "\u2003", "\x85"]
CLOSERS = {"(": ")", "[": "]", "{": "}", "<": ">", "“": "”", "«": "»"}


def test_a_roster_keeps_the_order_of_its_entries() -> None:
    entries = [entry("zeta"), entry("alpha"), entry("mid")]
    roster = DelegationRoster(entries)

    assert roster.names() == ("zeta", "alpha", "mid")
    assert list(roster) == entries
    assert len(roster) == 3


def test_membership_is_by_exact_name() -> None:
    roster = roster_of(worker=Child())

    assert "worker" in roster
    assert "Worker" not in roster
    assert 7 not in roster
    assert None not in roster
    assert ["worker"] not in roster


def test_a_roster_does_not_change_with_the_list_it_was_made_from() -> None:
    entries = [entry("a")]
    roster = DelegationRoster(entries)
    entries.append(entry("b"))

    assert roster.names() == ("a",)


def test_a_roster_can_be_made_from_a_generator_and_read_twice() -> None:
    roster = DelegationRoster(entry(name) for name in "ab")

    assert [each.name for each in roster] == [each.name for each in roster] == ["a", "b"]


def test_a_roster_has_nothing_to_set() -> None:
    with pytest.raises(AttributeError):
        roster_of(a=Child()).extra = 1  # type: ignore[attr-defined]


def test_an_empty_roster_is_a_roster() -> None:
    roster = DelegationRoster([])

    assert roster.names() == ()
    assert len(roster) == 0
    assert list(roster) == []
    assert roster.describe() == "  (none)"
    assert roster.resolve("a") is None


@pytest.mark.parametrize("name", ["", None, 7, "()", "''"])
def test_an_entry_without_a_name_is_refused(name: Any) -> None:
    with pytest.raises(ChildDeclarationError, match="name"):
        DelegationRoster([RosterEntry(name, "Does it.", Child())])


@pytest.mark.parametrize("name", ["two words", " lead", "trail ", "tab\tbed", "new\nline", "wide\u2003blank", " "])
def test_whitespace_in_a_name_is_refused_naming_the_entry(name: str) -> None:
    with pytest.raises(ChildDeclarationError) as caught:
        DelegationRoster([entry(name)])

    assert repr(name) in str(caught.value)


@pytest.mark.parametrize("description", ["", "   ", "\n", None])
def test_an_entry_without_a_description_is_refused_naming_the_entry(description: Any) -> None:
    with pytest.raises(ChildDeclarationError, match="'worker'"):
        DelegationRoster([RosterEntry("worker", description, Child())])


def test_a_name_declared_twice_is_refused_naming_it() -> None:
    with pytest.raises(ChildDeclarationError, match="'worker'"):
        DelegationRoster([entry("worker"), entry("worker")])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("worker", "Worker"),
        ("worker", "WORKER"),
        ("data_reader", "data-reader"),
        ("straße", "STRASSE"),
        ("ﬁnder", "finder"),
        ("ｗｏｒｋｅｒ", "worker"),
        ("cafe\u0301", "caf\u00e9"),
        ("Σίσυφος", "σίσυφοσ"),
    ],
)
def test_two_names_that_are_the_same_once_normalised_are_refused_naming_both(first: str, second: str) -> None:
    with pytest.raises(ChildDeclarationError) as caught:
        DelegationRoster([entry("other"), entry(first), entry(second)])

    assert repr(first) in str(caught.value)
    assert repr(second) in str(caught.value)


def test_names_that_differ_by_more_than_spelling_live_together() -> None:
    roster = DelegationRoster([entry("worker"), entry("worker2"), entry("co_worker"), entry("研究者")])

    assert [roster.resolve(name) for name in roster.names()] == list(roster.names())


@pytest.mark.parametrize(
    "spelling",
    [
        "senior_researcher",
        "Senior_Researcher",
        "SENIOR-RESEARCHER",
        "senior researcher",
        "Senior Researcher",
        '"senior_researcher"',
        "'Senior Researcher'",
        "`senior_researcher`",
        "“senior_researcher”",
        "  senior_researcher  ",
        "senior_researcher\n",
        "\tsenior_researcher\r\n",
        "[senior_researcher]",
        "['senior_researcher']",
        '("Senior Researcher")',
        "<senior-researcher>",
        "´senior_researcher´",
        "「senior_researcher」",
        "【senior researcher】",
        "ｓｅｎｉｏｒ＿ｒｅｓｅａｒｃｈｅｒ",
    ],
)
def test_one_rule_reads_every_way_in_which_a_model_spells_a_name(spelling: str) -> None:
    roster = roster_of(senior_researcher=Child(), junior_researcher=Child())

    assert roster.resolve(spelling) == "senior_researcher"


@pytest.mark.parametrize(
    "spelling",
    [
        "",
        "   ",
        "()",
        "undefined",
        "researcher",
        "senior",
        "senior_researcher2",
        "senior.researcher",
        '{"name": "worker"}',
    ],
)
def test_what_means_no_child_resolves_to_none(spelling: str) -> None:
    assert roster_of(senior_researcher=Child(), worker=Child()).resolve(spelling) is None


@pytest.mark.parametrize("spelling", [None, 0, 7, 1.5, True, b"", object(), {}, [], {"name": "worker"}])
def test_a_name_that_is_no_string_never_raises(spelling: Any) -> None:
    assert roster_of(worker=Child()).resolve(spelling) is None


def test_an_exact_name_wins_over_a_normalised_one() -> None:
    roster = DelegationRoster([entry("(a)b"), entry("a)b(c")])

    assert [roster.resolve(name) for name in roster.names()] == ["(a)b", "a)b(c"]


@given(PLAIN_NAMES, st.sampled_from(WRAPPERS), st.sampled_from(WRAPPERS), st.sampled_from([str.upper, str.lower]))
def test_wrapping_and_case_do_not_change_what_a_name_means(name: str, outer: str, inner: str, case: Any) -> None:
    roster = DelegationRoster([entry(name)])
    assume(case(name).casefold() == name.casefold())
    spelling = f"{outer}{inner}{case(name)}{CLOSERS.get(inner, inner)}{CLOSERS.get(outer, outer)}"

    assert roster.resolve(spelling) == name


@given(st.lists(PLAIN_NAMES, max_size=6))
def test_names_are_refused_together_or_each_resolves_to_itself(names: list[str]) -> None:
    try:
        roster = DelegationRoster(entry(name) for name in names)
    except ChildDeclarationError:
        return
    for name in names:
        assert roster.resolve(name) == name
        assert roster.resolve(f' "{name}"\n') == name
        assert roster.resolve(name.replace("_", "-")) == roster.resolve(name.replace("-", "_")) == name


@given(st.text(max_size=20))
def test_resolving_any_text_gives_a_declared_name_or_none(text: str) -> None:
    roster = roster_of(worker=Child(), reader=Child())

    assert roster.resolve(text) in (None, "worker", "reader")


@given(st.text(min_size=1, max_size=12))
def test_whatever_name_is_accepted_has_no_whitespace_and_can_be_resolved(name: str) -> None:
    try:
        roster = DelegationRoster([entry(name)])
    except ChildDeclarationError:
        return
    assert not any(character.isspace() for character in name)
    assert roster.resolve(name) == roster.resolve(f"'{name}'") == name


def test_a_description_has_one_line_a_child_with_its_guidance() -> None:
    roster = DelegationRoster(
        [entry("a", description="Does A."), entry("b", description="Does B.", when_to_use="rare")]
    )

    assert roster.describe() == "  - a: Does A.\n  - b: Does B. (rare)"


def test_examples_are_left_out_of_descriptions() -> None:
    roster = DelegationRoster([entry("a", description="Does A.", examples=("please do an A",))])

    assert roster.describe() == "  - a: Does A."


@given(
    st.text(min_size=1).filter(str.strip)
    | st.sampled_from(["{name} {0} %s %(x)s $x 100%", "研究 {roster}", "\\n \\1"]),
    st.text(min_size=1),
)
def test_user_text_goes_into_a_description_verbatim(description: str, guidance: str) -> None:
    roster = DelegationRoster([RosterEntry("研究者", description, Child(), guidance)])

    assert roster.describe() == "  - 研究者: " + description + " (" + guidance + ")"
