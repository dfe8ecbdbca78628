"""How often the embedded router picks the right child, measured on requests written in everyday words."""

import pytest

from symfonic.kernel.contracts.messages import Message
from symfonic.kernel.contracts.tool import Route, Tool
from symfonic.models.offline import OfflineModel

CHILDREN = {
    "forecaster": ("Reports weather conditions and forecasts for places.", [
        "Will it rain in Bergen tomorrow?",
        "How cold does it get in Oslo tonight?",
        "Do I need an umbrella for the weekend?",
    ]),
    "scheduler": ("Manages the calendar: meetings, appointments and free time.", [
        "Book a meeting with Ana on Friday at ten",
        "Am I free on Tuesday afternoon?",
        "Move my dentist appointment to next week",
    ]),
    "translator": ("Translates text between languages.", [
        "Translate this letter into Spanish",
        "How do you say good night in Polish?",
        "Put the following paragraph into plain English",
    ]),
    "bookkeeper": ("Keeps the accounts: invoices, expenses and budgets.", [
        "How much did we spend on travel in May?",
        "Send the invoice to the customer",
        "Which bills have not been paid yet?",
    ]),
    "travel-agent": ("Plans trips, with flights, trains and hotels.", [
        "Find me a cheap flight to Lisbon",
        "Which hotel near the station has rooms?",
        "How long does the train from Rome to Milan take?",
    ]),
    "cook": ("Suggests recipes and explains cooking.", [
        "What can I cook with rice and eggs?",
        "How long should I boil potatoes?",
        "Give me a recipe for vegetarian dinner",
    ]),
    "debugger": ("Finds and fixes faults in programs.", [
        "Why does this function crash with an exception?",
        "The tests fail since the last commit, find the bug",
        "My script is too slow, make it faster",
    ]),
    "librarian": ("Recommends and looks up books and authors.", [
        "Which novel should I read next?",
        "Who wrote War and Peace?",
        "Is there a good biography of Marie Curie?",
    ]),
}  # fmt: skip

PROMPTS = {
    "forecaster": [
        "Is it going to snow in Zurich this week?",
        "What will the weather be like in Rome on Sunday?",
        "How hot is it in Cairo right now?",
        "Should I take an umbrella to work?",
        "Tell me the forecast for the coast",
        "How strong is the wind in Hamburg tonight?",
        "Will it be sunny for our picnic tomorrow?",
    ],
    "scheduler": [
        "Set up a meeting with the design team for Monday",
        "When is my next appointment?",
        "What is on my calendar today?",
        "Cancel the call with Peter on Friday",
        "Find an afternoon when Ana and I are both free",
        "Move the workshop to Thursday at ten",
        "Remind me of the dentist next week",
        "Do I have any meetings after lunch?",
    ],
    "translator": [
        "Translate 'where is the exit' to Japanese",
        "How do you say thank you in Portuguese?",
        "What does 'Feierabend' mean in English?",
        "I need this contract in French",
        "Put this paragraph into German, please",
        "Can you turn my letter into formal Spanish?",
        "Give me the Polish word for bread",
    ],
    "bookkeeper": [
        "How much money did we spend last month?",
        "Is the invoice from Acme paid?",
        "Record an expense of 40 euros for taxis",
        "What is left of the marketing budget?",
        "List the bills that are overdue",
        "Which customer owes us the most?",
        "Prepare the accounts for the second quarter",
        "Send a payment reminder to the customer",
    ],
    "travel-agent": [
        "I want to fly to Tokyo in October",
        "Find a hotel with a pool in Nice",
        "What is the fastest train from Paris to Lyon?",
        "Plan a three day trip to Vienna",
        "Get me a cheap room near the airport",
        "Are there direct flights from Berlin to Porto?",
        "How long does the ferry to Sardinia take?",
    ],
    "cook": [
        "What can I make with chicken and lemons?",
        "How long do I boil an egg?",
        "I need a recipe for a birthday cake",
        "Which spices go well with lentils?",
        "Suggest something vegetarian for dinner",
        "How do I keep rice from sticking?",
        "Explain how to cook a steak",
    ],
    "debugger": [
        "My program crashes when the file is empty",
        "Fix the bug in the login page",
        "Why do I get a null pointer exception here?",
        "The unit tests fail on Windows only",
        "This query is slow, can you make it faster?",
        "Find out why the function returns None",
        "The build is broken since yesterday's commit",
    ],
    "librarian": [
        "Recommend a good crime novel",
        "Who wrote The Name of the Rose?",
        "Which books by Ursula Le Guin should I read first?",
        "Is there a biography of Ada Lovelace?",
        "What is the plot of Middlemarch?",
        "Look up the author of Solaris",
        "Suggest a book on Roman history",
    ],
}


async def unused(_arguments):
    return ""


def delegation_tool(*, with_examples, names=None, reverse=False):
    names = names or {}
    routes = [
        Route(names.get(name, name), description, examples=tuple(examples) if with_examples else ())
        for name, (description, examples) in CHILDREN.items()
    ]
    schema = {"type": "object", "properties": {"name": {"type": "string"}, "task": {"type": "string"}}}
    return Tool("run_agent", "Hand a task to a child.", schema, unused, tuple(routes[::-1] if reverse else routes))


async def chosen(prompt, tool):
    reply = await OfflineModel().complete([Message("user", prompt)], [tool])
    return [call.arguments["name"] for call in reply.tool_calls]


async def accuracy(tool):
    asked = [(prompt, child) for child, prompts in PROMPTS.items() for prompt in prompts]
    right = [await chosen(prompt, tool) == [child] for prompt, child in asked]
    return sum(right) / len(right)


def test_the_measure_has_about_sixty_requests_and_three_examples_for_each_of_eight_children():
    assert len(CHILDREN) == len(PROMPTS) == 8
    assert sum(map(len, PROMPTS.values())) == 58
    assert {len(examples) for _, examples in CHILDREN.values()} == {3}


def test_no_request_of_the_measure_is_one_of_the_examples():
    examples = {example for _, examples in CHILDREN.values() for example in examples}
    assert examples.isdisjoint(prompt for prompts in PROMPTS.values() for prompt in prompts)


async def test_three_examples_a_child_make_at_least_three_of_four_choices_right():
    assert await accuracy(delegation_tool(with_examples=True)) >= 0.75


async def test_examples_choose_much_better_than_descriptions_alone():
    bare, helped = [await accuracy(delegation_tool(with_examples=each)) for each in (False, True)]
    assert helped >= bare + 0.15


@pytest.mark.parametrize("prompt", [prompts[0] for prompts in PROMPTS.values()])
async def test_the_order_of_the_children_does_not_change_the_choice(prompt):
    assert await chosen(prompt, delegation_tool(with_examples=True)) == await chosen(
        prompt, delegation_tool(with_examples=True, reverse=True)
    )
