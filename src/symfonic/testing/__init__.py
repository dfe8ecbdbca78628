"""Fakes and a contract test for code that uses symfonic. No mocking library is needed."""

from symfonic.testing.children import ChildCall, ScriptedChild
from symfonic.testing.conformance import check_child_runner
from symfonic.testing.models import FunctionModel, ScriptedModel, tool_call

__all__ = ["ChildCall", "FunctionModel", "ScriptedChild", "ScriptedModel", "check_child_runner", "tool_call"]
