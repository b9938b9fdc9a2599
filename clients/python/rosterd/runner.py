"""Calls user code, plain handlers in threads, async ones on the caller's loop, and reports when it started and ended.

Decides nothing: the machine decides which run starts or stops. Its threads are daemons, so that a handler that never
ends cannot keep the process from leaving.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Literal

from . import clock, trace
from ._proto import worker_pb2
from .current import context_for, context_of
from .describe import describe, text_of
from .errors import Cancelled, Fatal
from .events import Began, CallbackEnded, Ended, Ending, EndKind, Event, Expired, Key, StartRun, StopReason
from .hooks import RunEnd, Teller
from .job import FireHook, Job, call, call_async, is_async
from .run import Fire, Run, _Outlet

_LOG = logging.getLogger("rosterd")


class Threads:
    """As many daemon threads as there are calls at a time; the machine's slots are the bound."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._idle = 0
        self._made = 0

    def submit(self, function: Callable[[], None]) -> None:
        with self._lock:
            if self._idle > 0:
                self._idle -= 1
                self._calls.put(function)
                return
            self._made += 1
            name = f"rosterd-run-{self._made}"
        threading.Thread(target=self._work, args=(function,), name=name, daemon=True).start()

    def close(self) -> None:
        """Threads end with their call."""
        for _ in range(self._made):
            self._calls.put(None)

    def _work(self, function: Callable[[], None]) -> None:
        current: Callable[[], None] | None = function
        while current is not None:
            current()
            with self._lock:
                self._idle += 1
            current = self._calls.get()


