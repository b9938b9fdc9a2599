"""Fences against real servers: what a newer run has written, an older one cannot take back."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import redis
import servers

from rosterd import Fatal, Run
from rosterd.fence import (
    Fenced,
    FencedFile,
    FencedKeys,
    FencedObject,
    check_token,
    create_tokens,
    fenced_transaction,
)
from rosterd.testing import make_run

# A double cannot tell them apart, and their lengths differ.
OLD = 9_007_199_254_740_993
NEW = 9_007_199_254_740_994
SHORT = 999_999_999_999_999
PATIENCE = 20.0


def run(token: int, item: int = 0) -> Run:
    return make_run(job="hello", item=item, token=token)


# ---- PostgreSQL


@pytest.fixture(scope="module")
def database() -> Iterator[int]:
    with servers.postgres() as port:
        yield port


Connect = Any


@pytest.fixture
def connect(database: int) -> Iterator[Connect]:
    opened: list[psycopg.Connection[Any]] = []

    def open_one() -> psycopg.Connection[Any]:
        opened.append(psycopg.connect(servers.database(database)))
        return opened[-1]

    first = open_one()
    first.execute("DROP TABLE IF EXISTS rosterd_tokens, account")
    first.execute("CREATE TABLE account (id int PRIMARY KEY, amount int, token bigint)")
    first.execute("INSERT INTO account VALUES (1, 0, 0)")
    first.commit()
    create_tokens(first)
    create_tokens(first)
    yield open_one
    for connection in opened:
        connection.close()


def amount(connection: psycopg.Connection[Any]) -> Any:
    found = connection.execute("SELECT amount FROM account").fetchone()
    connection.commit()
    return found and found[0]


def write(connection: psycopg.Connection[Any], token: int, to: int, item: int = 0) -> None:
    with fenced_transaction(connection, run(token, item)) as cursor:
        cursor.execute("UPDATE account SET amount = %s", [to])


def test_postgres_refuses_a_transaction_of_an_older_run_and_keeps_nothing_of_it(connect: Connect) -> None:
    one = connect()
    for token, to in ((SHORT, 1), (OLD, 2), (NEW, 3), (NEW, 4)):
        write(one, token, to)
    with pytest.raises(Fenced, match=f"hello/0: token {OLD} came too late, token {NEW} was seen") as fenced:
        write(one, OLD, 5)
    assert (fenced.value.seen, fenced.value.token, amount(one)) == (NEW, OLD, 4)
    with pytest.raises(Fenced):
        write(one, SHORT, 6)
    assert isinstance(fenced.value, Fatal), "another attempt would have the same token"
    write(one, 1, 7, item=1)
    assert amount(one) == 7, "each item has tokens of its own"


def test_postgres_lets_a_newer_run_wait_for_the_older_ones_transaction(connect: Connect) -> None:
    one, other, order = connect(), connect(), []
    inside, go = threading.Event(), threading.Event()

    def older() -> None:
        with fenced_transaction(one, run(OLD)) as cursor:
            inside.set()
            go.wait(PATIENCE)
            cursor.execute("UPDATE account SET amount = 1")
            order.append("older")

    def newer() -> None:
        with fenced_transaction(other, run(NEW)) as cursor:
            cursor.execute("UPDATE account SET amount = 2")
            order.append("newer")

    threads = [threading.Thread(target=older), threading.Thread(target=newer)]
    threads[0].start()
    assert inside.wait(PATIENCE)
    threads[1].start()
    go.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert (order, amount(one)) == (["older", "newer"], 2)


def test_postgres_rolls_back_what_fails(connect: Connect) -> None:
    one = connect()
    with pytest.raises(ZeroDivisionError), fenced_transaction(one, run(NEW)) as cursor:
        cursor.execute("UPDATE account SET amount = 1")
        raise ZeroDivisionError
    assert amount(one) == 0
    check_token(one, run(SHORT))
    one.commit()


def test_postgres_is_asked_whether_there_is_a_newer_run(connect: Connect) -> None:
    one = connect()
    check_token(one, run(OLD))
    with fenced_transaction(one, run(NEW)):
        pass
    check_token(one, run(NEW))
    with pytest.raises(Fenced):
        check_token(one, run(OLD))
    with pytest.raises(ValueError, match="only lower-case names"):
        create_tokens(one, "bad; name")
    one.rollback()
    one.autocommit = True
    with pytest.raises(ValueError, match="turn its autocommit off"), fenced_transaction(one, run(NEW)):
        pass


def test_postgres_the_example_of_the_readme(connect: Connect) -> None:
    """A conditional write without any table of ours."""
    one = connect()

    def book(run: Run, to: int) -> None:
        sql = "UPDATE account SET amount = %s, token = %s WHERE id = 1 AND token <= %s"
        with one.cursor() as cursor:
            cursor.execute(sql, (to, run.token, run.token))
            if cursor.rowcount != 1:
                one.rollback()
                raise Fatal("a newer run has booked")
        one.commit()

    book(run(NEW), 1)
    with pytest.raises(Fatal):
        book(run(OLD), 2)
    assert amount(one) == 1


# ---- Redis


def test_redis_refuses_a_key_that_a_newer_run_has_written(tmp_path: Path) -> None:
    with servers.redis_server(tmp_path) as port, redis.Redis(port=port, decode_responses=True) as client:
        keys = FencedKeys(client)
        for token, value in ((SHORT, "short"), (OLD, "old"), (NEW, "new"), (NEW, "new again")):
            keys.set("k", value, run(token))
        for token in (OLD, SHORT):
            with pytest.raises(Fenced, match=f"key k: token {token} came too late") as fenced:
                keys.set("k", "late", run(token))
            assert fenced.value.seen == NEW
            with pytest.raises(Fenced):
                keys.claim("k", run(token))
        assert client.hgetall("k") == {"token": str(NEW), "value": "new again"}
        with redis.Redis(port=port) as bytewise:
            FencedKeys(bytewise).claim("claimed", run(NEW))
            with pytest.raises(Fenced):
                FencedKeys(bytewise).set("claimed", b"late", run(OLD))


# ---- S3


@pytest.fixture(scope="module")
def s3() -> Iterator[Any]:
    with servers.s3() as client:
        yield client


class Between:
    """A client that does something right before its next put."""

    def __init__(self, client: Any, action: Any) -> None:
        self._client = client
        self._action = action
        self.puts = 0

    def head_object(self, **arguments: Any) -> Any:
        return self._client.head_object(**arguments)

    def put_object(self, **arguments: Any) -> Any:
        action, self._action = self._action, lambda: None
        action()
        self.puts += 1
        return self._client.put_object(**arguments)


def body(client: Any, key: str) -> Any:
    return client.get_object(Bucket="tests", Key=key)["Body"].read()


def test_s3_refuses_an_object_that_a_newer_run_has_written(s3: Any) -> None:
    report = FencedObject(s3, "tests", "report")
    report.put(b"short", run(SHORT))
    report.put(b"old", run(OLD))
    report.put(b"new", run(NEW), ContentType="text/plain", Metadata={"mine": "kept"})
    with pytest.raises(Fenced, match=r"object tests/report: token .* came too late") as fenced:
        report.put(b"late", run(OLD))
    assert (fenced.value.seen, body(s3, "report")) == (NEW, b"new")
    head = s3.head_object(Bucket="tests", Key="report")
    assert (head["Metadata"], head["ContentType"]) == ({"mine": "kept", "rosterd-token": str(NEW)}, "text/plain")


@pytest.mark.parametrize("there", [True, False])
def test_s3_keeps_what_a_newer_run_puts_between_look_and_put(s3: Any, there: bool) -> None:
    key = f"between {there}"
    newer = FencedObject(s3, "tests", key)
    if there:
        newer.put(b"first", run(SHORT))
    late = Between(s3, lambda: newer.put(b"newer", run(NEW)))
    with pytest.raises(Fenced):
        FencedObject(late, "tests", key).put(b"late", run(OLD))
    assert (late.puts, body(s3, key)) == (1, b"newer")
    same = Between(s3, lambda: newer.put(b"again", run(NEW)))
    FencedObject(same, "tests", key).put(b"last", run(NEW))
    assert (same.puts, body(s3, key)) == (2, b"last")


def test_s3_finds_that_what_it_looked_at_is_gone(s3: Any) -> None:
    FencedObject(s3, "tests", "gone").put(b"first", run(OLD))
    without = Between(s3, lambda: s3.delete_object(Bucket="tests", Key="gone"))
    FencedObject(without, "tests", "gone").put(b"again", run(OLD))
    assert (without.puts, body(s3, "gone")) == (2, b"again")


# ---- files


def test_files_what_a_newer_run_has_written_is_what_is_read(tmp_path: Path) -> None:
    file = FencedFile(tmp_path / "report.csv")
    assert file.read() is None
    for token, content in ((SHORT, "short"), (OLD, "old"), (NEW, "new")):
        file.write(content, run(token))
    with pytest.raises(Fenced) as fenced:
        file.write("late", run(OLD))
    assert (fenced.value.seen, file.read()) == (NEW, b"new")
    assert [path.name for path in tmp_path.iterdir()] == [f"report.csv.{NEW:019d}"]
    file.write(b"new again", run(NEW))
    assert file.read() == b"new again"
    assert file.current() == tmp_path / f"report.csv.{NEW:019d}"


def test_files_a_run_that_wakes_with_its_rename_still_to_come_makes_a_name_that_nobody_reads(tmp_path: Path) -> None:
    file = FencedFile(tmp_path / "report.csv")
    file.write("new", run(NEW))
    # As if it had slept: it has passed all its checks.
    (tmp_path / f"report.csv.{OLD:019d}").write_text("late")
    (tmp_path / "report.csv.bak").write_text("none of ours")
    assert file.read() == b"new"
