"""Workers for rosterd, a distributed scheduler for sharded cron jobs.

from rosterd import Worker

worker = Worker("localhost:7700", slots=8)

@worker.job("hello")
def hello(run):
    print("item", run.item, "of", run.total, run.item_parameter)

worker.run()
"""

from .__about__ import VERSION as __version__
from .errors import Cancelled, JobRefused, LeaveTimedOut, Rejected, RosterdError
from .job import Job
from .options import Options
from .run import Cancellation, Fire, Run
from .worker import Worker

__all__ = [
    "Cancellation",
    "Cancelled",
    "Fire",
    "Job",
    "JobRefused",
    "LeaveTimedOut",
    "Options",
    "Rejected",
    "RosterdError",
    "Run",
    "Worker",
    "__version__",
]
