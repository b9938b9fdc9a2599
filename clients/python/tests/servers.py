"""PostgreSQL and Redis for tests of fences, from Debian's packages, and S3 by moto; all on loopback."""

from __future__ import annotations

import contextlib
import os
import pwd
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import psycopg
import redis
from moto.server import ThreadedMotoServer

PATIENCE = 30.0
POSTGRES = Path("/usr/lib/postgresql")
REDIS = Path("/usr/bin/redis-server")


def database(port: int) -> str:
    return f"host=127.0.0.1 port={port} user=tests dbname=postgres"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def postgres() -> Iterator[int]:
    """Its port. PostgreSQL does not run as root: as root, use the user of Debian's package."""
    assert POSTGRES.is_dir(), "PostgreSQL is not there: apt-get install postgresql"
    programs = max(POSTGRES.iterdir(), key=lambda version: int(version.name)) / "bin"
    with tempfile.TemporaryDirectory(prefix="rosterd-postgres-") as folder:
        data = Path(folder, "data")
        data.mkdir()
        common: dict[str, Any] = {"cwd": data, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        if os.getuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chmod(folder, 0o755)
            os.chown(data, owner.pw_uid, owner.pw_gid)
            common |= {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        init = ["-D", str(data), "-U", "tests", "-A", "trust", "--no-sync"]
        subprocess.run([str(programs / "initdb"), *init], check=True, **common)
        port = free_port()
        flags = ["-F", "-p", str(port), "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories="]
        with _running([str(programs / "postgres"), "-D", str(data), *flags], **common):
            _until(lambda: psycopg.connect(database(port)).close(), psycopg.OperationalError)
            yield port


@contextlib.contextmanager
def redis_server(folder: Path) -> Iterator[int]:
    """Its port."""
    assert REDIS.exists(), "redis-server is not there: apt-get install redis-server"
    port = free_port()
    flags = ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", ""]
    with _running([str(REDIS), *flags], stdout=subprocess.DEVNULL):
        _until(lambda: redis.Redis(port=port).ping(), redis.ConnectionError)
        yield port


@contextlib.contextmanager
def s3() -> Iterator[Any]:
    """A client of a server that has the bucket `tests`."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        client = boto3.client(
            "s3",
            endpoint_url=f"http://{host}:{port}",
            region_name="us-east-1",
            aws_access_key_id="tests",
            aws_secret_access_key="tests",
        )
        client.create_bucket(Bucket="tests")
        yield client
    finally:
        server.stop()


@contextlib.contextmanager
def _running(command: list[str], **options: Any) -> Iterator[None]:
    child = subprocess.Popen(command, **options)
    try:
        yield
    finally:
        child.kill()
        child.wait()


def _until(attempt: Any, error: type[Exception]) -> None:
    until = time.monotonic() + PATIENCE
    while True:
        try:
            attempt()
            return
        except error:
            assert time.monotonic() < until, "the server does not come up"
            time.sleep(0.02)
