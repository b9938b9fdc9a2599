"""Shared code of all fences."""

from __future__ import annotations

from typing import Protocol

from ..errors import Fatal


class Guarded(Protocol):
    """What a fence needs from a run; a `Run` has all of it."""

    @property
    def job(self) -> str: ...
    @property
    def item(self) -> int: ...
    @property
    def token(self) -> int: ...


class Fenced(Fatal):
    """The store has seen a higher token: another run of the item took this one's place, and nothing was written.

    Another attempt would have the same token: a run that ends with it is not retried.
    """

    def __init__(self, what: str, token: int, seen: int | None) -> None:
        than = "a higher one was seen" if seen is None else f"token {seen} was seen"
        super().__init__(f"{what}: token {token} came too late, {than}: another run of the item took this one's place")
        #: Which write was refused.
        self.what = what
        self.token = token
        #: The token that the store has seen; None: unknown.
        self.seen = seen
