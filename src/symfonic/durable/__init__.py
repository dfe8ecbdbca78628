"""Trees of runs that outlive their processes, on DBOS Transact: `durable` wraps an agent.

Needs ``pip install "symfonic-delegation[dbos]"``; nothing of it is loaded before a tree is declared.
"""

from symfonic.durable.engine import runs_in
from symfonic.durable.info import RunInfo
from symfonic.durable.settings import Settings, Waits
from symfonic.durable.tree import Durable, durable

__all__ = ["Durable", "RunInfo", "Settings", "Waits", "durable", "runs_in"]
