"""The configuration of a job, typed, and as the job file that a registration carries. Times are in seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypedDict

from .errors import InvalidOption

#: Seconds, or a timedelta.
Span: TypeAlias = float | timedelta
#: The longest config of a registration, in bytes.
MAX_CONFIG = 64 * 1024
_ELASTIC_STRATEGIES = frozenset({"AVG_ALLOCATION", "ODEVITY", "ROUND_ROBIN"})


@dataclass(frozen=True)
class Retry:
    """Attempts of one run: all have the same token."""

    #: 1 to 100, the first included.
    max_attempts: int
    #: Pause before the second attempt; default: 1.
    backoff: Span | None = None
    #: Each further pause is this many times as long as the one before; default: 2.
    backoff_multiplier: int | None = None
    #: No pause is longer; default: 60.
    backoff_max: Span | None = None


@dataclass(frozen=True)
class Guarantee:
    """Callbacks before the first and after the last item of a fire: `on_all_started`, `on_all_completed`."""

    #: Hold each fire until one worker has answered its callback.
    started: bool = False
    #: Call back one worker when all items of a fire have completed.
    completed: bool = False
    #: How long to wait for all items to start, and then for the answer; default: 60.
    timeout: Span | None = None
    #: How a held fire without an answer is handled; default: it runs.
    on_timeout: Literal["run", "skip"] | None = None


@dataclass(frozen=True)
class JobConfig:
    """How a job is scheduled and run. Unset fields have the defaults on the guide's page on job fields.

    The same fields may be given to `Worker.job` itself.
    """

    #: The number of items, 1 to 100000.
    items: int
    #: Quartz notation, `0/30 * * * * ?`; without one the job runs only when it is triggered.
    cron: str | None = None
    #: Zone of the schedule, an IANA name; default: UTC.
    time_zone: str | None = None
    #: One parameter per item, by position or by item: no commas in them.
    item_parameters: Sequence[str] | Mapping[int, str] | None = None
    #: One parameter for all items.
    job_parameter: str | None = None
    description: str | None = None
    #: A label of the job, for people.
    label: str | None = None
    #: Properties by name, which the worker gets.
    props: Mapping[str, str] | None = None
    #: Whether the job starts disabled.
    disabled: bool | None = None
    #: Keep a record of running items; without it no failover, no misfire and no offsets. Default: true.
    monitor_execution: bool | None = None
    #: Run an item elsewhere when its worker has died; default: false.
    failover: bool | None = None
    #: Run an item once more if it was busy at a scheduled time; default: true.
    misfire: bool | None = None
    #: How items are spread over instances: AVG_ALLOCATION (the default), ODEVITY, ROUND_ROBIN or STICKY.
    strategy: str | None = None
    #: How a run goes; default: simple, and dataflow for `Worker.dataflow`.
    kind: Literal["simple", "dataflow"] | None = None
    #: For a dataflow: fetch again until there is nothing.
    streaming: bool | None = None
    #: How often the assignment is checked without a cause, in minutes; below 1: never. Default: 10.
    reconcile_interval_minutes: int | None = None
    #: A run that takes longer is told to stop, and has timed out; default: none.
    timeout: Span | None = None
    retries: Retry | None = None
    #: How many times a run is failed over after its worker died; default: 3.
    max_failovers: int | None = None
    #: The age up to which a late fire runs as if on time; default: 10.
    catch_up_window: Span | None = None
    #: How older fires are handled: one run for all of them, or a record of each gap.
    too_late: Literal["run_once", "missed"] | None = None
    #: A scheduled time that daylight saving skips: fires when the gap ends (the default), or not.
    gap: Literal["fire_at_end", "skip"] | None = None
    #: A worker without heartbeats for this long is marked dead, 0.1 to 600; default: the lease.
    disconnect_grace: Span | None = None
    #: A coordinator whose clock is off by more does not fire this job.
    max_clock_difference: Span | None = None
    guarantee: Guarantee | None = None

    def document(self, job: str, overwrite: bool = False) -> dict[str, Any]:
        """The job file, with Elastic-Job's names. The coordinator validates the values, except what it cannot see."""
        elastic = self.strategy in _ELASTIC_STRATEGIES
        return _given(
            jobName=job,
            cron=self.cron,
            timeZone=self.time_zone,
            shardingTotalCount=self.items,
            shardingItemParameters=self._parameters(job),
            jobParameter=self.job_parameter,
            description=self.description,
            label=self.label,
            props=None if self.props is None else dict(self.props),
            disabled=self.disabled,
            monitorExecution=self.monitor_execution,
            failover=self.failover,
            misfire=self.misfire,
            jobShardingStrategyType=self.strategy if elastic else None,
            reconcileIntervalMinutes=self.reconcile_interval_minutes,
            overwrite=overwrite or None,
            rosterd=self._extensions(job, elastic) or None,
        )

    def _extensions(self, job: str, elastic: bool) -> dict[str, Any]:
        """Settings that Elastic-Job does not have."""
        retries, guarantee = self.retries, self.guarantee
        return _given(
            kind=self.kind,
            streaming=self.streaming,
            strategy=None if elastic else self.strategy,
            run_timeout_ms=_millis(job, "timeout", self.timeout),
            max_failovers=self.max_failovers,
            catch_up_window_ms=_millis(job, "catch_up_window", self.catch_up_window),
            too_late=self.too_late,
            gap=self.gap,
            disconnect_grace_ms=_millis(job, "disconnect_grace", self.disconnect_grace),
            max_clock_diff_ms=_millis(job, "max_clock_difference", self.max_clock_difference),
            retries=None
            if retries is None
            else _given(
                max_attempts=retries.max_attempts,
                backoff_ms=_millis(job, "retries.backoff", retries.backoff),
                backoff_multiplier=retries.backoff_multiplier,
                backoff_max_ms=_millis(job, "retries.backoff_max", retries.backoff_max),
            ),
            guarantee=None
            if guarantee is None
            else _given(
                started=guarantee.started,
                completed=guarantee.completed,
                timeout_ms=_millis(job, "guarantee.timeout", guarantee.timeout),
                on_timeout=guarantee.on_timeout,
            ),
        )

    def _parameters(self, job: str) -> str | None:
        given = self.item_parameters
        if given is None:
            return None
        if isinstance(given, str):
            raise InvalidOption(f"job {job!r}: item_parameters is one text: give a list of them, or a dict by item")
        by_item = given if isinstance(given, Mapping) else dict(enumerate(given))
        for item, parameter in by_item.items():
            field = f"job {job!r}: item_parameters[{item!r}]"
            if not isinstance(item, int) or not 0 <= item < self.items:
                raise InvalidOption(f"{field}: there is no such item of {self.items}: give 0 to {self.items - 1}")
            if "," in parameter:
                raise InvalidOption(
                    f"{field} is {parameter!r}: a job file parts parameters by commas: use another sign"
                )
        return ",".join(f"{item}={parameter}" for item, parameter in by_item.items())


