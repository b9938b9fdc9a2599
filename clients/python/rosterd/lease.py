"""The worker's lease: until when it may believe that nobody else runs its items.

It counts from when the last acknowledged heartbeat (at first the Hello) was *sent*; the coordinator counts from when
it received it, which is later. So nobody needs synchronized clocks.
"""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from ._proto import worker_pb2

# How much faster than ours a coordinator's clock may run.
DRIFT = 0.005
DEFAULT_LEASE = 5.0
DEFAULT_INTERVAL = 1.0


def seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


class Lease:
    def __init__(self) -> None:
        self._length = DEFAULT_LEASE
        self._interval = DEFAULT_INTERVAL
        self._stop_budget = 0.0
        # A job may ask for a shorter lease; kept over a reconnect, so that a lease never grows by mistake.
        self._by_job: dict[str, tuple[float, float]] = {}
        self._since: float | None = None
        self._sequence = 0
        self._sent: dict[int, float] = {}

    @property
    def length(self) -> float:
        return min([self._length, *(length for length, _ in self._by_job.values())])

    @property
    def interval(self) -> float:
        agreed = min([self._interval, *(interval for _, interval in self._by_job.values())])
        return min(agreed, self.length / 3)

    @property
    def patience(self) -> float:
        """How long a stream may be silent before it is given up."""
        return self.length * 2 / 3

    @property
    def stops_at(self) -> float:
        """When runs must be told to stop; in the past where there is no lease."""
        if self._since is None:
            return float("-inf")
        # A budget as long as a short lease would leave nothing to run in.
        budget = min(self._stop_budget, self.length / 3)
        return self._since + self.length * (1 - DRIFT) - budget

    def valid(self, boot: float) -> bool:
        return boot < self.stops_at

    def begin_stream(self) -> None:
        """Heartbeats of a left stream are acknowledged no more."""
        self._sequence = 0
        self._sent.clear()

    def welcomed(self, hello_sent: float, welcome: worker_pb2.Welcome, same_identity: bool) -> None:
        self._length = seconds(welcome.lease) or DEFAULT_LEASE
        self._interval = seconds(welcome.heartbeat_interval) or DEFAULT_INTERVAL
        self._stop_budget = seconds(welcome.stop_budget)
        if not same_identity or self._since is None:
            self._since = hello_sent
        else:
            self._since = max(self._since, hello_sent)

    def agreed(self, registered: worker_pb2.Registered) -> None:
        length = seconds(registered.lease)
        if length > 0:
            interval = seconds(registered.heartbeat_interval) or length / 3
            self._by_job[registered.job] = (length, interval)

    def forget(self, job: str) -> None:
        self._by_job.pop(job, None)

    def heartbeat(self, boot: float) -> int:
        """Numbers a heartbeat that is sent now."""
        self._sequence += 1
        self._sent[self._sequence] = boot
        return self._sequence

    def acknowledged(self, sequence: int) -> None:
        sent = self._sent.get(sequence)
        if sent is None or self._since is None:
            return
        self._since = max(self._since, sent)
        for older in [number for number in self._sent if number <= sequence]:
            del self._sent[older]
