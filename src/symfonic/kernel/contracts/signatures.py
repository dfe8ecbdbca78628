"""Signatures, read once: reading one costs more than anything else that building an agent does."""

import inspect
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any
from weakref import WeakKeyDictionary

_of_methods: WeakKeyDictionary[FunctionType, inspect.Signature] = WeakKeyDictionary()


def signature_of(call: Callable[..., Any]) -> inspect.Signature:
    """What `inspect.signature` says; for a method of a plain function it is remembered, for as long as that lives.

    Raises TypeError or ValueError where there is none to read.
    """
    function = call.__func__ if isinstance(call, MethodType) else None
    if not isinstance(function, FunctionType):
        return inspect.signature(call)
    known = _of_methods.get(function)
    if known is None:
        known = _of_methods[function] = inspect.signature(call)
    return known
