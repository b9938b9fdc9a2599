"""The conversation as a table: one script per rule, with a clock that only the script moves."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from typing import Any

import frames as f
import pytest

from rosterd import JobRefused, LeaveTimedOut, Options, Rejected
from rosterd._proto import worker_pb2
from rosterd.clock import Now
from rosterd.events import (
    Began,
    CallbackEnded,
    Close,
    Effect,
    Ended,
    Ending,
    EndKind,
    Event,
    Expired,
    Finish,
    Key,
    Leave,
    Lost,
    Note,
    Open,
    Opened,
    Progressed,
    Quit,
    Received,
    Send,
    Start,
    StartCallback,
    StartRun,
    StopReason,
    StopRun,
    Tick,
)
from rosterd.lease import span
from rosterd.machine import Machine

WALL = 1_700_000_000.0
RETURNED = Ending(EndKind.RETURNED, output="done")
RAISED = Ending(EndKind.RAISED, error="ValueError: no")


class Script:
    """Plays the driver and the coordinator for one machine."""

    def __init__(self, *jobs: str, **options: Any) -> None:
        given: dict[str, Any] = {"servers": ("a:1", "b:1"), "slots": 4, **options}
        registers = [worker_pb2.Register(job=job, handler_type=job) for job in jobs or ("hello",)]
        self.machine = Machine(Options(**given), registers, "10.0.0.1", random.Random(7))
        self.time = 100.0
        self.stream = 0
        self.effects: list[Effect] = []
        self.feed(Start())

    def feed(self, event: Event) -> list[Effect]:
        effects = self.machine.handle(Now(self.time, WALL + self.time), event)
        for effect in effects:
            if isinstance(effect, Open):
                self.stream = effect.stream
        self.effects += effects
        return effects

    def recv(self, frame: worker_pb2.SessionResponse, stream: int | None = None) -> list[Effect]:
        return self.feed(Received(self.stream if stream is None else stream, frame))

    def wait(self, seconds: float, *, answer: bool = False, step: float = 0.05) -> None:
        """Lets time pass; a driver ticks at the machine's deadlines. `answer`: acknowledges heartbeats."""
        end = self.time + seconds
        while self.time < end:
            self.time = min(end, max(self.time + 1e-6, min(self.machine.deadline(), self.time + step)))
            for frame in sends(self.feed(Tick()), "heartbeat"):
                if answer:
                    self.recv(f.heartbeat_ack(frame.sequence))

    def attach(self, worker_id: str = "w1", **welcome: Any) -> None:
        self.feed(Opened(self.stream))
        self.recv(f.welcome(worker_id, **welcome))

    def reattach(self, worker_id: str = "w1", **welcome: Any) -> None:
        before = self.stream
        self.feed(Lost(self.stream, "UNAVAILABLE", "gone"))
        while self.stream == before:
            self.wait(0.01)
        self.attach(worker_id, **welcome)

    def clear(self) -> None:
        self.effects.clear()

    def sent(self, kind: str) -> list[Any]:
        return sends(self.effects, kind)

    def reports(self) -> list[tuple[int, str]]:
        return [(report.run.token, f.outcome(report)) for report in self.sent("run_completed")]

    def all(self, kind: type[Any]) -> list[Any]:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def started(self) -> list[int]:
        return [start.key.token for start in self.all(StartRun)]

    def stopped(self) -> list[tuple[int, StopReason]]:
        return [(stop.key.token, stop.reason) for stop in self.all(StopRun)]

    def end(self, token: int, ending: Ending = RETURNED, item: int = 0) -> None:
        self.feed(Ended(key(token, item), ending))


def key(token: int, item: int = 0) -> Key:
    return Key("hello", item, token)


def sends(effects: list[Effect], kind: str) -> list[Any]:
    found = [effect.frame for effect in effects if isinstance(effect, Send)]
    return [getattr(frame, kind) for frame in found if frame.WhichOneof("frame") == kind]


def attached(*jobs: str, **options: Any) -> Script:
    script = Script(*jobs, **options)
    script.attach()
    return script


def running(token: int = 5, **fields: Any) -> Script:
    script = attached()
    script.recv(f.trigger(token, **fields))
    script.feed(Began(key(token)))
    assert script.started() == [token]
    return script


# ---- attach


def test_first_attach_says_who_it_is_and_registers_every_job() -> None:
    script = Script("hello", "other", labels={"zone": "a"})
    assert script.effects == [Open(1, "a:1")]
    script.feed(Opened(1))
    [hello] = script.sent("hello")
    assert (hello.worker_id, hello.resume_key, hello.stream_number, hello.slots) == ("", "", 1, 4)
    assert (hello.address, dict(hello.labels)) == ("10.0.0.1", {"zone": "a"})
    script.recv(f.welcome())
    assert [register.job for register in script.sent("register")] == ["hello", "other"]


def test_resume_gives_identity_key_higher_number_and_runs_in_flight() -> None:
    script = running()
    script.clear()
    script.reattach()
    [hello] = script.sent("hello")
    assert (hello.worker_id, hello.resume_key, hello.stream_number) == ("w1", "key of w1", 2)
    assert [run.token for run in hello.runs_in_flight] == [5]
    assert [register.job for register in script.sent("register")] == ["hello"]
    assert script.stopped() == []


