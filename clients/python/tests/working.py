"""Running workers, for tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from coordinator import PATIENCE, Coordinator, Session

from rosterd import Options, Worker


class Working:
    """A worker that runs on a thread."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self.error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.worker.run()
        except BaseException as error:
            self.error = error

    def over(self) -> None:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "the worker does not end"
        if self.error is not None:
            raise self.error


AtWork = Callable[[Worker], Working]


def wait_until(condition: Callable[[], Any], what: str = "") -> None:
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, what or "the state does not come"
        time.sleep(0.005)


def worker_of(coordinator: Coordinator, **options: Any) -> Worker:
    return Worker(coordinator.address, options=Options(**{"slots": 4, "address": "10.0.0.1", **options}))


def leave(working: Working, session: Session) -> None:
    working.worker.stop()
    session.farewell()
    working.over()
