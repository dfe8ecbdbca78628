"""Tests that run over native models and tools, and over LangChain's."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from runtime_fakes import LANGCHAIN, NATIVE, Kind


@pytest.fixture(params=[NATIVE, LANGCHAIN], ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    return request.param


@pytest.fixture
async def no_task_left() -> AsyncIterator[None]:
    """Whatever the test starts has ended when it is over."""
    before = asyncio.all_tasks()
    yield
    left = asyncio.all_tasks() - before - {asyncio.current_task()}
    assert not [task.get_coro() for task in left]
