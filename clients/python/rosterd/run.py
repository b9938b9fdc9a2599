"""The input of a handler: one run of one item."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

from ._proto import types_pb2, worker_pb2
from .errors import Cancelled
from .events import Key, StartRun, StopReason
from .text import shorten

MAX_OFFSET = 64 * 1024
MAX_PROGRESS = 1024
SHORTEST_LOOK = 0.001
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_LOG = logging.getLogger("rosterd.run")


class Cancellation:
    """Like a threading.Event that is only ever set from outside; true once the run must stop.

    Every check reads the lease itself: a process that was frozen past its lease may resume in user code before the
    thread that would cancel it, and must not consider its work done.
    """

    def __init__(self, lease_left: Callable[[], float], expired: Callable[[], None]) -> None:
        self._lease_left = lease_left
        self._expired = expired
        self._event = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._reason: StopReason | None = None

    @property
    def reason(self) -> str:
        """Why the run must stop, for people; empty while it need not."""
        return self._reason.value if self.is_set() and self._reason is not None else ""

    def is_set(self) -> bool:
        if not self._event.is_set() and self._lease_left() <= 0 and self._set(StopReason.LEASE):
            self._expired()
        return self._event.is_set()

    def __bool__(self) -> bool:
        return self.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Sleeps until the run must stop, at most `timeout` seconds; returns whether it must."""
        if not self.is_set():
            self._event.wait(timeout)
        return self.is_set()

    def _set(self, reason: StopReason) -> bool:
        """Whether it was not set before."""
        with self._lock:
            if self._event.is_set():
                return False
            self._reason = reason
            self._event.set()
            listeners, self._listeners = self._listeners, []
        for listener in listeners:
            listener()
        return True

    def _listen(self, listener: Callable[[], None]) -> None:
        with self._lock:
            if not self._event.is_set():
                self._listeners.append(listener)
                return
        listener()


class RunLog(logging.LoggerAdapter):  # type: ignore[type-arg]  # not generic at runtime before 3.11
    """Puts the run's ids before the message and into the record's fields job, item, token, instance and task_id."""

    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        ids = dict(self.extra or {})
        kwargs["extra"] = {**ids, **(kwargs.get("extra") or {})}
        return f"[{ids['job']}/{ids['item']} token {ids['token']}] {msg}", kwargs


@dataclass
class _Outlet:
    """The worker's interface for a run."""

    progress: Callable[[Run], None]
    leaving: threading.Event
    #: In seconds; not above zero: it has ended.
    lease_left: Callable[[], float]
    #: A run has found that its lease has ended.
    expired: Callable[[Key], None]


