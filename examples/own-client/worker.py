"""A worker without a client library: the protocol's generated code, and the rules that a worker cannot leave out.

    python -m grpc_tools.protoc -I proto --python_out gen --grpc_python_out gen rosterd/v1/types.proto rosterd/v1/worker.proto
    PYTHONPATH=gen ROSTERD_SERVER=localhost:7700 python examples/own-client/worker.py backup
"""

import os
import queue
import random
import signal
import socket
import sys
import threading
import time

import grpc
from rosterd.v1 import types_pb2 as types
from rosterd.v1 import worker_pb2 as wire
from rosterd.v1.worker_pb2_grpc import WorkerServiceStub


class Worker:
    """Handlers get the Trigger and `must_stop`, which they ask now and then; what they return is the output."""

    def __init__(self, handlers, slots=4):
        self.servers = os.environ.get("ROSTERD_SERVER", "localhost:7700").split(",")
        self.handlers, self.slots = handlers, slots
        self.events = queue.SimpleQueue()  # what comes, from all threads: one thread decides
        self.stopped = {}  # every run in user code, and the outcome that it was told to stop with
        self.reports = {}  # every report that is not acknowledged
        self.highest = {}  # the highest token of each item
        self.worker_id = self.resume_key = ""
        self.stream = self.losses = 0
        self.lease_until = 0.0
        self.leaving = self.left = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.events.put((None, "signal", None)))

    def run(self):
        while not self.left:
            self.talk(self.servers[self.stream % len(self.servers)])
            time.sleep(0 if self.losses == 0 else min(10, 0.1 * 2**self.losses) * random.uniform(0.5, 1))
            self.losses += 1

    def talk(self, server):
        """One stream, from its Hello to its end."""
        self.stream += 1
        self.out, self.beats, self.live = queue.SimpleQueue(), {}, False
        credential = os.environ.get("ROSTERD_CREDENTIAL", "")
        self.say(hello=wire.Hello(
            worker_id=self.worker_id, resume_key=self.resume_key, stream_number=self.stream, slots=self.slots,
            address=socket.gethostname(), client="own-client", runs_in_flight=self.in_flight(),
            jobs=list(self.handlers) if self.worker_id else [],
        ))  # fmt: skip
        sent, self.interval, heard, beat_at = time.monotonic(), 1.0, time.monotonic(), float("inf")
        self.patience = 3.0
        with grpc.insecure_channel(server) as channel:
            metadata = [("authorization", f"Bearer {credential}")] if credential else []
            call = WorkerServiceStub(channel).Session(iter(self.out.get, None), metadata=metadata)
            threading.Thread(target=self.read, args=(self.stream, call), daemon=True).start()
            while not self.left and time.monotonic() < heard + self.patience:
                wait = min(beat_at, heard + self.patience) - time.monotonic()
                try:
                    stream, what, value = self.events.get(timeout=max(0.0, wait))
                except queue.Empty:
                    pass
                else:
                    if stream == self.stream and what == "lost":
                        break
                    if stream == self.stream:  # of one that was left nothing counts
                        heard = time.monotonic()
                    if stream in (None, self.stream):
                        self.on(what, value, sent)
                if self.live and time.monotonic() >= min(beat_at, sent + self.interval):
                    self.beat()
                    beat_at = time.monotonic() + self.interval
            self.live = False
            self.out.put(None)
            call.cancel()

    def read(self, stream, call):
        try:
            for frame in call:
                what = frame.WhichOneof("frame")
                if what:  # what this version does not know is ignored
                    self.events.put((stream, what, getattr(frame, what)))
        except grpc.RpcError as error:
            print("stream lost:", error.code(), error.details(), file=sys.stderr)
        self.events.put((stream, "lost", None))

    def say(self, **frame):
        self.out.put(wire.SessionRequest(**frame))

    def beat(self):
        self.beats[len(self.beats) + 1] = time.monotonic()
        self.say(heartbeat=wire.Heartbeat(sequence=len(self.beats), runs_in_flight=self.in_flight()))

    def in_flight(self):
        keys = {**self.stopped, **self.reports}
        return [types.RunRef(job=job, item=item, token=token) for job, item, token in keys]

    def on(self, what, value, sent):
        if what == "welcome" and not self.live:
            if self.worker_id not in ("", value.worker_id):  # marked dead meanwhile: nothing of it is believed
                self.reports.clear()
                self.stopped = dict.fromkeys(self.stopped, "nobody")
            self.worker_id, self.resume_key, self.live = value.worker_id, value.resume_key, True
            self.interval = value.heartbeat_interval.ToNanoseconds() / 1e9
            self.lease = value.lease.ToNanoseconds() / 1e9
            self.budget = min(value.stop_budget.ToNanoseconds() / 1e9, self.lease / 4) + self.lease * 0.005
            self.patience, self.lease_until = self.lease * 2 / 3, sent + self.lease - self.budget
            for job in () if self.leaving else self.handlers:
                self.say(register=wire.Register(job=job, handler_type=job))
            for report in self.reports.values():
                self.say(run_completed=report)
            if self.leaving:
                self.say(drain_request=wire.DrainRequest())
        elif what == "heartbeat_ack" and value.sequence in self.beats:
            self.losses = 0  # the lease counts from when the heartbeat was sent
            self.lease_until = max(self.lease_until, self.beats[value.sequence] + self.lease - self.budget)
        elif what == "trigger":
            self.trigger(value)
        elif what == "cancel":
            key = (value.run.job, value.run.item, value.run.token)
            outcomes = {wire.CANCEL_REASON_FENCED: "ABORTED", wire.CANCEL_REASON_TIMED_OUT: "TIMED_OUT"}
            if key in self.stopped and (not self.stopped[key] or value.reason == wire.CANCEL_REASON_FENCED):
                self.stopped[key] = outcomes.get(value.reason, "CANCELLED")
        elif what == "report_ack":
            self.reports.pop((value.run.job, value.run.item, value.run.token), None)
        elif what in ("signal", "drain", "shutdown") and not self.leaving:
            self.leaving = True
            if self.live:
                self.say(drain_request=wire.DrainRequest())
            self.left = not self.worker_id
        elif what == "goodbye_ack":
            self.left = True
        elif what == "ended":
            self.ended(*value)
        self.drained = what == "draining" or (what != "welcome" and getattr(self, "drained", False))
        if self.live and self.leaving and self.drained and not self.stopped and not self.reports:
            self.say(goodbye=wire.Goodbye())
            self.drained = False

    def trigger(self, trigger):
        key = job, item, token = trigger.run.job, trigger.run.item, trigger.run.token
        if key in self.stopped or key in self.reports:
            return  # in flight, as every heartbeat says
        older = [run for run in self.stopped if run[:2] == key[:2]]
        if token > self.highest.get(key[:2], -1):
            self.highest[key[:2]] = token
            self.stopped.update(dict.fromkeys(older, "ABORTED"))
            free = len(self.stopped) < self.slots and time.monotonic() < self.lease_until
            if not older and free and job in self.handlers:
                self.stopped[key] = ""
                threading.Thread(target=self.perform, args=(key, trigger), daemon=True).start()
                return
        self.report(key, "NOT_STARTED", error="the token is too low, or there is no lease, slot or handler")

    def perform(self, key, trigger):
        def must_stop():
            return bool(self.stopped.get(key)) or time.monotonic() >= self.lease_until

        try:
            outcome, text = "SUCCEEDED", self.handlers[key[0]](trigger, must_stop) or ""
        except Exception as error:
            outcome, text = "FAILED", str(error)
        self.events.put((None, "ended", (key, "ABORTED" if must_stop() else outcome, text)))

    def ended(self, key, outcome, text):
        why = self.stopped.pop(key)
        if why != "nobody":
            kind = "output" if outcome == "SUCCEEDED" else "error"
            self.report(key, why or outcome, **{kind: text[:8000]})

    def report(self, key, outcome, **text):
        job, item, token = key
        run, outcome = types.RunRef(job=job, item=item, token=token), f"RUN_OUTCOME_{outcome}"
        self.reports[key] = wire.RunCompleted(run=run, outcome=outcome, **text)
        if self.live:
            self.say(run_completed=self.reports[key])


def hello(trigger, must_stop):
    print(f"item {trigger.run.item} of {trigger.sharding_total_count}, token {trigger.run.token}")


if __name__ == "__main__":
    Worker({job: hello for job in sys.argv[1:] or ["hello"]}).run()
