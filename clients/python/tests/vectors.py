"""Reads the vectors of clients/spec/vectors and plays them on the machine, as their README says."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from rosterd import JobRefused, LeaveTimedOut, Options, Rejected
from rosterd import events as e
from rosterd._proto import types_pb2, worker_pb2
from rosterd.clock import Now
from rosterd.machine import Machine
from rosterd.run import MAX_PROGRESS
from rosterd.text import shorten

FOLDER = Path(__file__).parents[2] / "spec" / "vectors"
# The wall clock at time 0: 2026-01-01T00:00:00Z.
WALL = 1_767_225_600.0
MOST_TICKS = 1_000
# The machine's times are floats: what is due at a millisecond may be due a little after it.
HALF = 0.5e-3

DEFAULTS: dict[str, dict[str, Any]] = {
    "welcome": {"lease": 5000, "heartbeat_interval": 1000, "stop_budget": 500, "max_unacknowledged_reports": 64},
    "trigger": {
        "attempt": 1,
        "max_attempts": 1,
        "sharding_total_count": 3,
        "source": "NORMAL_TRIGGER",
        "kind": "SIMPLE",
    },
    "report_ack": {"result": "ACCEPTED"},
    "cancel": {"reason": "OPERATOR"},
}
STOPS = {
    e.StopReason.OPERATOR: "operator",
    e.StopReason.TIMED_OUT: "timed_out",
    e.StopReason.DRAIN: "leaving",
    e.StopReason.LEASE: "lease",
    e.StopReason.FENCED: "fenced",
    e.StopReason.DEAD: "fenced",
}
ENDS = {
    "succeeded": e.EndKind.RETURNED,
    "failed": e.EndKind.RAISED,
    "fatal": e.EndKind.FATAL,
    "cancelled": e.EndKind.CANCELLED,
}


def load() -> list[dict[str, Any]]:
    files = sorted(FOLDER.glob("*.yaml"))
    return [vector for file in files for vector in yaml.safe_load(file.read_text())]


@dataclass
class Said:
    """An effect: when, of which kind, and its value as a tree."""

    at: float
    kind: str
    value: Any

    def __str__(self) -> str:
        return f"{self.at:.0f} {self.kind} {self.value}"


class Player:
    def __init__(self, vector: Mapping[str, Any]) -> None:
        given = {"servers": ["a:1", "b:1"], "jobs": ["j", "k"], "slots": 4} | vector.get("given", {})
        options = Options(
            servers=given["servers"],
            slots=given["slots"],
            drain_timeout=given.get("drain_timeout", 30_000) / 1e3,
            leave_timeout=given.get("leave_timeout", 10_000) / 1e3,
            credential="secret" if given.get("credential") else None,
            root_certificates=b"authorities" if given.get("authorities") else None,
        )
        self.jobs = given["jobs"]
        registers = [worker_pb2.Register(job=job, handler_type=job) for job in self.jobs]
        self.machine = Machine(options, registers, "here", random.Random(7))
        self.vector = vector
        self.time = 0.0
        self.streams: list[int] = []
        self.acknowledges = False
        self.killed = False
        self.said: list[Said] = []
        self.shown: dict[e.Key, tuple[int, str, bytes | None]] = {}

    def play(self) -> None:
        if self.vector.get("begin", "new") == "attached":
            self.feed(e.Start())
            self.feed(e.Opened(self.streams[-1]))
            self.receive({"welcome": self.vector.get("welcome", {})})
            for job in self.jobs:
                self.receive({"registered": {"job": job, "sharding_total_count": 3}})
            self.said.clear()
        for number, step in enumerate(self.vector["steps"]):
            self.step(step)
            unlisted = set(step.get("unlisted", self.vector.get("unlisted", ["run_started"])))
            if step.get("acknowledge"):
                unlisted.add("heartbeat")
            if "lost" in step:
                unlisted.add(f"close of {step.get('stream', len(self.streams_before))}")
            said = [one for one in self.said if one.kind not in unlisted and self._close_of(one) not in unlisted]
            problem = compare(step, said)
            assert not problem, f"step {number} at {step['at']}: {problem}; said: {[str(one) for one in self.said]}"
            self.said.clear()

    @staticmethod
    def _close_of(one: Said) -> str:
        return f"close of {one.value}" if one.kind == "close" else ""

    def step(self, step: Mapping[str, Any]) -> None:
        self.acknowledges = bool(step.get("acknowledge"))
        at = step["at"] / 1e3
        if not step.get("asleep"):
            self.tick_until(lambda: self.machine.deadline() < at - HALF)
        self.time = at
        self.streams_before = list(self.streams)
        self.event(step)
        self.tick_until(lambda: self.machine.deadline() <= at + HALF)

    def tick_until(self, due: Any) -> None:
        for _ in range(MOST_TICKS):
            if not due():
                return
            self.time = max(self.time, self.machine.deadline())
            self.feed(e.Tick())
        raise AssertionError(f"the machine spins at {self.time}")

    # ---- events

    def event(self, step: Mapping[str, Any]) -> None:
        stream = self.streams[step.get("stream", len(self.streams)) - 1] if self.streams else 0
        match step:
            case {"start": _}:
                self.feed(e.Start())
            case {"opened": _}:
                self.feed(e.Opened(stream))
            case {"lost": lost}:
                self.feed(e.Lost(stream, lost.get("code", ""), "gone"))
            case {"frame": frame}:
                self.receive(frame, stream)
            case {"time": _}:
                self.feed(e.Tick())
            case {"ended": ended}:
                offset = ended.get("offset")
                ending = e.Ending(
                    ENDS[ended["result"]],
                    output=text(ended.get("output", "")),
                    error=text(ended.get("error", "")),
                    processed=ended.get("processed", 0),
                    failed=ended.get("failed", 0),
                    offset=None if offset is None else text(offset).encode(),
                )
                self.feed(e.Ended(key(ended["run"]), ending))
            case {"progress": said}:
                run = key(said["run"])
                _, _, offset = self.shown.get(run, (0, "", None))
                self.progress(run, said["percent"], text(said.get("message", "")), offset)
            case {"offset": said}:
                run = key(said["run"])
                percent, message, _ = self.shown.get(run, (0, "", None))
                self.progress(run, percent, message, text(said["offset"]).encode())
            case {"found_expired": found}:
                self.feed(e.Expired(key(found["run"])))
            case {"callback_ended": ended}:
                self.feed(e.CallbackEnded(ended["callback_id"], text(ended.get("error", ""))))
            case {"leave": _}:
                self.feed(e.Leave())
            case {"kill": _}:
                self.killed = True
                self.feed(e.Quit())
            case _:
                raise AssertionError(f"no event: {step}")

    def progress(self, run: e.Key, percent: int, message: str, offset: bytes | None) -> None:
        # Like run.py.
        self.shown[run] = (min(100, percent), shorten(message, MAX_PROGRESS), offset)
        self.feed(e.Progressed(run, *self.shown[run]))

    def receive(self, frame: Mapping[str, Any], stream: int | None = None) -> None:
        response = worker_pb2.SessionResponse()
        [(name, fields)] = frame.items()
        if name != "unknown":
            given = DEFAULTS.get(name, {}) | fields
            if name == "welcome":
                worker = given.setdefault("worker_id", "w1")
                given = {"instance_id": f"here@-@{worker}", "resume_key": f"key of {worker}"} | given
            getattr(response, name).SetInParent()
            fill(getattr(response, name), given)
        self.feed(e.Received(self.streams[-1] if stream is None else stream, response))

    def feed(self, event: e.Event) -> None:
        for effect in self.machine.handle(Now(self.time, WALL + self.time), event):
            self.take(effect)

    # ---- effects

    def take(self, effect: e.Effect) -> None:
        match effect:
            case e.Open(stream, address):
                self.streams.append(stream)
                self.say("connect", address)
            case e.Close(stream):
                self.say("close", self.streams.index(stream) + 1)
            case e.Send(_, frame):
                name = frame.WhichOneof("frame")
                assert name is not None
                self.say(name, shown(getattr(frame, name)))
                if name == "heartbeat" and self.acknowledges:
                    self.receive({"heartbeat_ack": {"sequence": frame.heartbeat.sequence}})
            case e.StartRun(run, trigger):
                value = {
                    "run": run_text(run),
                    "attempt": effect.attempt,
                    "offset": effect.offset.decode(),
                    "item_parameter": trigger.item_parameter,
                    "job_parameter": trigger.job_parameter,
                    "props": dict(effect.props),
                    "instance_id": effect.instance_id,
                }
                self.say("start", value)
                self.feed(e.Began(run))
            case e.StopRun(run, reason):
                self.say("stop", {"run": run_text(run), "reason": STOPS[reason]})
            case e.StartCallback(callback):
                self.say("callback", shown(callback))
            case e.Finish(error):
                self.say("finish", "killed" if self.killed else FINISHES[type(error)])
            case _:
                pass

    def say(self, kind: str, value: Any) -> None:
        self.said.append(Said(self.time * 1e3, kind, value))


FINISHES = {type(None): "left", JobRefused: "refused", Rejected: "rejected", LeaveTimedOut: "unacknowledged"}

# ---- words to frames


def key(run: str) -> e.Key:
    job, item, token = run.split("/")
    return e.Key(job, int(item), int(token))


def run_text(run: e.Key | types_pb2.RunRef) -> str:
    return f"{run.job}/{run.item}/{run.token}"


def text(value: Any) -> str:
    return value["repeat"] * value["times"] if isinstance(value, dict) else str(value)


def prefix(enum: Any) -> str:
    words = "".join(f"_{letter}" if letter.isupper() else letter for letter in enum.name)
    return words.strip("_").upper() + "_"


def repeated(field: Any) -> bool:
    # Older versions of protobuf have the label, newer ones the property.
    found = getattr(field, "is_repeated", None)
    return bool(getattr(field, "label", 0) == FieldDescriptor.LABEL_REPEATED if found is None else found)


def fill(message: Message, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        if value is None:
            continue
        field = message.DESCRIPTOR.fields_by_name[name]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, name).update(value)
        elif repeated(field) and field.message_type is not None:
            for one in value:
                fill(getattr(message, name).add(), one)
        elif repeated(field):
            getattr(message, name).extend(value)
        elif field.message_type is not None:
            # It is present, even if it is empty.
            getattr(message, name).SetInParent()
            fill_message(getattr(message, name), value)
        elif field.enum_type is not None:
            number = (
                value
                if isinstance(value, int)
                else field.enum_type.values_by_name[prefix(field.enum_type) + value].number
            )
            setattr(message, name, number)
        else:
            setattr(message, name, text(value).encode() if field.type == FieldDescriptor.TYPE_BYTES else value)


def fill_message(message: Message, value: Any) -> None:
    match message.DESCRIPTOR.name:
        case "RunRef":
            message.CopyFrom(key(value).ref())
        case "Duration":
            fill(message, {"seconds": value // 1000, "nanos": value % 1000 * 10**6})
        case "Timestamp":
            fill(message, {"seconds": int(WALL) + value // 1000, "nanos": value % 1000 * 10**6})
        case _:
            fill(message, value)


# ---- frames to words


def shown(message: Message) -> dict[str, Any]:
    return {field.name: shown_field(message, field) for field in message.DESCRIPTOR.fields}


def shown_field(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        return dict(value)
    if repeated(field):
        return [shown_message(one) if field.message_type is not None else one for one in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    if field.message_type is not None:
        return shown_message(value)
    if field.enum_type is not None:
        known = field.enum_type.values_by_number.get(value)
        return value if known is None else known.name.removeprefix(prefix(field.enum_type))
    return value.decode() if isinstance(value, bytes) else value


def shown_message(message: Any) -> Any:
    match message.DESCRIPTOR.name:
        case "RunRef":
            return run_text(message)
        case "Duration":
            return message.seconds * 1e3 + message.nanos / 1e6
        case "Timestamp":
            return (message.seconds - WALL) * 1e3 + message.nanos / 1e6
        case _:
            return shown(message)


# ---- expectations


def compare(step: Mapping[str, Any], said: list[Said]) -> str:
    """The differences, or empty."""
    expected = [expectation(step, one) for one in step.get("expect", [])]
    if step.get("in_order") and [kind for kind, _, _ in expected] != [one.kind for one in said]:
        return f"expected in this order: {[kind for kind, _, _ in expected]}"
    for kind in {kind for kind, _, _ in expected} | {one.kind for one in said}:
        wanted = [one for one in expected if one[0] == kind]
        found = [one for one in said if one.kind == kind]
        if len(wanted) != len(found):
            return f"expected {len(wanted)} x {kind}, found {len(found)}"
        for (_, (soonest, latest), value), one in zip(wanted, found, strict=True):
            if not soonest - 1 <= one.at <= latest + 1:
                return f"expected {kind} at {soonest} to {latest}, came at {one.at:.0f}"
            if not agrees(value, one.value):
                return f"expected {kind} {value}"
    return ""


def expectation(step: Mapping[str, Any], one: Mapping[str, Any]) -> tuple[str, tuple[float, float], Any]:
    at = one.get("at", step["at"])
    soonest, latest = at if isinstance(at, list) else (at, at)
    [(kind, value)] = [(kind, value) for kind, value in one.items() if kind != "at"]
    if kind == "send":
        [(kind, value)] = value.items()
    return kind, (soonest, latest), value


def agrees(wanted: Any, found: Any) -> bool:
    match wanted:
        case {"contains": part}:
            return isinstance(found, str) and part in found
        case {"bytes": length}:
            return isinstance(found, str) and agrees(length, len(found.encode()))
        case {"at_least": least}:
            return isinstance(found, int | float) and found >= least
        case {"at_most": most}:
            return isinstance(found, int | float) and found <= most
        case {"repeat": _, "times": _}:
            return bool(text(wanted) == found)
        case dict():
            return isinstance(found, dict) and all(
                name in found and agrees(value, found[name]) for name, value in wanted.items()
            )
        case list():
            return isinstance(found, list) and sorted(map(str, wanted)) == sorted(map(str, found))
        case _ if isinstance(found, float):
            return isinstance(wanted, int) and abs(found - wanted) <= 1
        case _:
            return type(wanted) is type(found) and bool(wanted == found)
