"""A promise in seconds is held between stamps that the processes write themselves, not by how long somebody waited.
Where more want to work than there are cores, each takes longer by that much: by that alone a promise is stretched."""

import os


def patience() -> float:
    """The factor for promised seconds: 1 while there is a core for everybody."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
