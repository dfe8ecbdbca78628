"""The table of adapters, filled: those of this package, and those that installed packages offer."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from symfonic.capabilities.delegation.declarations import SubAgent
from symfonic.capabilities.delegation.recognisers import Adopt, look_there, recognise
from symfonic.errors import ChildDeclarationError

__all__ = ["SubAgent"]

ENTRY_POINTS = "symfonic.adapters"
"""The group in which a package offers an adapter: the name is the top-level package of the agents, the value a function
``adopt(name, agent)``."""

ADAPTERS = {
    "agent_framework": "symfonic.adapters.agent_framework",
    "agents": "symfonic.adapters.openai_agents",
    "agno": "symfonic.adapters.agno",
    "crewai": "symfonic.adapters.crewai",
    "google": "symfonic.adapters.google_adk",
    "http": "symfonic.remote.a2a.client",  # `recognisers.ADDRESS`
    "langchain_core": "symfonic.adapters.langchain",
    "pydantic_ai": "symfonic.adapters.pydantic_ai",
    "smolagents": "symfonic.adapters.smolagents",
    "strands": "symfonic.adapters.strands",
}


def _loading(module: str) -> Callable[[], Adopt]:
    def load() -> Adopt:
        adopt: Adopt = import_module(module).adopt
        return adopt

    return load


def _offered() -> Mapping[str, Callable[[], Adopt]]:
    from importlib.metadata import EntryPoint, entry_points

    def loading(offer: EntryPoint) -> Callable[[], Adopt]:
        def load() -> Adopt:
            try:
                adopt: Any = offer.load()
            except Exception as error:
                told = f"the adapter {offer.value!r}, which is offered for {offer.name!r}, cannot be loaded: {error}"
                raise ChildDeclarationError(told) from error
            return adopt  # type: ignore[no-any-return]

        return load

    return {offer.name: loading(offer) for offer in entry_points(group=ENTRY_POINTS)}


def _fill() -> None:
    for package, module in ADAPTERS.items():
        recognise(package, _loading(module))
    look_there(_offered)


_fill()