def test_old_stream_is_closed_before_the_next_opens() -> None:
    script = attached()
    script.clear()
    script.reattach()
    kinds = [type(effect) for effect in script.effects if isinstance(effect, Close | Open)]
    assert kinds == [Close, Open]


def test_frames_of_a_left_stream_are_ignored() -> None:
    script = attached()
    script.reattach()
    script.recv(f.trigger(9), stream=1)
    assert script.started() == []


def test_unknown_and_empty_frames_are_ignored() -> None:
    script = attached()
    script.recv(worker_pb2.SessionResponse.FromString(b"\xfa\x07\x01x"))
    script.recv(worker_pb2.SessionResponse())
    script.recv(f.trigger(3))
    assert script.started() == [3]


def test_another_identity_fences_everything_old() -> None:
    script = running(5)
    script.recv(f.trigger(6, item=1))
    script.end(6, item=1)
    assert script.reports() == [(6, "SUCCEEDED")]
    script.clear()
    script.reattach("w2")
    assert script.stopped() == [(5, StopReason.DEAD)]
    script.end(5)
    assert script.reports() == []
    script.wait(1.1)
    assert list(script.sent("heartbeat")[-1].runs_in_flight) == []


# ---- reconnect


def test_first_attempt_is_immediate_then_backs_off_to_the_limit_over_all_coordinators() -> None:
    script = attached()
    script.wait(1.1, answer=True)
    script.clear()
    script.feed(Lost(script.stream, "UNAVAILABLE", "gone"))
    assert [effect.address for effect in script.all(Open)] == ["b:1"]
    pauses = []
    for _ in range(10):
        script.feed(Lost(script.stream, "UNAVAILABLE", "refused"))
        before = script.time
        script.time = script.machine.deadline()
        assert any(isinstance(effect, Open) for effect in script.feed(Tick()))
        pauses.append(script.time - before)
    assert 0.1 <= pauses[0] <= 0.2
    assert all(pause <= 10.0 for pause in pauses)
    assert pauses[-1] >= 5.0
    addresses = [effect.address for effect in script.all(Open)]
    assert addresses == ["b:1", "a:1"] * 5 + ["b:1"]


def test_a_welcome_without_a_heartbeat_acknowledged_does_not_reset_the_back_off() -> None:
    script = attached()
    script.reattach()
    script.clear()
    script.feed(Lost(script.stream, "UNAVAILABLE", "gone"))
    assert script.all(Open) == []


def test_coordinators_of_the_welcome_are_tried_and_a_secret_never_goes_in_the_clear() -> None:
    script = Script(servers=("https://a:1",), root_certificates=b"ca")
    script.attach(coordinators=("http://plain:1", "https://b:1", "c:1"))
    seen = []
    for _ in range(3):
        script.reattach(coordinators=("http://plain:1", "https://b:1", "c:1"))
        seen.append(script.all(Open)[-1].address)
    assert seen == ["https://b:1", "https://c:1", "https://a:1"]


@pytest.mark.parametrize(
    ("given", "options", "learned"),
    [
        # A planted address with a certificate of any authority got the credential.
        ("https://a.example:1", {"credential": "s3cret"}, ["https://a.example:2"]),
        # Others also do not get a certificate, and the worker takes no work from them.
        ("https://a.example:1", {}, ["https://a.example:2"]),
        (
            "https://a.example:1",
            {"credential": "s3cret", "root_certificates": b"ca"},
            ["https://a.example:2", "https://evil.example:1", "https://a.example.evil:1"],
        ),
        ("localhost:1", {"credential": "s3cret"}, ["http://127.0.0.1:3"]),
        ("10.0.0.1:1", {"credential": "s3cret", "insecure_credential": True}, []),
    ],
)
def test_a_credential_goes_to_no_coordinator_that_only_a_welcome_named(
    given: str, options: dict[str, Any], learned: list[str]
) -> None:
    named = (
        "https://a.example:2",
        "https://evil.example:1",
        "https://a.example.evil:1",
        "http://127.0.0.1:3",
        "http://",
    )
    script = Script(servers=(given,), **options)
    script.attach(coordinators=named)
    seen = []
    for _ in range(len(learned) + 1):
        script.reattach(coordinators=named)
        seen.append(script.all(Open)[-1].address)
    assert seen == [*learned, given]
    said = [note.text for note in script.all(Note) if "only a Welcome named" in note.text]
    assert len(said) == len(named) - len(learned), said


def test_without_a_credential_and_tls_whoever_a_welcome_names_is_tried() -> None:
    script = Script(servers=("10.0.0.1:1",))
    script.attach(coordinators=("http://10.0.0.2:1",))
    script.reattach()
    assert script.all(Open)[-1].address == "http://10.0.0.2:1"


def test_connect_and_welcome_are_bounded() -> None:
    script = Script()
    script.wait(3.01)
    assert [effect.stream for effect in script.all(Close)] == [1]
    script.wait(0.3)
    script.feed(Opened(2))
    script.wait(5.9)
    assert [effect.stream for effect in script.all(Close)] == [1]
    script.wait(0.2)
    assert [effect.stream for effect in script.all(Close)] == [1, 2]


