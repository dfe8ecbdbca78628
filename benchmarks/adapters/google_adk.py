"""Google ADK: a single-turn sub-agent, which ADK offers to its parent as a tool."""

from __future__ import annotations

import itertools
import logging
import os
from collections.abc import AsyncGenerator
from typing import Any

os.environ.setdefault("OTEL_SDK_DISABLED", "true")

from google.adk.agents import Agent
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

from common import Adapter, Run, Script, answering, call_id, delegating


class FakeLlm(BaseLlm):
    script: Any
    model: str = "fake"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        user = ""
        results = []
        for content in llm_request.contents:
            texts = []
            for part in content.parts or ():
                if part.function_response is not None:
                    results.append(part.function_response.response["result"])
                elif part.text and content.role == "user":
                    texts.append(part.text)
            if texts:
                user = "\n".join(texts)
        reply = await self.script(user, results)
        if isinstance(reply, str):
            parts = [types.Part(text=reply)]
        else:
            parts = [
                types.Part(function_call=types.FunctionCall(id=call_id(), name=target, args={"request": task}))
                for target, task in reply
            ]
        # With no usage in a response, ADK logs a warning for every model call.
        usage = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=1, candidates_token_count=1, total_token_count=2
        )
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


def make(name: str, script: Script, *children: Agent, root: bool = False) -> Agent:
    return Agent(
        name=name,
        description=f"Delegate a task to {name}.",
        model=FakeLlm(script=script),
        instruction=f"You are {name}.",
        sub_agents=list(children),
        **({} if root else {"mode": "single_turn"}),
    )


def root(name: str, script: Script, *children: Agent) -> Run:
    runner = InMemoryRunner(agent=make(name, script, *children, root=True), app_name="bench")
    ids = itertools.count()

    async def run(prompt: str) -> str:
        session = await runner.session_service.create_session(
            app_name="bench", user_id="user", session_id=f"s{next(ids)}"
        )
        message = types.Content(role="user", parts=[types.Part(text=prompt)])
        text = ""
        async for event in runner.run_async(user_id="user", session_id=session.id, new_message=message):
            if event.author == name and event.is_final_response() and event.content:
                text = "".join(part.text or "" for part in event.content.parts)
        return text

    return run


class GoogleADK(Adapter):
    title = "google-adk"
    venv = "google-adk"
    distributions = ("google-adk", "google-genai")
    import_statement = "from google.adk.agents import Agent; from google.adk.runners import InMemoryRunner"
    notes = (
        "Sub-agent with mode='single_turn' (its documentation prefers this to AgentTool); "
        "InMemoryRunner, a new session for every turn.",
        "OTEL_SDK_DISABLED=true (its spans go nowhere by default); its log level raised to ERROR.",
    )

    def prepare(self) -> None:
        logging.getLogger("google_adk").setLevel(logging.ERROR)

    def single(self) -> Run:
        return root("solo", answering())

    def delegation(self, child_sleep: float = 0.0) -> Run:
        return root("parent", delegating("worker"), make("worker", answering(child_sleep)))

    def fan_out(self, width: int, child_sleep: float) -> Run:
        return root("parent", delegating("worker", width), make("worker", answering(child_sleep)))

    def chain(self, agents: int) -> Run:
        agent = make(f"agent{agents - 1}", answering())
        for i in range(agents - 2, 0, -1):
            agent = make(f"agent{i}", delegating(agent.name), agent)
        return root("agent0", delegating(agent.name), agent)

    def build(self, children: int) -> Run:
        kids = (make(f"child{i}", answering()) for i in range(children))
        return root("parent", delegating("child0"), *kids)


ADAPTER = GoogleADK()
