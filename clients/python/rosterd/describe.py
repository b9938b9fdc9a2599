"""Errors and return values of user code, as text."""

from __future__ import annotations

import json
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any

from .reports import MAX_ERROR
from .text import shorten

_MAX_CAUSES = 8
_HERE = str(Path(__file__).parent)


def describe(error: BaseException) -> str:
    """The error in a line, then its traceback, then its cause in the same way."""
    lines: list[str] = []
    seen: set[int] = set()
    current: BaseException | None = error
    prefix = ""
    while current is not None and id(current) not in seen and len(seen) < _MAX_CAUSES:
        seen.add(id(current))
        lines.append(prefix + summary(current))
        # Of an exception group.
        lines.extend(f"  one of them: {summary(part)}" for part in getattr(current, "exceptions", ())[:_MAX_CAUSES])
        lines.append("".join(traceback.format_tb(_of_the_user(current.__traceback__))).rstrip())
        if current.__cause__ is not None:
            current, prefix = current.__cause__, "caused by "
        else:
            current, prefix = None if current.__suppress_context__ else current.__context__, "while handling "
    return shorten("\n".join(line for line in lines if line), MAX_ERROR)


def summary(error: BaseException) -> str:
    return "".join(traceback.format_exception_only(type(error), error)).strip()


def _of_the_user(trace: TracebackType | None) -> TracebackType | None:
    """Without the frames of this package that lead to user code."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    return trace


def text_of(result: Any) -> str:
    """A handler's return value, as the run's output."""
    if result is None:
        return ""
    if isinstance(result, str):
        return result
    try:
        return json.dumps(result)
    except (TypeError, ValueError):
        return str(result)