def test_silence_of_two_thirds_of_the_lease_closes_the_stream() -> None:
    script = attached()
    script.wait(3.3)
    assert script.all(Close) == []
    script.wait(0.1)
    assert [effect.stream for effect in script.all(Close)] == [1]


@pytest.mark.parametrize(
    "code", ["UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"]
)
def test_rejected_by_every_coordinator_before_any_welcome_is_the_end(code: str) -> None:
    script = Script()
    script.feed(Lost(1, code, "namespace prod is served here"))
    assert script.all(Finish) == []
    script.wait(0.3)
    script.feed(Lost(2, code, "namespace prod is served here"))
    [finish] = script.all(Finish)
    assert isinstance(finish.error, Rejected)
    assert finish.error.code == code


def test_rejected_after_a_welcome_is_tried_again() -> None:
    script = attached()
    for _ in range(4):
        script.reattach()
        script.feed(Lost(script.stream, "UNAUTHENTICATED", "credentials are being changed"))
        script.wait(11)
    assert script.all(Finish) == []


# ---- lease


def test_lease_counts_from_when_the_acknowledged_heartbeat_was_sent() -> None:
    script = running()
    begun = script.time
    script.wait(1.0)
    assert script.machine.lease_stops_at == pytest.approx(begun + 5 * 0.995 - 0.5)
    [beat] = script.sent("heartbeat")
    sent = script.time
    script.wait(0.5)
    script.recv(f.heartbeat_ack(beat.sequence))
    assert script.machine.lease_stops_at == pytest.approx(sent + 5 * 0.995 - 0.5)


def test_lease_end_stops_runs_and_they_are_reported_aborted_after_the_resume() -> None:
    script = running()
    script.wait(4.4)
    assert script.stopped() == []
    script.wait(0.1)
    assert script.stopped() == [(5, StopReason.LEASE)]
    # The handler ignores it until long after the worker is attached again: in flight all the while.
    script.wait(10)
    script.reattach()
    assert [run.token for run in script.sent("hello")[-1].runs_in_flight] == [5]
    script.clear()
    script.end(5)
    assert script.reports() == [(5, "ABORTED")]
    script.reattach()
    assert script.reports() == [(5, "ABORTED"), (5, "ABORTED")]
    script.recv(f.report_ack(5, result="FENCED"))
    script.reattach()
    assert len(script.reports()) == 2


def test_an_acknowledgement_that_waited_in_the_socket_still_counts() -> None:
    script = running()
    script.wait(1.0)
    script.time += 3.6
    script.recv(f.heartbeat_ack(1))
    assert script.stopped() == []


def test_a_trigger_that_waited_in_the_socket_does_not_start() -> None:
    script = attached()
    script.wait(3.0)
    script.time += 5.0
    effects = script.recv(f.trigger(5))
    assert not any(isinstance(effect, StartRun) for effect in effects)


def test_acknowledgements_of_a_left_stream_prove_nothing() -> None:
    script = attached()
    script.wait(1.0)
    script.reattach()
    stops = script.machine.lease_stops_at
    script.time += 0.5
    script.recv(f.heartbeat_ack(1), stream=1)
    script.recv(f.heartbeat_ack(1))
    assert script.machine.lease_stops_at == stops


def test_a_job_may_agree_on_a_shorter_lease_and_keeps_it_over_a_reconnect() -> None:
    script = attached()
    script.recv(f.registered(lease=f.duration(0.9), heartbeat_interval=f.duration(0.3)))
    assert script.machine.lease_stops_at == pytest.approx(100 + 0.9 * 0.995 - 0.9 / 4)
    script.clear()
    script.wait(0.5, answer=True)
    assert len(script.sent("heartbeat")) == 1
    script.reattach()
    assert script.machine.lease_stops_at - script.time == pytest.approx(0.9 * 0.995 - 0.9 / 4, abs=0.05)


def test_heartbeats_name_the_runs_in_flight_until_they_are_acknowledged() -> None:
    script = running()
    script.end(5)
    script.wait(1.0)
    assert [run.token for run in script.sent("heartbeat")[-1].runs_in_flight] == [5]
    script.recv(f.report_ack(5))
    script.wait(1.0)
    assert list(script.sent("heartbeat")[-1].runs_in_flight) == []
    assert [beat.sequence for beat in script.sent("heartbeat")] == [1, 2]


# ---- the checks before a start


def expired(script: Script) -> None:
    # The acknowledgement is late: the stream works, and the lease counts from when the heartbeat was sent.
    script.wait(3.2)
    script.recv(f.heartbeat_ack(1))
    script.wait(2.5)


def occupied(script: Script) -> None:
    script.recv(f.trigger(4))


def full(script: Script) -> None:
    for item in range(1, 5):
        script.recv(f.trigger(4, item=item))


def shut(script: Script) -> None:
    script.recv(f.shutdown("hello"))


def drained(script: Script) -> None:
    script.feed(Leave(grace=0))


