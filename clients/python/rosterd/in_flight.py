"""The runs in flight: every run that is in user code, or between attempts, or whose outcome is not acknowledged.

Owns the life of a run: the checks before it starts, stopping, retries, until only its report is left (reports.py).
Called by the machine only.
"""

from __future__ import annotations

import enum
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from google.protobuf.timestamp_pb2 import Timestamp

from ._proto import types_pb2, worker_pb2
from .clock import Now
from .events import Emit, Ending, EndKind, Key, Note, Progressed, StartRun, StopReason, StopRun
from .lease import seconds
from .reports import MAX_ERROR, MAX_OUTPUT, Reports
from .text import shorten

PROGRESS_EVERY = 0.25

_OUTCOME_OF_STOP = {
    StopReason.OPERATOR: types_pb2.RUN_OUTCOME_CANCELLED,
    StopReason.TIMED_OUT: types_pb2.RUN_OUTCOME_TIMED_OUT,
    StopReason.DRAIN: types_pb2.RUN_OUTCOME_HANDED_BACK,
    StopReason.LEASE: types_pb2.RUN_OUTCOME_ABORTED,
    StopReason.FENCED: types_pb2.RUN_OUTCOME_ABORTED,
}
_OUTCOME_OF_END = {
    EndKind.RETURNED: types_pb2.RUN_OUTCOME_SUCCEEDED,
    EndKind.RAISED: types_pb2.RUN_OUTCOME_FAILED,
    EndKind.FATAL: types_pb2.RUN_OUTCOME_FAILED,
    EndKind.CANCELLED: types_pb2.RUN_OUTCOME_CANCELLED,
}


#: A job and its item.
Item: TypeAlias = tuple[str, int]


class Phase(enum.Enum):
    # Its time has not come.
    WAITING = enum.auto()
    IN_USER_CODE = enum.auto()
    # A failed attempt waits for the next one.
    BETWEEN = enum.auto()


@dataclass
class InFlightRun:
    key: Key
    trigger: worker_pb2.Trigger
    instance_id: str
    attempt: int
    offset: bytes
    props: Mapping[str, str]
    phase: Phase = Phase.IN_USER_CODE
    stop: StopReason | None = None
    new_offset: bytes | None = None
    processed: int = 0
    failed: int = 0
    started_at: float | None = None
    timeout_at: float | None = None
    deadline: float | None = None
    # When it begins (WAITING), or begins again (BETWEEN).
    next_at: float = 0.0
    progress: tuple[int, str, bytes | None] | None = None
    # The latest progress, which another coordinator may not know.
    progressed: tuple[int, str, bytes | None] = (0, "", None)
    progress_at: float = float("-inf")


