"""The context of user code: the context variables from the job's definition, the current run, and its trace."""

from __future__ import annotations

import contextvars
import logging
from typing import TYPE_CHECKING

from . import trace

if TYPE_CHECKING:
    from .run import Run

_CURRENT: contextvars.ContextVar[Run | None] = contextvars.ContextVar("rosterd_run", default=None)


def current_run() -> Run | None:
    """The run of the calling handler, at any depth, and in the tasks that it made; None outside of runs."""
    return _CURRENT.get()


def context_of(definer: contextvars.Context, caller: contextvars.Context) -> contextvars.Context:
    """Variables from the job's definition, and those that only the caller of the worker has set."""
    context = definer.copy()

    def add() -> None:
        for variable, value in caller.items():
            if variable not in definer:
                variable.set(value)

    context.run(add)
    return context


def context_for(run: Run, base: contextvars.Context) -> contextvars.Context:
    """For one attempt: changes end with it."""
    context = base.copy()

    def enter() -> None:
        _CURRENT.set(run)
        trace.enter(run.trace_context)

    context.run(enter)
    return context


class RunFilter(logging.Filter):
    """Adds the run's ids to every record: job, item, token, instance, task_id, and run, the first three in one.

    Add it to a handler, so that it sees the records of all loggers: `handler.addFilter(RunFilter())`. Outside of runs,
    texts are empty. It never drops a record.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        run = current_run()
        ids = {} if run is None else run.ids
        for name in ("job", "item", "token", "instance", "task_id"):
            if not hasattr(record, name):
                setattr(record, name, ids.get(name, ""))
        if not hasattr(record, "run"):
            item = getattr(record, "item", "")
            record.run = (
                "" if item == "" else f"{getattr(record, 'job', '')}/{item} token {getattr(record, 'token', '')}"
            )
        return True
