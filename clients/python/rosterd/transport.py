"""One stream to one coordinator over gRPC. Knows frames only as messages, not their meaning."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import grpc
import grpc.aio

from . import __about__
from ._proto import worker_pb2
from .events import Event, Lost, Opened, Received
from .options import Options, exposed
from .route import secure

METHOD = "/rosterd.v1.WorkerService/Session"
# Frames that wait to be written; the machine's credits and rates keep it far below. If it is full, the worker abandons
# the stream.
MAX_WAITING = 16 * 1024
CLOSE_TIMEOUT = 1.0
STATUS_TIMEOUT = 0.5
T = TypeVar("T")
_LOG = logging.getLogger("rosterd")

_CHANNEL_OPTIONS: list[tuple[str, int | str]] = [
    ("grpc.keepalive_time_ms", 20_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.max_receive_message_length", 4 * 1024 * 1024),
    ("grpc.max_send_message_length", 4 * 1024 * 1024),
    # Flow control is by credits in the protocol: windows are large, and grow with the path.
    ("grpc.http2.lookahead_bytes", 4 * 1024 * 1024),
    ("grpc.http2.bdp_probe", 1),
    ("grpc.enable_retries", 0),
    # A new stream is a new connection, whatever happened to the old one.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.primary_user_agent", f"rosterd-python/{__about__.VERSION}"),
]


class Stream:
    def __init__(self, number: int, address: str, options: Options, feed: Callable[[Event], None]) -> None:
        self._number = number
        self._address = address
        self._options = options
        self._feed = feed
        self._waiting: asyncio.Queue[worker_pb2.SessionRequest] = asyncio.Queue(MAX_WAITING)
        self._task: asyncio.Task[None] | None = None

    def open(self, after: asyncio.Task[None] | None) -> None:
        """Connects once `after`, the closing of the stream before, is done."""
        self._task = asyncio.get_running_loop().create_task(self._live(after))

    def send(self, frame: worker_pb2.SessionRequest) -> bool:
        """False: the coordinator has not read for so long that the stream is useless."""
        try:
            self._waiting.put_nowait(frame)
        except asyncio.QueueFull:
            return False
        return True

    async def close(self) -> None:
        task, self._task = self._task, None
        if task is not None and not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=CLOSE_TIMEOUT)

    async def _live(self, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait([after], timeout=CLOSE_TIMEOUT)
        code, detail = "", "the coordinator ended the stream"
        try:
            channel = self._channel()
            try:
                code, detail = await self._converse(channel)
            finally:
                await channel.close()
        except grpc.aio.AioRpcError as error:
            code, detail = error.code().name, error.details() or "no details"
        except Exception as error:
            _LOG.debug("stream %d failed", self._number, exc_info=True)
            detail = f"{type(error).__name__}: {error}"
        if secure(self._address):
            code, detail = explained(code, f"{self._address}: {detail}" if "https://" not in detail else detail)
        self._feed(Lost(self._number, code, detail))

    async def _converse(self, channel: grpc.aio.Channel) -> tuple[str, str]:
        ready = await self._connected(channel)
        method = channel.stream_stream(
            METHOD,
            request_serializer=worker_pb2.SessionRequest.SerializeToString,
            response_deserializer=worker_pb2.SessionResponse.FromString,
        )
        credential = self._options.credential
        metadata = grpc.aio.Metadata(("authorization", f"Bearer {credential}")) if credential else None
        call = method(metadata=metadata)
        outcome = _Outcome(call)
        writer: asyncio.Task[None] | None = None
        try:
            if ready:
                self._feed(Opened(self._number))
                writer = asyncio.get_running_loop().create_task(self._write(call))
                # A failed call reports its error below.
                with contextlib.suppress(grpc.aio.AioRpcError):
                    while isinstance(frame := await call.read(), worker_pb2.SessionResponse):
                        self._feed(Received(self._number, frame))
            # Not ready: the call fails at once, and its status says why there is no connection.
            return await outcome.get()
        finally:
            if writer is not None:
                writer.cancel()
            call.cancel()

    async def _connected(self, channel: grpc.aio.Channel) -> bool:
        state = channel.get_state(try_to_connect=True)
        while state not in (grpc.ChannelConnectivity.READY, grpc.ChannelConnectivity.TRANSIENT_FAILURE):
            await channel.wait_for_state_change(state)
            state = channel.get_state(try_to_connect=True)
        return state is grpc.ChannelConnectivity.READY

    async def _write(self, call: grpc.aio.StreamStreamCall) -> None:  # type: ignore[type-arg]
        # A call that has ended reports that to its reader.
        with contextlib.suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
            while True:
                await call.write(await self._waiting.get())

    def _channel(self) -> grpc.aio.Channel:
        target = target_of(self._address)
        if self._options.exposes_credential(self._address):
            # A coordinator may name others: the credential goes to none of them in the clear.
            raise ValueError(exposed(self._address))
        if not secure(self._address):
            return grpc.aio.insecure_channel(target, options=_CHANNEL_OPTIONS)
        credentials = grpc.ssl_channel_credentials(*self._options.certificates())
        return grpc.aio.secure_channel(target, credentials, options=_CHANNEL_OPTIONS)


class _Outcome:
    """How a call ended, by the coordinator's status.

    A coordinator that ends the stream while a frame is being written makes gRPC report two statuses, in any order: the
    coordinator's, and that writing failed. Only the first is informative.
    """

    def __init__(self, call: grpc.aio.StreamStreamCall) -> None:  # type: ignore[type-arg]
        self._call = call
        self._found: tuple[str, str] | None = None
        self._told = asyncio.Event()
        call.add_done_callback(self._ended)

    def _ended(self, _: object) -> None:
        # The status is there, so neither waits; later, it may be the other one.
        code, detail = _at_once(self._call.code()), _at_once(self._call.details())
        if self._found is None and code is not None and detail != "Internal error from Core":
            self._found = (code.name, detail or "the coordinator ended the stream")
            self._told.set()

    async def get(self) -> tuple[str, str]:
        # Ends once there is a status, whichever.
        code, detail = await self._call.code(), await self._call.details()
        with contextlib.suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._told.wait(), STATUS_TIMEOUT)
        return self._found or (code.name, detail or "the coordinator ended the stream")


def _at_once(answer: Coroutine[Any, Any, T]) -> T | None:
    """The result of a coroutine that does not wait."""
    try:
        answer.send(None)
    except StopIteration as done:
        return cast(T, done.value)
    answer.close()
    return None


_UNKNOWN = (
    "its certificate is from an authority that is unknown here: name the file with the CA's certificate "
    "(ROSTERD_CA, root_certificates)"
)
_OTHER_NAME = "its certificate is not for this name: connect by a name that it has"
#: Errors of gRPC's TLS, with advice. gRPC only provides their texts.
_REMEDIES = (
    ("unable to get local issuer", _UNKNOWN),
    ("self-signed certificate", _UNKNOWN),
    ("self signed certificate", _UNKNOWN),
    ("certificate has expired", "its certificate has expired: renew it there, and look at this machine's clock"),
    ("Hostname Verification Check failed", _OTHER_NAME),
    ("Peer name", _OTHER_NAME),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS: use http:// where the network is trusted"),
    ("CERTIFICATE_REQUIRED", "it wants a client certificate: give one and its key (ROSTERD_CERT, ROSTERD_KEY)"),
    ("CERTIFICATE_VERIFY_FAILED", _UNKNOWN),
)


def explained(code: str, detail: str) -> tuple[str, str]:
    """A TLS failure with advice; as a rejection, since retrying does not fix it."""
    for text, remedy in _REMEDIES:
        if text in detail:
            return "UNAUTHENTICATED", f"{remedy} ({detail})"
    return code, detail


def target_of(address: str) -> str:
    """The target for gRPC; without a port, the scheme's default."""
    if "://" not in address:
        return address
    url = urlsplit(address)
    return url.netloc if url.port else f"{url.netloc}:{443 if url.scheme == 'https' else 80}"
