"""Signatures, read once: reading one costs more than anything else that building an agent does."""

import inspect
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType, MethodType
from typing import Any

REMEMBERED = 1024
"""Methods whose signatures are remembered: as many as any program's agents, models and tools have between them."""


def method_of(call: Any) -> FunctionType | None:
    """The plain function behind a bound method, which all objects of a class share; None for anything else."""
    function = call.__func__ if type(call) is MethodType else None
    return function if type(function) is FunctionType else None


def signature_of(call: Callable[..., Any]) -> inspect.Signature:
    """What `inspect.signature` says; for a method of a plain function it is remembered.

    Raises TypeError or ValueError where there is none to read.
    """
    method = method_of(call)
    return inspect.signature(call) if method is None else _of_method(method)


@lru_cache(maxsize=REMEMBERED)
def _of_method(method: FunctionType) -> inspect.Signature:
    return inspect.signature(MethodType(method, method))  # whatever it is bound to, the first parameter is not told
