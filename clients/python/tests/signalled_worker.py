"""A worker for the tests of signals: its handler waits for a line on standard input."""

import itertools
import os
import sys

from rosterd import Run, Worker

worker = Worker(slots=2)
if "SIGNALS_APART" in os.environ:
    # The seconds between two signals.
    worker._clock = itertools.count(0.0, float(os.environ["SIGNALS_APART"])).__next__


@worker.job("hello")
def hello(run: Run) -> None:
    sys.stdin.readline()


worker.run()
