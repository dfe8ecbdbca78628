"""What a model is shown of a run."""

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

from symfonic.kernel.contracts.messages import Message


class Conversation(Sequence[Message]):
    """The messages so far, as a model sees them: the run goes on writing behind its back, but not into this.

    A view, not a copy: a long conversation would be copied whole at every step.
    """

    __slots__ = ("_length", "_messages")

    def __init__(self, messages: list[Message]) -> None:
        self._messages = messages
        self._length = len(messages)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | Sequence[Message]:
        if isinstance(index, slice):
            return [self._messages[i] for i in range(*index.indices(self._length))]
        if not -self._length <= index < self._length:
            raise IndexError(f"message {index} of {self._length}")
        return self._messages[index if index >= 0 else index + self._length]

    def __iter__(self) -> Iterator[Message]:
        return islice(self._messages, self._length)

    def __repr__(self) -> str:
        return f"Conversation({list(self)!r})"
