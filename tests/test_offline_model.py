"""The embedded router: how it takes a request apart, calls, fills arguments and answers."""

import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router_kit import STRING, ask, delegation, tool, unused
from symfonic.kernel.contracts.messages import Message, ToolCall
from symfonic.kernel.contracts.model import Model
from symfonic.kernel.contracts.tool import Route, Tool
from symfonic.models.offline import OfflineModel


async def tasks(request, *routes):
    reply = await ask(request, delegation(*routes))
    return [(call.arguments["name"], call.arguments["task"]) for call in reply.tool_calls]


async def answered(request, tools, results):
    """The final answer, given what each call returns."""
    called = await ask(request, *tools)
    replies = [
        Message("tool", text, tool_call_id=call.id) for call, text in zip(called.tool_calls, results, strict=True)
    ]
    assistant = Message("assistant", called.text, called.tool_calls)
    return await OfflineModel().complete([Message("user", request), assistant, *replies], tools)


def test_it_is_a_model():
    assert isinstance(OfflineModel(), Model)


def test_it_imports_the_standard_library_alone():
    program = "import sys, symfonic.models.offline; print(*(set(sys.modules) & set(sys.argv)))"
    heavy = ["pydantic", "griffe", "langchain_core", "openai", "typer", "rich"]
    assert subprocess.check_output([sys.executable, "-c", program, *heavy], text=True).strip() == ""


# Parts and choices


async def test_each_part_of_a_request_goes_to_the_child_that_fits_it_all_in_one_reply():
    assert await tasks("Who sent the oldest letter, why does the car rattle, and when do the tomatoes ripen?") == [
        ("archivist", "Who sent the oldest letter"),
        ("mechanic", "why does the car rattle"),
        ("gardener", "when do the tomatoes ripen?"),
    ]


@pytest.mark.parametrize(
    "request_text",
    [
        "Water the roses; repair the engine.",
        "Water the roses. Repair the engine!",
        "Water the roses and then repair the engine",
        "Please water the roses, and also repair the engine.",
        "1. Water the roses\n2. Repair the engine",
        "- Water the roses\n- Repair the engine",
        "Hello! Water the roses.\n\nRepair the engine. Thanks.",
        "Could you water the roses? Then repair the engine.",
    ],
)
async def test_sentences_lists_and_conjunctions_separate_parts(request_text):
    assert [name for name, _ in await tasks(request_text)] == ["gardener", "mechanic"]


async def test_a_request_for_one_child_is_passed_on_word_for_word():
    request = 'Water the roses, the "old, tired" tulips and the moss (all of it, and soon).'
    assert await tasks(request) == [("gardener", request)]


async def test_neighbouring_parts_for_one_child_are_one_task():
    assert await tasks("When do tomatoes ripen? Water the roses! Why does the engine rattle?") == [
        ("gardener", "When do tomatoes ripen? Water the roses!"),
        ("mechanic", "Why does the engine rattle?"),
    ]


async def test_noun_phrases_are_split_where_another_child_knows_the_next_and_kept_together_where_none_does():
    assert await tasks("Look at the roses, the ivy and the rattling engine") == [
        ("gardener", "Look at the roses, the ivy"),
        ("mechanic", "the rattling engine"),
    ]


async def test_what_introduces_a_sentence_goes_along_with_each_of_its_parts():
    assert await tasks("In the north wing, water the roses and repair the engine") == [
        ("gardener", "In the north wing, water the roses"),
        ("mechanic", "In the north wing, repair the engine"),
    ]


async def test_what_introduces_a_list_goes_along_with_each_item():
    assert await tasks("Do this before noon:\n- water the roses\n- repair the engine") == [
        ("gardener", "Do this before noon:\n- water the roses"),
        ("mechanic", "Do this before noon: repair the engine"),
    ]


async def test_a_statement_before_a_request_goes_along_with_it():
    assert await tasks("My aunt is away. Water the roses.") == [("gardener", "My aunt is away. Water the roses.")]


async def test_a_clause_that_refers_back_stays_with_what_it_refers_to():
    assert await tasks("Find the oldest letter and tell me who sealed it, and water the roses") == [
        ("archivist", "Find the oldest letter and tell me who sealed it"),
        ("gardener", "water the roses"),
    ]


@pytest.mark.parametrize(
    "request_text",
    [
        "Sort letters from 3.5 to 4.5 by date, e.g. the oldest letters",
        "Sort the letters at https://a.example/x,y?z=1 by date",
    ],
)
async def test_numbers_abbreviations_and_addresses_are_not_cut(request_text):
    assert await tasks(request_text) == [("archivist", request_text)]


