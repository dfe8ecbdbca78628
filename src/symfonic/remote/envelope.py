"""What goes out with a task that leaves the process, and how it is read where it arrives.

Neither a queue nor a wire is trusted: everything is checked again, and what is too large is not sent at all.
"""

import json
import time
from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from symfonic.errors import EnvelopeError
from symfonic.kernel.contracts.limits import Limits
from symfonic.kernel.contracts.run_identity import RunIdentity
from symfonic.kernel.contracts.text import encodable, preview

MOST_BYTES = 256 * 1024
"""Bytes of JSON that one envelope or answer may have."""

LONGEST_ID, LONGEST_WAY = 512, 64
"""Characters of a run's id, and crossings that a task may have behind it."""

MOST = 2**53
"""The largest number that is sent: beyond it JSON's are not exact everywhere."""

M = TypeVar("M", bound=BaseModel)


def _number(value: Any) -> Any:
    """A bool or a text is no number of anything."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("expected a number")
    return value


def _plain_id(value: str) -> str:
    if not value.isprintable() or value.strip() != value:
        raise ValueError("expected a printable text without blanks around it")
    return value


def check_id(name: str, value: Any) -> None:
    """Raises EnvelopeError if this is no id that a run can have."""
    if (
        not isinstance(value, str)
        or not 0 < len(value) <= LONGEST_ID
        or value.strip() != value
        or not value.isprintable()
    ):
        told = f"a printable text of 1 to {LONGEST_ID} characters without blanks around it"
        raise EnvelopeError(f"{name} must be {told}, got {preview(value) if isinstance(value, str) else repr(value)}")


Text = Annotated[str, AfterValidator(encodable)]
Number = Annotated[float, BeforeValidator(_number), Field(ge=-MOST, le=MOST)]
Seconds = Annotated[float, BeforeValidator(_number), Field(ge=0, le=MOST)]
Count = Annotated[int, BeforeValidator(_number), Field(ge=0, le=MOST)]  # some wires know only floats: 1.0 is read as 1
AtLeastOne = Annotated[int, BeforeValidator(_number), Field(ge=1, le=MOST)]
Id = Annotated[str, AfterValidator(_plain_id), Field(min_length=1, max_length=LONGEST_ID)]


class Crossing(BaseModel):
    """What is sent: checked when it is made, unchangeable afterwards; of an answer what is added is ignored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    def text_of(self) -> str:
        """The message as JSON. Raises EnvelopeError if it has no such form, or is larger than a message may be."""
        what = type(self).__name__.lower()
        try:
            plain = self.model_dump(mode="json", exclude_none=True)
            written = json.dumps(plain, ensure_ascii=False, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            told = str(error) or type(error).__name__
            raise EnvelopeError(f"the {what} cannot be written as JSON: {told}"[:2000]) from error
        return _small_enough(encodable(written), what)

    def plain(self) -> dict[str, Any]:
        """The message as plain values. Raises EnvelopeError if it is larger than a message may be."""
        read: dict[str, Any] = json.loads(self.text_of())
        return read


class Left(Crossing):
    """What a tree may still spend; the fields are those of `Limits`, less the time."""

    max_delegations: Count | None = None
    max_fan_out: Count | None = None
    max_concurrency: AtLeastOne | None = None
    max_repeats: AtLeastOne | None = None
    max_model_calls: AtLeastOne | None = None
    max_tokens: Count | None = None
    max_answer_chars: Count | None = None

    def limits(self, seconds: float | None) -> Limits:
        """The same as limits of a run, with so much time."""
        return Limits(**self.model_dump(), timeout=seconds)


class Lineage(Crossing):
    """Who the run is to be, and the way to it: the ids of the runs that left a process, oldest first."""

    run_id: Id
    root_run_id: Id
    parent_run_id: Id | None = None
    via: tuple[Id, ...] = Field(default=(), max_length=LONGEST_WAY)

    def identity(self) -> RunIdentity:
        """The identity that it is about."""
        return RunIdentity(self.run_id, self.root_run_id, self.parent_run_id)


def _only_known(kind: type[BaseModel], value: Any) -> Any:
    """Whoever states a bound that nobody here knows must not believe that it holds."""
    unknown = [key for key in value if key not in kind.model_fields] if isinstance(value, Mapping) else []
    if unknown:
        raise ValueError(f"there is no field {preview(str(unknown[0]))}")
    return value


class Envelope(Crossing):
    """A task, and where its run will stand in the tree. Nothing that is added to it, or to what is in it, is ignored.

    ``depth`` is that of the run, ``max_depth`` the ceiling in force where it was sent, ``deadline`` is in seconds since
    the epoch.
    """

    agent: Text = Field(min_length=1, max_length=LONGEST_ID)
    task: Text
    lineage: Annotated[Lineage, BeforeValidator(partial(_only_known, Lineage))]
    depth: Count = 0
    max_depth: Count | None = None
    deadline: Seconds | None = None
    left: Annotated[Left, BeforeValidator(partial(_only_known, Left))] = Left()

    @model_validator(mode="before")
    @classmethod
    def _check_fields(cls, value: Any) -> Any:
        return _only_known(cls, value)

    def left_seconds(self) -> float | None:
        """The seconds until the deadline, below 0 when it is over; None where there is none."""
        return None if self.deadline is None else self.deadline - time.time()

    @classmethod
    def read(cls, sent: Any) -> "Envelope":
        """What was sent, as text, bytes or a mapping. Raises EnvelopeError, naming what is wrong with which field."""
        return read(cls, sent)


def read(kind: type[M], sent: Any) -> M:
    """What was sent, as text, bytes or a mapping. Raises EnvelopeError, naming what is wrong with which field."""
    return checked(kind, _parsed(sent, kind.__name__.lower()))


def checked(kind: type[M], value: Any) -> M:
    """A message of these fields. Raises EnvelopeError, naming what is wrong with which field."""
    what = kind.__name__.lower().strip("_")
    try:
        return kind.model_validate(value)
    except ValidationError as error:
        told = [f"{'.'.join(map(str, each['loc'])) or what}: {each['msg']}" for each in error.errors()[:5]]
        raise EnvelopeError(f"the {what} cannot be read: {'; '.join(told)}"[:2000]) from error


def _parsed(sent: Any, what: str) -> Mapping[str, Any]:
    value = sent
    try:
        if isinstance(sent, str | bytes | bytearray):
            value = json.loads(_small_enough(sent if isinstance(sent, str) else bytes(sent).decode(), what))
        elif isinstance(sent, Mapping):
            _small_enough(json.dumps(dict(sent), ensure_ascii=False, allow_nan=True), what)
    except (TypeError, ValueError, RecursionError) as error:
        raise EnvelopeError(f"the {what} cannot be read: it is no JSON ({type(error).__name__})") from error
    if not isinstance(value, Mapping):
        shown = preview(repr(value)) if isinstance(value, str | int | float | bool | None) else type(value).__name__
        raise EnvelopeError(f"the {what} cannot be read: expected a JSON object, got {shown}")
    return value


def _small_enough(text: str, what: str) -> str:
    size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    if size > MOST_BYTES:
        raise EnvelopeError(
            f"the {what} has {size} bytes of at most {MOST_BYTES}: put what is large where both sides can reach it, and"
            " send where that is"
        )
    return text
