"""The typed configuration of a job, and the job file made from it."""

from __future__ import annotations

import json
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any, get_type_hints

import pytest

from rosterd import Guarantee, InvalidOption, JobConfig, Retry, Run, Worker
from rosterd.config import JobFields, config_text


def handler(run: Run) -> None: ...


def registered(worker: Worker, job: str = "hello") -> Any:
    return json.loads(worker.jobs[job].register().config)


def test_a_job_by_its_fields() -> None:
    worker = Worker("a:1")
    decorate = worker.job(
        "hello", cron="0/5 * * * * ?", items=3, item_parameters={0: "a"}, failover=True, retries=Retry(3)
    )
    assert decorate(handler) is handler
    assert registered(worker) == {
        "jobName": "hello",
        "cron": "0/5 * * * * ?",
        "shardingTotalCount": 3,
        "shardingItemParameters": "0=a",
        "failover": True,
        "rosterd": {"retries": {"max_attempts": 3}},
    }


def test_all_fields_have_a_place_in_the_job_file() -> None:
    config = JobConfig(
        items=2,
        cron="0 0 3 * * ?",
        time_zone="Europe/Berlin",
        item_parameters=["Beijing", "Shanghai"],
        job_parameter="all",
        description="what it does",
        label="nightly",
        props={"table": "orders"},
        disabled=True,
        monitor_execution=True,
        failover=True,
        misfire=False,
        strategy="STICKY",
        kind="dataflow",
        streaming=True,
        reconcile_interval_minutes=5,
        timeout=timedelta(minutes=2),
        retries=Retry(3, backoff=0.5, backoff_multiplier=3, backoff_max=timedelta(seconds=20)),
        max_failovers=7,
        catch_up_window=15,
        too_late="missed",
        gap="skip",
        disconnect_grace=0.75,
        max_clock_difference=1,
        guarantee=Guarantee(started=True, timeout=5, on_timeout="skip"),
    )
    assert all(getattr(config, field.name) is not None for field in fields(config))
    assert json.loads(config_text("hello", config, overwrite=True)) == {
        "jobName": "hello",
        "cron": "0 0 3 * * ?",
        "timeZone": "Europe/Berlin",
        "shardingTotalCount": 2,
        "shardingItemParameters": "0=Beijing,1=Shanghai",
        "jobParameter": "all",
        "description": "what it does",
        "label": "nightly",
        "props": {"table": "orders"},
        "disabled": True,
        "monitorExecution": True,
        "failover": True,
        "misfire": False,
        "reconcileIntervalMinutes": 5,
        "overwrite": True,
        "rosterd": {
            "kind": "dataflow",
            "streaming": True,
            "strategy": "STICKY",
            "run_timeout_ms": 120_000,
            "max_failovers": 7,
            "catch_up_window_ms": 15_000,
            "too_late": "missed",
            "gap": "skip",
            "disconnect_grace_ms": 750,
            "max_clock_diff_ms": 1000,
            "retries": {
                "max_attempts": 3,
                "backoff_ms": 500,
                "backoff_multiplier": 3,
                "backoff_max_ms": 20_000,
            },
            "guarantee": {"started": True, "completed": False, "timeout_ms": 5000, "on_timeout": "skip"},
        },
    }


def test_elastic_jobs_strategies_stand_where_it_has_them() -> None:
    document = JobConfig(items=1, strategy="ROUND_ROBIN").document("hello")
    assert document == {"jobName": "hello", "shardingTotalCount": 1, "jobShardingStrategyType": "ROUND_ROBIN"}


def test_a_dataflow_by_its_fields_is_one_in_the_job_file() -> None:
    worker = Worker("a:1")
    worker.dataflow("hello", fetch=lambda run: [1], process=lambda run, data: None, items=2, streaming=True)
    assert registered(worker)["rosterd"] == {"kind": "dataflow", "streaming": True}


def test_keywords_and_fields_are_the_same() -> None:
    of_config, of_keywords = get_type_hints(JobConfig), get_type_hints(JobFields)
    assert of_keywords.keys() == of_config.keys()
    for name, kind in of_keywords.items():
        assert of_config[name] in (kind, kind | None), name


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"item_parameters": {3: "a"}}, "item_parameters.3.*no such item of 3: give 0 to 2"),
        ({"item_parameters": ["a", "b", "c", "d"]}, "item_parameters.3.*no such item"),
        ({"item_parameters": ["a,b"]}, "parts parameters by commas"),
        ({"item_parameters": "0=a"}, "give a list of them, or a dict"),
        ({"timeout": -1}, "timeout is -1: give seconds"),
        ({"retries": Retry(2, backoff="1s")}, "retries.backoff is '1s'"),  # type: ignore[arg-type]
        ({"description": "x" * 70_000}, "at most 65536 go along: use `rosterd jobs apply`"),
    ],
)
def test_what_cannot_be_is_said_with_the_field(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidOption, match=f"job 'hello'.*{text}"):
        config_text("hello", JobConfig(items=3, **given))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=r"job 'hello': config .*none.yaml cannot be read: .*: name a job file"):
        config_text("hello", tmp_path / "none.yaml")


def test_what_a_decorator_refuses() -> None:
    worker = Worker("a:1")
    with pytest.raises(TypeError, match="items is missing"):
        worker.job("hello", cron="0/5 * * * * ?")
    with pytest.raises(TypeError, match="give config, or cron beside no config"):
        worker.job("hello", config="jobName: hello", cron="0/5 * * * * ?")
    with pytest.raises(TypeError, match="there is no field shards"):
        worker.job("hello", shards=3)  # type: ignore[call-arg]
    assert not worker.jobs
