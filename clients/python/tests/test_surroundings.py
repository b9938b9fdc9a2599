"""The context of user code: the current run, context variables, log records, traces, and the text of errors."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from typing import Any

import frames as f
import pytest
from coordinator import Coordinator
from opentelemetry import trace
from working import AtWork, leave, worker_of

from rosterd import Fatal, Run, RunFilter, Worker, current_run
from rosterd.describe import describe
from rosterd.testing import call, make_run

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b"}
defined = contextvars.ContextVar("defined", default="")


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_user_code_sees_its_run_and_the_variables_of_whoever_defined_it(
    coordinator: Coordinator, at_work: AtWork, kind: str
) -> None:
    worker = worker_of(coordinator)
    seen: list[Any] = []

    def look() -> None:
        seen.append((current_run(), defined.get()))

    def plain(run: Run) -> None:
        look()
        defined.set("changed by the run")

    async def later(run: Run) -> None:
        await asyncio.create_task(asyncio.to_thread(look))
        defined.set("changed by the run")

    def define() -> None:
        defined.set("by the definer")
        worker.job("hello", on_all_started=lambda fire: look())(plain if kind == "plain" else later)

    contextvars.copy_context().run(define)
    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    for token in (1, 2):
        session.send(f.trigger(token))
        assert f.outcome(session.expect("run_completed")) == "SUCCEEDED"
        session.send(f.report_ack(token))
    session.send(f.callback("c1", "ALL_STARTED"))
    session.expect("callback_done")
    assert [run and run.token for run, _ in seen] == [1, 2, None]
    assert {variable for _, variable in seen} == {"by the definer"}
    leave(working, session)


def test_what_only_the_caller_of_run_has_set_is_seen_too() -> None:
    late = contextvars.ContextVar("late", default="")
    worker = Worker("a:1")
    worker.job("hello")(lambda run: f"{defined.get()}, {late.get()}")

    def call_it() -> str:
        defined.set("by the caller")
        late.set("by the caller")
        return call(worker.jobs["hello"]).output

    def define() -> None:
        defined.set("by the definer")
        worker.job("other")(lambda run: f"{defined.get()}, {late.get()}")

    contextvars.copy_context().run(define)
    assert contextvars.copy_context().run(call_it) == "by the caller, by the caller"

    def call_other() -> str:
        defined.set("by the caller")
        late.set("by the caller")
        return call(worker.jobs["other"]).output

    assert contextvars.copy_context().run(call_other) == "by the definer, by the caller"


def test_outside_of_runs_there_is_no_run() -> None:
    assert current_run() is None


def test_a_filter_gives_all_records_the_ids_of_the_run() -> None:
    records: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    handler = Kept()
    handler.addFilter(RunFilter())
    logger = logging.getLogger("of.a.library")
    logger.addHandler(handler)
    try:
        call(lambda run: logger.warning("inside"), make_run(job="hello", item=2, token=7))
        call(lambda run: logger.warning("own", extra={"job": "mine"}), make_run(job="hello"))
        logger.warning("outside")
    finally:
        logger.removeHandler(handler)
    told = [tuple(getattr(record, name) for name in ("job", "item", "token", "instance", "run")) for record in records]
    assert told[0] == ("hello", 2, 7, "127.0.0.1@-@test", "hello/2 token 7")
    assert (told[1][0], told[2]) == ("mine", ("", "", "", "", ""))


def test_the_trace_of_the_run_is_open_telemetrys_current_one(coordinator: Coordinator, at_work: AtWork) -> None:
    worker = worker_of(coordinator)
    seen: list[Any] = []

    @worker.job("hello")
    def hello(run: Run) -> None:
        span = trace.get_current_span().get_span_context()
        seen.append((dict(run.trace_context), f"{span.trace_id:032x}", span.is_remote))

    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(1, trace_context=TRACE), f.trigger(2, item=1))
    for _ in range(2):
        report = session.expect("run_completed")
        session.send(f.report_ack(report.run.token, item=report.run.item))
    assert (TRACE, "0af7651916cd43dd8448eb211c80319c", True) in seen
    assert ({}, "0" * 32, False) in seen
    assert trace.get_current_span().get_span_context().trace_id == 0
    leave(working, session)


@pytest.mark.parametrize("kind", ["plain", "async"])
def test_a_fatal_failure_is_not_tried_again(coordinator: Coordinator, at_work: AtWork, kind: str) -> None:
    worker = worker_of(coordinator)

    def plain(run: Run) -> None:
        raise Fatal("there is no such table")

    async def later(run: Run) -> None:
        plain(run)

    worker.job("hello")(plain if kind == "plain" else later)
    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(7, max_attempts=3, retry_backoff=f.duration(0.01)))
    report = session.expect("run_completed")
    session.send(f.report_ack(7))
    assert (f.outcome(report), report.attempt) == ("FAILED", 1)
    assert "there is no such table" in report.error
    leave(working, session)


def test_a_failure_is_logged_once_with_its_stack_and_told_with_its_cause(
    coordinator: Coordinator, at_work: AtWork, caplog: pytest.LogCaptureFixture
) -> None:
    worker = worker_of(coordinator)

    @worker.job("hello")
    def hello(run: Run) -> None:
        try:
            dict[str, str]()["key"]
        except KeyError as error:
            raise ValueError("no such order") from error

    working = at_work(worker)
    session = coordinator.accept()
    session.greet()
    session.send(f.trigger(7))
    report = session.expect("run_completed")
    session.send(f.report_ack(7))
    lines = report.error.splitlines()
    assert lines[0] == "ValueError: no such order"
    assert "caused by KeyError: 'key'" in lines
    assert "test_surroundings.py" in lines[1], "the frames of this package are left out"
    leave(working, session)
    [record] = [record for record in caplog.records if "failed" in record.message]
    assert record.message == "hello/0 token 7 failed: ValueError: no such order"
    assert record.exc_info is not None and isinstance(record.exc_info[1], ValueError)
    assert (record.__dict__["job"], record.__dict__["token"]) == ("hello", 7)


def test_errors_are_described_with_what_they_came_of() -> None:
    def chain() -> BaseException:
        try:
            try:
                raise OSError("first")
            except OSError:
                raise ValueError("second")  # noqa: B904 - the context is what is tested
        except ValueError as error:
            return error

    told = describe(chain())
    assert told.startswith("ValueError: second\n") and "\nwhile handling OSError: first\n" in told
    hidden = RuntimeError("alone")
    hidden.__context__, hidden.__suppress_context__ = ValueError("hidden"), True
    assert describe(hidden) == "RuntimeError: alone"
    circle = RuntimeError("circle")
    circle.__cause__ = circle
    assert describe(circle) == "RuntimeError: circle"


def test_a_run_in_a_thread_of_its_own_handler_is_not_another_threads() -> None:
    seen: list[Run | None] = []

    def handler(run: Run) -> None:
        thread = threading.Thread(target=lambda: seen.append(current_run()))
        thread.start()
        thread.join()

    call(handler)
    assert seen == [None], "threads of the handler's own begin with a context of their own, as everywhere in Python"
