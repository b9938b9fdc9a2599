"""The worker's lease: until when it may assume that no other worker runs its items.

It counts from when the last acknowledged heartbeat (at first the Hello) was *sent*; the coordinator counts from when
it received it, which is later. So no synchronized clocks are needed.
"""

from __future__ import annotations

from google.protobuf.duration_pb2 import Duration

from ._proto import worker_pb2

# How much faster than ours a coordinator's clock may run.
DRIFT = 0.005
DEFAULT_LEASE = 5.0
DEFAULT_INTERVAL = 1.0
DEFAULT_STOP_BUDGET = 0.5


def seconds(duration: Duration) -> float:
    return duration.seconds + duration.nanos / 1e9


def span(length: float) -> Duration:
    nanos = round(length * 1e9)
    return Duration(seconds=nanos // 10**9, nanos=nanos % 10**9)


class Lease:
    def __init__(self) -> None:
        self._length = DEFAULT_LEASE
        self._interval = DEFAULT_INTERVAL
        self._stop_budget = DEFAULT_STOP_BUDGET
        # The shortest lease and interval that a job has requested. It never grows back under one identity: the
        # coordinator uses what the heartbeats state, and would mark dead a worker that assumes more.
        self._agreed: tuple[float, float] | None = None
        self._since: float | None = None
        self._sequence = 0
        self._sent: dict[int, float] = {}

    @property
    def length(self) -> float:
        return self._length if self._agreed is None else min(self._length, self._agreed[0])

    @property
    def interval(self) -> float:
        agreed = self._interval if self._agreed is None else min(self._interval, self._agreed[1])
        return min(agreed, self.length / 3)

    @property
    def since(self) -> float | None:
        """When the last acknowledged heartbeat was sent; None: none was."""
        return self._since

    @property
    def patience(self) -> float:
        """How long a stream may be silent before the worker abandons it."""
        return self.length * 2 / 3

    @property
    def stops_at(self) -> float:
        """When runs must stop; in the past if there is no lease."""
        if self._since is None:
            return float("-inf")
        # A quarter of a short lease, so that one heartbeat may get lost.
        budget = min(self._stop_budget, self.length / 4)
        return self._since + self.length * (1 - DRIFT) - budget

    def valid(self, boot: float) -> bool:
        return boot < self.stops_at

    def begin_stream(self) -> None:
        """Heartbeats of an abandoned stream are no longer acknowledged."""
        self._sequence = 0
        self._sent.clear()

    def welcomed(self, hello_sent: float, welcome: worker_pb2.Welcome, same_identity: bool) -> None:
        self._length = seconds(welcome.lease) or DEFAULT_LEASE
        self._interval = seconds(welcome.heartbeat_interval) or DEFAULT_INTERVAL
        self._stop_budget = seconds(welcome.stop_budget) if welcome.HasField("stop_budget") else DEFAULT_STOP_BUDGET
        if not same_identity:
            self._agreed = None
        if not same_identity or self._since is None:
            self._since = hello_sent
        else:
            self._since = max(self._since, hello_sent)

    def agreed(self, registered: worker_pb2.Registered) -> None:
        length = seconds(registered.lease)
        if length > 0:
            interval = seconds(registered.heartbeat_interval) or length / 3
            before = self._agreed or (length, interval)
            self._agreed = (min(length, before[0]), min(interval, before[1]))

    def heartbeat(self, boot: float) -> int:
        """The number of a heartbeat that is sent now."""
        self._sequence += 1
        self._sent[self._sequence] = boot
        return self._sequence

    def acknowledged(self, sequence: int) -> bool:
        """Whether the heartbeat renews the lease: one that was not sent, or was acknowledged before, does not."""
        sent = self._sent.get(sequence)
        if sent is None or self._since is None:
            return False
        self._since = max(self._since, sent)
        for older in [number for number in self._sent if number <= sequence]:
            del self._sent[older]
        return True
