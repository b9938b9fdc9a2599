"""A worker for the tests of signals: its handler waits for a line on standard input."""

import sys

from rosterd import Run, Worker

worker = Worker(slots=2)


@worker.job("hello")
def hello(run: Run) -> None:
    sys.stdin.readline()


worker.run()
