"""What a worker can be told, and the only file that reads the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

DEFAULT_SERVER = "localhost:7700"
MAX_SLOTS = 4096


def default_slots() -> int:
    return max(4, 2 * (os.cpu_count() or 1))


@dataclass(frozen=True)
class Options:
    """Times are in seconds. What is not given comes from the environment where the field says so."""

    #: Coordinators, `host:port`, `http://host:port` or `https://host:port`; ROSTERD_SERVER, comma separated.
    servers: Sequence[str] = ()
    #: Sent as `authorization: Bearer …`; ROSTERD_CREDENTIAL.
    credential: str | None = field(default=None, repr=False)
    #: The namespace this worker expects; empty: whichever is served.
    namespace: str = ""
    #: This machine as operators know it, a label; empty: the address that faces the coordinator.
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    #: How many runs may be in hand at a time, over all jobs.
    slots: int = field(default_factory=default_slots)
    #: How long runs may still take when the worker leaves; then they are cancelled and handed back.
    drain_timeout: float = 30.0
    #: How long the goodbye may take, over all coordinators, once the runs have ended.
    leave_timeout: float = 10.0
    connect_timeout: float = 3.0
    #: The longest pause between two attempts to connect.
    longest_delay: float = 10.0
    #: PEM; None: the system's roots. Only used with `https://`.
    root_certificates: bytes | None = field(default=None, repr=False)
    #: PEM: the worker's own certificate and key, where the coordinator asks for one.
    client_certificate: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        servers = tuple(self.servers) or _listed(os.environ.get("ROSTERD_SERVER", "")) or (DEFAULT_SERVER,)
        credential = os.environ.get("ROSTERD_CREDENTIAL") if self.credential is None else self.credential
        object.__setattr__(self, "servers", servers)
        object.__setattr__(self, "credential", credential or None)
        defects = list(self._defects())
        if defects:
            raise ValueError("; ".join(defects))

    def _defects(self) -> list[str]:
        found = []
        for server in self.servers:
            if "://" in server and urlsplit(server).scheme not in ("http", "https"):
                found.append(f"server {server!r}: only http:// and https:// are known")
        if not 1 <= self.slots <= MAX_SLOTS:
            found.append(f"slots must be 1 to {MAX_SLOTS}, not {self.slots}")
        if len(self.labels) > 32 or any(len(text.encode()) > 128 for pair in self.labels.items() for text in pair):
            found.append("labels: at most 32 of 128 bytes")
        for name in ("drain_timeout", "leave_timeout", "connect_timeout", "longest_delay"):
            if getattr(self, name) < 0:
                found.append(f"{name} must not be negative")
        if (self.client_certificate is None) != (self.client_key is None):
            found.append("client_certificate and client_key go together")
        return found


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
