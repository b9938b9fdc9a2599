"""Reports of runs that have ended: kept until they are acknowledged, sent again on every new stream."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterator

from ._proto import types_pb2, worker_pb2
from .events import Emit, Key, Note
from .text import shorten

MAX_ERROR = 8 * 1024
MAX_OUTPUT = 64 * 1024


class Reports:
    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        # In the order in which their runs ended.
        self._kept: dict[Key, worker_pb2.RunCompleted] = {}
        # Those that were not sent on this stream, and those that were.
        self._waiting: OrderedDict[Key, worker_pb2.RunCompleted] = OrderedDict()
        self._under_way: set[Key] = set()
        self._stream = 0
        # Those that replace a refused one.
        self._replacing: set[Key] = set()

    def __iter__(self) -> Iterator[Key]:
        return iter(self._kept)

    def __contains__(self, key: Key) -> bool:
        return key in self._kept

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, report: worker_pb2.RunCompleted) -> None:
        key = Key.of(report.run)
        self._kept[key] = self._waiting[key] = report

    def forget(self) -> None:
        """Nobody waits for them."""
        self._kept.clear()
        self._waiting.clear()
        self._under_way.clear()
        self._replacing.clear()

    def due(self, stream: int, credits: int) -> Iterator[worker_pb2.RunCompleted]:
        """Those to send on this stream now; at most `credits` of them may be unacknowledged."""
        if stream != self._stream:
            self._stream = stream
            self._waiting = OrderedDict(self._kept)
            self._under_way.clear()
        while self._waiting and len(self._under_way) < credits:
            key, report = self._waiting.popitem(last=False)
            self._under_way.add(key)
            yield report

    def acknowledged(self, ack: worker_pb2.ReportAck) -> None:
        key = Key.of(ack.run)
        report = self._kept.pop(key, None)
        if report is None:
            return
        self._waiting.pop(key, None)
        self._under_way.discard(key)
        replaces = key in self._replacing
        self._replacing.discard(key)
        if ack.result == worker_pb2.REPORT_RESULT_ACCEPTED:
            return
        why = f"{ack.code}: {ack.message}"
        if ack.result == worker_pb2.REPORT_RESULT_INVALID and not replaces:
            text = f"the report of {key} was refused, it is reported as failed: {why}"
            self._emit(Note(logging.ERROR, text, key))
            self._replacing.add(key)
            self.add(_failed(report, why))
        else:
            self._emit(Note(logging.WARNING, f"the report of {key} was not accepted: {why}", key))


def _failed(report: worker_pb2.RunCompleted, why: str) -> worker_pb2.RunCompleted:
    """Nothing of the report was written: without another one the run would stay in the coordinator's records."""
    outcome = types_pb2.RunOutcome.Name(report.outcome).removeprefix("RUN_OUTCOME_")
    failed = worker_pb2.RunCompleted(
        run=report.run,
        outcome=types_pb2.RUN_OUTCOME_FAILED,
        error=shorten(f"the report {outcome} was refused: {why}", MAX_ERROR),
        ended_at=report.ended_at,
        attempt=report.attempt,
    )
    if report.HasField("started_at"):
        failed.started_at.CopyFrom(report.started_at)
    return failed
