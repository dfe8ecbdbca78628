"""A server made with the SDK alone, which knows nothing of us. The task's first word says what it does."""

import asyncio
import json
from typing import Any

from a2a.server.agent_execution import AgentExecutor
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    Message,
    Part,
    Role,
    Task,
    TaskState,
    TaskStatus,
)
from starlette.applications import Starlette

LONG = "x" * 400_000


class Plain(AgentExecutor):
    async def execute(self, context: Any, event_queue: Any) -> None:
        asked = context.get_user_input()
        updates = TaskUpdater(event_queue, context.task_id, context.context_id)
        if asked == "message":
            reply = Message(message_id="r", role=Role.ROLE_AGENT, parts=[Part(text="a message alone")])
            await event_queue.enqueue_event(reply)
            return
        status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
        await event_queue.enqueue_event(Task(id=context.task_id, context_id=context.context_id, status=status))
        await updates.start_work()
        if asked == "fail":
            await updates.failed(updates.new_agent_message([Part(text="the archive is closed")]))
        elif asked == "reject":
            await updates.reject(updates.new_agent_message([Part(text="not on Sundays")]))
        elif asked == "ask":
            await updates.requires_input(updates.new_agent_message([Part(text="which year?")]))
        elif asked == "hang":
            await asyncio.Event().wait()
        elif asked == "status":
            await updates.complete(updates.new_agent_message([Part(text="said by the status")]))
        elif asked == "silence":
            await updates.complete()
        else:
            said = {"long": LONG, "headers": json.dumps(context.call_context.state["headers"])}.get(asked, f"{asked}!")
            half = len(said) // 2
            await updates.add_artifact([Part(text=said[:half])], artifact_id="a", append=False)
            await updates.add_artifact([Part(text=said[half:])], artifact_id="a", append=True, last_chunk=True)
            await updates.complete()

    async def cancel(self, context: Any, event_queue: Any) -> None:
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def plain_app(url: str, *, streaming: bool = True) -> Starlette:
    card = AgentCard(
        name="plain",
        description="Knows nothing of us.",
        version="1",
        supported_interfaces=[AgentInterface(url=url, protocol_binding="JSONRPC", protocol_version="1.0")],
        capabilities=AgentCapabilities(streaming=streaming),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[AgentSkill(id="plain", name="plain", description="Answers.", tags=["plain"])],
    )
    handler = DefaultRequestHandler(agent_executor=Plain(), task_store=InMemoryTaskStore(), agent_card=card)
    return Starlette(routes=[*create_agent_card_routes(card), *create_jsonrpc_routes(handler, "/")])
