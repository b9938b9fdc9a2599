"""Tests without a stream: options, routes, hooks, refusals of a worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rosterd import InvalidOption, Job, Options, Run, Worker
from rosterd.config import config_text
from rosterd.describe import text_of
from rosterd.text import shorten
from rosterd.transport import target_of
from rosterd.worker import own_address


def test_the_environment_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Options().servers == ("localhost:7700",)
    monkeypatch.setenv("ROSTERD_SERVER", "localhost:1, https://b:2,")
    monkeypatch.setenv("ROSTERD_CREDENTIAL", "secret")
    options = Options()
    assert (options.servers, options.credential) == (("localhost:1", "https://b:2"), "secret")
    assert "secret" not in repr(options)
    worker = Worker("https://c:3", credential="other", options=Options(slots=3, drain_timeout=1))
    assert (worker.options.servers, worker.options.credential) == (("https://c:3",), "other")
    assert (worker.options.slots, worker.options.drain_timeout) == (3, 1)


@pytest.mark.parametrize("near", ["localhost:1", "127.0.0.1:1", "http://[::1]:1", "http://[::ffff:127.0.0.1]:1"])
def test_a_credential_goes_to_this_machine_in_plain_text(near: str) -> None:
    assert Options(servers=(near,), credential="s3cret").servers == (near,)


@pytest.mark.parametrize("far", ["a:1", "http://10.0.0.1:1", "http://localhost.example.com", "127.0.0.1.example.com:1"])
def test_a_credential_goes_nowhere_else_in_plain_text(far: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ValueError, match="in plain text") as refused:
        Options(servers=(far,), credential="s3cret")
    assert "s3cret" not in str(refused.value)
    assert Options(servers=(far,)).credential is None
    assert Options(servers=(far,), credential="s3cret", insecure_credential=True).credential
    monkeypatch.setenv("ROSTERD_INSECURE_CREDENTIAL", "true")
    assert Options(servers=(far,), credential="s3cret").insecure_credential


def test_files_of_the_environment_are_read_for_each_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    files = {name: tmp_path / name for name in ("ROSTERD_CA", "ROSTERD_CERT", "ROSTERD_KEY")}
    for name, path in files.items():
        path.write_text(name)
        monkeypatch.setenv(name, str(path))
    options = Options()
    assert options.certificates() == (b"ROSTERD_CA", b"ROSTERD_KEY", b"ROSTERD_CERT")
    files["ROSTERD_CERT"].write_text("renewed")
    assert options.certificates()[2] == b"renewed"
    assert Options(root_certificates=b"given").certificates()[0] == b"given"
    files["ROSTERD_KEY"].unlink()
    with pytest.raises(ValueError, match=r"ROSTERD_KEY=.* cannot be read: .*: name a PEM file"):
        Options()


@pytest.mark.parametrize(
    "wrong",
    [
        {"slots": 0},
        {"slots": 5000},
        {"servers": ("ftp://a",)},
        {"labels": {"a": "x" * 129}},
        {"drain_timeout": -1},
        {"client_key": b"key"},
        {"servers": ("a:port",)},
        {"servers": ("a:70000",)},
        {"servers": ("http://",)},
        {"health": 70_000},
        {"health": "8080"},
    ],
)
def test_options_that_cannot_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidOption):
        Options(**wrong)


@pytest.mark.parametrize(
    ("given", "address"),
    [(8080, ("127.0.0.1", 8080)), ("0.0.0.0:0", ("0.0.0.0", 0)), ("[::1]:80", ("::1", 80)), (None, None)],
)
def test_where_health_is_served(given: Any, address: Any) -> None:
    assert Options(health=given).health_address() == address


def test_what_a_worker_refuses() -> None:
    worker = Worker("a:1")
    with pytest.raises(RuntimeError, match="without jobs"):
        worker.run()
    worker.add(Job("hello", lambda run: None))
    with pytest.raises(ValueError, match="there already"):
        worker.job("hello")(lambda run: None)
    with pytest.raises(TypeError, match="needs its name"):
        worker.job(lambda run: None)  # type: ignore[arg-type]

    async def hook(run: Run) -> None: ...

    with pytest.raises(TypeError, match="async hook"):
        worker.job("other", before=hook)(lambda run: None)


def test_a_handler_may_be_any_callable() -> None:
    class Handler:
        async def __call__(self, run: Run) -> None: ...

    assert Job("hello", Handler()).is_async
    assert not Job("hello", print).is_async


def test_config_is_text_a_path_or_a_mapping(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("jobName: hello\n")
    assert config_text("hello", file) == config_text("hello", "jobName: hello\n") == "jobName: hello\n"
    assert config_text("hello", {"jobName": "hello"}) == '{"jobName": "hello"}'
    assert Job("hello", print, config=None).register().config == ""


@pytest.mark.parametrize(
    ("address", "target"),
    [
        ("a:1", "a:1"),
        ("http://a:1", "a:1"),
        ("https://a", "a:443"),
        ("http://a/", "a:80"),
        ("https://[::1]:7700", "[::1]:7700"),
    ],
)
def test_targets(address: str, target: str) -> None:
    assert target_of(address) == target


def test_texts_are_cut_at_bytes_and_between_characters() -> None:
    assert shorten("short", 8) == "short"
    assert shorten("äöüäöü", 8) == "äö…"
    assert len(shorten("x" * 100, 10).encode()) == 10


@pytest.mark.parametrize(("result", "text"), [(None, ""), ("a", "a"), ({"a": 1}, '{"a": 1}'), ({1}, "{1}")])
def test_results_become_text(result: Any, text: str) -> None:
    assert text_of(result) == text


def test_the_own_address_faces_the_coordinator() -> None:
    assert own_address(["127.0.0.1:7700"]) == "127.0.0.1"
    assert own_address(["https://name.invalid:7700"]) != ""
