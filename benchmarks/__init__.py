"""The benchmark of the library beside bare asyncio and other frameworks; see README.md.

The harness's files are scripts that import each other by bare name, and are found by it from here too.
"""

import sys
from pathlib import Path

_HERE = str(Path(__file__).resolve().parent)
if _HERE not in sys.path:
    sys.path.append(_HERE)
