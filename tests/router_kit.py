"""What the tests of the embedded router share: children, tools, and how to ask."""

from symfonic.kernel.contracts.messages import Message
from symfonic.kernel.contracts.tool import Route, Tool
from symfonic.models.offline import OfflineModel

STRING, INTEGER, NUMBER, BOOLEAN = ({"type": each} for each in ("string", "integer", "number", "boolean"))
LIBRARY = (
    Route("gardener", "Looks after plants.", examples=("Water the roses", "When do tomatoes ripen?")),
    Route("mechanic", "Repairs engines and cars.", "for anything with wheels", ("Why does the engine rattle?",)),
    Route("archivist", "Keeps old letters.", examples=("Who sent the oldest letter?", "Sort the letters by date")),
)


async def unused(_arguments):
    raise AssertionError("a model calls no tool itself")


def delegation(*routes, name="run_agent"):
    properties = {"name": {"type": "string"}, "task": {"type": "string"}}
    schema = {"type": "object", "properties": properties, "required": ["name", "task"]}
    return Tool(name, "Hand a task to one of these.", schema, unused, routes or LIBRARY)


def tool(name, description, *, required=(), **properties):
    return Tool(name, description, {"type": "object", "properties": properties, "required": list(required)}, unused)


async def ask(request, *tools, history=()):
    return await OfflineModel().complete([*history, Message("user", request)], tools)
