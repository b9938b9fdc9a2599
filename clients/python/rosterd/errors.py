"""What a user of this package can meet. All are RosterdErrors, but for Cancelled and Fatal, which handlers raise."""

from __future__ import annotations


class RosterdError(Exception):
    """The worker cannot go on, or was told what cannot be."""


class InvalidOption(RosterdError, ValueError):
    """An option or a job's configuration that cannot be; the message says which, and what to give instead."""


class JobRefused(RosterdError):
    """The coordinator refused the job, and the worker has no other."""

    def __init__(self, code: str, message: str, job: str = "") -> None:
        super().__init__(f"job {job!r} was refused: {code}: {message}")
        self.code = code
        self.message = message
        self.job = job


class Rejected(RosterdError):
    """Every coordinator rejected this worker before it was ever welcomed: credential, namespace or a bad Hello."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"the coordinator rejected this worker: {code}: {message}")
        self.code = code
        self.message = message


class LeaveTimedOut(RosterdError):
    """The worker left, and no coordinator acknowledged it in time: its runs count as crashed."""

    def __init__(self, in_flight: int) -> None:
        super().__init__(f"left without acknowledgement, {in_flight} runs in flight")
        self.in_flight = in_flight


class Cancelled(Exception):
    """Raised in a handler to end a run that was cancelled, or by its own choice: the run counts as cancelled."""


class Fatal(Exception):
    """Raised in a handler: the run has failed, and is not tried again whatever the job says of retries."""
