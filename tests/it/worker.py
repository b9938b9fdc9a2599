"""A worker in Python that writes the same lines as the others: the events of each of its runs.

The environment has PLAN, a JSON object with server, name, log, job and gate.
"""

import json
import os
import sys
import time

from rosterd import Cancelled, Options, Run, Worker

plan = json.loads(os.environ["PLAN"])
log = os.open(plan["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
worker = Worker(plan["server"], options=Options(slots=16, address="host-" + plan["name"]))


def write(what: str, run: Run | None = None, detail: str = "") -> None:
    line = {
        "at": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "wall": time.time_ns() // 1_000_000,
        "worker": plan["name"],
        "what": what,
        "detail": detail,
    }
    if run is not None:
        line |= {
            "job": run.job,
            "item": run.item,
            "token": run.token,
            "fire": round(run.fire_time.timestamp() * 1000),
            "source": getattr(run.source, "name", str(run.source)),
            "attempt": run.attempt,
            "instance": run.instance_id,
        }
    os.write(log, (json.dumps(line) + "\n").encode())


@worker.job(plan["job"])
def work(run: Run) -> str:
    props = json.dumps(dict(run.props), sort_keys=True, separators=(",", ":"))
    write("start", run, f"{run.item_parameter}|{run.job_parameter}|{run.total}|{props}|{run.offset.decode()}")
    while not os.path.exists(plan["gate"]):
        if run.cancelled.wait(0.02):
            write("cancel", run)
            raise Cancelled
    run.set_offset(run.offset + b"x")
    write("end", run, "ok")
    return "done"


try:
    worker.run()
except (Exception, SystemExit) as error:
    write("exit", detail=str(error))
    sys.exit(1)
write("exit", detail="left")
