"""Frames as tests write them."""

from __future__ import annotations

from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from rosterd._proto import types_pb2, worker_pb2


def duration(seconds: float) -> Duration:
    whole = int(seconds)
    return Duration(seconds=whole, nanos=round((seconds - whole) * 1e9))


def ref(token: int, item: int = 0, job: str = "hello") -> types_pb2.RunRef:
    return types_pb2.RunRef(job=job, item=item, token=token)


def welcome(
    worker_id: str = "w1",
    *,
    lease: float = 5.0,
    interval: float = 1.0,
    budget: float = 0.5,
    credits: int = 64,
    coordinators: tuple[str, ...] = (),
) -> worker_pb2.SessionResponse:
    return worker_pb2.SessionResponse(
        welcome=worker_pb2.Welcome(
            worker_id=worker_id,
            instance_id=f"10.0.0.1@-@{worker_id}",
            resume_key=f"key of {worker_id}",
            lease=duration(lease),
            heartbeat_interval=duration(interval),
            stop_budget=duration(budget),
            max_unacknowledged_reports=credits,
            coordinators=coordinators,
        )
    )


def registered(job: str = "hello", **fields: Any) -> worker_pb2.SessionResponse:
    return worker_pb2.SessionResponse(registered=worker_pb2.Registered(job=job, sharding_total_count=3, **fields))


def assignment(job: str = "hello", **props: str) -> worker_pb2.SessionResponse:
    return worker_pb2.SessionResponse(assignment=worker_pb2.Assignment(job=job, props=props))


def refused(job: str = "hello", code: str = "JOB_UNKNOWN") -> worker_pb2.SessionResponse:
    return worker_pb2.SessionResponse(refused=worker_pb2.Refused(job=job, code=code, message="no such job"))


def trigger(token: int, item: int = 0, job: str = "hello", **fields: Any) -> worker_pb2.SessionResponse:
    given: dict[str, Any] = {
        "run": ref(token, item, job),
        "fire_time": Timestamp(seconds=1_700_000_000),
        "source": types_pb2.RUN_SOURCE_NORMAL_TRIGGER,
        "sharding_total_count": 3,
        "item_parameter": f"parameter {item}",
        "job_parameter": "all",
        "attempt": 1,
        "max_attempts": 1,
        "kind": types_pb2.JOB_KIND_SIMPLE,
        "task_id": f"{job}@-@{item}@-@READY@-@10.0.0.1@-@w1",
    }
    return worker_pb2.SessionResponse(trigger=worker_pb2.Trigger(**{**given, **fields}))


def cancel(token: int, reason: str = "OPERATOR", item: int = 0, job: str = "hello") -> worker_pb2.SessionResponse:
    name = f"CANCEL_REASON_{reason}"
    return worker_pb2.SessionResponse(cancel=worker_pb2.Cancel(run=ref(token, item, job), reason=name))


def heartbeat_ack(sequence: int) -> worker_pb2.SessionResponse:
    return worker_pb2.SessionResponse(heartbeat_ack=worker_pb2.HeartbeatAck(sequence=sequence))


def report_ack(token: int, item: int = 0, result: str = "ACCEPTED", job: str = "hello") -> worker_pb2.SessionResponse:
    name = f"REPORT_RESULT_{result}"
    return worker_pb2.SessionResponse(report_ack=worker_pb2.ReportAck(run=ref(token, item, job), result=name))


def callback(name: str, kind: str, timeout: float = 5.0, job: str = "hello") -> worker_pb2.SessionResponse:
    return worker_pb2.SessionResponse(
        callback=worker_pb2.Callback(
            callback_id=name,
            job=job,
            fire_time=Timestamp(seconds=1_700_000_000),
            kind=f"CALLBACK_KIND_{kind}",
            timeout=duration(timeout),
        )
    )


def drain(grace: float | None = None) -> worker_pb2.SessionResponse:
    given = None if grace is None else duration(grace)
    return worker_pb2.SessionResponse(drain=worker_pb2.Drain(message="upgrade", grace=given))


def draining() -> worker_pb2.SessionResponse:
    return worker_pb2.SessionResponse(draining=worker_pb2.Draining())


def goodbye_ack() -> worker_pb2.SessionResponse:
    return worker_pb2.SessionResponse(goodbye_ack=worker_pb2.GoodbyeAck())


def shutdown(job: str = "") -> worker_pb2.SessionResponse:
    return worker_pb2.SessionResponse(shutdown=worker_pb2.Shutdown(job=job, message="by hand"))


def outcome(report: worker_pb2.RunCompleted) -> str:
    return types_pb2.RunOutcome.Name(report.outcome).removeprefix("RUN_OUTCOME_")
