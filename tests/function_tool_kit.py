"""Functions for the tests of function tools, and what a tool says of its parameters."""

import functools
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel


def properties(tool: Any) -> dict[str, Any]:
    return dict(tool.parameters["properties"])


def required(tool: Any) -> list[str]:
    return list(tool.parameters.get("required", []))


def note(task: str, note: str | None = None, n: int = 5) -> str:
    """Note a task down."""
    return f"{task}/{note}/{n}"


def decorated(fn: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(fn)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return fn(*args, **kwargs)

    return wrapper


class Order(BaseModel):
    item: str
    count: int = 1
