"""Hooks, of which metrics are made. What a hook raises is logged, and changes nothing."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from .run import Run

#: What the connection has to tell and nobody has taken; more is dropped, since a hook that hangs may take no memory.
MAX_WAITING = 1024
_LOG = logging.getLogger("rosterd")


@dataclass(frozen=True)
class RunEnd:
    """How an attempt ended in user code."""

    #: What the coordinator records may differ: a run that was told to stop says so.
    how: Literal["returned", "raised", "cancelled"]
    seconds: float
    #: What it raised.
    error: BaseException | None = None


class Hooks:
    """Override what you need, and give an instance to the worker.

    Those of runs are called where the handler is, in its thread or on its loop; those of the connection one after the
    other on a thread of their own.
    """

    def run_started(self, run: Run) -> None:
        """User code of an attempt is about to be called."""

    def run_ended(self, run: Run, end: RunEnd) -> None:
        """User code of an attempt has ended."""

    def run_not_started(self, run: Run, why: str) -> None:
        """The last look, right before user code, did not let it begin."""

    def attached(self, server: str, instance_id: str) -> None:
        """A coordinator has welcomed the worker."""

    def detached(self, server: str, reason: str) -> None:
        """The stream is lost, or the worker has left."""

    def lease_renewed(self, round_trip: float) -> None:
        """A heartbeat was acknowledged, so many seconds after it was sent."""


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
        """Waits until what was told is told, so long at most."""
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
