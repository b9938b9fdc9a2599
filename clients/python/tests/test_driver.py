"""The whole worker against a scripted coordinator: real streams, threads, loops, clocks and signals.

Every wait is for a state, with a deadline; nothing sleeps for a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import frames as f
import grpc
import pytest
from coordinator import PATIENCE, Coordinator
from working import AtWork, leave, wait_until, worker_of

from rosterd import Cancelled, Fire, JobRefused, Options, Rejected, Run, Worker, clock
from rosterd.driver import Driver
from rosterd.events import Event, Expired, Key, Received, Tick
from rosterd.hooks import Teller

HERE = Path(__file__).parent
# A lease that is long enough for a busy machine and short enough for a test.
SHORT: dict[str, Any] = {"lease": 6.0, "interval": 0.3, "budget": 0.2}


# ---- one run


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_run_from_trigger_to_report(
    coordinator: Coordinator, at_work: AtWork, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="rosterd.run")
    worker = worker_of(coordinator, credential="s3cret", labels={"zone": "a"})
    seen: list[Run] = []
    done: list[str] = []

    def work(run: Run) -> dict[str, int]:
        seen.append(run)
        run.log.info("at work")
        run.count(processed=3, failed=1)
        run.progress(50, "half")
        run.set_offset(b"next")
        return {"item": run.item}

    async def work_async(run: Run) -> dict[str, int]:
        await asyncio.sleep(0)
        return work(run)

    surround: dict[str, Any] = {"before": lambda run: done.append("before"), "after": lambda run: done.append("after")}
    worker.job("hello", **surround)(work if kind == "plain" else work_async)
    working = at_work(worker)
    session = coordinator.accept()
    hello = session.greet()
    assert session.metadata["authorization"] == "Bearer s3cret"
    assert (hello.slots, hello.address, dict(hello.labels)) == (4, "10.0.0.1", {"zone": "a"})
    session.send(f.trigger(7, item=2, offset=b"here", timeout=f.duration(60)))
    assert session.expect("run_started", skip=("heartbeat",)).run.token == 7
    report = session.expect("run_completed")
    session.send(f.report_ack(7, item=2))
    assert (f.outcome(report), json.loads(report.output)) == ("SUCCEEDED", {"item": 2})
    assert (report.processed, report.failed, report.offset) == (3, 1, b"next")
    [run] = seen
    assert (run.job, run.item, run.token, run.total, run.attempt) == ("hello", 2, 7, 3, 1)
    assert (run.item_parameter, run.job_parameter, run.offset) == ("parameter 2", "all", b"here")
    assert (run.source, run.instance_id) == ("NORMAL_TRIGGER", "10.0.0.1@-@w1")
    assert run.task_id == "hello@-@2@-@READY@-@10.0.0.1@-@w1"
    [line] = [record for record in caplog.records if record.name == "rosterd.run"]
    assert (line.getMessage(), vars(line)["task_id"]) == ("[hello/2 token 7] at work", run.task_id)
    assert run.fire_time == datetime.fromtimestamp(1_700_000_000, timezone.utc)
    assert run.deadline is not None and run.deadline > datetime.now(timezone.utc)
    assert not run.cancelled and done == ["before", "after"]
    leave(working, session)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_an_exception_is_a_failure_and_the_worker_lives_on(
    coordinator: Coordinator, at_work: AtWork, kind: str
) -> None:
    worker = worker_of(coordinator)
    errors: list[BaseException] = []

    def work(run: Run) -> str:
        if run.token == 1:
            raise ValueError("no such file")
        if run.token == 2:
            sys.exit(3)
        if run.token == 3:
            raise Cancelled("not today")
        return "fine"

    async def work_async(run: Run) -> str:
        return work(run)

    worker.job("hello", on_error=lambda run, error: errors.append(error))(work if kind == "plain" else work_async)
    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    reports = []
    for token in (1, 2, 3, 4):
        session.send(f.trigger(token))
        reports.append(session.expect("run_completed"))
        session.send(f.report_ack(token))
    assert [f.outcome(report) for report in reports] == ["FAILED", "FAILED", "CANCELLED", "SUCCEEDED"]
    assert reports[0].error.startswith("ValueError: no such file\n")
    assert "test_driver.py" in reports[0].error
    assert "SystemExit" in reports[1].error
    assert [type(error) for error in errors] == [ValueError, Cancelled]
    leave(working, session)


def test_retries_are_attempts_of_one_run(coordinator: Coordinator, at_work: AtWork) -> None:
    worker = worker_of(coordinator)
    attempts: list[int] = []

    @worker.job("hello")
    def work(run: Run) -> None:
        attempts.append(run.attempt)
        if run.attempt < 3:
            raise OSError("try again")

    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(7, max_attempts=3, retry_backoff=f.duration(0.05)))
    report = session.expect("run_completed")
    session.send(f.report_ack(7))
    assert (f.outcome(report), report.attempt, attempts) == ("SUCCEEDED", 3, [1, 2, 3])
    leave(working, session)


@pytest.mark.parametrize("kind", ["plain", "plain check", "async", "async wait"])
def test_cancel_reaches_the_handler(coordinator: Coordinator, at_work: AtWork, kind: str) -> None:
    worker = worker_of(coordinator)
    noticed: list[str] = []

    def plain(run: Run) -> None:
        run.cancelled.wait(PATIENCE)
        noticed.append(run.cancelled.reason)
        if kind == "plain check":
            run.check()

    async def with_task(run: Run) -> None:
        try:
            await asyncio.sleep(PATIENCE)
        except asyncio.CancelledError:
            noticed.append(run.cancelled.reason)
            raise

    async def with_waiter(run: Run) -> None:
        async def watch() -> None:
            noticed.append(await run.wait_cancelled())

        watcher = asyncio.create_task(watch())
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            await watcher

    handlers: dict[str, Any] = {"plain": plain, "plain check": plain, "async": with_task, "async wait": with_waiter}
    worker.job("hello")(handlers[kind])
    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(7))
    session.expect("run_started", skip=("heartbeat",))
    session.send(f.cancel(7))
    assert f.outcome(session.expect("run_completed")) == "CANCELLED"
    session.send(f.report_ack(7))
    assert noticed == ["an operator asked for it"]
    leave(working, session)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_timeout_stops_the_run(coordinator: Coordinator, at_work: AtWork, kind: str) -> None:
    worker = worker_of(coordinator)

    def plain(run: Run) -> None:
        run.cancelled.wait(PATIENCE)

    async def slow(run: Run) -> None:
        await asyncio.sleep(PATIENCE)

    worker.job("hello")(plain if kind == "plain" else slow)
    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(7, timeout=f.duration(0.2)))
    assert f.outcome(session.expect("run_completed")) == "TIMED_OUT"
    session.send(f.report_ack(7))
    leave(working, session)


# ---- dataflow and callbacks


@pytest.mark.parametrize("kind", ["plain", "async"])
@pytest.mark.parametrize(("streaming", "expected"), [(True, 5), (False, 2)])
def test_dataflow(coordinator: Coordinator, at_work: AtWork, kind: str, streaming: bool, expected: int) -> None:
    worker = worker_of(coordinator)
    batches = [[1, 2], [3, 4], [5]]
    done: list[int] = []

    def fetch(run: Run) -> list[int]:
        return batches.pop(0) if batches else []

    async def fetch_async(run: Run) -> list[int]:
        return fetch(run)

    def process(run: Run, data: list[int]) -> None:
        done.extend(data)

    worker.dataflow("hello", fetch=fetch if kind == "plain" else fetch_async, process=process)
    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(7, streaming=streaming))
    report = session.expect("run_completed")
    session.send(f.report_ack(7))
    assert (f.outcome(report), report.processed, len(done)) == ("SUCCEEDED", expected, expected)
    leave(working, session)


def test_a_streaming_dataflow_ends_between_two_batches_when_the_worker_leaves(
    coordinator: Coordinator, at_work: AtWork
) -> None:
    worker = worker_of(coordinator)
    worker.dataflow("hello", fetch=lambda run: [1], process=lambda run, data: time.sleep(0.001))
    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(7, streaming=True))
    session.expect("run_started", skip=("heartbeat",))
    worker.stop()
    session.expect("drain_request")
    session.send(f.draining())
    assert f.outcome(session.expect("run_completed")) == "SUCCEEDED"
    session.send(f.report_ack(7))
    session.expect("goodbye")
    session.send(f.goodbye_ack())
    working.over()


def test_callbacks_of_a_fire(coordinator: Coordinator, at_work: AtWork) -> None:
    worker = worker_of(coordinator)
    fires: list[Fire] = []

    async def completed(fire: Fire) -> None:
        raise RuntimeError("no mail today")

    @worker.job("hello", on_all_started=fires.append, on_all_completed=completed)
    def work(run: Run) -> None: ...

    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.callback("c1", "ALL_STARTED"))
    assert session.expect("callback_done").error == ""
    session.send(f.callback("c2", "ALL_COMPLETED"))
    assert session.expect("callback_done").error.startswith("RuntimeError: no mail today")
    assert fires == [Fire("hello", datetime.fromtimestamp(1_700_000_000, timezone.utc))]
    leave(working, session)


# ---- streams and leases


def test_resume_lists_runs_and_sends_unacknowledged_reports_again(coordinator: Coordinator, at_work: AtWork) -> None:
    worker = worker_of(coordinator)
    go = threading.Event()

    @worker.job("hello")
    def work(run: Run) -> None:
        if run.item == 1:
            go.wait(PATIENCE)

    working = at_work(worker)
    first = coordinator.accept()
    first.greet()
    first.send(f.trigger(7), f.trigger(8, item=1))
    assert first.expect("run_completed").run.token == 7
    first.end(grpc.StatusCode.UNAVAILABLE)
    second = coordinator.accept()
    hello = second.expect("hello")
    assert (hello.worker_id, hello.resume_key, hello.stream_number) == ("w1", "key of w1", 2)
    assert sorted(run.token for run in hello.runs_in_flight) == [7, 8]
    second.send(f.welcome())
    second.expect("register")
    assert second.expect("run_completed").run.token == 7
    second.send(f.report_ack(7))
    second.expect_heartbeat_with(8)
    go.set()
    assert f.outcome(second.expect("run_completed")) == "SUCCEEDED"
    second.send(f.report_ack(8, item=1))
    assert coordinator.most_open_sessions == 1
    leave(working, second)


def test_the_next_coordinator_takes_over(at_work: AtWork) -> None:
    with Coordinator() as second, Coordinator() as first:
        worker = Worker([first.address, second.address], slots=1)
        worker.job("hello")(lambda run: None)
        working = at_work(worker)
        session = first.accept()
        session.greet()
        session.end()
        session = second.accept()
        assert session.greet().stream_number == 2
        leave(working, session)


def test_a_coordinator_that_comes_up_later_is_found(at_work: AtWork) -> None:
    with Coordinator() as later:
        # Port 1 is closed on any machine.
        worker = Worker(["127.0.0.1:1", later.address], slots=1)
        worker.job("hello")(lambda run: None)
        working = at_work(worker)
        session = later.accept()
        assert session.greet().stream_number == 2
        leave(working, session)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_lease_that_is_not_renewed_stops_runs_and_they_are_reported_aborted(
    coordinator: Coordinator, at_work: AtWork, kind: str
) -> None:
    worker = worker_of(coordinator)
    stopped: list[str] = []

    def plain(run: Run) -> None:
        run.cancelled.wait(PATIENCE)
        stopped.append(run.cancelled.reason)

    async def slow(run: Run) -> None:
        try:
            await asyncio.sleep(PATIENCE)
        finally:
            stopped.append(run.cancelled.reason)

    worker.job("hello")(plain if kind == "plain" else slow)
    working = at_work(worker)
    session = coordinator.accept()
    coordinator.answer_heartbeats = False
    session.greet(**SHORT)
    session.send(f.trigger(7))
    session.expect("run_started", skip=("heartbeat",))
    wait_until(lambda: stopped == ["the lease ended"], "the run goes on without a lease")
    coordinator.answer_heartbeats = True
    again = coordinator.accept()
    again.greet(**SHORT)
    assert f.outcome(again.expect("run_completed")) == "ABORTED"
    again.send(f.report_ack(7))
    leave(working, again)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_handler_that_blocks_for_longer_than_its_lease_keeps_its_heartbeats(
    coordinator: Coordinator, at_work: AtWork, kind: str
) -> None:
    worker = worker_of(coordinator)
    go = threading.Event()

    def block(run: Run) -> bool:
        go.wait(PATIENCE)
        return bool(run.cancelled)

    async def block_the_loop(run: Run) -> bool:
        return block(run)  # holds the loop of the handlers

    worker.job("hello")(block if kind == "plain" else block_the_loop)
    working = at_work(worker)
    session = coordinator.accept()
    session.greet(**SHORT)
    session.send(f.trigger(7))
    session.expect("run_started", skip=("heartbeat",))
    began = time.monotonic()
    wait_until(lambda: time.monotonic() - began > 1.5 * SHORT["lease"] and len(session.heartbeats) >= 12)
    assert [run.token for run in session.heartbeats[-1].runs_in_flight] == [7]
    go.set()
    report = session.expect("run_completed")
    session.send(f.report_ack(7))
    assert (f.outcome(report), report.output) == ("SUCCEEDED", "false")
    leave(working, session)


def test_another_identity_fences_the_runs_of_the_old_one(coordinator: Coordinator, at_work: AtWork) -> None:
    worker = worker_of(coordinator)
    go = threading.Event()
    reasons: list[str] = []

    @worker.job("hello")
    def stubborn(run: Run) -> None:
        run.cancelled.wait(PATIENCE)
        reasons.append(run.cancelled.reason)
        go.wait(PATIENCE)

    working = at_work(worker)
    first = coordinator.accept()
    first.greet()
    first.send(f.trigger(7))
    first.expect("run_started", skip=("heartbeat",))
    first.end()
    second = coordinator.accept()
    second.greet("w2")
    wait_until(lambda: reasons == ["the worker had been marked dead"])
    second.send(f.trigger(8))
    assert f.outcome(second.expect("run_completed")) == "NOT_STARTED"
    second.send(f.report_ack(8))
    go.set()
    second.expect_heartbeat_with()
    second.send(f.trigger(9))
    second.expect("run_started", skip=("heartbeat",))
    second.send(f.cancel(9))
    assert second.expect("run_completed").run.token == 9
    second.send(f.report_ack(9))
    leave(working, second)


class Deaf:
    """A machine that only records its events."""

    attachment = leased_since = None
    lost_why, leaves, lease_stops_at = "", False, float("inf")

    def __init__(self) -> None:
        self.told: list[object] = []

    def handle(self, now: clock.Now, event: object) -> list[object]:
        self.told.append(event)
        return []

    def deadline(self) -> float:
        return float("inf")


@pytest.mark.parametrize("stood_still", [True, False])
def test_what_waited_in_the_socket_while_the_process_stood_still_comes_first(stood_still: bool) -> None:
    async def scenario() -> list[object]:
        machine: Any = Deaf()
        driver = Driver(machine, Options(), Teller(None))
        driver._over = asyncio.Event()
        streams: Any = {1: None}
        driver._streams = streams
        driver._round_at = clock.boot() - (60 if stood_still else 0)
        events: list[Event] = [Tick(), Expired(Key("hello", 0, 1)), Received(1, f.heartbeat_ack(1))]
        for event in events:
            driver._feed(event)
        until = time.monotonic() + PATIENCE
        while len(machine.told) < len(events):
            assert time.monotonic() < until
            await asyncio.sleep(0.01)
        kinds = [type(event) for event in machine.told]
        driver._over.set()
        return [kind.__name__ for kind in kinds[: len(events)]]

    wanted = ["Received", "Tick", "Expired"] if stood_still else ["Tick", "Expired", "Received"]
    assert asyncio.run(scenario()) == wanted


# ---- refused, rejected, leaving


def test_the_only_job_refused_raises(coordinator: Coordinator, at_work: AtWork) -> None:
    worker = worker_of(coordinator)
    worker.job("hello")(lambda run: None)
    working = at_work(worker)
    session = coordinator.accept()
    session.expect("hello")
    session.send(f.welcome())
    session.expect("register")
    session.send(f.refused())
    session.farewell()
    with pytest.raises(JobRefused) as refused:
        working.over()
    assert (refused.value.code, refused.value.message) == ("JOB_UNKNOWN", "no such job")


def test_a_rejected_worker_raises(coordinator: Coordinator, at_work: AtWork) -> None:
    worker = worker_of(coordinator)
    worker.job("hello")(lambda run: None)
    working = at_work(worker)
    coordinator.accept().end(grpc.StatusCode.UNAUTHENTICATED)
    with pytest.raises(Rejected) as rejected:
        working.over()
    assert (rejected.value.code, rejected.value.message) == ("UNAUTHENTICATED", "as the script says")


def test_drain_of_the_coordinator_lets_runs_finish_then_hands_back(coordinator: Coordinator, at_work: AtWork) -> None:
    worker = worker_of(coordinator)

    @worker.job("hello")
    def work(run: Run) -> None:
        run.cancelled.wait(PATIENCE)

    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(7))
    session.expect("run_started", skip=("heartbeat",))
    session.send(f.drain(grace=0.3))
    session.expect("drain_request")
    session.send(f.draining())
    report = session.expect("run_completed")
    assert f.outcome(report) == "HANDED_BACK"
    session.send(f.report_ack(7))
    session.expect("goodbye")
    session.send(f.goodbye_ack())
    working.over()
    assert session.closed.wait(PATIENCE)


def test_a_worker_on_a_loop_that_is_there_already_and_is_cancelled(coordinator: Coordinator) -> None:
    ended: list[str] = []

    async def main() -> None:
        worker = worker_of(coordinator)

        @worker.job("hello")
        async def work(run: Run) -> None:
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                ended.append(run.cancelled.reason)

        task = asyncio.create_task(worker.run_async())
        loop = asyncio.get_running_loop()
        session = await loop.run_in_executor(None, coordinator.accept)
        await loop.run_in_executor(None, session.greet)
        session.send(f.trigger(7))
        await loop.run_in_executor(None, session.expect, "run_started", ("heartbeat",))
        task.cancel()
        await loop.run_in_executor(None, session.expect, "drain_request")
        session.send(f.draining())
        report = await loop.run_in_executor(None, session.expect, "run_completed")
        assert f.outcome(report) == "HANDED_BACK"
        session.send(f.report_ack(7))
        await loop.run_in_executor(None, session.expect, "goodbye")
        session.send(f.goodbye_ack())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert ended == ["the worker leaves"]


# ---- signals, in a process of their own


@pytest.fixture
def process(coordinator: Coordinator, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    child = subprocess.Popen(
        [sys.executable, str(HERE / "signalled_worker.py")],
        env={
            **os.environ,
            "ROSTERD_SERVER": coordinator.address,
            "ROSTERD_CREDENTIAL": "from the environment",
            **getattr(request, "param", {}),
        },
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    yield child
    child.kill()
    child.communicate()


def test_sigterm_drains(coordinator: Coordinator, process: subprocess.Popen[str]) -> None:
    session = coordinator.accept()
    session.greet()
    assert session.metadata["authorization"] == "Bearer from the environment"
    session.send(f.trigger(7))
    session.expect("run_started", skip=("heartbeat",))
    process.send_signal(signal.SIGTERM)
    session.expect("drain_request")
    session.send(f.draining())
    session.expect_heartbeat_with(7)
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    assert f.outcome(session.expect("run_completed")) == "SUCCEEDED"
    assert process.poll() is None
    session.send(f.report_ack(7))
    session.expect("goodbye")
    session.send(f.goodbye_ack())
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors


def test_two_signals_in_one_instant_are_one(coordinator: Coordinator, process: subprocess.Popen[str]) -> None:
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(7))
    session.expect("run_started", skip=("heartbeat",))
    # Like `timeout` and supervisors: the process, and then its group.
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    session.expect("drain_request", skip=("heartbeat",))
    session.send(f.draining())
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()
    assert f.outcome(session.expect("run_completed", skip=("heartbeat",))) == "SUCCEEDED"
    session.send(f.report_ack(7))
    session.expect("goodbye", skip=("heartbeat",))
    session.send(f.goodbye_ack())
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert errors.count("signal received: leaving once 1 run in flight (hello/0 token 7) ended") == 1
    assert "a second signal exits immediately and records them as crashed" in errors


@pytest.mark.parametrize("process", [{"SIGNALS_APART": "1"}], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_leaves_at_once_even_from_a_handler_that_never_ends(
    coordinator: Coordinator, process: subprocess.Popen[str], number: signal.Signals
) -> None:
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(7))
    session.expect("run_started", skip=("heartbeat",))
    process.send_signal(number)
    session.expect("drain_request")
    process.send_signal(number)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number
    assert "second signal received: exiting immediately; runs in flight are recorded as crashed" in errors
    assert session.closed.wait(PATIENCE)
