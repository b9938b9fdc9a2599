"""Runs for tests of handlers: no coordinator, no network, no thread::

    from rosterd.testing import call, make_run

    def test_hello() -> None:
        end = call(hello, make_run(item=2, item_parameter="Beijing", offset=b"41"))
        assert (end.outcome, end.output, end.offset) == ("SUCCEEDED", "42", b"42")

`call` takes a handler, or a Job with all its hooks: `worker.jobs["hello"]`, and what `worker.dataflow` returns.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

from ._proto import types_pb2, worker_pb2
from .current import context_for, context_of
from .describe import describe, text_of
from .errors import Cancelled, Fatal
from .events import Key, StartRun, StopReason
from .in_flight import stamp
from .job import Handler, Job, call_async
from .job import call as call_plain
from .run import Run, _Outlet

__all__ = ["Outcome", "acall", "call", "cancel", "make_run"]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_REASONS = {
    "operator": StopReason.OPERATOR,
    "timeout": StopReason.TIMED_OUT,
    "drain": StopReason.DRAIN,
    "lease": StopReason.LEASE,
    "fenced": StopReason.FENCED,
}


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    outcome: Literal["SUCCEEDED", "FAILED", "CANCELLED"]
    #: Another attempt would follow, if the job has more.
    retryable: bool
    #: The recorded form of the handler's return value.
    output: str
    #: The recorded form of its exception.
    error: str
    #: The exception itself.
    raised: BaseException | None
    processed: int
    failed: int
    #: None: it was not set.
    offset: bytes | None
    #: The last reported progress, percent and message.
    progress: tuple[int, str]


def make_run(
    *,
    job: str = "test",
    item: int = 0,
    token: int = 1,
    total: int = 1,
    item_parameter: str = "",
    job_parameter: str = "",
    props: Mapping[str, str] | None = None,
    fire_time: datetime | None = None,
    source: Literal["NORMAL_TRIGGER", "MISFIRE", "FAILOVER", "MANUAL"] = "MANUAL",
    attempt: int = 1,
    offset: bytes = b"",
    timeout: float | None = None,
    streaming: bool = False,
    leaving: bool = False,
    trace_context: Mapping[str, str] | None = None,
) -> Run:
    """A run as from a worker. Its lease lasts until `cancel`."""
    instance = "127.0.0.1@-@test"
    fired = datetime.now(timezone.utc) if fire_time is None else fire_time
    trigger = worker_pb2.Trigger(
        run=types_pb2.RunRef(job=job, item=item, token=token),
        fire_time=stamp((fired - _EPOCH) / timedelta(seconds=1)),
        source=f"RUN_SOURCE_{source}",
        sharding_total_count=total,
        item_parameter=item_parameter,
        job_parameter=job_parameter,
        streaming=streaming,
        task_id=f"{job}@-@{item}@-@READY@-@{instance}",
        trace_context=trace_context,
    )
    deadline = None if timeout is None else datetime.now(timezone.utc).timestamp() + timeout
    start = StartRun(Key(job, item, token), trigger, instance, attempt, offset, deadline, props or {})
    leaves = threading.Event()
    if leaving:
        leaves.set()
    outlet = _Outlet(lambda run: None, leaves, lambda: float("inf"), lambda key: None)
    return Run(start, outlet)


def cancel(run: Run, why: Literal["operator", "timeout", "drain", "lease", "fenced"] = "operator") -> None:
    """Tells the run to stop, as a coordinator would; from any thread."""
    run.cancelled._set(_REASONS[why])


def call(handler: Handler | Job, run: Run | None = None) -> Outcome:
    """Calls a handler once, plain or async, with the hooks of its job, as a worker would."""
    job, run = _parts(handler, run)
    context = context_for(run, context_of(job.context, contextvars.copy_context()))
    try:
        result = context.run(_call, job, run)
    except (Exception, asyncio.CancelledError, SystemExit) as error:
        return _outcome(run, None, error)
    return _outcome(run, result, None)


async def acall(handler: Handler | Job, run: Run | None = None) -> Outcome:
    """The same in a running loop."""
    job, run = _parts(handler, run)
    context = context_for(run, context_of(job.context, contextvars.copy_context()))
    task = context.run(asyncio.ensure_future, _cancellable(job, run))
    await asyncio.wait([task])
    if task.cancelled():
        return _outcome(run, None, asyncio.CancelledError())
    error = task.exception()
    return _outcome(run, None if error is not None else task.result(), error)


def _call(job: Job, run: Run) -> Any:
    return asyncio.run(_cancellable(job, run)) if job.is_async else call_plain(job, run)


def _parts(handler: Handler | Job, run: Run | None) -> tuple[Job, Run]:
    run = make_run() if run is None else run
    return (handler if isinstance(handler, Job) else Job(run.job, handler)), run


async def _cancellable(job: Job, run: Run) -> Any:
    """A worker cancels the task of an async handler once the run must stop."""
    loop = asyncio.get_running_loop()
    task = asyncio.ensure_future(call_async(job, run))

    def stop() -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(task.cancel)

    run.cancelled._listen(stop)
    return await task


def _outcome(run: Run, result: Any, error: BaseException | None) -> Outcome:
    asked = isinstance(error, (Cancelled, asyncio.CancelledError))
    cancelled = run.cancelled.is_set() or asked
    processed, failed, offset = run._counts()
    percent, message, _ = run._take_progress()
    return Outcome(
        outcome="CANCELLED" if cancelled else "SUCCEEDED" if error is None else "FAILED",
        retryable=error is not None and not cancelled and not isinstance(error, Fatal),
        output="" if error is not None else text_of(result),
        error="" if error is None else str(error) if asked else describe(error),
        raised=error,
        processed=processed,
        failed=failed,
        offset=offset,
        progress=(percent, message),
    )
