"""The same worker for `rosterd conformance`: its handler does what the item's parameter says, and logs it in lines.

    rosterd conformance --only … -- python examples/own-client/conformance.py FOLDER

FOLDER has the generated code.
"""

import json
import os
import sys
import time

sys.path.insert(0, sys.argv[1])
from worker import Worker, types  # noqa: E402


def write(what, trigger, detail=""):
    run = trigger.run
    line = {
        "at": time.clock_gettime_ns(time.CLOCK_BOOTTIME),
        "worker": os.environ.get("CONFORMANCE_NAME", "own"),
        "what": what,
        "detail": detail,
        "job": run.job,
        "item": run.item,
        "token": run.token,
        "fire": trigger.fire_time.ToMilliseconds(),
        "source": types.RunSource.Name(trigger.source).removeprefix("RUN_SOURCE_") if trigger.source < 5 else "",
        "attempt": trigger.attempt,
    }
    os.write(1, (json.dumps(line) + "\n").encode())


def perform(trigger, must_stop):
    write("start", trigger)
    output = ""
    try:
        for step in trigger.item_parameter.split(";"):
            word, _, rest = step.strip().partition(" ")
            if word == "fail":
                raise RuntimeError(rest)
            if word == "output":
                output = rest
            until = time.monotonic() + (int(rest) / 1000 if word in ("sleep", "busy", "block", "ignore") else 0)
            while time.monotonic() < until or (word == "gate" and not os.path.exists(rest)):
                if must_stop() and word not in ("block", "ignore"):
                    write("cancel", trigger)
                    raise RuntimeError("told to stop")
                time.sleep(0 if word == "busy" else 0.005)
    except RuntimeError as error:
        write("end", trigger, str(error))
        raise
    write("end", trigger, "ok")
    return output


jobs = os.environ.get("CONFORMANCE_JOBS", "conformance").split(",")
Worker({job: perform for job in jobs}, int(os.environ.get("CONFORMANCE_SLOTS", "4"))).run()