class InFlight:
    """Runs in flight. Each event costs the same however many there are, except those that concern all."""

    def __init__(self, slots: int, emit: Emit) -> None:
        self._slots = slots
        self._emit = emit
        # In user code, before it, or between two attempts.
        self._working: dict[Key, InFlightRun] = {}
        self._of_item: dict[Item, list[InFlightRun]] = {}
        # Those with a timer, and those with unsent progress.
        self._timed: dict[Key, InFlightRun] = {}
        self._telling: dict[Key, InFlightRun] = {}
        # Only the report is left.
        self._reports = Reports(emit)
        self._highest: dict[Item, int] = {}

    # ---- what is in flight

    def refs(self) -> list[types_pb2.RunRef]:
        return [key.ref() for key in (*self._working, *self._reports)]

    def working(self) -> list[str]:
        return [str(key) for key in self._working]

    def empty(self) -> bool:
        return not self._working and not self._reports

    def _add(self, run: InFlightRun) -> None:
        self._working[run.key] = run
        self._of_item.setdefault(run.key[:2], []).append(run)

    def _drop(self, run: InFlightRun) -> None:
        """The run is no longer being worked on. Ignores one that never was."""
        if self._working.pop(run.key, None) is None:
            return
        of_item = self._of_item[run.key[:2]]
        of_item.remove(run)
        if not of_item:
            del self._of_item[run.key[:2]]
        self._timed.pop(run.key, None)
        self._telling.pop(run.key, None)

    def _retime(self, run: InFlightRun) -> None:
        if run.phase in (Phase.WAITING, Phase.BETWEEN) or run.timeout_at is not None:
            self._timed[run.key] = run
        else:
            self._timed.pop(run.key, None)

    # ---- a run begins

    def take(
        self,
        now: Now,
        trigger: worker_pb2.Trigger,
        instance_id: str,
        objection: str,
        props: Mapping[str, str],
    ) -> None:
        """A Trigger arrived. `objection` is why the machine does not start it, or empty."""
        key = Key.of(trigger.run)
        if key in self._working or key in self._reports:
            return
        run = InFlightRun(key, trigger, instance_id, max(1, trigger.attempt), trigger.offset, props)
        seen = self._highest.get(key[:2], -1)
        if key.token <= seen:
            # The run is over here, or older than the item's highest token. The coordinator must know.
            objection = f"a run {seen} of the item was seen already"
        else:
            self._highest[key[:2]] = key.token
            self._supersede(now, key)
            objection = objection or self._objection(now, key, trigger)
        if objection:
            self._emit(Note(logging.WARNING, f"did not start {key}: {objection}", key))
            self._report(now, run, types_pb2.RUN_OUTCOME_NOT_STARTED, objection)
            return
        self._add(run)
        starts_in = seconds(trigger.starts_in)
        if starts_in > 0:
            run.phase, run.next_at = Phase.WAITING, now.boot + starts_in
            self._retime(run)
        else:
            self._begin(now, run)

    def drop_unstarted(self) -> None:
        """Forgets the runs that have not begun, as their stream is lost. The next one sends them again."""
        for run in [run for run in self._timed.values() if run.phase is Phase.WAITING]:
            self._drop(run)
            if self._highest.get(run.key[:2]) == run.key.token:
                self._highest[run.key[:2]] = run.key.token - 1

    def _begin(self, now: Now, run: InFlightRun) -> None:
        timeout = seconds(run.trigger.timeout)
        if timeout > 0:
            run.timeout_at, run.deadline = now.boot + timeout, now.wall + timeout
        self._start(run)

    def _supersede(self, now: Now, key: Key) -> None:
        """A higher token means that reports of older runs of the item are no longer accepted."""
        for older in list(self._of_item.get(key[:2], ())):
            self._stop(now, older, StopReason.FENCED)

    def _objection(self, now: Now, key: Key, trigger: worker_pb2.Trigger) -> str:
        if key[:2] in self._of_item:
            return "an older run of the item is still in user code"
        if len(self._working) >= self._slots:
            return "no slot is free"
        return ""

    def _start(self, run: InFlightRun) -> None:
        run.phase = Phase.IN_USER_CODE
        self._retime(run)
        self._emit(StartRun(run.key, run.trigger, run.instance_id, run.attempt, run.offset, run.deadline, run.props))

    def began(self, now: Now, key: Key) -> worker_pb2.RunStarted | None:
        run = self._working.get(key)
        if run is None:
            return None
        if run.started_at is None:
            run.started_at = now.wall
        return worker_pb2.RunStarted(run=key.ref(), started_at=stamp(now.wall), attempt=run.attempt)

    # ---- a run is stopped

    def cancel(self, now: Now, key: Key, reason: StopReason) -> None:
        run = self._working.get(key)
        if run is not None:
            self._stop(now, run, reason)

    def stop_all(self, now: Now, reason: StopReason) -> None:
        for run in list(self._working.values()):
            self._stop(now, run, reason)

    def disown(self, now: Now) -> None:
        """The coordinator marked the old identity dead: drops old reports; old runs stop and are not reported."""
        self._reports.forget()
        for run in list(self._working.values()):
            if run.phase is Phase.IN_USER_CODE:
                self._stop(now, run, StopReason.DEAD)
            else:
                self._drop(run)

    def _stop(self, now: Now, run: InFlightRun, reason: StopReason) -> None:
        told = run.stop is not None
        if not told or reason in (StopReason.FENCED, StopReason.DEAD):
            # A reason that revokes the run's right overrides an earlier one; otherwise the first reason stays.
            run.stop = reason if run.stop is not StopReason.DEAD else StopReason.DEAD
        if run.phase is Phase.BETWEEN:
            self._close(now, run, Ending(EndKind.CANCELLED, error=f"cancelled: {reason.value}"))
        elif run.phase is Phase.WAITING:
            self._close(now, run, Ending(EndKind.NOT_BEGUN, error=f"cancelled: {reason.value}"))
        elif not told:
            self._emit(Note(logging.WARNING, f"stopping {run.key}: {reason.value}", run.key))
            self._emit(StopRun(run.key, reason))

    # ---- a run ends

    def ended(self, now: Now, key: Key, ending: Ending) -> None:
        run = self._working.get(key)
        if run is None or run.phase is not Phase.IN_USER_CODE:
            return
        run.processed += ending.processed
        run.failed += ending.failed
        if ending.offset is not None:
            run.new_offset = run.offset = ending.offset
        retry = ending.kind is EndKind.RAISED and run.stop is None and run.attempt < run.trigger.max_attempts
        if retry:
            run.phase = Phase.BETWEEN
            run.next_at = now.boot + _pause(run.trigger, run.attempt)
            self._retime(run)
            text = f"attempt {run.attempt} of {key} failed: {_first_line(ending.error)}"
            self._emit(Note(logging.WARNING, text, key, ending.exception))
        else:
            self._close(now, run, ending)

    def _close(self, now: Now, run: InFlightRun, ending: Ending) -> None:
        self._drop(run)
        if run.stop is StopReason.DEAD:
            return
        outcome, error = _outcome(run, ending), ending.error
        if run.stop is not None:
            error = error or f"cancelled: {run.stop.value}"
        if outcome == types_pb2.RUN_OUTCOME_FAILED:
            # The log shows the stack of an exception by itself.
            text = error if ending.exception is None else _first_line(error)
            self._emit(Note(logging.ERROR, f"{run.key} failed: {text}", run.key, ending.exception))
        self._report(now, run, outcome, error, ending.output)

    def _report(
        self, now: Now, run: InFlightRun, outcome: types_pb2.RunOutcome, error: str = "", output: str = ""
    ) -> None:
        report = worker_pb2.RunCompleted(
            run=run.key.ref(),
            outcome=outcome,
            error=shorten(error, MAX_ERROR),
            output=shorten(output, MAX_OUTPUT),
            processed=run.processed,
            failed=run.failed,
            offset=run.new_offset,
            started_at=None if run.started_at is None else stamp(run.started_at),
            ended_at=stamp(now.wall),
            attempt=run.attempt,
        )
        self._reports.add(report)

    # ---- reports

    def due_reports(self, stream: int, credits: int) -> Iterator[worker_pb2.RunCompleted]:
        """The reports to send on this stream now; at most `credits` of them may be unacknowledged."""
        return self._reports.due(stream, credits)

    def acknowledged(self, ack: worker_pb2.ReportAck) -> None:
        self._reports.acknowledged(ack)

    # ---- progress

    def progressed(self, said: Progressed, now: Now) -> None:
        run = self._working.get(said.key)
        if run is None or run.phase is not Phase.IN_USER_CODE:
            return
        self._telling[run.key] = run
        run.progress = run.progressed = (said.percent, said.message, said.offset)
        if run.progress == (0, "", said.offset) and run.progress_at == float("-inf"):
            # A run that ends sooner sends this only with its end.
            run.progress_at = now.boot + PROGRESS_EVERY

    def say_offsets_again(self) -> None:
        """Another coordinator may not know the offsets of runs."""
        for run in self._working.values():
            if run.progressed[2] is not None and run.phase is Phase.IN_USER_CODE:
                run.progress = run.progressed
                self._telling[run.key] = run

    def due_progress(self, now: Now) -> Iterator[worker_pb2.RunProgress]:
        """Only the last progress of a run is kept, and it goes out at most every PROGRESS_EVERY."""
        for run in [run for run in self._telling.values() if now.boot >= run.progress_at]:
            del self._telling[run.key]
            if run.progress is not None:
                percent, message, offset = run.progress
                run.progress, run.progress_at = None, now.boot + PROGRESS_EVERY
                yield worker_pb2.RunProgress(run=run.key.ref(), percent=percent, message=message, offset=offset)

    # ---- time

    def timers(self, live: bool) -> Iterator[float]:
        for run in self._timed.values():
            if run.phase in (Phase.WAITING, Phase.BETWEEN):
                yield run.next_at
            if run.timeout_at is not None and run.stop is None:
                yield run.timeout_at
        if live:
            yield from (run.progress_at for run in self._telling.values())

    def has_unstopped(self) -> bool:
        return any(run.stop is None for run in self._working.values())

    def expire(self, now: Now, may_start: Callable[[], bool]) -> None:
        for run in list(self._timed.values()):
            if run.timeout_at is not None and run.stop is None and now.boot >= run.timeout_at:
                self._stop(now, run, StopReason.TIMED_OUT)
            elif run.phase is Phase.WAITING and now.boot >= run.next_at and may_start():
                self._begin(now, run)
            elif run.phase is Phase.BETWEEN and now.boot >= run.next_at and may_start():
                run.attempt += 1
                self._start(run)


