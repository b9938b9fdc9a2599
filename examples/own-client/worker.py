"""A worker without a client: only generated code, and the mandatory rules of the protocol.

    pip install grpcio-tools
    python -m grpc_tools.protoc -I proto --python_out=. --grpc_python_out=. rosterd/v1/types.proto rosterd/v1/worker.proto
    PYTHONPATH=. ROSTERD_SERVER=localhost:7700 python examples/own-client/worker.py hello
"""

import os, queue, random, signal, socket, sys, threading, time  # noqa: E401

import grpc
from google.protobuf.duration_pb2 import Duration
from rosterd.v1 import types_pb2 as types
from rosterd.v1 import worker_pb2 as wire
from rosterd.v1.worker_pb2_grpc import WorkerServiceStub

OF_CANCEL = {wire.CANCEL_REASON_FENCED: "ABORTED", wire.CANCEL_REASON_TIMED_OUT: "TIMED_OUT"}


def seconds(duration):
    return duration.seconds + duration.nanos / 1e9


class Worker:
    """One thread decides; the others read the stream and run handlers, and put events into `events`."""

    def __init__(self, handlers, slots=4):
        self.handlers, self.slots = handlers, slots  # a handler gets the Trigger, and a function: must it stop?
        self.servers = os.environ.get("ROSTERD_SERVER", "localhost:7700").split(",")
        self.events = queue.SimpleQueue()
        self.running = {}  # every run in user code, and its outcome if it was told to stop
        self.reports = {}  # every report that is not acknowledged
        self.highest = {}  # the highest token of each item
        self.worker_id = self.resume_key = ""
        self.stream = self.losses = self.lease_until = 0
        self.shortest = float("inf")
        self.live = self.leaving = self.drained = self.goodbye = self.left = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: self.events.put((None, "signal", None)))

    def run(self):
        while not self.left:
            self.talk(self.servers[self.stream % len(self.servers)])
            pause = min(10, 0.1 * 2**self.losses) * random.uniform(0.5, 1) if self.losses else 0
            self.losses += 1
            time.sleep(0 if self.left else pause)

    def talk(self, server):
        """One stream, from Hello to its loss."""
        self.stream, self.out, self.beats, self.acknowledged = self.stream + 1, queue.SimpleQueue(), [], 0
        credential = os.environ.get("ROSTERD_CREDENTIAL")
        with grpc.insecure_channel(server) as channel:
            metadata = [("authorization", f"Bearer {credential}")] if credential else None
            call = WorkerServiceStub(channel).Session(iter(self.out.get, None), metadata=metadata)
            threading.Thread(target=self.read, args=(self.stream, call), daemon=True).start()
            self.hello_at = self.heard = self.renewed = self.beat_at = time.monotonic()
            self.patience, self.lease, self.interval = 6.0, 4.5, 1.0
            jobs = list(self.handlers) if self.worker_id else []
            names = {"worker_id": self.worker_id, "resume_key": self.resume_key, "stream_number": self.stream}
            self.say(hello=wire.Hello(**names, slots=self.slots, address=socket.gethostname(), client="own-client",
                                      jobs=jobs, runs_in_flight=self.in_flight()))  # fmt: skip
            while not self.left and self.is_well():
                now = time.monotonic()
                if self.live and now >= self.beat_at + self.interval:
                    self.beat_at = now
                    self.beats.append(now)
                    self.say(heartbeat=wire.Heartbeat(sequence=len(self.beats), runs_in_flight=self.in_flight(),
                                                      lease=Duration(nanos=round(self.lease * 1e9) % 10**9,
                                                                     seconds=int(self.lease))))  # fmt: skip
                try:
                    stream, what, value = self.events.get(timeout=0.02)
                except queue.Empty:
                    continue
                if stream == self.stream and (what == "lost" or (what != "heartbeat_ack" and not self.is_well())):
                    break
                if stream in (None, self.stream):  # ignore frames of an abandoned stream
                    self.heard = time.monotonic() if stream else self.heard
                    if self.live or stream is None or what == "welcome":
                        getattr(self, f"on_{what}", lambda _: None)(value)  # ignore unknown frames
                    self.settle()
            self.live = self.drained = self.goodbye = False
            self.out.put(None)

    def is_well(self):
        """The stream is not silent, and renews the lease. A frozen process checks before it reads its socket."""
        end = max(self.lease_until, self.renewed + self.patience) if self.live else float("inf")
        return time.monotonic() < min(self.heard + self.patience, end)

    def read(self, stream, call):
        try:
            for frame in call:
                what = frame.WhichOneof("frame")
                self.events.put((stream, what or "nothing", getattr(frame, what) if what else None))
        except grpc.RpcError as error:
            print(f"stream {stream} is lost: {error.code()}: {error.details()}", file=sys.stderr)
        self.events.put((stream, "lost", None))

    def say(self, **frame):
        self.out.put(wire.SessionRequest(**frame))

    def in_flight(self):
        return [types.RunRef(job=job, item=item, token=token) for job, item, token in {**self.running, **self.reports}]

    # ---- frames from the coordinator

    def on_welcome(self, welcome):
        if self.live:
            return
        if self.worker_id not in ("", welcome.worker_id):  # it was marked dead: its reports are refused
            self.reports, self.running = {}, dict.fromkeys(self.running, "NOBODY")
            self.shortest = float("inf")
        self.worker_id, self.resume_key, self.live = welcome.worker_id, welcome.resume_key, True
        self.interval, self.budget = float("inf"), seconds(welcome.stop_budget)
        self.on_registered(welcome)
        self.lease_until, self.renewed = max(self.lease_until, self.hello_at + self.usable), time.monotonic()
        for job in self.handlers if not self.leaving else ():
            self.say(register=wire.Register(job=job, handler_type=job))
        for report in self.reports.values():
            self.say(run_completed=report)
        if self.leaving:
            self.say(drain_request=wire.DrainRequest())

    def on_registered(self, registered):  # a job may have a shorter lease: it applies to the whole worker
        self.shortest = min(self.shortest, seconds(registered.lease) or self.shortest)
        self.lease = self.shortest
        self.interval = min(self.interval, seconds(registered.heartbeat_interval) or self.interval, self.lease / 3)
        self.usable, self.patience = self.lease * 0.995 - min(self.budget, self.lease / 4), self.lease * 2 / 3

    def on_heartbeat_ack(self, ack):
        if self.acknowledged < ack.sequence <= len(self.beats):  # the lease counts from when it was sent
            self.acknowledged, self.renewed, self.losses = ack.sequence, time.monotonic(), 0
            self.lease_until = max(self.lease_until, self.beats[ack.sequence - 1] + self.usable)

    def on_trigger(self, trigger):
        key = job, item, token = trigger.run.job, trigger.run.item, trigger.run.token
        if key in self.running or key in self.reports:
            return  # in flight, as every heartbeat shows
        older = [other for other in self.running if other[:2] == key[:2]]
        if newest := token > self.highest.get(key[:2], -1):
            self.highest[key[:2]] = token
            self.running.update(dict.fromkeys(older, "ABORTED"))
        free = len(self.running) < self.slots and time.monotonic() < self.lease_until and not self.goodbye
        if newest and free and not older and job in self.handlers:
            self.running[key] = ""
            threading.Thread(target=self.perform, args=(key, trigger), daemon=True).start()
        else:
            self.report(key, "NOT_STARTED", error="no lease, slot or handler, or not the newest token of the item")

    def on_cancel(self, cancel):
        key = cancel.run.job, cancel.run.item, cancel.run.token
        if self.running.get(key) == "" or (key in self.running and cancel.reason == wire.CANCEL_REASON_FENCED):
            self.running[key] = OF_CANCEL.get(cancel.reason, "CANCELLED")

    def on_report_ack(self, ack):
        self.reports.pop((ack.run.job, ack.run.item, ack.run.token), None)

    def on_drain(self, _):
        if self.live and not self.leaving:
            self.say(drain_request=wire.DrainRequest())
        self.leaving, self.left = True, not self.worker_id

    on_shutdown = on_signal = on_drain

    def on_draining(self, _):
        self.drained = self.leaving

    def on_goodbye_ack(self, _):
        self.left = self.goodbye

    def settle(self):
        if self.live and self.drained and not self.goodbye and not self.running and not self.reports:
            self.goodbye = True
            self.say(goodbye=wire.Goodbye())

    # ---- runs

    def perform(self, key, trigger):
        def must_stop():  # also without a message: the clock ends the lease
            return bool(self.running.get(key)) or time.monotonic() >= self.lease_until

        outcome = "SUCCEEDED"
        try:
            text = self.handlers[key[0]](trigger, must_stop) or ""
        except Exception as error:
            outcome, text = "FAILED", repr(error)
        self.events.put((None, "ended", (key, "ABORTED" if must_stop() else outcome, text)))

    def on_ended(self, ended):
        key, outcome, text = ended
        if (told := self.running.pop(key)) != "NOBODY":
            self.report(key, told or outcome, **{"error" if outcome == "FAILED" else "output": text[:2000]})

    def report(self, key, outcome, **text):
        job, item, token = key
        run = types.RunRef(job=job, item=item, token=token)
        self.reports[key] = wire.RunCompleted(run=run, outcome=f"RUN_OUTCOME_{outcome}", **text)
        if self.live:
            self.say(run_completed=self.reports[key])


def hello(trigger, must_stop):
    print(f"item {trigger.run.item} of {trigger.sharding_total_count}, token {trigger.run.token}")


if __name__ == "__main__":
    Worker({job: hello for job in sys.argv[1:] or ["hello"]}).run()
