"""What these tests leave to the end of their loop."""

import asyncio
from collections.abc import AsyncIterator

import pytest


@pytest.fixture(autouse=True)
async def _what_was_dropped_is_closed() -> AsyncIterator[None]:
    """A child that nobody has closed is closed in a task of the loop's, which the loop's end would cancel."""
    yield
    await asyncio.sleep(0.02)
