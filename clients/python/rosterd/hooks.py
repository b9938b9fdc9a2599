"""Hooks for metrics. An exception of a hook is logged, and has no other effect."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from .run import Run

#: Pending events of the connection; more are dropped, since a hook that hangs must not use memory.
MAX_WAITING = 1024
_LOG = logging.getLogger("rosterd")


@dataclass(frozen=True)
class RunEnd:
    """How an attempt ended in user code."""

    #: The coordinator's record may differ, for example if the run was told to stop.
    how: Literal["returned", "raised", "cancelled"]
    seconds: float
    #: What it raised.
    error: BaseException | None = None


class Hooks:
    """Override the methods that you need, and pass an instance to the worker.

    Methods about runs are called in the handler's thread or loop; those about the connection one after the other on a
    separate thread.
    """

    def run_started(self, run: Run) -> None:
        """User code of an attempt is about to be called."""

    def run_ended(self, run: Run, end: RunEnd) -> None:
        """User code of an attempt has ended."""

    def run_not_started(self, run: Run, why: str) -> None:
        """The last check, right before user code, did not let it begin."""

    def attached(self, server: str, instance_id: str) -> None:
        """A coordinator has welcomed the worker."""

    def detached(self, server: str, reason: str) -> None:
        """The stream is lost, or the worker has left."""

    def lease_renewed(self, round_trip: float) -> None:
        """A heartbeat was acknowledged, this many seconds after it was sent."""


class Teller:
    """Calls hooks so that none of them harms a run or a heartbeat."""

    def __init__(self, hooks: Hooks | None) -> None:
        self._hooks = hooks
        self._waiting: queue.Queue[Callable[[], None] | None] = queue.Queue(MAX_WAITING)
        self._thread: threading.Thread | None = None

    def run_started(self, run: Run) -> None:
        self._call("run_started", run)

    def run_ended(self, run: Run, end: RunEnd) -> None:
        self._call("run_ended", run, end)

    def run_not_started(self, run: Run, why: str) -> None:
        self._call("run_not_started", run, why)

    def attached(self, server: str, instance_id: str) -> None:
        self._later("attached", server, instance_id)

    def detached(self, server: str, reason: str) -> None:
        self._later("detached", server, reason)

    def lease_renewed(self, round_trip: float) -> None:
        self._later("lease_renewed", round_trip)

    def close(self, patience: float) -> None:
        """Waits until the pending events are delivered, at most this long."""
        thread = self._thread
        if thread is None:
            return
        try:
            self._waiting.put(None, timeout=patience)
        except queue.Full:
            return
        thread.join(patience)

    def _later(self, name: str, *arguments: Any) -> None:
        if self._hooks is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="rosterd-hooks", daemon=True)
            self._thread.start()
        try:
            self._waiting.put_nowait(lambda: self._call(name, *arguments))
        except queue.Full:
            _LOG.debug("hook %s was not called: the one before has not returned", name)

    def _work(self) -> None:
        while (call := self._waiting.get()) is not None:
            call()

    def _call(self, name: str, *arguments: Any) -> None:
        if self._hooks is None:
            return
        try:
            getattr(self._hooks, name)(*arguments)
        except Exception:
            _LOG.exception("hook %s failed", name)
