"""The one kind of tool that the runtime executes."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from symfonic.kernel.contracts.facts import fact


@fact
class Route:
    """One of the children that a delegation tool leads to, for a model that is a router.

    A language model reads the same from the tool's description; ``examples`` are requests that the child
    is meant for, which descriptions leave out.
    """

    name: str
    description: str
    when_to_use: str | None = None
    examples: tuple[str, ...] = ()


@fact
class Tool:
    """A name, a description, a JSON Schema object of the arguments, and an async call.

    ``invoke(arguments)`` gets a mapping that has every required key and no undeclared one; what it returns
    is shown to the model as text (strings as they are, other values as JSON). An exception it raises is
    shown as an error. ``routes`` is set on tools that delegate.
    """

    name: str
    description: str
    parameters: Mapping[str, Any]
    invoke: Callable[[Mapping[str, Any]], Awaitable[Any]]
    routes: tuple[Route, ...] = ()
