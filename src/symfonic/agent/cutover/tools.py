"""Whatever a user offers as a tool, as the one kind that the runtime executes.

What reads each kind is loaded when there is a tool of that kind: an agent without tools starts without it.
"""

from typing import Any

from symfonic.agent.cutover.binding import is_langchain_tool, tool_from_spec
from symfonic.errors import ConfigurationError
from symfonic.kernel.contracts.tool import Tool


def as_tool(offered: Any) -> Tool:
    """A tool, LangChain tool, tool contribution, tool spec or callable as a runtime tool.

    Raises ConfigurationError, naming what was offered, if it is none of these or is broken.
    """
    from symfonic.agent.cutover.extension_tools import check_contribution, is_contribution, tool_from_contribution

    if isinstance(offered, Tool):
        check_contribution(offered)
        return offered
    if is_langchain_tool(offered):  # before what it resembles: it has a coroutine and an invoke too
        from symfonic.agent.cutover.langchain_tools import tool_from_langchain

        return _named(tool_from_langchain(offered))
    if _is_spec(offered):
        return _named(tool_from_spec(offered))
    if is_contribution(offered):
        return tool_from_contribution(offered)
    if callable(offered) and not isinstance(offered, type):
        from symfonic.agent.cutover.function_tools import function_tool

        return function_tool(offered)
    raise ConfigurationError(
        f"tools=[...] accepts functions and other callables, Tool objects, LangChain tools, and objects with name,"
        f" description, parameters and async invoke(arguments); got {_told(offered)}"
    )


def _is_spec(offered: Any) -> bool:
    return (
        not isinstance(offered, type)
        and callable(getattr(offered, "coroutine", None))
        and hasattr(offered, "name")
        and hasattr(offered, "description")
    )


def _named(tool: Tool) -> Tool:
    from symfonic.agent.cutover.extension_tools import check_tool_name

    check_tool_name(tool.name)
    return tool


def _told(offered: Any) -> str:
    if isinstance(offered, type):
        return f"the class {offered.__name__} (pass an instance, or a function)"
    told = f"{offered!r} of type {type(offered).__name__}"
    return f"{told} (an agent goes into sub_agents=[...])" if callable(getattr(offered, "run", None)) else told
