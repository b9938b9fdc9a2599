"""Health, hooks for metrics, and the messages when a worker cannot continue."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.request

import frames as f
import grpc
import pytest
from coordinator import PATIENCE, Coordinator
from working import AtWork, leave, wait_until, worker_of

from rosterd import Hooks, InvalidOption, Run, RunEnd, Worker
from rosterd.hooks import MAX_WAITING, Teller


class Record(Hooks):
    def __init__(self) -> None:
        self.told: list[tuple[object, ...]] = []

    def run_started(self, run: Run) -> None:
        self.told.append(("started", run.token))

    def run_ended(self, run: Run, end: RunEnd) -> None:
        self.told.append(("ended", run.token, end.how, type(end.error).__name__))
        assert end.seconds >= 0

    def attached(self, server: str, instance_id: str) -> None:
        self.told.append(("attached", server, instance_id))

    def detached(self, server: str, reason: str) -> None:
        self.told.append(("detached", reason))

    def lease_renewed(self, round_trip: float) -> None:
        assert round_trip >= 0
        if ("renewed",) not in self.told:
            self.told.append(("renewed",))

    def __contains__(self, what: tuple[object, ...]) -> bool:
        return what in self.told


def test_hooks_tell_of_runs_and_of_the_connection(coordinator: Coordinator, at_work: AtWork) -> None:
    record = Record()
    worker = worker_of(coordinator, hooks=record)

    @worker.job("hello")
    async def hello(run: Run) -> None:
        if run.token == 2:
            raise OSError("no")

    working = at_work(worker)
    session = coordinator.accept()
    session.greet(interval=0.1)
    for token in (1, 2):
        session.send(f.trigger(token))
        session.expect("run_completed")
        session.send(f.report_ack(token))
    wait_until(lambda: ("renewed",) in record, "a heartbeat is acknowledged")
    session.end(grpc.StatusCode.UNAVAILABLE)
    again = coordinator.accept()
    again.greet()
    wait_until(lambda: ("detached", "UNAVAILABLE: as the script says") in record)
    leave(working, again)
    attached = ("attached", coordinator.address, "10.0.0.1@-@w1")
    assert [what for what in record.told if what[0] in ("attached", "detached")] == [
        attached,
        ("detached", "UNAVAILABLE: as the script says"),
        attached,
        ("detached", "the worker has left"),
    ]
    runs = [what for what in record.told if what[0] in ("started", "ended")]
    assert runs == [
        ("started", 1),
        ("ended", 1, "returned", "NoneType"),
        ("started", 2),
        ("ended", 2, "raised", "OSError"),
    ]


class Broken(Hooks):
    def run_started(self, run: Run) -> None:
        raise RuntimeError("no metrics today")

    attached = lease_renewed = run_ended = run_started  # type: ignore[assignment]


def test_hooks_that_fail_harm_nothing(
    coordinator: Coordinator, at_work: AtWork, caplog: pytest.LogCaptureFixture
) -> None:
    worker = worker_of(coordinator, hooks=Broken())
    worker.job("hello")(lambda run: None)
    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(1))
    assert f.outcome(session.expect("run_completed")) == "SUCCEEDED"
    session.send(f.report_ack(1))
    leave(working, session)
    assert "hook run_started failed" in caplog.text and "hook attached failed" in caplog.text


def test_a_hook_that_hangs_takes_no_memory() -> None:
    class Hangs(Hooks):
        def lease_renewed(self, round_trip: float) -> None:
            teller._waiting.join()

    teller = Teller(Hangs())
    for _ in range(3 * MAX_WAITING):
        teller.lease_renewed(0.0)
    assert teller._waiting.qsize() <= MAX_WAITING


def status(port: int | None, path: str) -> int:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=PATIENCE) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_health_for_probes(coordinator: Coordinator, at_work: AtWork) -> None:
    worker = worker_of(coordinator, health=0)
    worker.job("hello")(lambda run: None)
    working = at_work(worker)
    wait_until(lambda: worker.health_port)
    port = worker.health_port
    session = coordinator.accept()
    assert (status(port, "/healthz"), status(port, "/readyz"), status(port, "/other")) == (200, 503, 404)
    session.greet()
    wait_until(lambda: status(port, "/readyz") == 200, "attached, it is ready")
    worker.stop()
    session.expect("drain_request")
    wait_until(lambda: status(port, "/readyz") == 503, "it leaves")
    assert status(port, "/healthz") == 200
    session.send(f.draining())
    session.expect("goodbye")
    session.send(f.goodbye_ack())
    working.over()
    with pytest.raises(OSError):
        status(port, "/healthz")


def test_a_port_for_health_that_is_taken(coordinator: Coordinator, at_work: AtWork) -> None:
    worker = worker_of(coordinator, health=coordinator.port)
    worker.job("hello")(lambda run: None)
    with pytest.raises(InvalidOption, match=r"health: 127.0.0.1:.* cannot be served: .*: give another"):
        at_work(worker).over()


PROGRAM = """
from rosterd import Worker
worker = Worker()
worker.job("hello")(lambda run: None)
worker.run()
"""


def test_a_program_that_is_rejected_ends_with_a_message(coordinator: Coordinator) -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env={**os.environ, "ROSTERD_SERVER": coordinator.address},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        coordinator.accept().end(grpc.StatusCode.NOT_FOUND)
        _, errors = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
    assert child.returncode == 1
    assert errors == "rosterd: the coordinator rejected this worker: NOT_FOUND: as the script says\n"


def test_a_worker_says_what_it_cannot_take() -> None:
    with pytest.raises(InvalidOption, match="server 'here:port' is not an address: write host:port"):
        Worker("here:port")
