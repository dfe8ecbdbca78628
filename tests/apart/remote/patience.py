"""How much longer than on a free machine a thing may take, where others have the machine as well."""

import os


def patience() -> float:
    """A factor for the seconds that are promised: 1 on a machine that is free, more where its cores are wanted more."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
