"""The exceptions of this package. All are RosterdErrors, except Cancelled and Fatal, which handlers raise."""

from __future__ import annotations


class RosterdError(Exception):
    """The worker cannot continue, or its configuration is invalid."""


class InvalidOption(RosterdError, ValueError):
    """An option or a job's configuration is not valid; the message names it and the remedy."""


class JobRefused(RosterdError):
    """The coordinator refused the job, and the worker has no other."""

    def __init__(self, code: str, message: str, job: str = "") -> None:
        super().__init__(f"job {job!r} was refused: {code}: {message}")
        self.code = code
        self.message = message
        self.job = job


class Rejected(RosterdError):
    """Every coordinator rejected this worker before any welcomed it: its credential, namespace or Hello is wrong."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"the coordinator rejected this worker: {code}: {message}")
        self.code = code
        self.message = message


class LeaveTimedOut(RosterdError):
    """The worker left, and no coordinator acknowledged its goodbye in time: its runs count as crashed."""

    def __init__(self, in_flight: int) -> None:
        super().__init__(f"left without acknowledgement, {in_flight} runs in flight")
        self.in_flight = in_flight


class Cancelled(Exception):
    """Raised in a handler to end a run that was cancelled, or to cancel it: the run counts as cancelled."""


class Fatal(Exception):
    """Raised in a handler: the run has failed, and is not retried, whatever the job's retry policy."""
