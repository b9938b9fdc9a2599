"""What a handler sees of its lease when it checks before the worker cancels it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

from rosterd import Cancelled, Run
from rosterd._proto import worker_pb2
from rosterd.events import Key, StartRun, StopReason
from rosterd.run import _Outlet


def run_with(lease_left: Callable[[], float], expired: list[Key]) -> Run:
    start = StartRun(Key("hello", 0, 5), worker_pb2.Trigger(), "w1", 1, b"", None, {})
    return Run(start, _Outlet(lambda run: None, threading.Event(), lease_left, expired.append))


@pytest.mark.parametrize("left", [0.5, 0.0, -3.0])
def test_a_handler_that_wakes_after_its_lease_finds_that_it_is_cancelled(left: float) -> None:
    lease, expired = [1.0], list[Key]()
    run = run_with(lambda: lease[0], expired)
    assert not run.cancelled
    run.check()
    # The process was frozen, and the worker has not cancelled the run yet.
    lease[0] = left
    over = left <= 0
    assert (run.cancelled.is_set(), bool(run.cancelled), run.cancelled.wait(0)) == (over, over, over)
    assert run.cancelled.reason == (StopReason.LEASE.value if over else "")
    if over:
        with pytest.raises(Cancelled, match="the lease ended"):
            run.check()
    # The lease that it has checked stays in force, and the worker is notified once.
    lease[0] = 5.0
    assert bool(run.cancelled) is over
    assert expired == ([run.key] if over else [])


@pytest.mark.parametrize("renewed", [False, True])
def test_a_handler_that_waits_to_be_told_looks_at_its_lease_when_it_wakes(
    renewed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> tuple[bool, bool]:
        loop, time, ends = asyncio.get_running_loop(), [0.0], [1.0]
        monkeypatch.setattr(loop, "time", lambda: time[0])
        run = run_with(lambda: ends[0] - time[0], [])
        told, work = loop.create_task(run.wait_cancelled()), loop.create_task(asyncio.sleep(2.0))
        await asyncio.sleep(0)
        if renewed:
            ends[0] = 9.0
        # Both are done when the process resumes.
        time[0] = 5.0
        done, waiting = await asyncio.wait([told, work], return_when=asyncio.FIRST_COMPLETED)
        for task in waiting:
            task.cancel()
        return told in done, work in done

    assert asyncio.run(scenario()) == (not renewed, True)


def test_a_wait_that_begins_after_the_lease_ends_at_once() -> None:
    run = run_with(lambda: 0.0, [])
    assert asyncio.run(run.wait_cancelled()) == StopReason.LEASE.value
