"""Drives the machine: a thread and an event loop of its own, so that heartbeats go on whatever user code does.

Feeds events to the machine one at a time, performs its effects, and wakes it when a timer is due. The only place
where machine, transport and runner meet.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
from collections.abc import Callable

from . import clock
from ._proto import worker_pb2
from .errors import RosterdError
from .events import (
    Close,
    Effect,
    Event,
    Finish,
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
    StartRun,
    StopReason,
    StopRun,
    Tick,
)
from .hooks import Teller
from .machine import Machine
from .options import Options
from .run import Run
from .runner import Runner
from .transport import Stream

# The loop's clock stops while the machine sleeps, the lease's does not: check at least this often.
LONGEST_WAIT = 0.25
# A thread that has not completed a turn for this long is considered stuck.
STALLED = 10.0
# A thread that has not completed a turn for this long was frozen, with its process: frames that waited in the socket
# are read first, for this long.
STOOD_STILL = 2 * LONGEST_WAIT
READ_FIRST = 0.1
# The thread that calls user code reports it just before, and may then wait for the interpreter's lock: twice the time
# that others hold it.
BEGINS_WITHIN = 0.01
_LOG = logging.getLogger("rosterd")


class Driver:
    def __init__(self, machine: Machine, options: Options, teller: Teller) -> None:
        self._machine = machine
        self._options = options
        self._teller = teller
        self._runner: Runner | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._streams: dict[int, Stream] = {}
        # RunStarted frames by run, and when they go out.
        self._beginning: dict[bytes, tuple[int, worker_pb2.SessionRequest, asyncio.TimerHandle]] = {}
        self._closing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._to_arm = False
        # Events that wait until the socket is read.
        self._postponed: list[Event] | None = None
        self._over: asyncio.Event | None = None
        self._error: RosterdError | None = None
        self._lease_stops_at = float("-inf")
        # When the loop last turned, and the state at that time.
        self._round_at = clock.boot()
        self._attachment: tuple[str, str] | None = None
        self._leased_since: float | None = None
        self._leaves = False
        self._lock = threading.RLock()  # a signal handler may post while its thread does
        self._early: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._main, name="rosterd", daemon=True)
        #: Done when the worker has ended; carries the error that ended it.
        self.result: concurrent.futures.Future[None] = concurrent.futures.Future()

    # ---- called from any thread

    def start(self, runner: Runner) -> None:
        self._runner = runner
        self._thread.start()

    def post(self, event: Event) -> None:
        self._soon(lambda: self._feed(event))

    def progress(self, run: Run) -> None:
        """If there are many calls, only the last value is kept."""
        self._soon(lambda: self._feed(Progressed(run.key, *run._take_progress())))

    def lease_left(self) -> float:
        """Seconds until user code must stop: for its own check, on its own thread, right before and while it runs."""
        return self._lease_stops_at - clock.boot()

    def alive(self) -> bool:
        """The worker has not ended, and its thread works."""
        return not self.result.done() and clock.boot() - self._round_at < STALLED

    def ready(self) -> bool:
        """It is attached, its lease is valid, and it is not leaving."""
        return self.alive() and self._attachment is not None and not self._leaves and self.lease_left() > 0

    def _soon(self, function: Callable[[], None]) -> None:
        with self._lock:
            if self._loop is None:
                self._early.append(function)
                return
            loop = self._loop
        try:
            loop.call_soon_threadsafe(function)
        except RuntimeError:
            _LOG.debug("came after the end of the worker")

    # ---- the thread

    def _main(self) -> None:
        try:
            asyncio.run(self._until_over())
        except BaseException as error:
            _LOG.critical("the worker's own code failed: its runs are no longer covered by a lease", exc_info=True)
            self._error = RosterdError(f"internal error: {error!r}")
            self._lease_stops_at = float("-inf")
            if self._runner is not None:
                self._runner.stop_all(StopReason.LEASE)
        finally:
            if self._runner is not None:
                self._runner.close()
            if self._error is None:
                self.result.set_result(None)
            else:
                self.result.set_exception(self._error)

    async def _until_over(self) -> None:
        self._over = asyncio.Event()
        with self._lock:
            self._loop = asyncio.get_running_loop()
            early, self._early = self._early, []
        self._feed(Start())
        for function in early:
            function()
        await self._over.wait()
        if self._timer is not None:
            self._timer.cancel()
        if self._closing is not None:
            await self._closing

    def _feed(self, event: Event) -> None:
        over = self._over
        if over is None or over.is_set() or self._stands_back(event):
            return
        try:
            now = clock.now()
            effects = self._machine.handle(now, event)
            # Before any effect: user code may be called by the next line.
            self._lease_stops_at = self._machine.lease_stops_at
            self._look(now.boot)
            for effect in effects:
                self._perform(effect)
        except Exception as error:
            self._fail(error)
            return
        if not self._to_arm:
            # Once for all events of one round.
            self._to_arm = True
            asyncio.get_running_loop().call_soon(self._arm)

    def _stands_back(self, event: Event) -> bool:
        """An acknowledgement that waited in the socket while the process was frozen counts before the timers.

        gRPC reads on a thread of its own, which resumes together with this one: events that are not from the stream
        must wait for it.
        """
        if isinstance(event, Received | Opened | Lost | Quit):
            return False
        if self._postponed is not None:
            self._postponed.append(event)
            return True
        if not self._streams or clock.boot() - self._round_at < STOOD_STILL:
            return False
        self._postponed = [event]
        asyncio.get_running_loop().call_later(READ_FIRST, self._go_on)
        return True

    def _go_on(self) -> None:
        events, self._postponed = self._postponed or [], None
        self._round_at = clock.boot()
        for event in events:
            self._feed(event)

    def _look(self, boot: float) -> None:
        """Reads the machine's state, for health and hooks."""
        machine = self._machine
        self._round_at, self._leaves = boot, machine.leaves
        before, self._attachment = self._attachment, machine.attachment
        if before is not None and before != self._attachment:
            self._teller.detached(before[0], machine.lost_why)
        if self._attachment is not None and before != self._attachment:
            self._teller.attached(*self._attachment)
        since = machine.leased_since
        if since is not None and since != self._leased_since:
            self._teller.lease_renewed(boot - since)
        self._leased_since = since

    def _fail(self, error: Exception) -> None:
        """A defect of this package: without heartbeats every run must stop."""
        _LOG.critical("the worker's own code failed", exc_info=error)
        self._lease_stops_at = float("-inf")
        self._error = RosterdError(f"internal error: {error!r}")
        if self._runner is not None:
            self._runner.stop_all(StopReason.LEASE)
        for number in list(self._streams):
            self._close(number)
        if self._over is not None:
            self._over.set()

    def _arm(self) -> None:
        self._to_arm = False
        if self._over is None or self._over.is_set():
            return
        if self._timer is not None:
            self._timer.cancel()
        wait = min(max(0.0, self._machine.deadline() - clock.boot()), LONGEST_WAIT)
        self._timer = asyncio.get_running_loop().call_later(wait, self._feed, Tick())

    def _perform(self, effect: Effect) -> None:
        assert self._runner is not None
        match effect:
            case Open(number, address):
                self._streams[number] = Stream(number, address, self._options, self._feed)
                self._streams[number].open(self._closing)
            case Close(number):
                self._close(number)
            case Send(number, frame) if frame.HasField("run_started"):
                run = frame.run_started.run.SerializeToString(deterministic=True)
                timer = asyncio.get_running_loop().call_later(BEGINS_WITHIN, self._say_begun, run)
                self._beginning[run] = (number, frame, timer)
            case Send(number, frame):
                for said in ("run_progress", "run_completed"):
                    if frame.HasField(said):
                        self._say_begun(getattr(frame, said).run.SerializeToString(deterministic=True))
                self._send(number, frame)
            case StartRun():
                self._runner.start(effect)
            case StopRun(key, reason):
                self._runner.stop(key, reason)
            case StartCallback(callback):
                self._runner.callback(callback)
            case Leaving():
                self._runner.leaving()
            case Note(level, text, key, exception):
                ids = None if key is None else key._asdict()
                _LOG.log(level, "%s", text, exc_info=exception, extra=ids)
            case Finish(error):
                self._error = error
                if self._over is not None:
                    self._over.set()

    def _say_begun(self, run: bytes) -> None:
        """User code of the run has started, by now or before its end: changes no longer need to wait for it."""
        waiting = self._beginning.pop(run, None)
        if waiting is not None:
            number, frame, timer = waiting
            timer.cancel()
            self._send(number, frame)

    def _send(self, number: int, frame: worker_pb2.SessionRequest) -> None:
        stream = self._streams.get(number)
        if stream is not None and not stream.send(frame):
            self._soon(lambda: self._feed(Lost(number, "", "the coordinator does not read")))

    def _close(self, number: int) -> None:
        stream = self._streams.pop(number, None)
        if stream is None:
            return
        before = self._closing

        async def close() -> None:
            if before is not None:
                await before
            await stream.close()

        self._closing = asyncio.get_running_loop().create_task(close())
