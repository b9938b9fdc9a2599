"""A scripted coordinator: a real gRPC server on loopback whose every frame a test writes.

It lives on a thread of its own, so a test may block, and so may the worker's loop. It acknowledges heartbeats by itself
while `answer_heartbeats` is set; everything else waits for the test.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import AsyncIterator
from typing import Any

import frames as f
import grpc
import grpc.aio

from rosterd._proto import worker_pb2

PATIENCE = 20.0
QUIET = ("heartbeat", "run_started", "run_progress")


class Session:
    """One stream of a worker."""

    def __init__(self, coordinator: Coordinator, metadata: dict[str, str]) -> None:
        self._coordinator = coordinator
        self.metadata = metadata
        self.arrived: queue.Queue[worker_pb2.SessionRequest | None] = queue.Queue()
        self.outgoing: asyncio.Queue[worker_pb2.SessionResponse | grpc.StatusCode | None] = asyncio.Queue()
        self.heartbeats: list[worker_pb2.Heartbeat] = []
        self.closed = threading.Event()

    def send(self, *frames: worker_pb2.SessionResponse) -> None:
        for frame in frames:
            self._coordinator.call(self.outgoing.put_nowait, frame)

    def end(self, code: grpc.StatusCode | None = None) -> None:
        """Ends the stream from this side."""
        self._coordinator.call(self.outgoing.put_nowait, code)

    def expect(self, kind: str, skip: tuple[str, ...] = QUIET) -> Any:
        """The next frame, which must be of this kind; the kinds in `skip` are skipped."""
        until = time.monotonic() + PATIENCE
        while True:
            frame = self.arrived.get(timeout=max(0.01, until - time.monotonic()))
            got = "the end" if frame is None else frame.WhichOneof("frame")
            if frame is not None and got == kind:
                return getattr(frame, kind)
            assert got in skip, f"wanted {kind}, got {frame}"

    def expect_heartbeat_with(self, *tokens: int) -> None:
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            frame = self.arrived.get(timeout=max(0.01, until - time.monotonic()))
            assert frame is not None, "the stream ended"
            in_flight = [run.token for run in frame.heartbeat.runs_in_flight]
            if frame.WhichOneof("frame") == "heartbeat" and sorted(in_flight) == sorted(tokens):
                return
        raise AssertionError(f"no heartbeat with {tokens}")

    def greet(self, worker_id: str = "w1", job: str = "hello", **welcome: Any) -> worker_pb2.Hello:
        hello: worker_pb2.Hello = self.expect("hello")
        self.send(f.welcome(worker_id, **welcome))
        register = self.expect("register")
        assert register.job == job
        self.send(f.registered(job))
        return hello

    def farewell(self) -> None:
        """A leave with nothing left in flight."""
        self.expect("drain_request")
        self.send(f.draining())
        self.expect("goodbye")
        self.send(f.goodbye_ack())


class Coordinator:
    def __init__(self) -> None:
        self.answer_heartbeats = True
        self.sessions: queue.Queue[Session] = queue.Queue()
        self.open_sessions = 0
        self.most_open_sessions = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Coordinator:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._serve(), self._loop).result(PATIENCE)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._server.stop(0), self._loop).result(PATIENCE)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE)

    def call(self, function: Any, *arguments: Any) -> None:
        self._loop.call_soon_threadsafe(function, *arguments)

    def accept(self) -> Session:
        return self.sessions.get(timeout=PATIENCE)

    async def _serve(self) -> None:
        self._server = grpc.aio.server()
        handler = grpc.stream_stream_rpc_method_handler(
            self._session,
            request_deserializer=worker_pb2.SessionRequest.FromString,
            response_serializer=worker_pb2.SessionResponse.SerializeToString,
        )
        service = grpc.method_handlers_generic_handler("rosterd.v1.WorkerService", {"Session": handler})
        self._server.add_generic_rpc_handlers((service,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()

    async def _session(self, requests: AsyncIterator[worker_pb2.SessionRequest], context: Any) -> None:
        metadata = {str(name): str(value) for name, value in context.invocation_metadata()}
        session = Session(self, metadata)
        self.open_sessions += 1
        self.most_open_sessions = max(self.most_open_sessions, self.open_sessions)
        self.sessions.put(session)
        reader = asyncio.ensure_future(self._read(requests, session))
        try:
            while True:
                frame = await session.outgoing.get()
                if frame is None:
                    return
                if isinstance(frame, grpc.StatusCode):
                    await context.abort(frame, "as the script says")
                await context.write(frame)
        finally:
            self.open_sessions -= 1
            reader.cancel()
            session.closed.set()
            session.arrived.put(None)

    async def _read(self, requests: AsyncIterator[worker_pb2.SessionRequest], session: Session) -> None:
        async for frame in requests:
            if frame.WhichOneof("frame") == "heartbeat":
                session.heartbeats.append(frame.heartbeat)
                if self.answer_heartbeats:
                    session.outgoing.put_nowait(f.heartbeat_ack(frame.heartbeat.sequence))
            session.arrived.put(frame)
