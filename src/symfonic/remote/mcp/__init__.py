"""The Model Context Protocol, both ways: an agent as a server's tools, and other servers' tools for an agent.

Needs ``pip install "symfonic-delegation[mcp]"``, when it is first used.
"""

from symfonic.remote.mcp.server import mcp_server
from symfonic.remote.mcp.tools import mcp_tools

__all__ = ["mcp_server", "mcp_tools"]
