"""The worker: collects jobs, then runs until it is asked to leave."""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from . import clock
from .config import Config, config_of
from .driver import Driver
from .errors import RosterdError
from .events import Leave, Quit
from .health import Health
from .hooks import Hooks, Teller
from .job import ErrorHook, Fetch, FireHook, Handler, Job, Process, dataflow_handler
from .machine import Machine
from .options import Options
from .run import Run
from .runner import Runner

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .config import JobFields

_LOG = logging.getLogger("rosterd")
# How long async handlers get to notice that the worker has ended.
ABANDON_PATIENCE = 1.0
# How long hooks of the connection get for pending events.
HOOKS_PATIENCE = 1.0
# Supervisors signal a process and its group: signals this soon after the first one, in seconds, repeat it.
ONE_REQUEST = 1.0

H = TypeVar("H", bound=Callable[[Run], Any])
T = TypeVar("T")


class Worker:
    """One worker process: one stream to a coordinator carries all its jobs.

    Arguments override `options`, and those override the environment (see Options).
    """

    def __init__(
        self,
        server: str | Sequence[str] | None = None,
        *,
        slots: int | None = None,
        credential: str | None = None,
        namespace: str | None = None,
        labels: Mapping[str, str] | None = None,
        hooks: Hooks | None = None,
        health: int | str | None = None,
        options: Options | None = None,
    ) -> None:
        servers = None if server is None else _servers(server)
        given = {
            "servers": servers,
            "slots": slots,
            "credential": credential,
            "namespace": namespace,
            "labels": labels,
            "hooks": hooks,
            "health": health,
        }
        changes: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self.options = Options(**changes) if options is None else replace(options, **changes)
        self._jobs: dict[str, Job] = {}
        self._driver: Driver | None = None
        self._health: Health | None = None
        # Requests to the worker before it ran.
        self._early_stop: Leave | None = None
        # When the first signal came, on the boot clock.
        self._signalled_at: float | None = None
        self._clock = clock.boot
        # The exit code once a second signal has come.
        self._at_once: int | None = None

    # ---- jobs

    @property
    def jobs(self) -> Mapping[str, Job]:
        return self._jobs

    def add(self, job: Job) -> Job:
        if self._driver is not None:
            raise RuntimeError("jobs are added before the worker runs")
        if job.name in self._jobs:
            raise ValueError(f"job {job.name} is there already")
        self._jobs[job.name] = job
        return job

    def job(
        self,
        name: str,
        *,
        config: Config | None = None,
        overwrite: bool = False,
        handler_type: str = "",
        before: Handler | None = None,
        after: Handler | None = None,
        on_error: ErrorHook | None = None,
        on_all_started: FireHook | None = None,
        on_all_completed: FireHook | None = None,
        **fields: Unpack[JobFields],
    ) -> Callable[[H], H]:
        """Decorates the handler of a job, plain or async; it gets the Run.

        The job must exist, or come with the worker: by the fields of JobConfig (`items=3, cron="0/5 * * * * ?"`), or by
        `config` as a whole. The other arguments are fields of Job.
        """
        if not isinstance(name, str):
            raise TypeError('a job needs its name: @worker.job("name")')
        whole = config_of(name, config, fields, {})

        def decorate(handler: H) -> H:
            self.add(
                Job(
                    name,
                    handler,
                    config=whole,
                    overwrite=overwrite,
                    handler_type=handler_type,
                    before=before,
                    after=after,
                    on_error=on_error,
                    on_all_started=on_all_started,
                    on_all_completed=on_all_completed,
                )
            )
            return handler

        return decorate

    def dataflow(
        self,
        name: str,
        *,
        fetch: Fetch[T],
        process: Process[T],
        config: Config | None = None,
        overwrite: bool = False,
        handler_type: str = "",
        before: Handler | None = None,
        after: Handler | None = None,
        on_error: ErrorHook | None = None,
        on_all_started: FireHook | None = None,
        on_all_completed: FireHook | None = None,
        **fields: Unpack[JobFields],
    ) -> Job:
        """Adds a job that fetches and processes, and repeats it until fetch is empty if the job streams."""
        return self.add(
            Job(
                name,
                dataflow_handler(fetch, process),
                config=config_of(name, config, fields, {"kind": "dataflow"}),
                overwrite=overwrite,
                handler_type=handler_type,
                before=before,
                after=after,
                on_error=on_error,
                on_all_started=on_all_started,
                on_all_completed=on_all_completed,
            )
        )

    # ---- working

    def run(self) -> None:
        """Runs until the worker has left. SIGTERM or SIGINT: leave in order; a second one: exit immediately.

        One within a second of the first counts as the first. If the worker cannot continue, the program ends with a
        message and exit code 1: SystemExit. On a thread other than the main one, signals are not handled, and the
        RosterdError itself is raised, as `run_async` does everywhere.
        """
        try:
            with self._signal_handlers():
                asyncio.run(self.run_async())
        except RosterdError as error:
            if threading.current_thread() is not threading.main_thread():
                raise
            raise SystemExit(f"rosterd: {error}") from error
        if self._at_once is not None:
            # The handler's exit was caught by user code that ran on this thread.
            raise SystemExit(self._at_once)

    async def run_async(self) -> None:
        """The same on a running loop; the caller handles signals. Cancelling it leaves without grace.

        Raises JobRefused if no job is left, and Rejected if every coordinator rejects the worker.
        """
        if self._driver is not None:
            raise RuntimeError("a worker runs once")
        if not self._jobs:
            raise RuntimeError("a worker without jobs has nothing to do")
        loop = asyncio.get_running_loop()
        address = self.options.address or await loop.run_in_executor(None, own_address, self.options.servers)
        registers = [job.register() for job in self._jobs.values()]
        machine = Machine(self.options, registers, address, random.Random())
        teller = Teller(self.options.hooks)
        driver = Driver(machine, self.options, teller)
        runner = Runner(self._jobs, loop, driver.post, driver.progress, driver.lease_left, teller)
        served = self.options.health_address()
        self._health = None if served is None else Health(served, driver.alive, driver.ready)
        self._driver = driver
        if self._early_stop is not None:
            driver.post(self._early_stop)
        driver.start(runner)
        try:
            await asyncio.shield(asyncio.wrap_future(driver.result))
        except asyncio.CancelledError:
            driver.post(Leave(grace=0))
            left = asyncio.wrap_future(driver.result)
            done, _ = await asyncio.wait([left], timeout=self.options.leave_timeout)
            for one in done:
                # A caller that cancels does not need the result.
                one.exception()
            driver.post(Quit())
            raise
        finally:
            await runner.abandon(ABANDON_PATIENCE)
            await loop.run_in_executor(None, teller.close, HOOKS_PATIENCE)
            if self._health is not None:
                await loop.run_in_executor(None, self._health.close)

    @property
    def health_port(self) -> int | None:
        """The port of health, once it is served."""
        return None if self._health is None else self._health.port

    def stop(self, grace: float | None = None) -> None:
        """Leave in order: runs have `grace` seconds (None: drain_timeout). Any thread may call it."""
        self._ask(Leave(grace))

    def _ask(self, leave: Leave) -> None:
        if self._driver is None:
            self._early_stop = leave
        else:
            self._driver.post(leave)

    # ---- signals

    @contextmanager
    def _signal_handlers(self) -> Iterator[None]:
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        wanted = (signal.SIGTERM, signal.SIGINT)
        before = {number: signal.signal(number, self._signalled) for number in wanted}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self._signalled_at is None:
            self._signalled_at = self._clock()
            self._ask(Leave(signalled=True))
            return
        if self._clock() < self._signalled_at + ONE_REQUEST:
            return
        _LOG.warning("second signal received: exiting immediately; runs in flight are recorded as crashed")
        # From now on a further signal has its default effect.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._driver is not None:
            self._driver.post(Quit())
        self._at_once = 128 + number
        raise SystemExit(self._at_once)


def _servers(server: str | Sequence[str]) -> tuple[str, ...]:
    listed = server.split(",") if isinstance(server, str) else server
    return tuple(part.strip() for part in listed if part.strip())


def own_address(servers: Sequence[str]) -> str:
    """The address of this machine that faces the first coordinator; the host's name if there is none."""
    first = servers[0] if "://" in servers[0] else f"http://{servers[0]}"
    try:
        url = urlsplit(first)
        family, kind, protocol, _, target = socket.getaddrinfo(url.hostname, url.port or 443, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            # A datagram socket sends nothing here: this only asks for a route.
            probe.connect(target)
            return str(probe.getsockname()[0])
    except (OSError, ValueError):
        return socket.gethostname()
