"""What comes in with a call: every argument must have a consumer."""

from collections.abc import Mapping
from typing import Any

from symfonic.agent.cutover.policy import ADMITTED_ARGUMENTS
from symfonic.errors import ConfigurationError


def refuse_unknown(arguments: Mapping[str, Any]) -> None:
    """Raises ConfigurationError for the first of a run's surplus arguments that is set, naming it."""
    for name, value in arguments.items():
        if value is not None and name in ADMITTED_ARGUMENTS:
            raise ConfigurationError(f"the argument {name!r} is not read by a run: it is one of the agent's own")
    admit_invocation(arguments)


def admit_invocation(arguments: Mapping[str, Any]) -> None:
    """Raises ConfigurationError if an argument that is set (not None) is not admitted, naming it and those that are."""
    if arguments.keys() <= ADMITTED_ARGUMENTS.keys():
        return
    for name, value in arguments.items():
        if value is not None and name not in ADMITTED_ARGUMENTS:
            admitted = ", ".join(ADMITTED_ARGUMENTS)
            raise ConfigurationError(
                f"the argument {name!r} is not admitted: nothing would read it; admitted: {admitted}"
            )
