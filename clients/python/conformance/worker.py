"""A worker for the conformance kit: its handler does what the item's parameter says, so the kit writes the script.

Steps, separated by `;`: succeed, fail TEXT, fatal TEXT, sleep MS, busy MS, block MS, ignore MS, progress N [TEXT],
output TEXT, offset TEXT, append TEXT, count N M, gate PATH, once PATH STEP, and for a dataflow batches N. Events are
written as lines that `rosterd verify` reads. The environment: the variables that every client reads, and
CONFORMANCE_JOBS, _SLOTS, _DRAIN_MS, _ADDRESS, _CONFIG (a job file's text, with NAME for the job's name), _NAME and _LOG
(a file for the lines).
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator

from rosterd import Cancelled, Fatal, Fire, Options, RosterdError, Run, Worker

#: How often a step that waits for something checks, in seconds.
LOOK = 0.005
HANDLER_TYPE = "conformance"


class Lines:
    """The events, one JSON object a line, each written immediately."""

    def __init__(self, worker: str, path: str | None) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
        self._file = sys.stdout.fileno() if path is None else os.open(path, flags, 0o644)
        self._worker = worker

    def write(self, what: str, run: Run | None = None, detail: str = "", **more: object) -> None:
        line: dict[str, object] = {
            "at": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
            "wall": time.time_ns() // 1_000_000,
            "worker": self._worker,
            "what": what,
            "detail": detail,
            **more,
        }
        if run is not None:
            line |= {
                "job": run.job,
                "item": run.item,
                "token": run.token,
                "fire": round(run.fire_time.timestamp() * 1000),
                "source": run.source,
                "attempt": run.attempt,
                "instance": run.instance_id,
            }
        os.write(self._file, (json.dumps(line) + "\n").encode())


def steps_of(run: Run) -> list[tuple[str, str]]:
    words = (step.strip().partition(" ") for step in run.item_parameter.split(";"))
    return [(word, rest) for word, _, rest in words if word]


class Performance:
    """The effects of a run's steps."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._offset = run.offset
        self.output = ""

    def perform(self, word: str, rest: str) -> None:
        step = STEPS.get(word)
        if step is None:
            raise Fatal(f"{word!r} is not a step")
        step(self, rest)

    def succeed(self, rest: str) -> None:
        pass

    def fail(self, text: str) -> None:
        raise RuntimeError(text)

    def fatal(self, text: str) -> None:
        raise Fatal(text)

    def sleep(self, rest: str) -> None:
        self._run.cancelled.wait(seconds(rest))
        self._run.check()

    def busy(self, rest: str) -> None:
        until = time.monotonic() + seconds(rest)
        while time.monotonic() < until:
            self._run.check()

    def block(self, rest: str) -> None:
        # Each handler has a thread: this step occupies its own.
        time.sleep(seconds(rest))

    def ignore(self, rest: str) -> None:
        time.sleep(seconds(rest))

    def progress(self, rest: str) -> None:
        percent, _, message = rest.partition(" ")
        self._run.progress(number(percent), message)

    def say(self, text: str) -> None:
        self.output = text

    def set_offset(self, text: str) -> None:
        self._offset = text.encode()
        self._run.set_offset(self._offset)

    def append(self, text: str) -> None:
        self._offset += text.encode()
        self._run.set_offset(self._offset)

    def count(self, rest: str) -> None:
        processed, _, failed = rest.partition(" ")
        self._run.count(number(processed), number(failed or "0"))

    def gate(self, path: str) -> None:
        while not os.path.exists(path):
            self._run.cancelled.wait(LOOK)
            self._run.check()

    def once(self, rest: str) -> None:
        path, _, step = rest.partition(" ")
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL, 0o644))
        except FileExistsError:
            return
        word, _, more = step.partition(" ")
        self.perform(word, more)


STEPS: dict[str, Callable[[Performance, str], None]] = {
    "succeed": Performance.succeed,
    "fail": Performance.fail,
    "fatal": Performance.fatal,
    "sleep": Performance.sleep,
    "busy": Performance.busy,
    "block": Performance.block,
    "ignore": Performance.ignore,
    "progress": Performance.progress,
    "output": Performance.say,
    "offset": Performance.set_offset,
    "append": Performance.append,
    "count": Performance.count,
    "gate": Performance.gate,
    "once": Performance.once,
}