async def test_only_the_last_user_message_counts():
    history = [
        Message("system", "Repair engines."),
        Message("user", "Repair the engine"),
        Message("assistant", "Done."),
    ]
    reply = await ask("Water the roses", delegation(), history=history)
    assert [call.arguments["name"] for call in reply.tool_calls] == ["gardener"]


async def test_examples_and_guidance_choose_where_descriptions_do_not():
    routes = (
        Route("one", "Helps."),
        Route("two", "Helps.", examples=("Polish the silver",)),
        Route("three", "Helps.", "for brass"),
    )
    assert await tasks("Please polish this silver spoon", *routes) == [("two", "Please polish this silver spoon")]
    assert await tasks("Clean the brass", *routes) == [("three", "Clean the brass")]


async def test_words_are_compared_by_their_stems_and_relatives():
    routes = (Route("a", "Translation of texts."), Route("b", "Summaries."), Route("c", "Statistics of code."))
    assert await tasks("Translate! Summarise! Look at the codebase!", *routes) == [
        ("a", "Translate!"), ("b", "Summarise!"), ("c", "Look at the codebase!")
    ]  # fmt: skip


async def test_requests_in_other_scripts_are_routed_by_what_they_share():
    routes = (Route("天気", "天気予報を調べる"), Route("翻訳", "文章を翻訳する"), Route("погода", "Прогноз погоды"))
    assert [name for name, _ in await tasks("この文章を翻訳して", *routes)] == ["翻訳"]
    assert [name for name, _ in await tasks("Какая погода?", *routes)] == ["погода"]


async def test_children_and_tools_compete_on_equal_terms():
    count = tool("count_spoons", "Count the spoons in the drawer.")
    reply = await ask("Count the spoons and water the roses", delegation(), count)
    assert [(call.name, dict(call.arguments)) for call in reply.tool_calls] == [
        ("count_spoons", {}),
        ("run_agent", {"name": "gardener", "task": "water the roses"}),
    ]


async def test_one_call_is_made_once_for_all_the_parts_that_want_it():
    count = tool("count_spoons", "Count the spoons in the drawer.")
    request = "How many spoons are there? Water the roses. Count the spoons."
    reply = await ask(request, delegation(), count)
    assert [call.name for call in reply.tool_calls] == ["count_spoons", "run_agent"]
    assert len({call.id for call in reply.tool_calls}) == 2


# Answers


async def test_a_lone_result_is_the_answer_as_it_is():
    reply = await answered("Water the roses", [delegation()], ["All wet.\n\n  Even the ivy."])
    assert (reply.text, reply.tool_calls) == ("All wet.\n\n  Even the ivy.", ())


async def test_results_are_joined_in_the_order_of_the_parts_under_the_users_words():
    reply = await answered(
        "Why does the engine rattle? Water the roses.", [delegation()], ["A loose bolt.", "All wet."]
    )
    assert reply.text == "Why does the engine rattle?\nA loose bolt.\n\nWater the roses.\nAll wet."


async def test_refusals_and_failures_are_said_as_they_came():
    refusal = "Delegation refused: maximum sub-agent depth (2) reached; cannot delegate further."
    failure = "Sub-agent 'gardener' failed: the hose burst"
    reply = await answered("Why does the engine rattle? Water the roses.", [delegation()], [refusal, failure])
    assert refusal in reply.text
    assert failure in reply.text
    assert reply.tool_calls == ()


async def test_a_blank_result_is_named():
    assert (await answered("Water the roses", [delegation()], [" "])).text == "run_agent returned nothing."


async def test_a_part_that_fits_nothing_is_said_so_beside_the_results_of_the_others():
    request = "Water the roses, why does the engine rattle, and what is the capital of France?"
    reply = await answered(request, [delegation()], ["All wet.", "A loose bolt."])
    assert reply.text == (
        "Water the roses:\nAll wet.\n\n"
        "why does the engine rattle:\nA loose bolt.\n\n"
        "what is the capital of France?\nNothing here fits this.\n\n"
        "What can be done here:\n"
        "  - gardener: Looks after plants.\n"
        "  - mechanic: Repairs engines and cars.\n"
        "  - archivist: Keeps old letters."
    )


