"""Tests of handlers: make a run, call the handler, check the outcome."""

from __future__ import annotations

import asyncio
import threading
from datetime import datetime, timezone

import pytest

from rosterd import Cancelled, Fatal, Run, Worker
from rosterd.testing import acall, call, cancel, make_run


def test_what_a_handler_gets_and_leaves() -> None:
    def handler(run: Run) -> dict[str, str]:
        run.count(3, 1)
        run.progress(50, "half")
        run.set_offset(run.offset + b"x")
        return {"city": run.item_parameter}

    fired = datetime(2026, 11, 24, 3, tzinfo=timezone.utc)
    run = make_run(job="hello", item=2, token=7, total=3, item_parameter="Beijing", offset=b"4", fire_time=fired)
    end = call(handler, run)
    assert (end.outcome, end.output, end.offset) == ("SUCCEEDED", '{"city": "Beijing"}', b"4x")
    assert (end.processed, end.failed, end.progress) == (3, 1, (50, "half"))
    assert (end.retryable, end.error, end.raised) == (False, "", None)
    assert (run.job, run.item, run.token, run.total, run.fire_time) == ("hello", 2, 7, 3, fired)
    assert (run.source, run.task_id) == ("MANUAL", "hello@-@2@-@READY@-@127.0.0.1@-@test")


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize(
    ("error", "outcome", "retryable"),
    [
        (ValueError("no"), "FAILED", True),
        (Fatal("never"), "FAILED", False),
        (Cancelled("not today"), "CANCELLED", False),
    ],
)
def test_what_a_handler_raises(kind: str, error: Exception, outcome: str, retryable: bool) -> None:
    def plain(run: Run) -> None:
        raise error

    async def later(run: Run) -> None:
        raise error

    end = call(plain if kind == "plain" else later)
    assert (end.outcome, end.retryable, end.raised) == (outcome, retryable, error)
    assert str(error) in end.error


def test_a_run_that_is_cancelled() -> None:
    def patient(run: Run) -> None:
        run.cancelled.wait(20)
        run.check()

    run = make_run()
    timer = threading.Timer(0, cancel, (run, "timeout"))
    timer.start()
    end = call(patient, run)
    assert (end.outcome, end.error) == ("CANCELLED", "its time is over")

    async def waits(run: Run) -> None:
        cancel(run)
        await asyncio.sleep(20)

    assert call(waits).outcome == "CANCELLED"


def test_a_job_with_its_hooks_and_a_dataflow() -> None:
    worker = Worker("a:1")
    seen: list[str] = []

    @worker.job("hello", before=lambda run: seen.append("before"), after=lambda run: seen.append("after"))
    def hello(run: Run) -> None:
        seen.append("handler")

    assert call(worker.jobs["hello"]).outcome == "SUCCEEDED"
    assert seen == ["before", "handler", "after"]
    batches = [[1, 2], [3]]
    flow = worker.dataflow(
        "orders", fetch=lambda run: batches.pop(0) if batches else None, process=lambda run, batch: None
    )
    assert call(flow, make_run(streaming=True)).processed == 3


def test_in_a_loop_that_is_there_already() -> None:
    async def handler(run: Run) -> str:
        await asyncio.sleep(0)
        return "fine"

    assert asyncio.run(acall(handler)).output == "fine"
