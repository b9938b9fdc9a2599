"""The worker's side of the conversation, without I/O: events in, effects out, `now` is an argument.

Decides when to connect and where, what to send, which run may start, which must stop, and when the worker may leave.
It reads no clock, opens nothing and calls no user code: driver.py does, on a thread of its own, and is its only
caller. Every method that takes an event returns at once.
"""

from __future__ import annotations

import enum
import logging
import random
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from . import __about__
from ._proto import worker_pb2
from .clock import Now
from .errors import JobRefused, LeaveTimedOut, Rejected, RosterdError
from .events import (
    Began,
    CallbackEnded,
    Close,
    Effect,
    Ended,
    Event,
    Expired,
    Finish,
    Key,
    Leave,
    Leaving,
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
    StopReason,
    Tick,
)
from .in_flight import InFlight, stamp
from .lease import Lease, seconds, span
from .options import Options
from .route import Route
from .text import shorten

# How long a Hello waits for its Welcome.
WELCOME_TIMEOUT = 6.0
# How long a coordinator may take for Draining or GoodbyeAck once nothing is in flight.
FAREWELL = 3.0
# While leaving, the backoff stays short: there is little time.
LONGEST_DELAY_LEAVING = 1.0
MAX_CALLBACKS_REMEMBERED = 128
# How many runs the answer to a signal names.
MAX_RUNS_NAMED = 5
# Before any Welcome: trying again with the same Hello would change nothing.
_FATAL = frozenset({"UNAUTHENTICATED", "PERMISSION_DENIED", "INVALID_ARGUMENT", "NOT_FOUND", "UNIMPLEMENTED"})
# A refused job is offered again after this, in case an operator has fixed it.
OFFER_AGAIN = 30.0
_STOP_OF_CANCEL = {
    worker_pb2.CANCEL_REASON_FENCED: StopReason.FENCED,
    worker_pb2.CANCEL_REASON_TIMED_OUT: StopReason.TIMED_OUT,
}


class Link(enum.Enum):
    DOWN = enum.auto()
    OPENING = enum.auto()
    # Hello was sent, Welcome has not arrived.
    GREETING = enum.auto()
    LIVE = enum.auto()
    # Finish was sent: further events are ignored.
    OVER = enum.auto()


class JobState(enum.Enum):
    ASKED = enum.auto()
    REGISTERED = enum.auto()
    REFUSED = enum.auto()
    SHUT_DOWN = enum.auto()


@dataclass
class Exit:
    """The progress of a leave on the current stream, and its deadline."""

    drain_by: float
    error: RosterdError | None
    asked_at: float | None = None
    draining: bool = False
    goodbye_at: float | None = None
    # Since when nothing is in flight.
    rest_at: float | None = None

    def new_stream(self) -> None:
        self.asked_at, self.draining, self.goodbye_at = None, False, None


