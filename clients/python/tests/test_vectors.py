"""Plays the vectors of the specification."""

from __future__ import annotations

from typing import Any

import pytest
import vectors

# Names of vectors that this client does not pass yet. Empty at every release.
KNOWN_FAILURES: frozenset[str] = frozenset()

VECTORS = vectors.load()


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_vector(vector: dict[str, Any]) -> None:
    if vector["name"] in KNOWN_FAILURES:
        with pytest.raises(AssertionError):
            vectors.Player(vector).play()
    else:
        vectors.Player(vector).play()


def test_known_failures_are_vectors() -> None:
    names = [vector["name"] for vector in VECTORS]
    assert len(set(names)) == len(names)
    assert set(names) >= KNOWN_FAILURES
