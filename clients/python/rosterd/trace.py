"""The trace that a run belongs to. OpenTelemetry's API package is used if the program has it, and is not required."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping


def enter(trace_context: Mapping[str, str]) -> None:
    """Makes the trace OpenTelemetry's current one, for the rest of the calling context."""
    if trace_context:
        _entry()(trace_context)


def prepare() -> None:
    """Loads OpenTelemetry early, while nothing waits for it."""
    _entry()


@functools.cache
def _entry() -> Callable[[Mapping[str, str]], None]:
    try:
        from opentelemetry import context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return lambda trace_context: None
    propagator = TraceContextTextMapPropagator()

    def enter(trace_context: Mapping[str, str]) -> None:
        context.attach(propagator.extract(trace_context))

    return enter
