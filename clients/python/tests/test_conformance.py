"""The conformance worker does what its items' parameters say, and logs what happened."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import frames as f
import grpc
import pytest
from coordinator import PATIENCE, Coordinator, Session

WORKER = Path(__file__).parents[1] / "conformance" / "worker.py"


class Process:
    """The worker as a process, attached."""

    def __init__(self, coordinator: Coordinator, folder: Path, jobs: str) -> None:
        self.log = folder / "lines"
        self.child = subprocess.Popen(
            [sys.executable, str(WORKER)],
            env={
                **os.environ,
                "ROSTERD_SERVER": coordinator.address,
                "CONFORMANCE_JOBS": jobs,
                "CONFORMANCE_SLOTS": "3",
                "CONFORMANCE_ADDRESS": "10.0.0.1",
                "CONFORMANCE_CONFIG": "jobName: NAME\n",
                "CONFORMANCE_LOG": str(self.log),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        self.session: Session = coordinator.accept()
        hello = self.session.expect("hello")
        assert (hello.slots, hello.address) == (3, "10.0.0.1")
        self.session.send(f.welcome())
        for job in jobs.split(","):
            register = self.session.expect("register")
            assert (register.job, register.handler_type, register.config) == (job, "conformance", f"jobName: {job}\n")
            self.session.send(f.registered(job))
        self.job = jobs.split(",")[0]
        self.token = 0

    def run(self, steps: str, **fields: Any) -> Any:
        self.trigger(steps, **fields)
        return self.report()

    def trigger(self, steps: str, **fields: Any) -> None:
        self.token += 1
        self.session.send(f.trigger(self.token, job=self.job, item_parameter=steps, **fields))

    def report(self) -> Any:
        report = self.session.expect("run_completed")
        self.session.send(f.report_ack(self.token, job=self.job))
        return report

    def leave(self) -> list[dict[str, Any]]:
        self.child.send_signal(signal.SIGTERM)
        self.session.farewell()
        _, errors = self.child.communicate(timeout=PATIENCE)
        assert self.child.returncode == 0, errors
        return [json.loads(line) for line in self.log.read_text().splitlines()]


@pytest.fixture
def process(coordinator: Coordinator, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Process]:
    process = Process(coordinator, tmp_path, request.param)
    yield process
    process.child.kill()
    process.child.communicate()


@pytest.mark.parametrize("process", ["conformance"], indirect=True)
def test_steps_of_a_simple_job(process: Process, tmp_path: Path) -> None:
    end = process.run("output done; offset a; append b; count 3 1; progress 50 half; succeed", offset=b"old")
    assert (f.outcome(end), end.output, end.offset, end.processed, end.failed) == ("SUCCEEDED", "done", b"ab", 3, 1)
    assert process.run("append new", offset=b"old ").offset == b"old new"
    end = process.run("fail no such file")
    assert f.outcome(end) == "FAILED" and end.error.startswith("RuntimeError: no such file\n")
    end = process.run("fatal never", max_attempts=3)
    assert (f.outcome(end), end.attempt) == ("FAILED", 1)
    end = process.run(f"once {tmp_path / 'once'} fail first; output second", max_attempts=2)
    assert (f.outcome(end), end.attempt, end.output) == ("SUCCEEDED", 2, "second")
    assert f.outcome(process.run("dance")) == "FAILED"
    assert f.outcome(process.run("block 1; ignore 1; sleep 1; busy 1")) == "SUCCEEDED"
    for steps in ("sleep 60000", "busy 60000", f"gate {tmp_path / 'never'}"):
        process.trigger(steps)
        process.session.expect("run_started", skip=("heartbeat", "run_progress"))
        process.session.send(f.cancel(process.token, job=process.job))
        assert f.outcome(process.report()) == "CANCELLED"
    (tmp_path / "gate").touch()
    assert f.outcome(process.run(f"gate {tmp_path / 'gate'}")) == "SUCCEEDED"
    lines = process.leave()
    told = [(line["what"], line.get("token"), line["detail"]) for line in lines]
    assert told[:6] == [
        ("start", 1, ""),
        ("end", 1, "ok"),
        ("start", 2, ""),
        ("end", 2, "ok"),
        ("start", 3, ""),
        ("end", 3, "RuntimeError: no such file"),
    ]
    assert told[-1] == ("exit", None, "left")
    assert [line["attempt"] for line in lines if line.get("token") == 5] == [1, 1, 2, 2]
    assert sum(line["what"] == "cancel" for line in lines) == 3
    assert {line["worker"] for line in lines} == {"python"}
    assert all(line["at"] > 0 and line["wall"] > 1_700_000_000_000 for line in lines)


@pytest.mark.parametrize("process", ["dataflow-1"], indirect=True)
def test_a_dataflow_job(process: Process) -> None:
    end = process.run("batches 3; append x", streaming=True)
    assert (f.outcome(end), end.processed, end.offset) == ("SUCCEEDED", 3, b"xxx")
    assert process.run("batches 3", streaming=False).processed == 1
    assert process.run("succeed", streaming=True).processed == 0
    assert [line["detail"] for line in process.leave() if line["what"] == "end"] == ["ok"] * 3


@pytest.mark.parametrize("process", ["hello-bad-callback"], indirect=True)
def test_callbacks(process: Process) -> None:
    process.session.send(f.callback("c1", "ALL_STARTED", job=process.job))
    assert process.session.expect("callback_done").error.startswith("RuntimeError: refused\n")
    [line] = [line for line in process.leave() if line["what"] == "callback"]
    assert (line["job"], line["detail"]) == ("hello-bad-callback", "started")


def test_a_rejected_worker_ends_with_code_1(coordinator: Coordinator, tmp_path: Path) -> None:
    child = subprocess.Popen(
        [sys.executable, str(WORKER)],
        env={**os.environ, "ROSTERD_SERVER": coordinator.address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        coordinator.accept().end(grpc.StatusCode.UNAUTHENTICATED)
        output, errors = child.communicate(timeout=PATIENCE)
    finally:
        child.kill()
    assert (child.returncode, json.loads(output)["what"]) == (1, "exit")
    assert "UNAUTHENTICATED" in errors