@pytest.mark.parametrize(
    ("prepare", "fields"),
    [
        (expired, {}),
        (occupied, {}),
        (full, {}),
        (shut, {}),
        (drained, {}),
        (None, {"job": "unknown"}),
    ],
    ids=["lease", "occupied", "slots", "shut down", "drained", "unknown job"],
)
def test_what_may_not_start_is_reported_not_started(
    prepare: Callable[[Script], None] | None, fields: dict[str, Any]
) -> None:
    script = attached("hello", "other")
    if prepare is not None:
        prepare(script)
    script.recv(f.trigger(5, **fields))
    assert 5 not in script.started()
    assert script.reports()[-1] == (5, "NOT_STARTED")


@pytest.mark.parametrize("token", [4, 5], ids=["lower", "the same again"])
def test_a_trigger_that_is_not_new_is_answered_and_not_started(token: int) -> None:
    script = running(5)
    script.end(5)
    script.recv(f.report_ack(5))
    script.clear()
    script.recv(f.trigger(token))
    assert script.started() == []
    assert script.reports() == [(token, "NOT_STARTED")]


def test_a_trigger_of_a_run_in_flight_is_ignored() -> None:
    script = running(5)
    script.recv(f.trigger(5))
    assert script.started() == [5]
    assert script.reports() == []


def test_an_item_whose_handler_ignores_cancellation_stays_occupied() -> None:
    script = running(5)
    script.reattach("w2")
    script.recv(f.trigger(6))
    assert script.reports() == [(6, "NOT_STARTED")]
    script.recv(f.report_ack(6))
    script.end(5)
    script.recv(f.trigger(7))
    assert script.started() == [5, 7]


def test_a_higher_token_fences_the_older_run() -> None:
    script = running(5)
    script.recv(f.trigger(6))
    assert script.stopped() == [(5, StopReason.FENCED)]
    script.end(5)
    assert script.reports() == [(6, "NOT_STARTED"), (5, "ABORTED")]


def test_the_last_check_of_the_thread_that_calls_user_code() -> None:
    script = attached()
    script.recv(f.trigger(5))
    script.end(5, Ending(EndKind.NOT_BEGUN))
    assert script.reports() == [(5, "NOT_STARTED")]
    assert script.sent("run_started") == []


def test_a_run_that_saw_its_lease_end_is_aborted_though_an_acknowledgement_came_after_that() -> None:
    script = running(5)
    script.feed(Expired(key(5)))
    script.end(5)
    assert script.stopped() == [(5, StopReason.LEASE)]
    assert script.reports() == [(5, "ABORTED")]


# ---- triggers that come before their time


def early(starts_in: float, token: int = 5, **fields: Any) -> worker_pb2.SessionResponse:
    return f.trigger(token, starts_in=span(starts_in), **fields)


def test_a_trigger_is_held_until_its_time() -> None:
    script = attached()
    assert script.sent("hello")[0].holds_triggers
    script.recv(early(0.2))
    script.wait(0.19)
    assert script.started() == []
    script.recv(early(0.001))
    script.wait(0.011)
    assert script.started() == [5]
    script.feed(Began(key(5)))
    script.end(5)
    assert script.reports() == [(5, "SUCCEEDED")]


def test_a_held_run_is_in_flight_and_takes_a_slot() -> None:
    script = attached()
    for item in range(4):
        script.recv(early(2.0, item=item))
    script.recv(f.trigger(9, item=4))
    assert script.reports() == [(9, "NOT_STARTED")]
    script.wait(1.5, answer=True)
    assert len(script.sent("heartbeat")[-1].runs_in_flight) == 5
    script.wait(0.6, answer=True)
    assert script.started() == [5, 5, 5, 5]


def test_a_held_run_is_let_go_of_with_its_stream_and_may_come_again() -> None:
    script = attached()
    script.recv(early(0.2))
    script.clear()
    script.reattach()
    assert list(script.sent("hello")[0].runs_in_flight) == []
    script.wait(0.5)
    assert (script.started(), script.reports()) == ([], [])
    script.recv(f.trigger(4))
    assert script.started() == []
    script.recv(f.trigger(5))
    assert script.started() == [5]


@pytest.mark.parametrize(
    ("reason", "outcome"),
    [
        (worker_pb2.CANCEL_REASON_OPERATOR, "CANCELLED"),
        (worker_pb2.CANCEL_REASON_FENCED, "NOT_STARTED"),
    ],
)
def test_what_is_stopped_before_its_time_never_begins(reason: worker_pb2.CancelReason, outcome: str) -> None:
    script = attached()
    script.recv(early(0.2))
    script.recv(worker_pb2.SessionResponse(cancel=worker_pb2.Cancel(run=key(5).ref(), reason=reason)))
    script.wait(0.5)
    assert script.reports() == [(5, outcome)]
    assert (script.started(), script.stopped()) == ([], [])


def test_the_timeout_of_a_held_run_counts_from_its_time() -> None:
    script = attached()
    script.recv(early(0.3, timeout=span(0.4)))
    script.wait(0.69)
    assert (script.started(), script.stopped()) == ([5], [])
    script.wait(0.02)
    assert script.stopped() == [(5, StopReason.TIMED_OUT)]


# ---- how runs end


