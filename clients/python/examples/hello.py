# A hello-worker; it connects to ROSTERD_SERVER, else to localhost:7700.
from rosterd import Run, Worker

worker = Worker()


@worker.job("hello", cron="0/5 * * * * ?", items=3)
def hello(run: Run) -> None:
    print(f"item {run.item} of {run.total}, token {run.token}")


worker.run()
