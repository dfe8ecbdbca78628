from collections.abc import Iterator

import pytest
import stamina
from remote_kit import sides

__all__ = ["sides"]


@pytest.fixture(autouse=True)
def no_pauses() -> Iterator[None]:
    """Attempts follow each other at once."""
    with stamina.set_testing(True, attempts=100, cap=True):
        yield
