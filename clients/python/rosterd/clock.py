"""The only file that reads a clock."""

from __future__ import annotations

import time
from typing import NamedTuple

# CLOCK_BOOTTIME goes on while the machine sleeps, so that a lease ends then too.
_BOOT = getattr(time, "CLOCK_BOOTTIME", None)


class Now(NamedTuple):
    """One instant on both clocks, in seconds."""

    # For leases and timers: never set back, of no known origin.
    boot: float
    # For people and for comparison with the coordinator's times: since 1970, UTC.
    wall: float


def boot() -> float:
    return time.monotonic() if _BOOT is None else time.clock_gettime(_BOOT)


def now() -> Now:
    return Now(boot(), time.time())
