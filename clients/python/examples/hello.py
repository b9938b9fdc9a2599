"""A worker that says hello for every item it is on duty for. Needs a coordinator at ROSTERD_SERVER."""

import logging

from rosterd import Run, Worker

worker = Worker(slots=8)


@worker.job(
    "hello",
    config={
        "jobName": "hello",
        "cron": "0/5 * * * * ?",
        "shardingTotalCount": 3,
        "shardingItemParameters": "0=Beijing,1=Shanghai,2=Guangzhou",
    },
)
def hello(run: Run) -> str:
    run.log.info("item %d of %d, due at %s", run.item, run.total, run.fire_time)
    return f"hello {run.item_parameter}"


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    worker.run()
