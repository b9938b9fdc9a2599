"""Redis: a script compares the token and writes, with no other command in between."""

from __future__ import annotations

from typing import Any, Protocol

from ._fenced import Fenced, Guarded

# Lua counts in floating point: tokens of 63 bits are compared as text, by length and then character by character.
_COMPARE = """
local seen = redis.call('HGET', KEYS[1], 'token')
if seen and (#seen > #ARGV[1] or (#seen == #ARGV[1] and seen > ARGV[1])) then return {0, seen} end
"""
_SET = f"""{_COMPARE}
redis.call('HSET', KEYS[1], 'token', ARGV[1], 'value', ARGV[2])
return {{1, ARGV[1]}}
"""
_CLAIM = f"""{_COMPARE}
redis.call('HSET', KEYS[1], 'token', ARGV[1])
return {{1, ARGV[1]}}
"""


class Client(Protocol):
    """A client of the package redis, not of redis.asyncio."""

    def eval(self, script: str, numkeys: int, *keys_and_args: Any) -> Any: ...


class FencedKeys:
    """Keys that hold a value and the token of the run that wrote it, as a hash with the fields `value` and `token`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def set(self, key: str, value: str | bytes, run: Guarded) -> None:
        """Raises Fenced if a run with a higher token has written the key."""
        self._judge(key, run, self._client.eval(_SET, 1, key, str(run.token), value))

    def claim(self, key: str, run: Guarded) -> None:
        """Claims the key for the run without a value: lower tokens are refused from then on."""
        self._judge(key, run, self._client.eval(_CLAIM, 1, key, str(run.token)))

    def _judge(self, key: str, run: Guarded, answer: Any) -> None:
        written, seen = answer
        if int(written) != 1:
            raise Fenced(f"key {key}", run.token, int(seen))
