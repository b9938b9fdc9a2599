"""Files: each run writes its own name, which ends in its token; readers use the highest token.

A run that resumes after another has taken its place can only create a name that is no longer read. No lock is needed,
so a process that dies leaves none behind, and a sleeping one does not appear to hold one.
"""

from __future__ import annotations

import os
from pathlib import Path

from ._fenced import Fenced, Guarded

#: 63 bits have 19 digits: names of one length sort as their tokens do.
_DIGITS = 19


class FencedFile:
    """One file that runs of an item write as a whole: `PATH.0000000000000000005` and so on."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def write(self, content: bytes | str, run: Guarded) -> None:
        """Raises Fenced if a run with a higher token has written the file. Readers see the old content or the new."""
        self._judge(run)
        own = self._name(run.token)
        unfinished = own.with_name(own.name + ".new")
        try:
            _write_durably(unfinished, content.encode() if isinstance(content, str) else content)
            os.replace(unfinished, own)
        finally:
            unfinished.unlink(missing_ok=True)
        _sync(self._path.parent)
        # A newer run may have written meanwhile: then readers ignore ours.
        self._judge(run)
        for token in self._tokens():
            if token < run.token:
                self._name(token).unlink(missing_ok=True)

    def current(self) -> Path | None:
        """The path of the current content; None: none was written. A newer write may remove it."""
        tokens = self._tokens()
        return self._name(tokens[-1]) if tokens else None

    def read(self) -> bytes | None:
        """The current content; None: none was written."""
        while (path := self.current()) is not None:
            try:
                return path.read_bytes()
            except FileNotFoundError:
                # It was replaced between the two steps: there is a newer one.
                continue
        return None

    def _judge(self, run: Guarded) -> None:
        tokens = self._tokens()
        if tokens and tokens[-1] > run.token:
            raise Fenced(f"file {self._path}", run.token, tokens[-1])

    def _tokens(self) -> list[int]:
        """Ascending."""
        prefix = self._path.name + "."
        names = (entry.name for entry in os.scandir(self._path.parent))
        endings = (name[len(prefix) :] for name in names if name.startswith(prefix))
        return sorted(int(ending) for ending in endings if len(ending) == _DIGITS and ending.isdecimal())

    def _name(self, token: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{token:0{_DIGITS}d}")


def _write_durably(path: Path, content: bytes) -> None:
    with open(path, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync(folder: Path) -> None:
    if os.name == "nt":
        # Windows cannot sync a folder, and writes a rename through by itself.
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