@pytest.mark.parametrize(
    ("frame", "kind", "expected"),
    [
        (None, EndKind.RETURNED, "SUCCEEDED"),
        (None, EndKind.RAISED, "FAILED"),
        (None, EndKind.CANCELLED, "CANCELLED"),
        ("OPERATOR", EndKind.RETURNED, "CANCELLED"),
        ("OPERATOR", EndKind.CANCELLED, "CANCELLED"),
        ("OPERATOR", EndKind.RAISED, "CANCELLED"),
        ("FENCED", EndKind.RETURNED, "ABORTED"),
        ("FENCED", EndKind.CANCELLED, "ABORTED"),
        ("TIMED_OUT", EndKind.CANCELLED, "TIMED_OUT"),
        ("UNSPECIFIED", EndKind.CANCELLED, "CANCELLED"),
    ],
)
def test_outcomes(frame: str | None, kind: EndKind, expected: str) -> None:
    script = running(max_attempts=3)
    if frame is not None:
        script.recv(f.cancel(5, frame))
        assert len(script.stopped()) == 1
        assert script.reports() == []
    ending = Ending(kind, output="out", error="bad" if kind is EndKind.RAISED else "")
    if kind is EndKind.RAISED and frame is None:
        script.end(5, ending)
        script.wait(0.1)
        script.end(5, ending)
        script.wait(0.1)
    script.end(5, ending)
    assert script.reports() == [(5, expected)]


def test_a_report_carries_what_the_handler_left() -> None:
    script = running()
    script.time += 0.5
    script.end(5, Ending(EndKind.RETURNED, "x" * 70_000, "", 10, 2, b"next"))
    [report] = script.sent("run_completed")
    assert (report.processed, report.failed, report.offset, report.attempt) == (10, 2, b"next", 1)
    assert len(report.output.encode()) <= 64 * 1024
    assert report.ended_at.ToNanoseconds() - report.started_at.ToNanoseconds() == 500_000_000


def test_an_offset_that_was_not_set_is_not_sent() -> None:
    script = running()
    script.end(5)
    [report] = script.sent("run_completed")
    assert not report.HasField("offset")


def test_a_timeout_stops_the_run_once() -> None:
    script = running(timeout=f.duration(2))
    script.wait(1.9, answer=True)
    assert script.stopped() == []
    script.wait(0.2, answer=True)
    script.recv(f.cancel(5, "TIMED_OUT"))
    assert script.stopped() == [(5, StopReason.TIMED_OUT)]
    script.end(5)
    assert script.reports() == [(5, "TIMED_OUT")]


def test_retries_keep_the_token_and_the_offset() -> None:
    script = running(max_attempts=3, retry_backoff=f.duration(1))
    script.end(5, Ending(EndKind.RAISED, error="bad", processed=1, offset=b"half"))
    assert script.reports() == []
    script.wait(0.9, answer=True)
    assert script.started() == [5]
    script.wait(0.2, answer=True)
    assert [(start.attempt, start.offset) for start in script.all(StartRun)] == [(1, b""), (2, b"half")]
    script.feed(Began(key(5)))
    script.end(5, Ending(EndKind.RETURNED, processed=2))
    [report] = script.sent("run_completed")
    assert (f.outcome(report), report.attempt, report.processed, report.offset) == ("SUCCEEDED", 2, 3, b"half")
    assert [started.attempt for started in script.sent("run_started")] == [1, 2]


@pytest.mark.parametrize(
    ("told", "pauses"),
    [
        ({}, (1, 1)),
        ({"retry_backoff_multiplier": 3}, (1, 3)),
        ({"retry_backoff_multiplier": 3, "retry_backoff_max": f.duration(2)}, (1, 2)),
    ],
    ids=["no multiplier", "grows", "bounded"],
)
def test_pauses_grow_as_the_trigger_says_and_no_longer(told: dict[str, Any], pauses: tuple[int, int]) -> None:
    script = running(max_attempts=3, retry_backoff=f.duration(1), **told)
    for attempt, pause in enumerate(pauses, start=1):
        script.end(5, RAISED)
        script.wait(pause - 0.1, answer=True)
        assert len(script.all(StartRun)) == attempt
        script.wait(0.2, answer=True)
        assert len(script.all(StartRun)) == attempt + 1
        script.feed(Began(key(5)))


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (f.cancel(5), "CANCELLED"),
        (f.cancel(5, "FENCED"), "ABORTED"),
        (f.drain(0), "HANDED_BACK"),
    ],
    ids=["cancel", "fence", "drain"],
)
def test_between_two_attempts_nothing_has_to_end(event: worker_pb2.SessionResponse, expected: str) -> None:
    script = running(max_attempts=3, retry_backoff=f.duration(60))
    script.end(5, RAISED)
    script.recv(event)
    script.wait(0.1, answer=True)
    assert script.reports() == [(5, expected)]
    assert script.stopped() == []


def test_lease_end_between_two_attempts_aborts() -> None:
    script = running(max_attempts=3, retry_backoff=f.duration(60))
    script.end(5, RAISED)
    script.wait(5)
    script.reattach()
    assert script.reports() == [(5, "ABORTED")]


# ---- reports


def test_credits_bound_the_reports_under_way() -> None:
    script = Script()
    script.attach(credits=2)
    for token in (1, 2, 3, 4):
        script.recv(f.trigger(token, item=token))
    for token in (4, 3, 2, 1):
        script.end(token, item=token)
    assert [token for token, _ in script.reports()] == [4, 3]
    script.recv(f.report_ack(4, item=4))
    assert [token for token, _ in script.reports()] == [4, 3, 2]
    script.clear()
    script.reattach(credits=8)
    assert [token for token, _ in script.reports()] == [3, 2, 1]