class JobFields(TypedDict, total=False):
    """The fields of JobConfig as keywords of `Worker.job`, for type checkers."""

    items: int
    cron: str
    time_zone: str
    item_parameters: Sequence[str] | Mapping[int, str]
    job_parameter: str
    description: str
    label: str
    props: Mapping[str, str]
    disabled: bool
    monitor_execution: bool
    failover: bool
    misfire: bool
    strategy: str
    kind: Literal["simple", "dataflow"]
    streaming: bool
    reconcile_interval_minutes: int
    timeout: Span
    retries: Retry
    max_failovers: int
    catch_up_window: Span
    too_late: Literal["run_once", "missed"]
    gap: Literal["fire_at_end", "skip"]
    disconnect_grace: Span
    max_clock_difference: Span
    guarantee: Guarantee


Config: TypeAlias = JobConfig | str | Path | Mapping[str, Any]


def config_of(job: str, config: Config | None, given: Mapping[str, Any], defaults: Mapping[str, Any]) -> Config | None:
    """The configuration from `Worker.job`: a config as a whole, or its fields one by one."""
    known = {field.name for field in fields(JobConfig)}
    unknown = sorted(given.keys() - known)
    if unknown:
        raise TypeError(f"job {job!r}: there is no field {', '.join(unknown)}; those of JobConfig are {sorted(known)}")
    if not given:
        return config
    if config is not None:
        raise TypeError(f"job {job!r}: give config, or {', '.join(sorted(given))} beside no config")
    if "items" not in given:
        raise TypeError(f"job {job!r}: items is missing: say how many items the job has")
    return JobConfig(**{**defaults, **given})


def config_text(job: str, config: Config | None, overwrite: bool = False) -> str:
    """The job file of a registration; empty: the job must exist."""
    if config is None:
        return ""
    if isinstance(config, JobConfig):
        text = json.dumps(config.document(job, overwrite))
    elif isinstance(config, Path):
        text = _file_text(job, config)
    else:
        text = config if isinstance(config, str) else json.dumps(config)
    size = len(text.encode())
    if size > MAX_CONFIG:
        raise InvalidOption(
            f"job {job!r}: config has {size} bytes, at most {MAX_CONFIG} go along: use `rosterd jobs apply` for it"
        )
    return text


def _file_text(job: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidOption(f"job {job!r}: config {path} cannot be read: {error.strerror}: name a job file") from error


def _given(**named: Any) -> dict[str, Any]:
    return {name: value for name, value in named.items() if value is not None}


def _millis(job: str, field: str, span: Span | None) -> int | None:
    if span is None:
        return None
    seconds = span.total_seconds() if isinstance(span, timedelta) else span
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 <= seconds < float("inf"):
        raise InvalidOption(f"job {job!r}: {field} is {span!r}: give seconds, or a timedelta")
    return round(seconds * 1000)
