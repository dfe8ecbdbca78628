"""What a test of events starts has ended when it is over."""

import asyncio
from collections.abc import AsyncIterator

import pytest


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not [task.get_coro() for task in left]
