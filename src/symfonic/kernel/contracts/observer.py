"""Who is told of events. The events themselves are loaded with the first one that is told."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from symfonic.kernel.contracts.events import Event as Event
    from symfonic.kernel.contracts.events import Observer as Observer
else:
    Event, Observer = Any, Callable[..., Any]

EventName: TypeAlias = Literal[
    "RunStarted",
    "RunFinished",
    "ModelCalled",
    "ModelAnswered",
    "ToolStarted",
    "ToolFinished",
    "DelegationStarted",
    "DelegationRefused",
    "DelegationRetried",
    "DelegationFinished",
]
"""What can be told, by the name of its class in `symfonic.kernel.contracts.events`."""
