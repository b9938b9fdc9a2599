"""Calls user code, plain handlers in threads, async ones on the caller's loop, and says when it began and ended.

Decides nothing: which run starts or stops is the machine's business. Its threads are daemons, so that a handler that
never ends cannot keep the process from leaving.
"""

from __future__ import annotations

import asyncio
import json
import logging
import queue
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from ._proto import worker_pb2
from .errors import Cancelled
from .events import Began, CallbackEnded, Ended, Ending, EndKind, Event, Expired, Key, StartRun, StopReason
from .hand import MAX_ERROR
from .job import FireHook, Job, call, call_async, is_async
from .run import Fire, Run, _Outlet
from .text import shorten

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
    ) -> None:
        self._jobs = jobs
        self._loop = loop
        self._post = post
        self._lease_left = lease_left
        self._leaving = threading.Event()
        self._outlet = _Outlet(progress, self._leaving, lease_left, lambda key: post(Expired(key)))
        self._threads = Threads()
        self._runs: dict[Key, Run] = {}
        # Touched on the caller's loop only.
        self._tasks: dict[Key, asyncio.Task[Ending]] = {}
        self._callbacks: set[asyncio.Task[None]] = set()

    # ---- called by the driver, on its thread; none of these blocks

    def start(self, start: StartRun) -> None:
        job = self._jobs[start.key.job]
        run = Run(start, self._outlet)
        self._runs[run.key] = run
        if job.is_async:
            self._on_loop(lambda: self._spawn(job, run), run)
        else:
            try:
                self._threads.submit(lambda: self._ended(run, self._call(job, run)))
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
        elif is_async(hook):
            self._call_hook_on_loop(callback, hook)
        else:
            self._threads.submit(lambda: self._call_hook(callback, hook))

    def leaving(self) -> None:
        self._leaving.set()

    def close(self) -> None:
        self._threads.close()

    # ---- plain handlers, on a thread of the pool

    def _call(self, job: Job, run: Run) -> Ending:
        # The last look: this thread may have been kept waiting since the machine looked.
        if self._lease_left() <= 0 or run.cancelled:
            return Ending(EndKind.NOT_BEGUN, error="the lease had ended before user code began")
        self._post(Began(run.key))
        try:
            result = call(job, run)
        except Cancelled as error:
            return _ending(EndKind.CANCELLED, run, error=str(error))
        except BaseException as error:  # a handler that calls sys.exit() has failed
            return _ending(EndKind.RAISED, run, error=describe(error))
        return _ending(EndKind.RETURNED, run, output=text_of(result))

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

    def _spawn(self, job: Job, run: Run) -> None:
        task = self._loop.create_task(self._await(job, run), name=f"rosterd {run.key}")
        self._tasks[run.key] = task
        task.add_done_callback(lambda done: self._done(run, done))

    def _cancel(self, key: Key) -> None:
        task = self._tasks.get(key)
        if task is not None:
            task.cancel()

    def _done(self, run: Run, task: asyncio.Task[Ending]) -> None:
        self._tasks.pop(run.key, None)
        # Cancelled from outside only before its first step: after that `_await` catches it.
        never = Ending(EndKind.NOT_BEGUN, error="cancelled before user code began")
        self._ended(run, never if task.cancelled() else task.result())

    async def _await(self, job: Job, run: Run) -> Ending:
        if self._lease_left() <= 0 or run.cancelled:
            return Ending(EndKind.NOT_BEGUN, error="the lease had ended before user code began")
        self._post(Began(run.key))
        try:
            result = await call_async(job, run)
        except (asyncio.CancelledError, Cancelled) as error:
            return _ending(EndKind.CANCELLED, run, error=str(error))
        except BaseException as error:
            return _ending(EndKind.RAISED, run, error=describe(error))
        return _ending(EndKind.RETURNED, run, output=text_of(result))

    async def abandon(self, patience: float) -> None:
        """Cancels what is left on the caller's loop when the worker is over."""
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

    def _call_hook_on_loop(self, callback: worker_pb2.Callback, hook: FireHook) -> None:
        async def answer() -> None:
            error = ""
            try:
                await hook(Fire.of(callback))
            except BaseException as raised:
                error = describe(raised)
            self._post(CallbackEnded(callback.callback_id, error))

        def spawn() -> None:
            task = self._loop.create_task(answer())
            self._callbacks.add(task)
            task.add_done_callback(self._callbacks.discard)

        self._on_loop(spawn, None)


def _ending(kind: EndKind, run: Run, output: str = "", error: str = "") -> Ending:
    processed, failed, offset = run._counts()
    return Ending(kind, output, error, processed, failed, offset)


def describe(error: BaseException) -> str:
    """The error in a line, then where it came from."""
    summary = "".join(traceback.format_exception_only(type(error), error)).strip()
    trace = "".join(traceback.format_tb(error.__traceback__))
    return shorten(f"{summary}\n{trace}".strip(), MAX_ERROR)


def text_of(result: Any) -> str:
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    try:
        return json.dumps(result)
    except (TypeError, ValueError):
        return str(result)
