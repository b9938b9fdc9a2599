from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from coordinator import PATIENCE, Coordinator
from working import AtWork, Working

from rosterd import Worker
from rosterd.events import Quit

# The tests' own servers are on loopback; nothing of the environment may lead elsewhere.
for name in ("ROSTERD_SERVER", "ROSTERD_CREDENTIAL"):
    os.environ.pop(name, None)


@pytest.fixture
def coordinator() -> Iterator[Coordinator]:
    with Coordinator() as server:
        yield server


@pytest.fixture
def at_work() -> Iterator[AtWork]:
    all_working: list[Working] = []

    def begin(worker: Worker) -> Working:
        all_working.append(Working(worker))
        return all_working[-1]

    yield begin
    for working in all_working:
        working.worker.stop(grace=0)
        if working.worker._driver is not None and working.thread.is_alive():
            working.worker._driver.post(Quit())
        working.thread.join(PATIENCE)
