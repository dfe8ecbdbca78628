"""Agents of other processes over A2A: `a2a_app` serves one, `a2a_child` makes a child of one.

Needs ``pip install 'symfonic-delegation[a2a]'``; nothing of the SDK is imported before it is used.
"""

from symfonic.remote.a2a.client import A2AChild, a2a_child
from symfonic.remote.a2a.server import a2a_app

__all__ = ["A2AChild", "a2a_app", "a2a_child"]