@pytest.mark.parametrize("result", ["ACCEPTED", "FENCED", "UNSPECIFIED"])
def test_any_acknowledgement_ends_a_report(result: str) -> None:
    script = running()
    script.end(5)
    script.recv(f.report_ack(5, result=result))
    script.clear()
    script.reattach()
    assert script.reports() == []


def test_a_run_whose_report_is_refused_is_reported_as_failed_once() -> None:
    # Nothing of a refused report was written: without another one the run would stay in flight forever.
    refusal = f.report_ack(5, result="INVALID")
    refusal.report_ack.code, refusal.report_ack.message = "REPORT_INVALID", "run_completed.offset: too long"
    script = running()
    script.end(5)
    script.clear()
    script.recv(refusal)
    assert script.reports() == [(5, "FAILED")]
    report = script.sent("run_completed")[0]
    assert report.error == "the report SUCCEEDED was refused: REPORT_INVALID: run_completed.offset: too long"
    assert (report.HasField("offset"), report.output) == (False, "")
    script.clear()
    script.reattach()
    # In flight until that one is answered.
    assert [run.token for run in script.sent("hello")[0].runs_in_flight] == [5]
    assert script.reports() == [(5, "FAILED")]
    script.recv(refusal)
    script.clear()
    script.reattach()
    # Only once.
    assert script.reports() == []


def test_progress_is_merged_and_paced() -> None:
    script = running()
    for percent in range(50):
        script.feed(Progressed(key(5), percent, "going"))
    script.wait(0.3)
    assert [progress.percent for progress in script.sent("run_progress")] == [0, 49]


def test_an_offset_goes_out_along_the_way_and_again_on_a_new_stream() -> None:
    script = running()
    script.feed(Progressed(key(5), 0, "", b"one"))
    assert script.sent("run_progress") == []  # A run that ends soon reports it with its end.
    script.wait(0.3)
    assert [progress.offset for progress in script.sent("run_progress")] == [b"one"]
    script.clear()
    script.reattach()
    script.wait(0.3)
    # Another coordinator may not know it.
    assert [progress.offset for progress in script.sent("run_progress")] == [b"one"]


def test_progress_without_a_stream_wakes_nobody() -> None:
    script = running()
    script.feed(Lost(script.stream, "UNAVAILABLE", "gone"))
    script.feed(Progressed(key(5), 10, ""))
    assert script.machine.deadline() > script.time


# ---- jobs


def test_the_only_job_refused_is_the_end_after_a_goodbye() -> None:
    script = attached()
    script.recv(f.refused())
    script.recv(f.draining())
    script.recv(f.goodbye_ack())
    [finish] = script.all(Finish)
    assert isinstance(finish.error, JobRefused)
    assert (finish.error.code, finish.error.message) == ("JOB_UNKNOWN", "no such job")


def test_one_job_of_two_refused_is_asked_for_again_at_the_next_attach() -> None:
    script = attached("hello", "other")
    script.recv(f.refused())
    assert script.sent("drain_request") == []
    script.clear()
    script.reattach()
    assert [register.job for register in script.sent("register")] == ["hello", "other"]


def test_jobs_that_a_coordinator_agreed_to_and_the_others_are_named_in_every_later_hello() -> None:
    script = attached("hello", "other")
    script.clear()
    script.reattach()
    script.recv(f.registered("other"))
    script.reattach()
    # Lost again before anything was answered.
    script.reattach()
    named = [(list(hello.jobs), list(hello.jobs_asked)) for hello in script.sent("hello")]
    assert named == [([], ["hello", "other"]), (["other"], ["hello"]), (["other"], ["hello"])]


def test_a_refused_job_is_offered_again_after_a_while_and_said_once() -> None:
    script = attached("hello", "other")
    script.recv(f.registered("other"))
    script.recv(f.refused())
    script.clear()
    script.wait(29.9, answer=True)
    assert script.sent("register") == []
    script.wait(0.2, answer=True)
    assert [register.job for register in script.sent("register")] == ["hello"]
    script.recv(f.refused())
    assert [note for note in script.all(Note) if note.level == logging.ERROR] == []
    script.wait(30.1, answer=True)
    script.recv(f.registered())
    script.clear()
    script.wait(60, answer=True)
    assert script.sent("register") == []


def test_a_stream_that_talks_but_never_renews_is_left_at_the_end_of_the_lease() -> None:
    script = attached()
    script.clear()
    for _ in range(44):
        script.wait(0.1)
        script.recv(f.assignment())
    assert script.all(Close) == []
    script.wait(0.1)
    assert script.all(Close) == [Close(1)]


