"""A job of this worker: its name, its handler and its hooks."""

from __future__ import annotations

import contextvars
import inspect
from collections.abc import Awaitable, Callable, Sized
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

from ._proto import worker_pb2
from .config import Config, config_text
from .run import Fire, Run

Handler: TypeAlias = Callable[[Run], Any]
ErrorHook: TypeAlias = Callable[[Run, BaseException], Any]
FireHook: TypeAlias = Callable[[Fire], Any]
T = TypeVar("T")
Fetch: TypeAlias = Callable[[Run], T | Awaitable[T | None] | None]
Process: TypeAlias = Callable[[Run, T], Any]


@dataclass(frozen=True)
class Job:
    """Hooks of an async handler may be async or plain; those of a plain one are plain."""

    name: str
    #: Called for every run. Plain functions run in threads, async ones on the loop of the worker's caller.
    handler: Handler
    #: Creates the job if it is absent: a JobConfig, or a job file as YAML or JSON text, a path, or a mapping.
    config: Config | None = None
    #: The config replaces that of a job that exists.
    overwrite: bool = False
    #: What runs the job, the same on all its workers in all languages; empty: the job's name.
    handler_type: str = ""
    #: Before every attempt; if it raises, the attempt has failed.
    before: Handler | None = None
    #: After every attempt, however it ended; if it raises, the attempt has failed.
    after: Handler | None = None
    #: After an attempt that raised.
    on_error: ErrorHook | None = None
    #: Before any item of a fire runs, announced to one worker.
    on_all_started: FireHook | None = None
    #: After the last item of a fire has ended, announced to one worker.
    on_all_completed: FireHook | None = None
    #: The context variables from the job's definition: its user code sees them.
    context: contextvars.Context = field(
        default_factory=contextvars.copy_context, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("a job needs a name")
        if not callable(self.handler):
            raise TypeError(f"the handler of {self.name} cannot be called")
        for hook in (self.before, self.after, self.on_error):
            if hook is not None and is_async(hook) and not self.is_async:
                raise TypeError(f"job {self.name}: an async hook needs an async handler")

    @property
    def is_async(self) -> bool:
        return is_async(self.handler)

    def register(self) -> worker_pb2.Register:
        return worker_pb2.Register(
            job=self.name,
            handler_type=self.handler_type or self.name,
            config=config_text(self.name, self.config, self.overwrite),
            overwrite=self.overwrite,
        )


def is_async(function: Callable[..., Any]) -> bool:
    # An object is called through its type.
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def call(job: Job, run: Run) -> Any:
    """One attempt of a plain handler, with its hooks."""
    try:
        if job.before is not None:
            job.before(run)
        result = job.handler(run)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError(f"the handler of {job.name} returned an awaitable: declare it with `async def`")
    except BaseException as error:
        _tell(job, run, error)
        raise
    finally:
        if job.after is not None:
            job.after(run)
    return result


async def call_async(job: Job, run: Run) -> Any:
    """One attempt of an async handler, with its hooks."""
    try:
        if job.before is not None:
            await _settled(job.before(run))
        result = await _settled(job.handler(run))
    except BaseException as error:
        await _settled(_tell(job, run, error))
        raise
    finally:
        if job.after is not None:
            await _settled(job.after(run))
    return result


def _tell(job: Job, run: Run, error: BaseException) -> Any:
    if job.on_error is None or not isinstance(error, Exception):
        return None
    try:
        return job.on_error(run, error)
    except Exception:
        run.log.exception("on_error failed")
        return None


async def _settled(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def dataflow_handler(fetch: Fetch[T], process: Process[T]) -> Handler:
    """Fetches and processes; if the job streams, again until nothing is left.

    Ends earlier if the run must stop, and cleanly between two batches if the worker is leaving. The length of a
    processed batch is counted, unless `process` counts itself.
    """
    if is_async(fetch) or is_async(process):

        async def flow_async(run: Run) -> None:
            while not _empty(data := await _settled(fetch(run))):
                before = run._counts()[:2]
                await _settled(process(run, data))
                if not _again(run, data, before):
                    break

        return flow_async

    def flow(run: Run) -> None:
        while not _empty(data := _plain(fetch(run))):
            before = run._counts()[:2]
            process(run, data)
            if not _again(run, data, before):
                break

    return flow


def _plain(data: Any) -> Any:
    """The result of a plain fetch is not awaitable."""
    return data


def _empty(data: Any) -> bool:
    return data is None or (isinstance(data, Sized) and len(data) == 0)


def _again(run: Run, data: Any, before: tuple[int, int]) -> bool:
    if run._counts()[:2] == before:
        run.count(processed=len(data) if isinstance(data, Sized) else 1)
    if not run.streaming or run.leaving:
        return False
    run.check()
    return True