def _first_line(text: str) -> str:
    return text.partition("\n")[0]


def _pause(trigger: worker_pb2.Trigger, attempt: int) -> float:
    """The pause after attempt number `attempt` has failed."""
    # A float has no room for a higher power of the largest multiplier; the bound applies long before that.
    factor = float(max(trigger.retry_backoff_multiplier, 1)) ** min(attempt - 1, 30)
    pause = seconds(trigger.retry_backoff) * factor
    return min(pause, seconds(trigger.retry_backoff_max)) if trigger.HasField("retry_backoff_max") else pause


def _outcome(run: InFlightRun, ending: Ending) -> types_pb2.RunOutcome:
    not_begun = ending.kind is EndKind.NOT_BEGUN
    if not_begun and run.started_at is None and run.stop in (None, StopReason.LEASE, StopReason.FENCED):
        return types_pb2.RUN_OUTCOME_NOT_STARTED
    if run.stop is not None:
        return _OUTCOME_OF_STOP[run.stop]
    # A later attempt that could not begin: user code of this run has been called before.
    return types_pb2.RUN_OUTCOME_ABORTED if not_begun else _OUTCOME_OF_END[ending.kind]


def stamp(unix: float) -> Timestamp:
    nanos = round(unix * 1e9)
    return Timestamp(seconds=nanos // 10**9, nanos=nanos % 10**9)
