"""The input (events) and output (effects) of the conversation machine."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ._proto import types_pb2, worker_pb2
from .errors import RosterdError


class Key(NamedTuple):
    """Names one run; the token is its fencing token."""

    job: str
    item: int
    token: int

    @classmethod
    def of(cls, ref: types_pb2.RunRef) -> Key:
        return cls(ref.job, ref.item, ref.token)

    def ref(self) -> types_pb2.RunRef:
        return types_pb2.RunRef(job=self.job, item=self.item, token=self.token)

    def __str__(self) -> str:
        return f"{self.job}/{self.item} token {self.token}"


class StopReason(enum.Enum):
    """Why user code must stop; determines the report once it has ended."""

    OPERATOR = "an operator asked for it"
    TIMED_OUT = "its time is over"
    DRAIN = "the worker leaves"
    LEASE = "the lease ended"
    FENCED = "another run of the item took its place"
    # The coordinator gave this process a new identity: no report is expected.
    DEAD = "the worker had been marked dead"


class EndKind(enum.Enum):
    RETURNED = "returned"
    RAISED = "raised"
    # Another attempt would not help.
    FATAL = "fatal"
    CANCELLED = "cancelled"
    # The last check, made by the thread that was about to call user code, found the lease gone.
    NOT_BEGUN = "not begun"


@dataclass(frozen=True)
class Ending:
    """How one attempt of a run ended."""

    kind: EndKind
    output: str = ""
    error: str = ""
    processed: int = 0
    failed: int = 0
    offset: bytes | None = None
    # For the log: what was raised, with its stack.
    exception: BaseException | None = field(default=None, compare=False)


# ---- events


@dataclass(frozen=True)
class Start:
    pass


@dataclass(frozen=True)
class Tick:
    """A timer is due."""


@dataclass(frozen=True)
class Opened:
    """The connection is open, and frames can be sent."""

    stream: int


@dataclass(frozen=True)
class Lost:
    """The stream ended or never came to be; code is a gRPC status or empty."""

    stream: int
    code: str
    detail: str


@dataclass(frozen=True)
class Received:
    stream: int
    frame: worker_pb2.SessionResponse


@dataclass(frozen=True)
class Began:
    """User code is about to be called."""

    key: Key


@dataclass(frozen=True)
class Ended:
    """User code has ended."""

    key: Key
    ending: Ending


@dataclass(frozen=True)
class Expired:
    """User code has found by its own check that its lease had expired, and acts on that."""

    key: Key


@dataclass(frozen=True)
class Progressed:
    key: Key
    percent: int
    message: str
    offset: bytes | None = None


@dataclass(frozen=True)
class CallbackEnded:
    callback_id: str
    error: str


@dataclass(frozen=True)
class Leave:
    """Leave in order; runs have `grace` seconds, None: the drain timeout."""

    grace: float | None = None
    # A signal requested it: the log tells its sender what the worker waits for, and how to end it immediately.
    signalled: bool = False


@dataclass(frozen=True)
class Quit:
    """Leave now, without a goodbye."""


Event: TypeAlias = (
    Start | Tick | Opened | Lost | Received | Began | Ended | Expired | Progressed | CallbackEnded | Leave | Quit
)

# ---- effects


@dataclass(frozen=True)
class Open:
    """Connect, once every earlier stream is closed; answered by Opened or Lost."""

    stream: int
    address: str


@dataclass(frozen=True)
class Close:
    stream: int


@dataclass(frozen=True)
class Send:
    stream: int
    frame: worker_pb2.SessionRequest


@dataclass(frozen=True)
class StartRun:
    """Call user code; answered by Began (unless the last check failed) and Ended."""

    key: Key
    trigger: worker_pb2.Trigger
    instance_id: str
    attempt: int
    offset: bytes
    # Seconds since 1970; None: no limit.
    deadline: float | None
    # The job's, as they were when the Trigger arrived.
    props: Mapping[str, str]


@dataclass(frozen=True)
class StopRun:
    key: Key
    reason: StopReason


@dataclass(frozen=True)
class StartCallback:
    callback: worker_pb2.Callback


@dataclass(frozen=True)
class Leaving:
    """The worker is leaving: runs that can stop early may."""


@dataclass(frozen=True)
class Note:
    """A line for the log; level as in `logging`."""

    level: int
    text: str
    # The run that it is about, and what was raised there.
    key: Key | None = field(default=None, compare=False)
    exception: BaseException | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Finish:
    """The machine's last effect."""

    error: RosterdError | None


Effect: TypeAlias = Open | Close | Send | StartRun | StopRun | StartCallback | Leaving | Note | Finish
Emit: TypeAlias = Callable[[Effect], None]