def test_a_config_that_is_ignored_is_said_once_with_what_differs() -> None:
    cron = worker_pb2.ConfigDifference(field="cron", stored="0 0 2 * * ?", offered="0 0 3 * * ?")
    text = worker_pb2.ConfigDifference(field="description", offered="nightly")
    wanted = (
        "the config of job hello is ignored, since the job exists: cron is 0 0 2 * * ? in the store and 0 0 3 * * ? "
        "here, description is (none) in the store and nightly here; register it with overwrite, or change the job by "
        "`rosterd jobs apply`"
    )
    script = attached()
    script.clear()
    script.recv(f.registered(config_differences=[cron, text]))
    warnings = [note.text for note in script.all(Note) if note.level == logging.WARNING]
    assert warnings == [wanted]
    script.clear()
    script.recv(f.registered(config_differences=[cron, text]))
    assert [note for note in script.all(Note) if note.level == logging.WARNING] == []


def test_a_job_shut_down_is_not_registered_again_and_its_runs_go_on() -> None:
    script = attached("hello", "other")
    script.recv(f.trigger(5))
    script.recv(f.shutdown("hello"))
    assert script.stopped() == []
    assert [given.job for given in script.sent("unregister")] == ["hello"]
    script.clear()
    script.reattach()
    assert [register.job for register in script.sent("register")] == ["other"]
    assert [given.job for given in script.sent("unregister")] == ["hello"], "the next host hears of it too"
    script.recv(f.shutdown("other"))
    assert len(script.sent("drain_request")) == 1


# ---- leaving


@pytest.mark.parametrize("cause", [Leave(), f.drain(), f.shutdown()], ids=["asked", "Drain", "Shutdown"])
def test_leave_waits_for_runs_then_reports_then_says_goodbye(cause: Leave | worker_pb2.SessionResponse) -> None:
    script = running()
    if isinstance(cause, Leave):
        script.feed(cause)
    else:
        script.recv(cause)
    assert len(script.sent("drain_request")) == 1
    # A run that was recorded before the coordinator knew is still sent, and runs.
    script.recv(f.trigger(6, item=1))
    assert script.started() == [5, 6]
    script.recv(f.draining())
    script.wait(3, answer=True)
    script.end(5)
    script.end(6, item=1)
    script.recv(f.report_ack(5))
    assert script.sent("goodbye") == []
    script.recv(f.report_ack(6, item=1))
    assert len(script.sent("goodbye")) == 1
    assert script.all(Finish) == []
    script.recv(f.goodbye_ack())
    assert script.all(Finish) == [Finish(None)]
    assert script.effects.index(Close(1)) < script.effects.index(Finish(None))
    assert script.feed(Tick()) == []


def test_a_trigger_that_crosses_the_goodbye_starts_nothing() -> None:
    # A run that was held until now; the goodbye hands it back.
    script = attached()
    script.feed(Leave())
    script.recv(f.draining())
    assert len(script.sent("goodbye")) == 1
    script.recv(f.trigger(5))
    assert (script.started(), script.reports()) == ([], [(5, "NOT_STARTED")])
    script.recv(f.goodbye_ack())
    assert script.all(Finish) == [Finish(None)]


def test_runs_that_outlive_the_drain_deadline_are_handed_back() -> None:
    script = running()
    script.recv(f.drain(10))
    script.recv(f.draining())
    script.wait(9.9, answer=True)
    assert script.stopped() == []
    script.wait(0.2, answer=True)
    assert script.stopped() == [(5, StopReason.DRAIN)]
    script.end(5, Ending(EndKind.CANCELLED))
    assert script.reports() == [(5, "HANDED_BACK")]


def test_a_handler_that_never_ends_cannot_keep_the_worker() -> None:
    script = running()
    script.feed(Leave(grace=1))
    script.recv(f.draining())
    script.wait(10.9, answer=True)
    assert script.all(Finish) == []
    script.wait(0.2, answer=True)
    [finish] = script.all(Finish)
    assert isinstance(finish.error, LeaveTimedOut)
    assert finish.error.in_flight == 1
    assert script.sent("goodbye") == []


def test_a_goodbye_without_answer_is_said_to_the_next_coordinator() -> None:
    script = attached()
    script.feed(Leave())
    script.recv(f.draining())
    script.clear()
    script.wait(3.4, answer=True)
    assert [effect.address for effect in script.all(Open)] == ["b:1"]
    script.attach()
    assert script.sent("register") == []
    assert len(script.sent("drain_request")) == 1
    script.recv(f.draining())
    script.recv(f.goodbye_ack())
    assert script.all(Finish) == [Finish(None)]


def test_another_coordinator_is_asked_where_none_says_draining() -> None:
    script = running()
    script.feed(Leave())
    script.wait(5, answer=True)
    assert script.all(Close) == [], "a run is in flight"
    script.end(5)
    script.recv(f.report_ack(5))
    script.clear()
    script.wait(2.9, answer=True)
    assert script.all(Close) == []
    script.wait(0.2, answer=True)
    assert [effect.address for effect in script.all(Open)] == ["b:1"]


def test_a_worker_that_leaves_tries_again_within_a_second() -> None:
    script = running()
    script.feed(Leave())
    for _ in range(12):
        stream, before = script.stream, script.time
        script.feed(Lost(script.stream, "UNAVAILABLE", "gone"))
        while script.stream == stream and script.time < before + 2:
            script.wait(0.05)
        assert script.time <= before + 1.1


