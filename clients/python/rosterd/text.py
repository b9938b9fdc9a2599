"""Texts that fit into the protocol's limits, which are in bytes."""

from __future__ import annotations


def shorten(text: str, limit: int) -> str:
    """The beginning of the text, in at most `limit` bytes of UTF-8, marked if something is missing."""
    data = text.encode(errors="replace")
    if len(data) <= limit:
        return data.decode()
    mark = "…"
    return data[: limit - len(mark.encode())].decode(errors="ignore") + mark