async def test_where_nothing_fits_it_says_so_and_lists_what_can_be_done():
    reply = await ask("What is the capital of France?", delegation(), tool("count_spoons", "Count\n  the spoons."))
    assert reply.tool_calls == ()
    assert reply.text.startswith("Nothing here fits this.\n\nWhat can be done here:\n  - gardener: Looks after plants.")
    assert reply.text.endswith("  - count_spoons: Count the spoons.")


@pytest.mark.parametrize("messages", [[], [Message("system", "Be kind.")], [Message("user", " \n")]])
async def test_without_a_request_it_says_so(messages):
    assert (await OfflineModel().complete(messages, [])).text == (
        "There is no request to route.\n\nNothing can be done here: no tools and no sub-agents are offered."
    )


async def test_calls_that_the_request_does_not_explain_are_answered_too():
    messages = [
        Message("user", "Water the roses"),
        Message("assistant", "", (ToolCall("x", "count_spoons", "{}"), ToolCall("y", "count_forks", "{}"))),
        Message("tool", "12", tool_call_id="x"),
        Message("tool", "8", tool_call_id="y"),
    ]
    reply = await OfflineModel().complete(messages, [delegation()])
    assert reply.text == "count_spoons:\n12\n\ncount_forks:\n8"


# Any text at all


WORDS = st.sampled_from(
    [
        "water",
        "the",
        "roses",
        ",",
        "and",
        ".",
        "?",
        ":",
        "\n",
        "1.",
        "-",
        '"',
        "'",
        "`",
        "(",
        "“",
        "in",
        "3",
        "a/b.c",
        "http://",
        "it",
    ]
)
REQUESTS = st.text() | st.lists(WORDS).map(" ".join) | st.lists(WORDS).map("".join)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYWORDS = st.sampled_from(
    ["type", "enum", "anyOf", "$ref", "items", "const", "description", "format", "default", "title"]
)
VALUES = st.sampled_from(
    ["string", "integer", "number", "boolean", "array", "#/$defs/A", [{"type": "number"}], {"type": "string"}]
)
PROPERTIES = st.dictionaries(
    st.sampled_from(["path", "limit", "a", "on"]), st.dictionaries(KEYWORDS, VALUES | JSON) | JSON
)
SCHEMAS = st.fixed_dictionaries(
    {},
    optional={
        "properties": PROPERTIES | JSON,
        "required": st.lists(st.sampled_from(["path", "limit", "a"])) | JSON,
        "$defs": JSON,
    },
)


@given(REQUESTS, SCHEMAS, st.text())
async def test_no_text_and_no_schema_makes_it_fail_or_call_without_end(request_text, schema, description):
    tools = [delegation(), Tool("water", description, schema, unused), Tool("list_agents", "List.", {}, unused)]
    reply = await ask(request_text, *tools)
    assert bool(reply.tool_calls) != bool(reply.text.strip())
    results = [Message("tool", "done", tool_call_id=call.id) for call in reply.tool_calls]
    messages = [Message("user", request_text), Message("assistant", reply.text, reply.tool_calls), *results]
    answer = await OfflineModel().complete(messages, tools)
    assert answer.tool_calls == ()
    assert answer.text.strip()


@given(REQUESTS)
async def test_every_word_of_a_request_reaches_a_child_or_the_answer(request_text):
    reply = await ask(request_text, delegation())
    results = [Message("tool", "done", tool_call_id=call.id) for call in reply.tool_calls]
    messages = [Message("user", request_text), Message("assistant", "", reply.tool_calls), *results]
    answer = await OfflineModel().complete(messages, [delegation()])
    told = " ".join([answer.text, *(call.arguments["task"] for call in reply.tool_calls)])
    if reply.tool_calls:
        for word in ("roses", "water", "a/b.c"):
            assert request_text.count(word) <= told.count(word)


@given(REQUESTS)
async def test_the_same_request_is_always_routed_the_same_way(request_text):
    assert await ask(request_text, delegation()) == await ask(request_text, delegation())


async def test_a_very_long_request_is_routed_whole():
    request = "Water the roses. Repair the engine. " * 200
    assert await tasks(request) == [("gardener", request.strip())]


@pytest.mark.parametrize("unit", ["“", "'", '"', "(", "`", "http://", ",", "\n", "a.", "1,", "a/", "x@", "and "])
async def test_hostile_repetition_takes_no_time(unit):
    read = tool("read", "Read the roses.", required=["path"], path=STRING)
    start = time.perf_counter()
    await ask("roses " + unit * 20_000, delegation(), read)
    assert time.perf_counter() - start < 5