def number(text: str) -> int:
    if not text.isdecimal():
        raise Fatal(f"{text!r} is not a whole number")
    return int(text)


def seconds(millis: str) -> float:
    return number(millis) / 1000


class Conformance:
    """The handlers of all jobs."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._lock = threading.Lock()
        # Runs for which only the start was written.
        self._open: set[Run] = set()
        # Batches that dataflow runs must still return, and the effects of their steps.
        self._flows: dict[Run, tuple[Iterator[int], Performance]] = {}

    # ---- around every attempt

    def before(self, run: Run) -> None:
        self._lines.write("start", run)
        with self._lock:
            self._open.add(run)

    def failed(self, run: Run, error: BaseException) -> None:
        with self._lock:
            self._open.discard(run)
        if isinstance(error, Cancelled) or run.cancelled:
            self._lines.write("cancel", run, str(error) or run.cancelled.reason)
        else:
            self._lines.write("end", run, f"{type(error).__name__}: {error}")

    def after(self, run: Run) -> None:
        with self._lock:
            self._flows.pop(run, None)
            well = run in self._open
            self._open.discard(run)
        if well:
            self._lines.write("end", run, "ok")

    # ---- a simple job

    def work(self, run: Run) -> str:
        performance = Performance(run)
        for word, rest in steps_of(run):
            performance.perform(word, rest)
        return performance.output

    # ---- a dataflow job

    def fetch(self, run: Run) -> list[int]:
        with self._lock:
            if run not in self._flows:
                batches = sum(number(rest) for word, rest in steps_of(run) if word == "batches")
                self._flows[run] = (iter(range(batches)), Performance(run))
            batch = next(self._flows[run][0], None)
        return [] if batch is None else [batch]

    def process(self, run: Run, batch: list[int]) -> None:
        performance = self._flows[run][1]
        for word, rest in steps_of(run):
            if word != "batches":
                performance.perform(word, rest)

    # ---- callbacks

    def started(self, fire: Fire) -> None:
        self._callback(fire, "started")

    def completed(self, fire: Fire) -> None:
        self._callback(fire, "completed")

    def _callback(self, fire: Fire, kind: str) -> None:
        self._lines.write("callback", detail=kind, job=fire.job)
        if "slow-callback" in fire.job:
            time.sleep(2)
        if "bad-callback" in fire.job:
            raise RuntimeError("refused")


def main() -> int:
    environment = os.environ
    lines = Lines(environment.get("CONFORMANCE_NAME") or "python", environment.get("CONFORMANCE_LOG") or None)
    conformance = Conformance(lines)
    worker = Worker(
        options=Options(
            slots=int(environment.get("CONFORMANCE_SLOTS", "4")),
            drain_timeout=int(environment.get("CONFORMANCE_DRAIN_MS", "30000")) / 1000,
            address=environment.get("CONFORMANCE_ADDRESS", ""),
        )
    )
    config = environment.get("CONFORMANCE_CONFIG") or None
    for name in environment.get("CONFORMANCE_JOBS", "conformance").split(","):
        add(worker, name.strip(), config and config.replace("NAME", name.strip()), conformance)
    try:
        worker.run()
    except (RosterdError, SystemExit) as error:
        lines.write("exit", detail=str(error))
        print(error, file=sys.stderr)
        return 1
    lines.write("exit", detail="left")
    return 0


def add(worker: Worker, name: str, config: str | None, it: Conformance) -> None:
    if name.startswith("dataflow"):
        worker.dataflow(
            name,
            fetch=it.fetch,
            process=it.process,
            config=config,
            handler_type=HANDLER_TYPE,
            before=it.before,
            after=it.after,
            on_error=it.failed,
            on_all_started=it.started,
            on_all_completed=it.completed,
        )
        return
    decorate = worker.job(
        name,
        config=config,
        handler_type=HANDLER_TYPE,
        before=it.before,
        after=it.after,
        on_error=it.failed,
        on_all_started=it.started,
        on_all_completed=it.completed,
    )
    decorate(it.work)


if __name__ == "__main__":
    sys.exit(main())
