"""PostgreSQL, by any DB-API driver (psycopg, psycopg2, pg8000): a row per item holds the highest token.

Locking and comparing it in the transaction that writes makes all its writes conditional. If the written row has a
column for the token, no table is needed: `UPDATE account SET …, token = %s WHERE id = %s AND token <= %s`, and no row
means Fenced.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from ._fenced import Fenced, Guarded

_NAME = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)?")
TABLE = "rosterd_tokens"


class Cursor(Protocol):
    """As the DB-API has it."""

    @property
    def rowcount(self) -> int: ...
    def execute(self, operation: Any, parameters: Sequence[Any] = ..., /) -> Any: ...
    def fetchone(self) -> Any: ...
    def close(self) -> None: ...


class Connection(Protocol):
    """As the DB-API has it."""

    def cursor(self) -> Any: ...
    def commit(self) -> None: ...
    def rollback(self) -> None: ...


def create_tokens(connection: Connection, table: str = TABLE) -> None:
    """Creates the table of tokens if it is absent, and commits."""
    with contextlib.closing(connection.cursor()) as cursor:
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {_named(table)} "
            "(job text NOT NULL, item integer NOT NULL, token bigint NOT NULL, PRIMARY KEY (job, item))"
        )
    connection.commit()


@contextlib.contextmanager
def fenced_transaction(connection: Connection, run: Guarded, table: str = TABLE) -> Iterator[Any]:
    """A transaction that is committed only if no higher token was seen for the run's item; yields its cursor.

    Raises Fenced before the body otherwise. The item's row stays locked until the end, so that a newer run waits and
    then claims it. An exception in the body rolls everything back.
    """
    if getattr(connection, "autocommit", False):
        raise ValueError("the connection commits each statement by itself: turn its autocommit off")
    into = _named(table)
    try:
        with contextlib.closing(connection.cursor()) as cursor:
            cursor.execute(
                f"INSERT INTO {into} AS seen (job, item, token) VALUES (%s, %s, %s) "
                "ON CONFLICT (job, item) DO UPDATE SET token = excluded.token WHERE seen.token <= excluded.token",
                (run.job, run.item, run.token),
            )
            if cursor.rowcount != 1:
                raise Fenced(f"{run.job}/{run.item}", run.token, _seen(cursor, run, into))
            yield cursor
        connection.commit()
    except BaseException:
        # The first error counts.
        with contextlib.suppress(Exception):
            connection.rollback()
        raise


def check_token(connection: Connection, run: Guarded, table: str = TABLE) -> None:
    """Checks whether a higher token was seen, and raises Fenced then; writes nothing.

    A newer run may begin right after it: it saves work, and does not replace `fenced_transaction`.
    """
    with contextlib.closing(connection.cursor()) as cursor:
        seen = _seen(cursor, run, _named(table))
    if seen is not None and seen > run.token:
        raise Fenced(f"{run.job}/{run.item}", run.token, seen)


def _seen(cursor: Cursor, run: Guarded, table: str) -> int | None:
    cursor.execute(f"SELECT token FROM {table} WHERE job = %s AND item = %s", (run.job, run.item))
    row = cursor.fetchone()
    return None if row is None else int(row[0])


def _named(table: str) -> str:
    if not _NAME.fullmatch(table):
        raise ValueError(f"table {table!r}: only lower-case names, with a schema or without")
    return table
