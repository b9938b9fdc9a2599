"""Which coordinator to try next, and when."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

FIRST_DELAY = 0.2
LONGEST_DELAY = 10.0
# For how many skipped addresses the worker remembers that it logged them.
MOST_PASSED_OVER = 100


def secure(address: str) -> bool:
    return address.startswith("https://")


class Route:
    """The configured coordinators, then those that the last Welcome named."""

    def __init__(self, given: Sequence[str], chance: random.Random, may_learn: Callable[[str], bool]) -> None:
        if not given:
            raise ValueError("no coordinator is given")
        self._may_learn = may_learn
        # The skipped addresses that were logged.
        self._passed_over: set[str] = set()
        self._given = tuple(given)
        self._addresses = tuple(dict.fromkeys(given))
        self._chance = chance
        self._position = -1
        # Since the start, or since a stream that has proved itself.
        self._losses = 0

    @property
    def addresses(self) -> tuple[str, ...]:
        return self._addresses

    def learn(self, addresses: Iterable[str]) -> list[str]:
        """The newly skipped addresses."""
        current = self._addresses[self._position]
        # A credential that was only sent over TLS is never sent in the clear.
        tls = all(secure(address) for address in self._given)
        learned = (_complete(address, tls) for address in addresses if address)
        wanted: list[str] = []
        unwanted: list[str] = []
        for address in learned:
            may = address in self._given or ((secure(address) or not tls) and self._may_learn(address))
            (wanted if may else unwanted).append(address)
        self._addresses = tuple(dict.fromkeys([*self._given, *wanted]))
        self._position = self._addresses.index(current) if current in self._addresses else -1
        new = [address for address in dict.fromkeys(unwanted) if address not in self._passed_over]
        new = new[: MOST_PASSED_OVER - len(self._passed_over)]
        self._passed_over.update(new)
        return new

    def take(self) -> str:
        """The next coordinator in turn."""
        self._position = (self._position + 1) % len(self._addresses)
        return self._addresses[self._position]

    def lost(self, longest: float = LONGEST_DELAY) -> float:
        """How long to wait after this loss; after the first one, not at all."""
        self._losses += 1
        if self._losses == 1:
            return 0.0
        full = min(longest, FIRST_DELAY * 2.0 ** min(self._losses - 2, 16))
        return full * self._chance.uniform(0.5, 1.0)

    def good(self) -> None:
        """The stream has proved itself."""
        self._losses = 0


def _complete(address: str, tls: bool) -> str:
    return address if "://" in address or not tls else f"https://{address}"
