"""Workers for rosterd, a distributed scheduler for sharded cron jobs::

    from rosterd import Run, Worker

    worker = Worker("localhost:7700")

    @worker.job("hello", cron="0/5 * * * * ?", items=3)
    def hello(run: Run) -> None:
        print("item", run.item, "of", run.total)

    worker.run()

`rosterd.testing` calls handlers in tests, `rosterd.fence` makes writes that a store refuses from late runs.
"""

from pkgutil import extend_path

from .__about__ import VERSION as __version__
from .config import Guarantee, JobConfig, Retry
from .current import RunFilter, current_run
from .errors import Cancelled, Fatal, InvalidOption, JobRefused, LeaveTimedOut, Rejected, RosterdError
from .hooks import Hooks, RunEnd
from .job import Job
from .options import Options
from .run import Cancellation, Fire, Run
from .worker import Worker

__all__ = [
    "Cancellation",
    "Cancelled",
    "Fatal",
    "Fire",
    "Guarantee",
    "Hooks",
    "InvalidOption",
    "Job",
    "JobConfig",
    "JobRefused",
    "LeaveTimedOut",
    "Options",
    "Rejected",
    "Retry",
    "RosterdError",
    "Run",
    "RunEnd",
    "RunFilter",
    "Worker",
    "__version__",
    "current_run",
]

# Code that others generate from our .proto files is in modules rosterd.v1.…: this makes them importable beside this
# package.
__path__ = extend_path(__path__, __name__)
