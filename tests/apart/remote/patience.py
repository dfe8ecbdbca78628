"""How much longer than on a free machine a thing may take: these tests share two cores with all that they start."""

import os


def patience() -> float:
    """A factor for the seconds that are promised: 2, and more where others have the machine as well."""
    return max(2.0, 2 * os.getloadavg()[0] / (os.cpu_count() or 1))