class Machine:
    def __init__(
        self, options: Options, jobs: Sequence[worker_pb2.Register], address: str, chance: random.Random
    ) -> None:
        self._options = options
        self._address = address
        self._registers = {job.job: job for job in jobs}
        self._jobs = dict.fromkeys(self._registers, JobState.ASKED)
        # Those that a coordinator has registered, on this stream or an earlier one.
        self._agreed: set[str] = set()
        self._refusals: dict[str, JobRefused] = {}
        # When they are offered again.
        self._offer_at: dict[str, float] = {}
        # The fields in which their configs differ from the store, as last reported.
        self._differences: dict[str, list[str]] = {}
        # As last received; they outlive the stream.
        self._props: dict[str, dict[str, str]] = {}
        self._route = Route(options.servers, chance, options.may_learn)
        self._lease = Lease()
        self._out: list[Effect] = []
        self._in_flight = InFlight(options.slots, self._emit)
        self._callbacks: dict[str, float | None] = {}
        self._callbacks_done: OrderedDict[str, tuple[str, bool]] = OrderedDict()
        # Those of them that had no stream.
        self._callbacks_unsent: list[tuple[str, str, bool]] = []

        self._link = Link.DOWN
        self._stream = 0
        self._server = ""
        # The deadline of the link's current step: to retry, to be open, to be welcomed.
        self._link_by = float("inf")
        self._hello_sent = 0.0
        self._last_frame = 0.0
        # The last frame that renewed the lease.
        self._last_renewed = 0.0
        self._last_heartbeat = 0.0
        self._credits = 1
        self._rejections = 0
        self._worker_id = ""
        self._resume_key = ""
        self._instance_id = ""
        self._exit: Exit | None = None
        self._lost_why = ""

    # ---- the three things a driver needs

    def handle(self, now: Now, event: Event) -> list[Effect]:
        # An acknowledgement that waited in the socket still proves a lease: it is handled before the timers. Everything
        # else is handled after them, so that nothing starts under a lease that has just ended.
        if self._link is Link.OVER:
            return []
        if self._proves_lease(event):
            self._apply(now, event)
            self._expire(now)
        else:
            self._expire(now)
            if self._alive():
                self._apply(now, event)
        if self._alive():
            self._settle(now)
        done, self._out = self._out, []
        return done

    def deadline(self) -> float:
        """When to call with Tick, on the boot clock."""
        return min(self._timers(), default=float("inf"))

    @property
    def lease_stops_at(self) -> float:
        """For the last check before user code, on the thread that calls it."""
        return self._lease.stops_at

    # ---- state for health and metrics

    @property
    def attachment(self) -> tuple[str, str] | None:
        """The coordinator that has welcomed this worker, and its id there; None: there is no stream."""
        return (self._server, self._instance_id) if self._link is Link.LIVE else None

    @property
    def lost_why(self) -> str:
        """Why there is no stream."""
        return self._lost_why

    @property
    def leased_since(self) -> float | None:
        """When the last acknowledged heartbeat was sent; None: no lease yet."""
        return self._lease.since

    @property
    def leaves(self) -> bool:
        return self._exit is not None

    # ---- events

    def _proves_lease(self, event: Event) -> bool:
        return isinstance(event, Received) and event.frame.HasField("heartbeat_ack")

    def _apply(self, now: Now, event: Event) -> None:
        match event:
            case Start():
                self._open(now)
            case Tick():
                pass
            case Opened(stream):
                if stream == self._stream and self._link is Link.OPENING:
                    self._greet(now)
            case Lost(stream, code, detail):
                if stream == self._stream and self._link is not Link.DOWN:
                    self._lost(now, code, detail)
            case Received(stream, frame):
                # Ignore frames of an abandoned stream.
                if stream == self._stream and self._link in (Link.GREETING, Link.LIVE):
                    self._received(now, frame)
            case Began(key):
                started = self._in_flight.began(now, key)
                if started is not None and self._link is Link.LIVE:
                    self._send(worker_pb2.SessionRequest(run_started=started))
            case Ended(key, ending):
                self._in_flight.ended(now, key, ending)
            case Expired(key):
                # Even if an acknowledgement has arrived meanwhile: user code stops, so its run must not count as done.
                self._in_flight.cancel(now, key, StopReason.LEASE)
            case Progressed():
                self._in_flight.progressed(event, now)
            case CallbackEnded(callback_id, error):
                self._callback_ended(callback_id, error)
            case Leave(grace, signalled):
                if signalled:
                    self._note(*self._waits_for())
                self._leave(now, grace, "the worker was asked to stop")
            case Quit():
                self._in_flight.stop_all(now, StopReason.DRAIN)
                self._finish("left at once, without a goodbye")

    def _received(self, now: Now, frame: worker_pb2.SessionResponse) -> None:
        self._last_frame = now.boot
        kind = frame.WhichOneof("frame")
        if self._link is Link.GREETING:
            if kind == "welcome":
                self._welcomed(now, frame.welcome)
            return
        match kind:
            case "heartbeat_ack":
                if self._lease.acknowledged(frame.heartbeat_ack.sequence):
                    self._last_renewed = now.boot
                    self._route.good()
            case "trigger":
                props = self._props.get(frame.trigger.run.job, {})
                objection = self._objection(now, frame.trigger)
                self._in_flight.take(now, frame.trigger, self._instance_id, objection, props)
            case "cancel":
                reason = _STOP_OF_CANCEL.get(frame.cancel.reason, StopReason.OPERATOR)
                self._in_flight.cancel(now, Key.of(frame.cancel.run), reason)
            case "report_ack":
                self._in_flight.acknowledged(frame.report_ack)
            case "registered":
                self._registered(frame.registered)
            case "refused":
                self._refused(now, frame.refused)
            case "assignment":
                items = ", ".join(map(str, frame.assignment.items)) or "none"
                self._note(logging.DEBUG, f"items of {frame.assignment.job}: {items}")
                if frame.assignment.job in self._jobs:
                    self._props[frame.assignment.job] = dict(frame.assignment.props)
            case "callback":
                self._callback(now, frame.callback)
            case "drain":
                grace = seconds(frame.drain.grace) if frame.drain.HasField("grace") else None
                self._leave(now, grace, f"the coordinator asks to leave: {frame.drain.message}")
            case "draining":
                if self._exit is not None:
                    self._exit.draining = True
            case "goodbye_ack":
                if self._exit is not None and self._exit.goodbye_at is not None:
                    self._finish("")
            case "shutdown":
                self._shutdown(now, frame.shutdown)
            case _:
                # Ignore unknown frames, and a second Welcome.
                pass

    # ---- streams

    def _open(self, now: Now) -> None:
        self._stream += 1
        self._server = self._route.take()
        self._link, self._link_by = Link.OPENING, now.boot + self._options.connect_timeout
        self._emit(Open(self._stream, self._server))

    def _greet(self, now: Now) -> None:
        self._link, self._link_by = Link.GREETING, now.boot + WELCOME_TIMEOUT
        self._hello_sent = now.boot
        self._lease.begin_stream()
        agreed = [
            name for name, state in self._jobs.items() if name in self._agreed and state is not JobState.SHUT_DOWN
        ]
        hello = worker_pb2.Hello(
            namespace=self._options.namespace,
            worker_id=self._worker_id,
            resume_key=self._resume_key,
            stream_number=self._stream,
            address=self._address,
            labels=dict(self._options.labels),
            slots=self._options.slots,
            runs_in_flight=self._in_flight.refs(),
            client=f"rosterd-python/{__about__.VERSION}",
            sent_at=stamp(now.wall),
            jobs=agreed,
            # It is not known whether their coordinator received these, and runs that it assigned take slots here.
            jobs_asked=[name for name in self._jobs if self._worker_id and name not in agreed],
            holds_triggers=True,
        )
        self._send(worker_pb2.SessionRequest(hello=hello))

    def _welcomed(self, now: Now, welcome: worker_pb2.Welcome) -> None:
        same = self._worker_id in ("", welcome.worker_id)
        if not same:
            self._note(logging.WARNING, f"{self._worker_id} had been marked dead: going on as {welcome.worker_id}")
            self._in_flight.disown(now)
        self._worker_id = welcome.worker_id
        self._resume_key = welcome.resume_key
        self._instance_id = welcome.instance_id
        self._credits = max(1, welcome.max_unacknowledged_reports)
        self._rejections = 0
        self._lease.welcomed(self._hello_sent, welcome, same)
        for passed_over in self._route.learn(welcome.coordinators):
            self._note(
                logging.WARNING,
                f"coordinator {passed_over}, which only a Welcome named, is not used: name it (ROSTERD_SERVER), or the "
                "authorities that vouch for it (ROSTERD_CA)",
            )
        self._link, self._link_by = Link.LIVE, float("inf")
        self._in_flight.say_offsets_again()
        self._last_heartbeat = self._hello_sent
        self._last_renewed = now.boot
        self._offer_at.clear()
        self._note(logging.INFO, f"connected to {self._server} as {welcome.instance_id}")
        unsent, self._callbacks_unsent = self._callbacks_unsent, []
        for done in unsent:
            self._send_done(*done)
        if self._exit is not None:
            self._exit.new_stream()
            return
        for name, state in self._jobs.items():
            if state is not JobState.SHUT_DOWN:
                self._jobs[name] = JobState.ASKED
                self._send(worker_pb2.SessionRequest(register=self._registers[name]))
            else:
                # The previous coordinator may have died before it handled it.
                self._give_up(name)

    def _lost(self, now: Now, code: str, detail: str) -> None:
        reason = self._lost_why = f"{code}: {detail}" if code else detail
        self._emit(Close(self._stream))
        failed = "disconnected from" if self._link is Link.LIVE else "cannot connect to"
        self._in_flight.drop_unstarted()
        if not self._worker_id:
            # In a row: a coordinator that is only unreachable may be one that accepts this worker.
            self._rejections = self._rejections + 1 if code in _FATAL else 0
            if self._rejections >= len(self._route.addresses):
                self._exit = Exit(now.boot, Rejected(code, detail))
                self._finish("")
                return
        delay = self._route.lost(LONGEST_DELAY_LEAVING if self._exit else self._options.longest_delay)
        self._link, self._link_by = Link.DOWN, now.boot + delay
        level = logging.ERROR if code in _FATAL else logging.WARNING
        self._note(level, f"{failed} {self._server}: {reason}; retrying in {delay:.1f}s")
        if delay == 0:
            self._open(now)

    # ---- jobs

    def _registered(self, registered: worker_pb2.Registered) -> None:
        if registered.job in self._jobs and self._jobs[registered.job] is not JobState.SHUT_DOWN:
            self._jobs[registered.job] = JobState.REGISTERED
            self._agreed.add(registered.job)
            self._refusals.pop(registered.job, None)
            self._lease.agreed(registered)
            self._warn_of_differences(registered)
            has_next = registered.HasField("next_fire_in")
            when = f"next fire in {registered.next_fire_in.seconds}s" if has_next else "no scheduled time to come"
            self._note(logging.INFO, f"job {registered.job}: {registered.sharding_total_count} items, {when}")

    def _warn_of_differences(self, registered: worker_pb2.Registered) -> None:
        """The config of this worker has no effect: warns once for each set of differences."""
        differences = [
            f"{differs.field} is {differs.stored if differs.HasField('stored') else '(none)'} in the store and "
            f"{differs.offered if differs.HasField('offered') else '(none)'} here"
            for differs in registered.config_differences
        ]
        known = self._differences.get(registered.job, [])
        self._differences[registered.job] = differences
        if differences and differences != known:
            self._note(
                logging.WARNING,
                f"the config of job {registered.job} is ignored, since the job exists: {', '.join(differences)}; "
                "register it with overwrite, or change the job by `rosterd jobs apply`",
            )

    def _refused(self, now: Now, refused: worker_pb2.Refused) -> None:
        if refused.job not in self._jobs or self._jobs[refused.job] is JobState.SHUT_DOWN:
            return
        error = JobRefused(refused.code, refused.message, refused.job)
        self._jobs[refused.job] = JobState.REFUSED
        self._offer_at[refused.job] = now.boot + OFFER_AGAIN
        before = self._refusals.get(refused.job)
        self._refusals[refused.job] = error
        if before is None or str(before) != str(error):
            self._note(logging.ERROR, f"{error} (offered again from time to time)")
        self._leave_without_jobs(now)

    def _shutdown(self, now: Now, shutdown: worker_pb2.Shutdown) -> None:
        if not shutdown.job:
            self._leave(now, None, f"an operator shut this worker down: {shutdown.message}")
        elif shutdown.job in self._jobs:
            self._note(logging.WARNING, f"an operator shut {shutdown.job} down here: {shutdown.message}")
            self._jobs[shutdown.job] = JobState.SHUT_DOWN
            self._offer_at.pop(shutdown.job, None)
            self._give_up(shutdown.job)
            self._leave_without_jobs(now)

    def _give_up(self, job: str) -> None:
        """Items may have been given to this worker after the shutdown was decided."""
        self._send(worker_pb2.SessionRequest(unregister=worker_pb2.Unregister(job=job)))

    def _leave_without_jobs(self, now: Now) -> None:
        states = self._jobs.values()
        if all(state in (JobState.REFUSED, JobState.SHUT_DOWN) for state in states):
            refused = [name for name, state in self._jobs.items() if state is JobState.REFUSED]
            error = self._refusals[refused[0]] if refused else None
            self._leave(now, None, "no job is left", error)

    # ---- runs and callbacks

    def _objection(self, now: Now, trigger: worker_pb2.Trigger) -> str:
        """Reasons not to start a run, except those in in_flight.py."""
        if not self._lease.valid(now.boot):
            return "the lease has ended"
        if self._jobs.get(trigger.run.job) not in (JobState.ASKED, JobState.REGISTERED):
            return "this worker is not registered for the job"
        if self._exit is not None and now.boot >= self._exit.drain_by:
            return "the worker is leaving"
        if self._exit is not None and self._exit.goodbye_at is not None:
            # The coordinator hands back the runs that the records still assign to it: they may start elsewhere at any
            # moment.
            return "the worker has said goodbye"
        return ""

    def _callback(self, now: Now, callback: worker_pb2.Callback) -> None:
        name = callback.callback_id
        if name in self._callbacks:
            return
        if name in self._callbacks_done:
            self._send_done(name, *self._callbacks_done[name])
        elif len(self._callbacks) >= self._options.slots:
            self._send_done(name, "too many callbacks at a time", False)
        else:
            timeout = seconds(callback.timeout)
            self._callbacks[name] = now.boot + timeout if timeout > 0 else None
            self._emit(StartCallback(callback))

    def _callback_ended(self, name: str, error: str, *, timed_out: bool = False) -> None:
        if name not in self._callbacks:
            return
        del self._callbacks[name]
        self._callbacks_done[name] = (error, timed_out)
        if len(self._callbacks_done) > MAX_CALLBACKS_REMEMBERED:
            self._callbacks_done.popitem(last=False)
        if error:
            self._note(logging.ERROR, f"callback {name} failed: {error}")
        # If it is lost with the stream, the coordinator asks again, and the worker answers from memory.
        if self._link is Link.LIVE:
            self._send_done(name, error, timed_out)
        else:
            self._callbacks_unsent.append((name, error, timed_out))

    def _send_done(self, name: str, error: str, timed_out: bool) -> None:
        done = worker_pb2.CallbackDone(callback_id=name, error=shorten(error, 8 * 1024), timed_out=timed_out)
        self._send(worker_pb2.SessionRequest(callback_done=done))

    # ---- leaving

    def _leave(self, now: Now, grace: float | None, why: str, error: RosterdError | None = None) -> None:
        drain_by = now.boot + (self._options.drain_timeout if grace is None else grace)
        if self._exit is not None:
            self._exit.drain_by = min(self._exit.drain_by, drain_by)
            return
        self._note(logging.INFO, f"leaving: {why}")
        self._exit = Exit(drain_by, error)
        self._emit(Leaving())

    def _waits_for(self) -> tuple[int, str]:
        runs = self._in_flight.working()
        if not runs:
            return logging.INFO, "signal received: leaving; nothing is in flight"
        count = "1 run" if len(runs) == 1 else f"{len(runs)} runs"
        names = ", ".join(runs[:MAX_RUNS_NAMED]) + (", …" if len(runs) > MAX_RUNS_NAMED else "")
        return logging.WARNING, (
            f"signal received: leaving once {count} in flight ({names}) ended, "
            f"after {self._options.drain_timeout:g} s at the latest; a second signal exits immediately and records "
            "them as crashed"
        )

    def _leave_limit(self, leaving: Exit) -> float:
        """When to leave without a goodbye."""
        since = leaving.drain_by if leaving.rest_at is None else min(leaving.drain_by, leaving.rest_at)
        return since + self._options.leave_timeout

    def _farewell_by(self, leaving: Exit) -> float | None:
        """When to try another coordinator, once nothing is in flight."""
        if self._link is not Link.LIVE or leaving.rest_at is None:
            return None
        if leaving.goodbye_at is not None:
            return leaving.goodbye_at + FAREWELL
        if leaving.asked_at is not None and not leaving.draining:
            return max(leaving.asked_at, leaving.rest_at) + FAREWELL
        return None

    def _nothing_in_flight(self) -> bool:
        return self._in_flight.empty() and not self._callbacks

    def _finish(self, trouble: str) -> None:
        if trouble:
            self._note(logging.WARNING, trouble)
        if self._link is not Link.DOWN:
            self._lost_why = trouble or "the worker has left"
            self._emit(Close(self._stream))
        self._link = Link.OVER
        self._emit(Finish(self._exit.error if self._exit else None))

    # ---- time

    def _timers(self) -> Iterator[float]:
        if self._link is Link.OVER:
            return
        yield self._link_by
        yield from self._in_flight.timers(self._link is Link.LIVE)
        yield from (by for by in self._callbacks.values() if by is not None)
        if self._in_flight.has_unstopped():
            yield self._lease.stops_at
        if self._link is Link.LIVE:
            yield self._dead_at()
            yield self._last_heartbeat + self._lease.interval
            yield from self._offer_at.values()
        if self._exit is not None:
            if self._in_flight.has_unstopped() or self._callbacks:
                yield self._exit.drain_by
            yield self._leave_limit(self._exit)
            farewell = self._farewell_by(self._exit)
            if farewell is not None:
                yield farewell

    def _expire(self, now: Now) -> None:
        if not self._lease.valid(now.boot):
            self._in_flight.stop_all(now, StopReason.LEASE)
        self._in_flight.expire(now, lambda: self._lease.valid(now.boot))
        for name in [name for name, by in self._callbacks.items() if by is not None and now.boot >= by]:
            self._callback_ended(name, "timed out", timed_out=True)
        if self._exit is not None:
            self._expire_exit(now, self._exit)
        if self._link is Link.DOWN and now.boot >= self._link_by:
            self._open(now)
        elif self._link in (Link.OPENING, Link.GREETING) and now.boot >= self._link_by:
            self._lost(now, "", "no answer in time")
        elif self._link is Link.LIVE:
            if now.boot >= self._dead_at():
                self._lost(now, "", "silent for too long")
                return
            if now.boot >= self._last_heartbeat + self._lease.interval:
                self._heartbeat(now)
            self._offer_refused(now)

    def _dead_at(self) -> float:
        """When the stream counts as dead: no frame arrives, or none renews the lease before its end."""
        patience = self._lease.patience
        return min(self._last_frame + patience, max(self._lease.stops_at, self._last_renewed + patience))

    def _offer_refused(self, now: Now) -> None:
        if self._exit is not None:
            self._offer_at.clear()
        for name in [name for name, at in self._offer_at.items() if now.boot >= at]:
            del self._offer_at[name]
            self._jobs[name] = JobState.ASKED
            self._send(worker_pb2.SessionRequest(register=self._registers[name]))

    def _expire_exit(self, now: Now, leaving: Exit) -> None:
        if now.boot >= leaving.drain_by:
            self._in_flight.stop_all(now, StopReason.DRAIN)
            for name in list(self._callbacks):
                self._callback_ended(name, "the worker left")
        farewell = self._farewell_by(leaving)
        if now.boot >= self._leave_limit(leaving):
            leaving.error = leaving.error or LeaveTimedOut(len(self._in_flight.refs()))
            self._finish("left without a goodbye: its time was over")
        elif farewell is not None and now.boot >= farewell:
            self._lost(now, "", "no answer to the goodbye")

    def _heartbeat(self, now: Now) -> None:
        self._last_heartbeat = now.boot
        sequence = self._lease.heartbeat(now.boot)
        beat = worker_pb2.Heartbeat(
            sequence=sequence, runs_in_flight=self._in_flight.refs(), lease=span(self._lease.length)
        )
        self._send(worker_pb2.SessionRequest(heartbeat=beat))

    # ---- after every event

    def _settle(self, now: Now) -> None:
        """Sends what the coordinator does not know yet: level-triggered, so nothing depends on the event."""
        if self._link is Link.LIVE:
            for progress in self._in_flight.due_progress(now):
                self._send(worker_pb2.SessionRequest(run_progress=progress))
            for report in self._in_flight.due_reports(self._stream, self._credits):
                self._send(worker_pb2.SessionRequest(run_completed=report))
        if self._exit is not None:
            self._settle_exit(now, self._exit)

    def _settle_exit(self, now: Now, leaving: Exit) -> None:
        if not self._nothing_in_flight():
            leaving.rest_at = None
        elif leaving.rest_at is None:
            leaving.rest_at = now.boot
        if not self._worker_id and self._link in (Link.DOWN, Link.OPENING):
            # Never attached: there is no coordinator to say goodbye to.
            self._finish("")
        elif self._link is Link.LIVE:
            if leaving.asked_at is None:
                leaving.asked_at = now.boot
                self._send(worker_pb2.SessionRequest(drain_request=worker_pb2.DrainRequest()))
            if leaving.draining and leaving.goodbye_at is None and self._nothing_in_flight():
                leaving.goodbye_at = now.boot
                self._send(worker_pb2.SessionRequest(goodbye=worker_pb2.Goodbye()))

    # ---- effects

    def _alive(self) -> bool:
        return self._link is not Link.OVER

    def _emit(self, effect: Effect) -> None:
        self._out.append(effect)

    def _send(self, frame: worker_pb2.SessionRequest) -> None:
        self._emit(Send(self._stream, frame))

    def _note(self, level: int, text: str) -> None:
        self._emit(Note(level, text))
