"""What can be known of awaiting without an event loop; building an agent loads no more of it."""

from contextvars import ContextVar
from inspect import isawaitable
from types import CoroutineType, GeneratorType

clocked_code: ContextVar[bool] = ContextVar("symfonic_clocked", default=False)


def is_awaitable(value: object) -> bool:
    """What `inspect.isawaitable` says, without asking an abstract class about every plain value."""
    kind = type(value)
    return kind is CoroutineType or hasattr(kind, "__await__") or (kind is GeneratorType and isawaitable(value))


def clock_runs() -> bool:
    """Whether this code is inside a `run_within`, and should not block the loop that the clock runs on."""
    return clocked_code.get()