def test_leaving_is_bounded_where_nobody_answers() -> None:
    script = attached()
    script.feed(Leave())
    script.feed(Lost(script.stream, "UNAVAILABLE", "gone"))
    script.wait(10.1)
    [finish] = script.all(Finish)
    assert isinstance(finish.error, LeaveTimedOut)


def test_leaving_before_any_welcome_needs_no_goodbye() -> None:
    script = Script()
    script.feed(Leave())
    assert script.all(Finish) == [Finish(None)]


def test_heartbeats_go_on_while_draining() -> None:
    script = running()
    script.feed(Leave())
    script.recv(f.draining())
    script.clear()
    script.wait(5.5, answer=True)
    assert len(script.sent("heartbeat")) >= 5


def test_quit_stops_runs_and_is_over_at_once() -> None:
    script = running()
    script.feed(Leave())
    script.feed(Quit())
    assert script.stopped() == [(5, StopReason.DRAIN)]
    assert script.all(Finish) == [Finish(None)]


# ---- callbacks


def test_a_callback_is_called_once_and_answered_from_memory() -> None:
    script = attached()
    script.recv(f.callback("c1", "ALL_STARTED"))
    script.recv(f.callback("c1", "ALL_STARTED"))
    assert len(script.all(StartCallback)) == 1
    script.feed(CallbackEnded("c1", ""))
    script.recv(f.callback("c1", "ALL_STARTED"))
    assert [(done.callback_id, done.error) for done in script.sent("callback_done")] == [("c1", ""), ("c1", "")]


def test_as_many_callbacks_as_slots_are_taken_at_a_time() -> None:
    script = attached()
    for n in range(5):
        script.recv(f.callback(f"c{n}", "ALL_STARTED"))
    assert len(script.all(StartCallback)) == 4
    [refused] = script.sent("callback_done")
    assert refused.callback_id == "c4"
    assert "too many" in refused.error
    script.feed(CallbackEnded("c0", ""))
    script.recv(f.callback("c4", "ALL_STARTED"))
    assert len(script.all(StartCallback)) == 5, "it is asked again"


def test_of_a_short_lease_a_quarter_at_most_is_for_stopping() -> None:
    script = Script()
    script.attach(lease=1, budget=0.5)
    script.recv(f.trigger(5))
    script.wait(0.7)
    assert script.stopped() == []
    script.wait(0.1)
    assert script.stopped() == [(5, StopReason.LEASE)]


def test_a_callback_that_takes_too_long_has_failed() -> None:
    script = attached()
    script.recv(f.callback("c1", "ALL_STARTED", timeout=2))
    script.wait(2.1, answer=True)
    script.feed(CallbackEnded("c1", ""))
    assert [(done.error, done.timed_out) for done in script.sent("callback_done")] == [("timed out", True)]
    # If the coordinator asks again, the answer is the same.
    script.recv(f.callback("c1", "ALL_STARTED", timeout=2))
    assert [done.timed_out for done in script.sent("callback_done")] == [True, True]


# ---- any order


@pytest.mark.parametrize("seed", range(30))
def test_whatever_comes_no_item_is_twice_in_user_code_and_none_starts_without_a_lease(seed: int) -> None:
    chance = random.Random(seed)
    script = Script(slots=3)
    inside: dict[Key, int] = {}
    for token in range(1, 401):
        before = len(script.effects)
        match chance.randrange(9):
            case 0 | 1:
                script.recv(
                    f.trigger(chance.randint(max(1, token - 5), token), item=chance.randrange(3), max_attempts=2)
                )
            case 2:
                script.feed(Opened(script.stream))
            case 3:
                script.recv(f.welcome(chance.choice(["w1", "w1", "w1", f"w{token}"]), credits=2))
            case 4:
                script.wait(chance.choice([0.1, 1.0, 4.0]), answer=chance.random() < 0.8)
            case 5:
                script.feed(Lost(script.stream, "UNAVAILABLE", "gone"))
            case 6 if inside:
                ended = chance.choice(list(inside))
                del inside[ended]
                script.feed(Ended(ended, chance.choice([RETURNED, RAISED])))
            case 7:
                script.recv(f.report_ack(chance.randint(1, token), item=chance.randrange(3)))
            case _:
                script.recv(f.cancel(chance.randint(1, token), chance.choice(["OPERATOR", "FENCED"])))
        for effect in script.effects[before:]:
            if isinstance(effect, StartRun):
                assert effect.key not in inside
                assert all(run[:2] != effect.key[:2] for run in inside), "two runs of one item"
                inside[effect.key] = effect.attempt
                assert len(inside) <= 3
        assert len(script.machine._in_flight._reports._under_way) <= 2
        if script.time >= script.machine.lease_stops_at:
            assert not script.machine._in_flight.has_unstopped()
    assert script.machine.deadline() > script.time


def test_props_are_those_that_were_told_last_and_outlive_the_stream() -> None:
    script = attached()
    script.recv(f.assignment(colour="green"))
    script.recv(f.trigger(5))
    script.recv(f.assignment(colour="blue"))
    script.recv(f.trigger(6, item=1))
    script.reattach()
    script.recv(f.trigger(7, item=2))
    seen = [(start.key.token, start.props["colour"]) for start in script.all(StartRun)]
    assert seen == [(5, "green"), (6, "blue"), (7, "blue")]
