"""A full example: a job that comes with the worker and archives orders, one region per item.

It takes batches until none is left, continues where the last run stopped, passes its fencing token to the store that it
writes to, stops on request, writes its run's ids into every log line, counts, and serves health. Try it:
`rosterd dev`, then `python orders.py`, then `rosterd jobs trigger orders`.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import Counter
from dataclasses import dataclass

from rosterd import Fire, Guarantee, Hooks, Retry, Run, RunEnd, RunFilter, Worker
from rosterd.fence import Fenced

REGIONS = ["north", "south", "west"]
ORDERS_PER_REGION = 250
BATCH = 100
LOG = logging.getLogger("orders")


@dataclass(frozen=True)
class Order:
    id: int
    region: str


class Archive:
    """Stands for a database that refuses writes of a run that another one has replaced."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tokens: dict[str, int] = {}
        self._orders: list[Order] = []

    def write(self, region: str, token: int, orders: list[Order]) -> None:
        with self._lock:
            seen = self._tokens.get(region, 0)
            if token < seen:
                raise Fenced(f"region {region}", token, seen)
            self._tokens[region] = token
            self._orders += orders


class Figures(Hooks):
    """The calls to a metrics library."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def run_ended(self, run: Run, end: RunEnd) -> None:
        self.counts[end.how] += 1
        LOG.info("%s after %.1f s; until now: %s", end.how, end.seconds, dict(self.counts))


archive = Archive()
positions: dict[int, int] = {}


def begin(run: Run) -> None:
    positions[run.item] = int(run.offset or b"0")


def fetch(run: Run) -> list[Order]:
    # Instead of `time.sleep`: ends early when the run must stop.
    run.cancelled.wait(0.05)
    run.check()
    first = positions[run.item]
    return [Order(number, run.item_parameter) for number in range(first, min(first + BATCH, ORDERS_PER_REGION))]


def process(run: Run, orders: list[Order]) -> None:
    archive.write(run.item_parameter, run.token, orders)
    positions[run.item] += len(orders)
    run.set_offset(str(positions[run.item]).encode())
    run.progress(100 * positions[run.item] / ORDERS_PER_REGION, f"orders of {run.item_parameter}")
    LOG.info("archived %d orders", len(orders))


def completed(fire: Fire) -> None:
    LOG.info("all regions are archived for %s", fire.fire_time)


def main() -> None:
    handler = logging.StreamHandler()
    handler.addFilter(RunFilter())
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-5s [%(run)s] %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    worker = Worker(labels={"zone": "a"}, hooks=Figures(), health=int(os.environ.get("HEALTH_PORT", "0")))
    worker.dataflow(
        "orders",
        fetch=fetch,
        process=process,
        before=begin,
        on_all_completed=completed,
        items=len(REGIONS),
        item_parameters=REGIONS,
        cron="0 0/5 * * * ?",
        time_zone="Europe/Berlin",
        streaming=True,
        failover=True,
        timeout=60,
        retries=Retry(3, backoff=0.5),
        guarantee=Guarantee(completed=True),
    )
    worker.run()


if __name__ == "__main__":
    main()
