"""The options of a worker, and the only file that reads the environment."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .errors import InvalidOption
from .hooks import Hooks
from .route import secure

DEFAULT_SERVER = "localhost:7700"
MAX_SLOTS = 4096
MAX_PORT = 65_535


def default_slots() -> int:
    return max(4, 2 * (os.cpu_count() or 1))


@dataclass(frozen=True)
class Options:
    """Times are in seconds. Fields that are not set come from the environment if their description says so."""

    #: Coordinators, `host:port`, `http://host:port` or `https://host:port`; ROSTERD_SERVER, comma separated.
    servers: Sequence[str] = ()
    #: Sent as `authorization: Bearer …`; ROSTERD_CREDENTIAL.
    credential: str | None = field(default=None, repr=False)
    #: The namespace this worker expects; empty: any.
    namespace: str = ""
    #: This machine as operators know it, a label; empty: the address that faces the coordinator.
    address: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    #: How many runs may be in flight at a time, over all jobs.
    slots: int = field(default_factory=default_slots)
    #: How long runs may still take when the worker leaves; then they are cancelled and handed back.
    drain_timeout: float = 30.0
    #: How long the goodbye may take, over all coordinators, once the runs have ended.
    leave_timeout: float = 10.0
    connect_timeout: float = 3.0
    #: The longest pause between two attempts to connect.
    longest_delay: float = 10.0
    #: PEM, the authorities for coordinators at `https://` addresses; else the file that ROSTERD_CA names, else the
    #: roots that gRPC brings.
    root_certificates: bytes | None = field(default=None, repr=False)
    #: PEM: the worker's own certificate and key, if the coordinator requires one; else the files that ROSTERD_CERT
    #: and ROSTERD_KEY name.
    client_certificate: bytes | None = field(default=None, repr=False)
    client_key: bytes | None = field(default=None, repr=False)
    #: Send the credential also in plain text to another machine; ROSTERD_INSECURE_CREDENTIAL=true.
    insecure_credential: bool = False
    #: Hooks for metrics.
    hooks: Hooks | None = field(default=None, compare=False)
    #: Serves /healthz and /readyz over HTTP: a port (0: any free one) on 127.0.0.1, or `host:port`; None: off.
    health: int | str | None = None
    #: Files that the environment named: read again for each connection.
    _files: Mapping[str, str] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        servers = tuple(self.servers) or _listed(os.environ.get("ROSTERD_SERVER", "")) or (DEFAULT_SERVER,)
        credential = os.environ.get("ROSTERD_CREDENTIAL") if self.credential is None else self.credential
        object.__setattr__(self, "servers", servers)
        object.__setattr__(self, "credential", credential or None)
        if os.environ.get("ROSTERD_INSECURE_CREDENTIAL") == "true":
            object.__setattr__(self, "insecure_credential", True)
        files = {name: path for name, variable in _FILES.items() if (path := os.environ.get(variable))}
        object.__setattr__(self, "_files", files)
        defects = list(self._defects())
        if defects:
            raise InvalidOption("; ".join(defects))

    def _defects(self) -> list[str]:
        found = []
        for server in self.servers:
            if "://" in server and urlsplit(server).scheme not in ("http", "https"):
                found.append(f"server {server!r}: only http:// and https:// are known")
            elif not _is_address(server):
                found.append(
                    f"server {server!r} is not an address: write host:port, http://host:port or https://host:port"
                )
            elif self.exposes_credential(server):
                found.append(exposed(server))
        if not 1 <= self.slots <= MAX_SLOTS:
            found.append(f"slots must be 1 to {MAX_SLOTS}, not {self.slots}")
        if len(self.labels) > 32 or any(len(text.encode()) > 128 for pair in self.labels.items() for text in pair):
            found.append("labels: at most 32 of 128 bytes")
        for name in ("drain_timeout", "leave_timeout", "connect_timeout", "longest_delay"):
            if getattr(self, name) < 0:
                found.append(f"{name} must not be negative")
        if self.health is not None and self.health_address() is None:
            found.append(f"health is {self.health!r}: give a port from 0 to 65535, or host:port")
        try:
            _, key, certificate = self.certificates()
        except ValueError as error:
            found.append(str(error))
        else:
            if (certificate is None) != (key is None):
                found.append("client_certificate and client_key go together (ROSTERD_CERT, ROSTERD_KEY)")
        return found

    def health_address(self) -> tuple[str, int] | None:
        """The address of health; None: it is not served."""
        if self.health is None or isinstance(self.health, bool):
            return None
        host, port = ("127.0.0.1", str(self.health)) if isinstance(self.health, int) else _parted(self.health)
        return (host, int(port)) if host and port.isdecimal() and int(port) <= MAX_PORT else None

    def exposes_credential(self, address: str) -> bool:
        """Whether others could read the credential on its way to this coordinator."""
        return (
            self.credential is not None
            and not self.insecure_credential
            and not secure(address)
            and not loopback(address)
        )

    def may_learn(self, address: str) -> bool:
        """Whether the worker connects to a coordinator that only a Welcome has named.

        An attacker that can write the store, or impersonates a coordinator, can name any address, and any address has a
        certificate of some authority. So with a credential, or over TLS, the worker connects only to the configured
        hosts, and to those that the user's own authorities certify.
        """
        if self.credential is None and not any(map(secure, self.servers)):
            return True
        host = _host(address)
        if host and any(host == _host(server) or (loopback(server) and loopback(address)) for server in self.servers):
            return True
        return secure(address) and (self.root_certificates is not None or "root_certificates" in self._files)

    def certificates(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """The current roots, key and certificate: renewed ones are used from the next connection on."""

        def one(name: str) -> bytes | None:
            given: bytes | None = getattr(self, name)
            path = self._files.get(name)
            if given is not None or path is None:
                return given
            try:
                with open(path, "rb") as file:
                    return file.read()
            except OSError as error:
                raise InvalidOption(
                    f"{_FILES[name]}={path} cannot be read: {error.strerror}: name a PEM file"
                ) from error

        return one("root_certificates"), one("client_key"), one("client_certificate")


_FILES = {"root_certificates": "ROSTERD_CA", "client_certificate": "ROSTERD_CERT", "client_key": "ROSTERD_KEY"}


def exposed(address: str) -> str:
    return (
        f"server {address!r}: the credential would go there in plain text, for all on the way to read: use https://, "
        "or say that the network is trusted (insecure_credential, ROSTERD_INSECURE_CREDENTIAL=true)"
    )


def _host(address: str) -> str:
    try:
        return urlsplit(address if "://" in address else f"http://{address}").hostname or ""
    except ValueError:
        return ""


def loopback(address: str) -> bool:
    host = _host(address)
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return host == "localhost"
    mapped = getattr(found, "ipv4_mapped", None)
    return bool((mapped or found).is_loopback)


def _parted(address: str) -> tuple[str, str]:
    host, _, port = address.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def _is_address(server: str) -> bool:
    try:
        url = urlsplit(server if "://" in server else f"http://{server}")
        return bool(url.hostname) and url.port != 0
    except ValueError:
        return False


def _listed(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