class Runner:
    def __init__(
        self,
        jobs: Mapping[str, Job],
        loop: asyncio.AbstractEventLoop,
        post: Callable[[Event], None],
        progress: Callable[[Run], None],
        lease_left: Callable[[], float],
        teller: Teller,
    ) -> None:
        self._jobs = jobs
        self._loop = loop
        self._post = post
        self._lease_left = lease_left
        self._teller = teller
        trace.prepare()
        caller = contextvars.copy_context()
        self._contexts = {name: context_of(job.context, caller) for name, job in jobs.items()}
        self._leaving = threading.Event()
        self._outlet = _Outlet(progress, self._leaving, lease_left, lambda key: post(Expired(key)))
        self._threads = Threads()
        self._runs: dict[Key, Run] = {}
        # Used on the caller's loop only.
        self._tasks: dict[Key, asyncio.Task[Ending]] = {}
        self._callbacks: set[asyncio.Task[None]] = set()

    # ---- called by the driver, on its thread; none of these blocks

    def start(self, start: StartRun) -> None:
        job = self._jobs[start.key.job]
        run = Run(start, self._outlet)
        self._runs[run.key] = run
        context = context_for(run, self._contexts[job.name])
        if job.is_async:
            self._on_loop(lambda: self._spawn(job, run, context), run)
        else:
            try:
                self._threads.submit(lambda: self._ended(run, context.run(self._call, job, run)))
            except RuntimeError as error:
                self._ended(run, Ending(EndKind.NOT_BEGUN, error=f"no thread for the run: {error}"))

    def stop(self, key: Key, reason: StopReason) -> None:
        run = self._runs.get(key)
        if run is None:
            return
        run.cancelled._set(reason)
        if self._jobs[key.job].is_async:
            self._on_loop(lambda: self._cancel(key), None)

    def stop_all(self, reason: StopReason) -> None:
        for key in list(self._runs):
            self.stop(key, reason)

    def callback(self, callback: worker_pb2.Callback) -> None:
        job = self._jobs.get(callback.job)
        hook = None
        if job is not None and callback.kind == worker_pb2.CALLBACK_KIND_ALL_STARTED:
            hook = job.on_all_started
        elif job is not None and callback.kind == worker_pb2.CALLBACK_KIND_ALL_COMPLETED:
            hook = job.on_all_completed
        if hook is None:
            self._post(CallbackEnded(callback.callback_id, ""))
        else:
            context = self._contexts[callback.job].copy()
            if is_async(hook):
                self._call_hook_on_loop(callback, hook, context)
            else:
                self._threads.submit(lambda: context.run(self._call_hook, callback, hook))

    def leaving(self) -> None:
        self._leaving.set()

    def close(self) -> None:
        self._threads.close()

    # ---- plain handlers, on a thread of the pool

    def _call(self, job: Job, run: Run) -> Ending:
        # The last check: this thread may have waited since the machine checked.
        if not self._may_begin(run):
            return self._not_begun(run)
        attempt = _Attempt(self._teller, run)
        self._post(Began(run.key))
        try:
            result = call(job, run)
        except BaseException as error:  # a handler that calls sys.exit() has failed
            return attempt.raised(error)
        return attempt.returned(result)

    def _may_begin(self, run: Run) -> bool:
        return self._lease_left() > 0 and not run.cancelled

    def _not_begun(self, run: Run, why: str = "the lease had ended before user code began") -> Ending:
        self._teller.run_not_started(run, why)
        return Ending(EndKind.NOT_BEGUN, error=why)

    def _ended(self, run: Run, ending: Ending) -> None:
        self._runs.pop(run.key, None)
        self._post(Ended(run.key, ending))

    # ---- async handlers, on the caller's loop

    def _on_loop(self, function: Callable[[], None], run: Run | None) -> None:
        try:
            self._loop.call_soon_threadsafe(function)
        except RuntimeError:
            if run is not None:
                self._ended(run, Ending(EndKind.NOT_BEGUN, error="the loop of the handlers is closed"))

    def _spawn(self, job: Job, run: Run, context: contextvars.Context) -> None:
        task = context.run(self._task, job, run)
        self._tasks[run.key] = task
        task.add_done_callback(lambda done: self._done(run, done))

    def _task(self, job: Job, run: Run) -> asyncio.Task[Ending]:
        # A task sees the context that it is made in.
        return self._loop.create_task(self._await(job, run), name=f"rosterd {run.key}")

    def _cancel(self, key: Key) -> None:
        task = self._tasks.get(key)
        if task is not None:
            task.cancel()

    def _done(self, run: Run, task: asyncio.Task[Ending]) -> None:
        self._tasks.pop(run.key, None)
        # Cancelled from outside only before its first step: after that `_await` catches it.
        if task.cancelled():
            self._ended(run, self._not_begun(run, "cancelled before user code began"))
        else:
            self._ended(run, task.result())

    async def _await(self, job: Job, run: Run) -> Ending:
        if not self._may_begin(run):
            return self._not_begun(run)
        attempt = _Attempt(self._teller, run)
        self._post(Began(run.key))
        try:
            result = await call_async(job, run)
        except asyncio.CancelledError as error:
            return attempt.ended(EndKind.CANCELLED, error=str(error))
        except BaseException as error:
            return attempt.raised(error)
        return attempt.returned(result)

    async def abandon(self, patience: float) -> None:
        """Cancels what is left on the caller's loop when the worker has ended."""
        left = [*self._tasks.values(), *self._callbacks]
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=patience)

    # ---- callbacks

    def _call_hook(self, callback: worker_pb2.Callback, hook: FireHook) -> None:
        error = ""
        try:
            hook(Fire.of(callback))
        except BaseException as raised:
            error = describe(raised)
        self._post(CallbackEnded(callback.callback_id, error))

    def _call_hook_on_loop(self, callback: worker_pb2.Callback, hook: FireHook, context: contextvars.Context) -> None:
        async def answer() -> None:
            error = ""
            try:
                await hook(Fire.of(callback))
            except BaseException as raised:
                error = describe(raised)
            self._post(CallbackEnded(callback.callback_id, error))

        def spawn() -> None:
            task = context.run(self._loop.create_task, answer())
            self._callbacks.add(task)
            task.add_done_callback(self._callbacks.discard)

        self._on_loop(spawn, None)


class _Attempt:
    """An attempt whose user code is about to be called."""

    def __init__(self, teller: Teller, run: Run) -> None:
        self._teller = teller
        self._run = run
        self._since = clock.boot()
        teller.run_started(run)

    def returned(self, result: object) -> Ending:
        return self.ended(EndKind.RETURNED, output=text_of(result))

    def raised(self, error: BaseException) -> Ending:
        if isinstance(error, Cancelled):
            return self.ended(EndKind.CANCELLED, error=str(error))
        kind = EndKind.FATAL if isinstance(error, Fatal) else EndKind.RAISED
        return self.ended(kind, error=describe(error), exception=error)

    def ended(self, kind: EndKind, output: str = "", error: str = "", exception: BaseException | None = None) -> Ending:
        how = _HOW[kind]
        self._teller.run_ended(self._run, RunEnd(how, clock.boot() - self._since, exception))
        processed, failed, offset = self._run._counts()
        return Ending(kind, output, error, processed, failed, offset, exception)


_HOW: Mapping[EndKind, Literal["returned", "raised", "cancelled"]] = {
    EndKind.RETURNED: "returned",
    EndKind.RAISED: "raised",
    EndKind.FATAL: "raised",
    EndKind.CANCELLED: "cancelled",
}
