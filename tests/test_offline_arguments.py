"""How the embedded router fills a tool's arguments from the user's words."""

import pytest

from router_kit import BOOLEAN, INTEGER, NUMBER, STRING, ask, tool, unused
from symfonic.kernel.contracts.tool import Tool


async def arguments(request, one):
    reply = await ask(request, one)
    assert [call.name for call in reply.tool_calls] == [one.name], reply.text
    return dict(reply.tool_calls[0].arguments)


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("Search the shelf for old maps", "Search the shelf for old maps"),
        ("Search the shelf for 'old maps'", "old maps"),
        ("Search the shelf for “old maps”", "old maps"),
        ("Search the shelf, query=maps", "maps"),
    ],
)
async def test_a_text_is_what_is_set_or_quoted_or_else_the_part_itself(request_text, expected):
    search = tool("search_shelf", "Search the shelf.", required=["query"], query=STRING)
    assert await arguments(request_text, search) == {"query": expected}


async def test_paths_dates_and_addresses_are_recognised_by_name_or_format():
    copy = tool(
        "copy",
        "Copy a page.",
        required=["url", "file", "on"],
        url=STRING,
        file=STRING,
        on={"type": "string", "format": "date"},
    )
    assert await arguments("Copy https://a.example/b?c=d to out/page 2.html on 2024-02-29, please", copy) == {
        "url": "https://a.example/b?c=d", "file": "out/page", "on": "2024-02-29"
    }  # fmt: skip


async def test_two_paths_are_taken_in_order():
    move = tool("move", "Move a file.", required=["source_path", "target_path"], source_path=STRING, target_path=STRING)
    assert await arguments("Move src/a.py to lib/b.py.", move) == {"source_path": "src/a.py", "target_path": "lib/b.py"}


async def test_numbers_are_taken_in_order_and_by_type():
    add = tool("add", "Add numbers.", required=["a", "b", "c"], a=INTEGER, b=NUMBER, c=NUMBER)
    assert await arguments("Add 1,200 and -2.5 and three", add) == {"a": 1200, "b": -2.5, "c": 3}


async def test_a_choice_is_the_one_that_is_mentioned():
    units = {"enum": ["metric", "us_customary"]}
    convert = tool("convert", "Convert a length.", required=["length", "to"], length=NUMBER, to=units)
    assert await arguments("Convert the length 3.5 to US customary", convert) == {"length": 3.5, "to": "us_customary"}


async def test_choices_and_optional_types_are_found_behind_references():
    colour = {"$ref": "#/$defs/Colour"}
    size = {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    schema = {
        "type": "object",
        "properties": {"colour": colour, "size": size},
        "required": ["colour", "size"],
        "$defs": {"Colour": {"enum": ["red", "green"], "type": "string"}},
    }
    paint = Tool("paint", "Paint the fence.", schema, unused)
    assert await arguments("Paint the fence green, 4 times", paint) == {"colour": "green", "size": 4}


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("List the files with hidden ones", {"hidden": True}),
        ("List the files without hidden ones", {"hidden": False}),
        ("List the files, don't show hidden", {"hidden": False}),
        ("List the files, hidden: no", {"hidden": False}),
        ("List the files", {}),
    ],
)
async def test_a_switch_is_on_where_it_is_mentioned_and_off_where_it_is_denied(request_text, expected):
    assert await arguments(request_text, tool("list_files", "List the files.", hidden=BOOLEAN)) == expected


@pytest.mark.parametrize(
    ("request_text", "expected"),
    [
        ("Show the last 7 commits", {"limit": 7}),
        ("Show the last seven commits", {"limit": 7}),
        ("Show commits, limit=9", {"limit": 9}),
        ("Show the commits of release 3", {}),
        ("Show the last commits", {}),
    ],
)
async def test_an_optional_number_is_left_out_unless_it_is_clearly_meant(request_text, expected):
    limit = {"type": "integer", "default": 5, "description": "How many commits to show."}
    assert await arguments(request_text, tool("log", "Show the commits.", limit=limit)) == expected


async def test_lists_take_everything_of_their_kind():
    total = tool("total", "Total of numbers.", required=["numbers"], numbers={"type": "array", "items": NUMBER})
    assert await arguments("The total of 1, 2.5 and 3", total) == {"numbers": [1, 2.5, 3]}
    check = tool("check", "Check spelling.", required=["files"], files={"type": "array", "items": STRING})
    assert await arguments("Check the spelling in a.md and docs/b.md", check) == {"files": ["a.md", "docs/b.md"]}
    mix = tool(
        "mix", "Mix colours.", required=["of"], of={"type": "array", "items": {"enum": ["red", "blue", "green"]}}
    )
    assert sorted((await arguments("Mix the colours red and blue", mix))["of"]) == ["blue", "red"]


async def test_a_tool_whose_required_argument_is_not_in_the_words_is_not_called():
    weigh = tool("weigh", "Weigh a parcel.", required=["grams"], grams=INTEGER)
    reply = await ask("Weigh the parcel", weigh)
    assert reply.tool_calls == ()
    assert reply.text.startswith("weigh would fit, but its argument 'grams' is not in these words.")


async def test_a_tool_that_asks_for_an_object_is_not_called():
    store = tool("store", "Store a record.", required=["record"], record={"type": "object"})
    assert (await ask("Store the record", store)).tool_calls == ()


async def test_addresses_are_told_from_other_texts():
    invite = tool("invite", "Invite a guest.", required=["email", "note"], email=STRING, note=STRING)
    assert await arguments("Invite the guest ada@example.org with 'Come by'", invite) == {
        "email": "ada@example.org",
        "note": "Come by",
    }


async def test_a_text_that_could_be_either_of_two_is_given_to_neither():
    swap = tool("swap_names", "Swap names.", required=["left", "right"], left=STRING, right=STRING)
    assert (await ask("Swap the names", swap)).tool_calls == ()
    assert await arguments("Swap the names 'a' and 'b'", swap) == {"left": "a", "right": "b"}


async def test_an_optional_text_is_left_out_unless_it_is_named_and_quoted():
    greet = tool("greet", "Greet the guests.", style=STRING)
    assert await arguments("Greet the 'dear' guests", greet) == {}
    assert await arguments("Greet the guests in the style 'baroque'", greet) == {"style": "baroque"}


async def test_a_whole_number_is_not_made_of_a_fraction_nor_of_digits_without_end():
    weigh = tool("weigh", "Weigh a parcel.", required=["grams"], grams=INTEGER)
    assert (await ask("Weigh the parcel of 2.5", weigh)).tool_calls == ()
    assert (await ask("Weigh the parcel of " + "9" * 5000, weigh)).tool_calls == ()
    assert await arguments("Weigh the parcel, grams=12", weigh) == {"grams": 12}


async def test_a_tool_that_requires_what_it_does_not_declare_is_not_called():
    odd = tool("odd", "Do something odd.", required=["ghost"])
    assert "'ghost'" in (await ask("Do something odd", odd)).text


async def test_a_list_of_what_words_cannot_hold_is_not_filled():
    plot = tool("plot", "Plot points.", required=["points"], points={"type": "array", "items": {"type": "object"}})
    assert (await ask("Plot the points 1 and 2", plot)).tool_calls == ()