class Run:
    """One run of one item for one fire. Its methods may be called from any thread."""

    def __init__(self, start: StartRun, outlet: _Outlet) -> None:
        trigger = start.trigger
        self.job: str = start.key.job
        #: 0 to total - 1.
        self.item: int = start.key.item
        #: The fencing token: only grows per item. Pass it to what the run writes to, so that it can refuse late writes.
        self.token: int = start.key.token
        #: How many items the job has.
        self.total: int = trigger.sharding_total_count
        self.item_parameter: str = trigger.item_parameter
        self.job_parameter: str = trigger.job_parameter
        #: The job's properties by name, as they were when the run started.
        self.props: Mapping[str, str] = MappingProxyType(dict(start.props))
        #: The scheduled time in UTC (for MISFIRE the latest skipped one, for FAILOVER that of the crashed run).
        self.fire_time: datetime = instant(trigger.fire_time)
        #: NORMAL_TRIGGER, MISFIRE, FAILOVER or MANUAL.
        self.source: str = source_name(trigger.source)
        #: From 1.
        self.attempt: int = start.attempt
        #: What the last run, or an earlier attempt of this one, set with `set_offset`.
        self.offset: bytes = start.offset
        #: When the run will be stopped as timed out; None: never.
        self.deadline: datetime | None = None
        if start.deadline is not None:
            self.deadline = datetime.fromtimestamp(start.deadline, timezone.utc)
        #: The worker's id under its jobs.
        self.instance_id: str = start.instance_id
        #: Elastic-Job's id of the task, `job@-@item@-@READY@-@instance_id`. The same for each run of the item here.
        self.task_id: str = trigger.task_id
        #: dataflow: continue until there is nothing left to fetch.
        self.streaming: bool = trigger.streaming
        #: The trace that the run belongs to, as W3C Trace Context writes it: `traceparent`, and `tracestate` if there
        #: is one. Empty: there is no trace. OpenTelemetry's current context is that of the trace, if its API is
        #: installed.
        self.trace_context: Mapping[str, str] = MappingProxyType(dict(trigger.trace_context))
        self.cancelled = Cancellation(outlet.lease_left, lambda: outlet.expired(self.key))
        self.log = RunLog(_LOG, self.ids)
        self._outlet = outlet
        self._lock = threading.Lock()
        self._processed = 0
        self._failed = 0
        self._new_offset: bytes | None = None
        self._progress: tuple[int, str] = (0, "")
        self._progress_told = False

    @property
    def key(self) -> Key:
        return Key(self.job, self.item, self.token)

    @property
    def ids(self) -> dict[str, Any]:
        """job, item, token, instance and task_id, for log lines."""
        ids = {"job": self.job, "item": self.item, "token": self.token, "instance": self.instance_id}
        return {**ids, "task_id": self.task_id}

    @property
    def leaving(self) -> bool:
        """The worker is leaving: a run that can end early and be continued later should."""
        return self._outlet.leaving.is_set()

    async def wait_cancelled(self) -> str:
        """Waits until the run must stop; returns the reason. (The task of an async handler is cancelled as well.)

        It checks the lease at its end: if it is awaited together with the work, and both are done when the process
        resumes, the caller sees both.
        """
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        timer: asyncio.TimerHandle | None = None

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        def listener() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(wake)

        def look() -> None:
            nonlocal timer
            if self.cancelled:
                wake()
            else:
                # It was renewed, or the loop is a moment early.
                timer = loop.call_later(max(self._outlet.lease_left(), SHORTEST_LOOK), look)

        self.cancelled._listen(listener)
        look()
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
        return self.cancelled.reason

    def check(self) -> None:
        """Raises Cancelled if the run must stop."""
        if self.cancelled:
            raise Cancelled(self.cancelled.reason)

    def set_offset(self, offset: bytes) -> None:
        """Sets the item's offset, at most 64 KiB, for its next run.

        The coordinator stores it with the outcome, and about once a second until then, so that a run that replaces this
        one after a crash continues from there.
        """
        data = bytes(offset)
        if len(data) > MAX_OFFSET:
            raise ValueError(f"an offset may have {MAX_OFFSET} bytes, not {len(data)}")
        with self._lock:
            self._new_offset = data
            told, self._progress_told = self._progress_told, True
        if not told:
            self._outlet.progress(self)

    def count(self, processed: int = 0, failed: int = 0) -> None:
        """Adds to the counts of records that the outcome will carry."""
        if processed < 0 or failed < 0:
            raise ValueError("counts only grow")
        with self._lock:
            self._processed += processed
            self._failed += failed

    def progress(self, percent: float, message: str = "") -> None:
        """Reports progress to people. Cheap: of many calls in a row only the last is sent."""
        with self._lock:
            self._progress = (max(0, min(100, int(percent))), shorten(message, MAX_PROGRESS))
            told, self._progress_told = self._progress_told, True
        if not told:
            self._outlet.progress(self)

    def _take_progress(self) -> tuple[int, str, bytes | None]:
        with self._lock:
            self._progress_told = False
            return *self._progress, self._new_offset

    def _counts(self) -> tuple[int, int, bytes | None]:
        with self._lock:
            return self._processed, self._failed, self._new_offset

    def __repr__(self) -> str:
        return f"<Run {self.key} of {self.total}, attempt {self.attempt}>"


@dataclass(frozen=True)
class Fire:
    """The argument of a callback for all items of one fire."""

    job: str
    #: UTC.
    fire_time: datetime

    @classmethod
    def of(cls, callback: worker_pb2.Callback) -> Fire:
        return cls(callback.job, instant(callback.fire_time))


def instant(timestamp: Any) -> datetime:
    return _EPOCH + timedelta(seconds=timestamp.seconds, microseconds=timestamp.nanos // 1000)


def source_name(source: int) -> str:
    try:
        return types_pb2.RunSource.Name(source).removeprefix("RUN_SOURCE_")
    except ValueError:
        return "UNSPECIFIED"
